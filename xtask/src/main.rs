//! `cargo xtask`: everything a developer or CI does to this repository. Each command prints what
//! it runs, so that it can also be run by hand.

mod again;
mod bench;
mod check;
mod directions;
mod dist;
mod faults;
mod generate;
mod install;
mod jars;
mod lanes;
mod law;
mod law_table;
mod links;
mod mentions;
mod nodes;
mod notices;
mod plan;
mod report;
mod repository;
mod shapes;
mod steps;
mod style;
mod suite;
mod tally;
mod tidy;
mod versions;
mod words;
mod workers;

use anyhow::Result;
use clap::{Parser, Subcommand};
use std::process::ExitCode;

#[derive(Debug, Parser)]
#[command(
    name = "cargo xtask",
    about = "Checks, tests and measurements of this repository"
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Formatting, lints, law, sizes, generated files: all that needs no run.
    Check,
    /// Who may import whom (ARCHITECTURE.md), and exact versions everywhere.
    Law,
    /// Sizes and names of files, functions and types, and the direction of imports.
    Tidy,
    /// How large the types of these crates are, and how many of their files import each other in circles.
    Shapes { crates: Vec<String> },
    /// Write the generated files: configuration reference, example file, web assets.
    Gen {
        /// Only say which are stale.
        #[arg(long)]
        check: bool,
    },
    /// Install what is missing, then run every test there is, in three lanes: fast, binary, foreign.
    Test {
        /// Only these lanes (fast, binary, foreign, nightly), or steps whose name contains one of these words.
        only: Vec<String>,
        /// Take the machine as it is.
        #[arg(long)]
        no_install: bool,
    },
    /// Install what tests need and this machine lacks, and run none.
    Install,
    /// Play lanes ten times beside a load of two, and record each run (benchmarks/results/lanes.md). What is recorded is not played again.
    Lanes(lanes::Again),
    /// Play histories of nodes whose Redis or NATS fails, with each fault, and write their record (benchmarks/results/faults.md). It goes on where
    /// it was ended, unless there is another commit since.
    Faults {
        /// Seeds for each of the faults.
        #[arg(default_value_t = 15)]
        seeds: u64,
        /// `cluster-node-timeout` of Redis.
        #[arg(long, default_value_t = 1_000)]
        node_timeout_ms: u32,
        /// Only tests whose path begins with it, such as `nats`; the table is shown, and not written.
        #[arg(long, default_value = "")]
        only: String,
    },
    /// Kill, cut off and replace workers under load, and write what clients noticed (benchmarks/results/workers.md).
    Workers(workers::Scale),
    /// Measure: `sockeye-bench` with the binary as it is shipped; further arguments are passed on.
    Bench {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Measure nodes that share rooms over Redis, beside Socket.IO on Node, and fill in the figures of docs/results/nodes.md.
    Nodes(nodes::NodesArgs),
    /// Build what a release ships for this kind of machine, into target/dist.
    Dist {
        /// Take the programs in this folder, and build none: for checks.
        #[arg(long)]
        given: Option<std::path::PathBuf>,
    },
    /// Count the words of the documents, by page.
    Words,
    /// List sentences and cells of the documents that are too long, and sentences without a subject.
    Style,
    /// Take the pictures of the chat page and of the console that the documents show.
    Demo,
}

fn main() -> ExitCode {
    match run(Cli::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> Result<()> {
    match command {
        Command::Check => check::run(),
        Command::Law => law::run(),
        Command::Tidy => tidy::run(),
        Command::Shapes { crates } => shapes::run(&crates),
        Command::Gen { check } => generate::run(check),
        Command::Test { only, no_install } => suite::run(&only, !no_install),
        Command::Install => install::all(install::For::Foreign),
        Command::Lanes(again) => lanes::run(&again),
        Command::Faults {
            seeds,
            node_timeout_ms,
            only,
        } => faults::run(seeds, node_timeout_ms, &only),
        Command::Workers(scale) => workers::run(&scale),
        Command::Bench { args } => bench::run(&args),
        Command::Nodes(args) => nodes::run(&args),
        Command::Dist { given } => dist::run(given),
        Command::Words => words::run(),
        Command::Style => style::run(),
        Command::Demo => bench::demo(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What follows `cargo xtask`, up to the end of the command.
    fn chores(page: &str) -> impl Iterator<Item = Vec<String>> {
        let ends = ['`', '#', '|', ';', '&', '>', ')', ']', ',', '…', '\n'];
        let chores = page.split("cargo xtask ").skip(1);
        chores.map(move |rest| {
            let command = rest.split(ends).next().unwrap_or_default();
            // Every second part stands between quotes.
            let parts = command.split('"').enumerate();
            let words = parts.flat_map(|(at, part)| match at % 2 {
                0 => part.split_whitespace().collect(),
                _ => vec![part],
            });
            words.map(str::to_owned).collect()
        })
    }

    #[test]
    fn pages_name_chores_that_exist() {
        let mut checked = 0;
        for page in links::pages().expect("pages") {
            let text = repository::read(&page.to_string_lossy()).expect("a page");
            for words in chores(&text) {
                let line = ["xtask"]
                    .into_iter()
                    .chain(words.iter().map(String::as_str));
                let cli = Cli::try_parse_from(line);
                let cli = cli.unwrap_or_else(|error| panic!("{}: {error}", page.display()));
                if let Command::Test { only, .. } = cli.command {
                    suite::choose(&only).expect("steps");
                }
                checked += 1;
            }
        }
        assert!(checked > 20, "only {checked} were found");
    }
}
