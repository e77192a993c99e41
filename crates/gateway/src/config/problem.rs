//! What is wrong with a configuration, and where. Problems are collected and shown together: a
//! start that fails five times for five typing errors is four starts too many.

use super::layer::Source;
use std::fmt;

#[derive(Clone, Debug, PartialEq)]
pub struct Problem {
    pub source: Source,
    pub message: String,
}

/// One or more problems.
#[derive(Debug)]
pub struct Problems(pub Vec<Problem>);

impl Problem {
    pub fn new(source: &Source, message: impl Into<String>) -> Self {
        Problem {
            source: source.clone(),
            message: message.into(),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.source, self.message)
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for problem in &self.0 {
            writeln!(f, "{problem}")?;
        }
        let count = self.0.len();
        let noun = if count == 1 { "problem" } else { "problems" };
        write!(f, "{count} {noun} in the configuration")
    }
}

impl std::error::Error for Problems {}
