//! A test client for operators: it comes in as clients do, without a token, is put into a room, and tells what it hears.

mod client;
mod order;
mod places;
pub(crate) mod stream;

use crate::webtransport::Bring;
use std::fmt;

/// Where a client comes in that this process has itself.
pub struct Doorway {
    bring: Bring,
    path: String,
}

impl fmt::Debug for Doorway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Doorway").finish_non_exhaustive()
    }
}

impl Doorway {
    /// `bring` takes the shard's end of a stream, `path` is that of Socket.IO.
    pub fn new(bring: Bring, path: &str) -> Self {
        let path = path.to_owned();
        Self { bring, path }
    }
}
