//! Faults of the store.

use object_store::Error;
use std::fmt;

/// Why a store does not do what it should.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It has nothing of that name.
    Missing,
    Full,
    Slow,
    /// It cannot be reached, or refuses. The text is for operators.
    Away(String),
}

impl Fault {
    /// For clients: nothing of how the store is called.
    pub(crate) fn message(&self) -> &'static str {
        match self {
            Self::Missing => "the store has nothing of that name",
            Self::Full => "the store is full",
            Self::Slow => "the store did not answer in time",
            Self::Away(_) => "the store cannot be reached",
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Away(why) => f.write_str(why),
            _ => f.write_str(self.message()),
        }
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        if let Error::NotFound { .. } = error {
            return Self::Missing;
        }
        let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(&error);
        while let Some(one) = cause {
            if let Some(io) = one.downcast_ref::<std::io::Error>()
                && is_full(io)
            {
                return Self::Full;
            }
            cause = one.source();
        }
        Self::Away(error.to_string())
    }
}

impl From<std::io::Error> for Fault {
    fn from(error: std::io::Error) -> Self {
        match is_full(&error) {
            true => Self::Full,
            false => Self::Away(error.to_string()),
        }
    }
}

fn is_full(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge)
}
