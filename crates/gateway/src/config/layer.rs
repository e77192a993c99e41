//! Settings by path, each with the place it came from.

use super::value::{Value, quoted};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// A key with the operator's own names filled in: `namespaces."/".events.ping.action`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Path(pub Vec<String>);

/// Who said so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    Default,
    Profile(&'static str),
    File {
        path: String,
        line: usize,
        column: usize,
    },
    /// The whole file, when no line is to blame.
    WholeFile(String),
    Env(String),
    Flag(&'static str),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Setting {
    pub value: Value,
    pub source: Source,
}

/// Settings from one place, or all of them merged.
#[derive(Clone, Debug, Default)]
pub struct Layer {
    pub settings: BTreeMap<Path, Setting>,
    /// Tables whose mere presence means something: a namespace, an event.
    pub named: BTreeSet<Path>,
}

impl Path {
    pub fn new<S: AsRef<str>>(segments: &[S]) -> Self {
        Path(
            segments
                .iter()
                .map(|segment| segment.as_ref().to_owned())
                .collect(),
        )
    }

    /// A path of the table without names chosen by the operator.
    pub fn fixed(path: &str) -> Self {
        Path(path.split('.').map(str::to_owned).collect())
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, segment) in self.0.iter().enumerate() {
            let dot = if index == 0 { "" } else { "." };
            let bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
            if !segment.is_empty() && segment.chars().all(bare) {
                write!(f, "{dot}{segment}")?;
            } else {
                write!(f, "{dot}{}", quoted(segment))?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Default => write!(f, "default"),
            Source::Profile(name) => write!(f, "profile {name}"),
            Source::File { path, line, column } => write!(f, "{path}:{line}:{column}"),
            Source::WholeFile(path) => write!(f, "{path}"),
            Source::Env(name) => write!(f, "environment {name}"),
            Source::Flag(name) => write!(f, "flag {name}"),
        }
    }
}
