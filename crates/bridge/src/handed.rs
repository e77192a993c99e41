//! The outcome of a command that was handed over.

use std::fmt;

/// The next command may be handed over before this one is carried out.
pub enum Handed {
    /// It is carried out.
    Done,
    /// Blocks until it is; `false`: it is not, and has to be handed over again.
    UnderWay(Box<dyn FnOnce() -> bool + Send>),
}

impl fmt::Debug for Handed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Done => "Done",
            Self::UnderWay(_) => "UnderWay",
        })
    }
}

impl From<()> for Handed {
    fn from((): ()) -> Self {
        Self::Done
    }
}

impl Handed {
    /// Blocks until it is carried out; `false`: it is not, and has to be handed over again.
    pub fn is_done(self) -> bool {
        match self {
            Self::Done => true,
            Self::UnderWay(wait) => wait(),
        }
    }
}
