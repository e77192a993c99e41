//! Owns what people read of results: reports of scenario runs and comparisons (terminal, Markdown,
//! HTML), and the generated parts of the documents.
//!
//! A report is a [`Document`] first: `run`, `comparison` and `suite` say what stands in it, `figures`
//! and `course` make its parts, `terminal`, `document` and `html` write it.

pub mod command;
mod comparison;
mod course;
mod document;
mod figures;
mod html;
mod pages;
mod plot;
#[cfg(test)]
mod report_tests;
mod rounds;
mod run;
mod suite;
mod table;
mod terminal;

pub use document::{Block, Document, Section};
pub use html::page as html;
pub use plot::Plot;
pub use table::Table;
pub use terminal::text;

use outcome::ResultFile;

/// The report of a result file; `source` is what the report calls that file.
pub fn document(file: &ResultFile, source: &str) -> Document {
    match file {
        ResultFile::Run(outcome) => run::document(outcome, source),
        ResultFile::Comparison(comparison) => comparison::document(comparison, source),
        ResultFile::Suite(suite) => suite::document(suite, source),
    }
}

/// The report as Markdown without plots.
pub fn markdown(document: &Document) -> String {
    document.markdown(1, &|_| None)
}
