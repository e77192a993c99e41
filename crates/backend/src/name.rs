//! The name of a socket: its id, which its shard gave it.

use std::fmt;
use std::hash::{Hash, Hasher};
use wire::base64url::Id20;

const BYTES: usize = 20;

/// A socket's id.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Name([u8; BYTES]);

impl Name {
    /// `None`: no shard gives such an id.
    pub fn parse(text: &str) -> Option<Self> {
        Self::read(text.as_bytes())
    }

    pub(crate) fn read(text: &[u8]) -> Option<Self> {
        let bytes: [u8; BYTES] = text.try_into().ok()?;
        let known = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        bytes.iter().all(known).then_some(Self(bytes))
    }

    /// The name of the socket with this id.
    pub fn of(id: Id20) -> Self {
        Self(id.encode())
    }

    /// Stands for a node: no socket has such an id.
    pub(crate) fn of_node(node: u32, life: u64) -> Self {
        let text = format!("n{:04}-{:014x}", node % 10_000, life & ((1 << 56) - 1));
        Self(text.as_bytes().try_into().unwrap_or([b'n'; BYTES]))
    }

    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

impl Hash for Name {
    /// Ids are random: two words of one are enough.
    fn hash<H: Hasher>(&self, state: &mut H) {
        let (first, last) = (self.0.first_chunk(), self.0.last_chunk());
        for word in [first, last].into_iter().flatten() {
            state.write_u64(u64::from_ne_bytes(*word));
        }
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
