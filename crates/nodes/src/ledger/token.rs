//! Which attempt of which process carries an order out.

use std::fmt;

/// One attempt of one process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Token(String);

impl Token {
    pub(super) fn new(life: u64, number: u64) -> Self {
        Self(format!("{life:x}.{number:x}"))
    }

    pub(super) fn is(&self, text: &str) -> bool {
        self.0 == text
    }

    /// A name for what Redis knows, if it knows nothing.
    pub(super) fn generation(&self) -> String {
        self.0.clone()
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
