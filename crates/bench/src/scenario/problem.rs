//! Owns what is wrong with a scenario file, and where. Problems are collected and shown together,
//! each as `file:line:column: message`, which editors turn into a link.

use std::fmt;
use units::{nearest, position};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    pub line: usize,
    pub column: usize,
    pub message: String,
}

/// One or more problems of one file, in the order of their places.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problems {
    pub file: String,
    pub list: Vec<Problem>,
}

impl Problem {
    /// `at` is a byte offset into `text`.
    pub fn new(text: &str, at: usize, message: impl Into<String>) -> Self {
        let (line, column) = position(text, at);
        let message = message.into();
        Problem {
            line,
            column,
            message,
        }
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for problem in &self.list {
            let Problem {
                line,
                column,
                message,
            } = problem;
            writeln!(f, "{}:{line}:{column}: {message}", self.file)?;
        }
        let count = self.list.len();
        let noun = if count == 1 { "problem" } else { "problems" };
        write!(f, "{count} {noun} in the scenario, nothing was connected")
    }
}

impl std::error::Error for Problems {}

/// ` (did you mean "x"?)` or, when nothing is close, the list of what there is.
pub fn suggestion<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let known: Vec<&str> = known.into_iter().collect();
    if let Some(name) = nearest(word, known.iter().copied()) {
        return format!(" (did you mean {name:?}?)");
    }
    match known.len() {
        0 => " (there is none)".into(),
        _ => format!(" (known: {})", known.join(", ")),
    }
}
