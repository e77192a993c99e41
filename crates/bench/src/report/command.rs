//! Owns the commands `report` and `plots`: result files in, reports out.

use crate::report;
use anyhow::{Context, Result};
use clap::Args;
use outcome::ResultFile;
use std::io::{ErrorKind, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(Debug, Args)]
pub struct ReportArgs {
    /// Result file of a scenario run or of a comparison.
    result: PathBuf,
    /// Write the report as one HTML file that needs no network.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Print Markdown instead of text for the terminal.
    #[arg(long)]
    markdown: bool,
}

#[derive(Debug, Args)]
pub struct PlotsArgs {
    /// Result files of scenarios, comparisons and the suite.
    #[arg(required = true)]
    results: Vec<PathBuf>,
    /// Folder of Markdown pages; their marked parts are filled, drawings go to `plots` in it.
    #[arg(long, value_name = "FOLDER")]
    into: PathBuf,
}

pub fn report(args: &ReportArgs) -> Result<()> {
    let file = outcome::load(&args.result)?;
    let document = report::document(&file, &args.result.display().to_string());
    if let Some(path) = &args.html {
        write_html(&document, path)?;
    }
    if args.markdown {
        write_out(&report::markdown(&document));
    } else {
        print(&document);
    }
    Ok(())
}

/// Exit codes; 1 is for what could not be run at all.
const FAULTY: u8 = 2;
const DOUBTFUL: u8 = 3;
const MISMATCHED: u8 = 4;

/// What a script learns of a result.
pub fn exit_code(document: &report::Document, strict: bool) -> ExitCode {
    match document.verdict.level {
        outcome::verdict::Level::Bad => ExitCode::from(FAULTY),
        outcome::verdict::Level::Mismatched => ExitCode::from(MISMATCHED),
        outcome::verdict::Level::Doubtful if strict => ExitCode::from(DOUBTFUL),
        outcome::verdict::Level::Good | outcome::verdict::Level::Doubtful => ExitCode::SUCCESS,
    }
}

/// Whether files can be written, before hours are spent on what would be in them. A run that fails leaves none of them.
pub fn check_writable<'a>(paths: impl IntoIterator<Item = &'a PathBuf>) -> Result<()> {
    for path in paths {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)
                .with_context(|| format!("cannot make folder {}", folder.display()))?;
        }
        let was_there = path.exists();
        let mut options = std::fs::OpenOptions::new();
        let opened = options.create(true).append(true).open(path);
        opened.with_context(|| format!("cannot write {}", path.display()))?;
        if !was_there {
            std::fs::remove_file(path)
                .with_context(|| format!("cannot remove {} again", path.display()))?;
        }
    }
    Ok(())
}

/// Prints the report, then writes the files: a full disk does not cost what is on the terminal.
pub fn publish(
    file: &ResultFile,
    document: &report::Document,
    json: Option<&Path>,
    html: Option<&Path>,
) -> Result<()> {
    print(document);
    let saved = json.map_or(Ok(()), |path| outcome::save(file, path));
    let written = html.map_or(Ok(()), |path| write_html(document, path));
    saved.and(written)
}

pub fn plots(args: &PlotsArgs) -> Result<()> {
    report::pages::fill(&args.results, &args.into)
}

/// On standard output, with colours where it is a terminal.
pub fn print(document: &report::Document) {
    let has_colours = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    write_out(&report::text(document, has_colours));
}

/// On standard output; who reads only its beginning has not failed.
pub fn write_out(text: &str) {
    if let Err(error) = std::io::stdout().write_all(text.as_bytes())
        && error.kind() != ErrorKind::BrokenPipe
    {
        eprintln!("cannot write to standard output: {error}");
    }
}

pub fn write_html(document: &report::Document, path: &Path) -> Result<()> {
    std::fs::write(path, report::html(document))
        .with_context(|| format!("cannot write report {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_never_began_left_an_empty_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let [new, old, nowhere] =
            ["new.json", "old.json", "old.json/x.json"].map(|name| folder.path().join(name));
        std::fs::write(&old, "{}").expect("an old file");
        check_writable([&new, &old]).expect("both can be written");
        assert!(!new.exists());
        assert_eq!(std::fs::read_to_string(&old).expect("it stays"), "{}");
        assert!(check_writable([&nowhere]).is_err());
    }
}
