//! Owns a report as a terminal shows it: no marks of Markdown, aligned tables, and colours where
//! the terminal has them.

use super::document::{Block, Document};
use super::table::{Table, one_line};
use outcome::verdict::{Badge, Level};
use std::fmt::Write;

const BOLD: &str = "1";
const DIM: &str = "2";
const RED: &str = "1;31";
const GREEN: &str = "1;32";
const YELLOW: &str = "1;33";

/// The report as text.
pub fn text(document: &Document, has_colours: bool) -> String {
    let paint = |style: &str, text: &str| match has_colours {
        true => format!("\u{1b}[{style}m{text}\u{1b}[0m"),
        false => text.to_string(),
    };
    // Writing to a String cannot fail, here and below.
    let mut out = format!("{}\n", paint(BOLD, &one_line(&document.title)));
    if !document.description.is_empty() {
        let _ = writeln!(out, "{}", one_line(&document.description));
    }
    let badges: Vec<String> = document
        .badges
        .iter()
        .map(|Badge { text, is_warning }| match is_warning {
            true => paint(YELLOW, &one_line(text).to_uppercase()),
            false => one_line(text),
        })
        .collect();
    let _ = writeln!(out, "{}\n", badges.join("  ·  "));
    let verdict = &document.verdict;
    let colour = match verdict.level {
        Level::Good => GREEN,
        Level::Doubtful => YELLOW,
        Level::Mismatched | Level::Bad => RED,
    };
    let _ = writeln!(
        out,
        "{}  {}",
        paint(colour, verdict.level.word()),
        one_line(&verdict.headline)
    );
    for reason in &verdict.reasons {
        let _ = writeln!(out, "  - {}", one_line(reason));
    }
    for section in &document.sections {
        let blocks: Vec<String> = section.blocks.iter().filter_map(block).collect();
        if !blocks.is_empty() {
            let _ = write!(
                out,
                "\n{}\n{}",
                paint(BOLD, &one_line(&section.title)),
                blocks.join("")
            );
        }
    }
    out.push('\n');
    for line in &document.origin {
        let _ = writeln!(out, "{}", paint(DIM, &one_line(line)));
    }
    out
}

fn block(block: &Block) -> Option<String> {
    match block {
        Block::Text(text) => Some(format!("  {}\n", one_line(text))),
        Block::Refusal(text) => Some(format!("  NOT SHOWN: {}\n", one_line(text))),
        Block::Table(table) => Some(aligned(table)),
        Block::Plots(_) => None,
    }
}

/// Columns two spaces apart.
fn aligned(table: &Table) -> String {
    let rows = table.aligned(0, one_line).into_iter();
    let lines = rows.map(|row| format!("  {}", row.join("  ")).trim_end().to_owned() + "\n");
    lines.collect()
}
