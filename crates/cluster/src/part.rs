//! A letter where it stands in the message that brought it: nobody copies it on its way.

use std::fmt;
use std::ops::{Deref, Range};
use std::sync::Arc;

/// Some of the bytes of a message.
#[derive(Clone)]
pub struct Part {
    message: Arc<Vec<u8>>,
    at: Range<usize>,
}

impl Part {
    pub(crate) fn new(message: &Arc<Vec<u8>>, at: Range<usize>) -> Self {
        let message = Arc::clone(message);
        Self { message, at }
    }

    /// What stands behind its first byte.
    pub(crate) fn behind_first(mut self) -> Self {
        self.at.start = self.at.end.min(self.at.start + 1);
        self
    }
}

impl From<Vec<u8>> for Part {
    fn from(bytes: Vec<u8>) -> Self {
        let at = 0..bytes.len();
        Self::new(&Arc::new(bytes), at)
    }
}

impl Deref for Part {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.message[self.at.clone()]
    }
}

impl PartialEq for Part {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Part {}

impl fmt::Debug for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
