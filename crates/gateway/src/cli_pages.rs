//! Every command that a page shows is one that this program understands, and every configuration one that it takes.

use super::Cli;
use crate::config;
use clap::Parser;
use clap::error::ErrorKind;
use std::fs;
use std::path::{Path, PathBuf};

/// README and its neighbours, the pages of `docs`, and those beside what they are about.
fn pages() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let beside = [
        "sdk/node",
        "sdk/python",
        "sdk/go",
        "sdk/client",
        "examples",
        "conformance",
    ];
    let folders = ["", "docs", "docs/adr", "docs/results"]
        .into_iter()
        .chain(beside);
    let folders: Vec<PathBuf> = folders.map(|folder| root.join(folder)).collect();
    let entries = folders
        .iter()
        .flat_map(|folder| fs::read_dir(folder).expect("a folder of pages"));
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let mut pages: Vec<PathBuf> = paths
        .filter(|path| path.extension().is_some_and(|extension| extension == "md"))
        .collect();
    pages.sort();
    pages
}

/// What a shell would run of blocks of code, and what stands in the text as `` `sockeye …` ``.
fn commands(page: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (number, part) in page.split("```").enumerate() {
        match part.strip_prefix("sh\n").filter(|_| number % 2 == 1) {
            Some(block) => found.extend(block.replace("\\\n", " ").lines().flat_map(simple)),
            None if number % 2 == 0 => {
                let spans = part.split('`').skip(1).step_by(2);
                found.extend(spans.filter(|span| !span.contains('…')).flat_map(simple));
            }
            None => {}
        }
    }
    found
}

/// The simple commands of a line, without its comment.
fn simple(line: &str) -> Vec<String> {
    let line = expanded(line.split(" #").next().unwrap_or_default());
    let parts = line.split(['|', ';', '&', '>']);
    parts.map(|part| part.trim().to_owned()).collect()
}

/// With a number wherever the shell would fill something in.
fn expanded(line: &str) -> String {
    let mut out = String::new();
    let mut rest = line;
    while let Some((before, after)) = rest.split_once("$(") {
        let (inner, behind) = after.split_once(')').expect("an end of $(");
        let options = inner.contains("--pid");
        out += before;
        out += if options { "--pid 1" } else { "1" };
        rest = behind;
    }
    out += rest;
    let mut parts = out.split('$');
    let mut whole = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let name = part.trim_start_matches(|c: char| c.is_ascii_uppercase());
        whole += if name.len() < part.len() { "1" } else { "$" };
        whole += name;
    }
    whole
}

/// Text may name a command without all that it needs.
fn is_name(error: &clap::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::MissingRequiredArgument
            | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
            | ErrorKind::DisplayHelp
            | ErrorKind::DisplayVersion
    )
}

/// The words of a command of ours, as the program gets them.
fn words(command: &str) -> Option<Vec<String>> {
    let mut words = command
        .split_whitespace()
        .skip_while(|word| matches!(*word, "do" | "sudo" | "cargo"));
    let program = words.next()?.rsplit('/').next()?;
    if !["sockeye", "sockeye-bench", "sockeye-shadow"].contains(&program) {
        return None;
    }
    let rest = words.map(|word| word.trim_matches(['\'', '"']));
    Some(
        std::iter::once(program)
            .chain(rest)
            .map(str::to_owned)
            .collect(),
    )
}

/// The commands of the load generator.
#[derive(Debug, Parser)]
struct Generator {
    #[command(subcommand)]
    _command: bench::cli::Command,
}

fn parsed(words: &[String]) -> Result<(), clap::Error> {
    match words {
        [program, ..] if program == "sockeye-bench" => Generator::try_parse_from(words).map(drop),
        [program, ..] if program == "sockeye-shadow" => {
            shadow::cli::Args::try_parse_from(words).map(drop)
        }
        [_, command, ..] if command == "shadow" => {
            shadow::cli::Args::try_parse_from(&words[1..]).map(drop)
        }
        [_, command, ..] if command == "bench" => Generator::try_parse_from(&words[1..]).map(drop),
        _ => Cli::try_parse_from(words).map(drop),
    }
}

#[test]
fn pages_show_commands_that_exist() {
    let mut checked = 0;
    let mut wrong = Vec::new();
    for path in pages() {
        let page = fs::read_to_string(&path).expect("a page");
        for words in commands(&page).iter().filter_map(|command| words(command)) {
            checked += 1;
            match parsed(&words) {
                Err(error) if !is_name(&error) => {
                    wrong.push(format!("{}: {}\n{error}", path.display(), words.join(" ")));
                }
                _ => {}
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(checked > 60, "only {checked} commands were found");
}

/// The blocks of one language.
fn blocks<'a>(page: &'a str, language: &str) -> Vec<&'a str> {
    let fence = format!("```{language}\n");
    let rest = page.split(&fence).skip(1);
    rest.filter_map(|rest| rest.split("```").next()).collect()
}

/// What a reader puts in the place of `…`: a secret, or the hash of an API key.
fn filled_in(block: &str) -> String {
    block.replace('…', &"0123456789abcdef".repeat(4))
}

/// Only files that a page names may be missing here.
#[test]
fn pages_show_configuration_that_is_taken() {
    let folder = tempfile::tempdir().expect("a folder");
    let (mut checked, mut wrong) = (0, Vec::new());
    for path in pages() {
        let page = fs::read_to_string(&path).expect("a page");
        for block in blocks(&page, "toml") {
            // A scenario of the tester, which has another reader.
            if block.contains("[[phases]]") {
                bench::scenario::Scenario::parse("a page", block).expect("a scenario");
                continue;
            }
            checked += 1;
            let file = folder.path().join("sockeye.toml");
            fs::write(&file, filled_in(block)).expect("a file");
            let (file, flags) = (Some(file), Vec::new());
            if let Err(problems) = config::load(&config::Request {
                file,
                flags,
                takes_over: false,
            }) {
                let is_told =
                    |problem: &&config::problem::Problem| !problem.message.contains("No such file");
                let told: Vec<String> = problems
                    .0
                    .iter()
                    .filter(is_told)
                    .map(|one| one.to_string())
                    .collect();
                if !told.is_empty() {
                    wrong.push(format!("{}:\n{block}\n{}", path.display(), told.join("\n")));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(checked > 14, "only {checked} configurations were found");
}
