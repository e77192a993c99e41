//! Owns the commands `report` and `plots`: result files in, reports out.

use crate::{outcome, report};
use anyhow::{Context, Result};
use clap::Args;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};

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
        print!("{}", report::markdown(&document));
    } else {
        print(&document);
    }
    Ok(())
}

pub fn plots(args: &PlotsArgs) -> Result<()> {
    report::pages::fill(&args.results, &args.into)
}

/// On standard output, with colours where it is a terminal.
pub fn print(document: &report::Document) {
    let has_colours = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    print!("{}", report::text(document, has_colours));
}

pub fn write_html(document: &report::Document, path: &Path) -> Result<()> {
    std::fs::write(path, report::html(document))
        .with_context(|| format!("cannot write report {}", path.display()))
}
