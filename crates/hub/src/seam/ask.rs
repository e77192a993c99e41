//! What a hub asks outside, and what it is answered.

use crate::books::claims::{Claims, Refused};
use std::ops::{Deref, Range};
use std::sync::Arc;

/// What is asked outside.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "a variant says what its fields are")]
pub enum Ask {
    /// Is this token good, and whose is it? Answered by [`Reply::Verified`].
    Verify { token: Token },
    /// Something that only the handler understands. Answered by [`Reply::Answered`].
    Handler { question: Box<[u8]> },
}

/// What is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// About a token.
    Verified(Result<Claims, Refused>),
    /// About a handler's question; `None` = nobody could answer.
    Answered(Option<Box<[u8]>>),
}

/// A token within the text that it came in: a CONNECT payload that waits for the verdict is kept once, not twice.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    text: Arc<str>,
    at: Range<usize>,
}

impl Token {
    /// `shown` is a part of `text`, unless it had to be unescaped.
    pub(crate) fn within(text: &Arc<str>, shown: &str) -> Self {
        // The address tells where `shown` stands. The texts are compared, because an unescaped copy has any address.
        let start = shown.as_ptr().addr().wrapping_sub(text.as_ptr().addr());
        let at = start..start.wrapping_add(shown.len());
        match text.get(at.clone()) {
            Some(found) if found == shown => Self {
                text: Arc::clone(text),
                at,
            },
            _ => Self::from(Arc::from(shown)),
        }
    }
}

impl Token {
    /// Bytes of the text that the token stands in, which is kept with it.
    pub(crate) fn kept_bytes(&self) -> usize {
        self.text.len()
    }
}

impl From<Arc<str>> for Token {
    fn from(text: Arc<str>) -> Self {
        let at = 0..text.len();
        Self { text, at }
    }
}

impl Deref for Token {
    type Target = str;

    fn deref(&self) -> &str {
        self.text.get(self.at.clone()).unwrap_or_default()
    }
}

/// A token is a secret: logs see its length.
impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Token({} bytes)", self.len())
    }
}
