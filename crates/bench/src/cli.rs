//! Owns the command line of the generator: `run`, `compare`, `scenarios` and `check`, `suite`,
//! `report`, `plots`, `floor`, and the hidden `worker`. A library module, so that a test can read the commands of pages.

use crate::engine::Launcher;
use crate::floor;
use crate::report::command::{PlotsArgs, ReportArgs};
use crate::suite::{self, SuiteArgs};
use crate::{compare, descriptors, engine, report};
use anyhow::{Context, Result};
use clap::Subcommand;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::ExitCode;

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a scenario against a server and report what it delivered, how fast and at what cost.
    Run(engine::command::RunArgs),
    /// Run a scenario on several servers in turn and set them side by side.
    Compare(compare::CompareArgs),
    /// List the built-in scenarios.
    Scenarios,
    /// Read a scenario and report everything that is wrong with it.
    Check {
        /// Name of a built-in scenario, or a TOML file.
        scenario: String,
    },
    /// Run every case on Sockeye, the Node peer and the floors, and print the tables.
    Suite(SuiteArgs),
    /// Show the result of a scenario, a comparison or the suite: on the terminal, as Markdown, as HTML.
    Report(ReportArgs),
    /// Fill the marked parts of Markdown pages, and draw their plots, from result files.
    Plots(PlotsArgs),
    /// Run a floor server: the least an epoll loop must spend.
    Floor {
        mode: floor::Mode,
        #[arg(long, default_value_t = 0)]
        port: u16,
    },
    /// Play users on orders from stdin (started by the other commands).
    #[command(hide = true)]
    Worker,
}

/// Tells what is wrong with a command line, or the help that it asks for. The exit code is 1: clap's own, 2, is that of
/// faults, and a slip of the pen must not look like a lost message.
pub fn misused(error: &clap::Error) -> ExitCode {
    // Nobody may be listening.
    let _ = error.print();
    ExitCode::from(u8::from(error.use_stderr()))
}

/// Carries out a command. The exit code of a measurement says whether what was expected happened: 0, or 2 for faults.
pub fn run(command: Command) -> Result<ExitCode> {
    descriptors::raise();
    let program = std::env::current_exe().context("cannot find the generator's own binary")?;
    let args = vec!["worker".to_owned()];
    let launcher = Launcher { program, args };
    match command {
        Command::Run(args) => return engine::command::run(&args, launcher),
        Command::Compare(args) => return compare::run(&args, launcher),
        Command::Scenarios => engine::command::list(),
        Command::Check { scenario } => engine::command::check(&scenario),
        Command::Suite(args) => suite::run(&args, launcher),
        Command::Report(args) => report::command::report(&args),
        Command::Plots(args) => report::command::plots(&args),
        Command::Floor { mode, port } => {
            let addr = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
            floor::serve(mode, addr, |addr| {
                println!(
                    "{{\"port\":{},\"pid\":{}}}",
                    addr.port(),
                    std::process::id()
                );
            })
        }
        Command::Worker => engine::worker::serve_stdio(),
    }?;
    Ok(ExitCode::SUCCESS)
}
