//! Descriptors of the process: how many there are, and how many of them are for clients.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Kept for the reserve of connections, listeners, polls, other ports and files.
pub(crate) const RESERVED: usize = 128;

/// As many as the process may hold.
pub(crate) fn limit() -> usize {
    let limit = getrlimit(Resource::Nofile).current;
    limit.map_or(usize::MAX, |limit| {
        usize::try_from(limit).unwrap_or(usize::MAX)
    })
}

/// Of so many, those left for clients. Above that many newcomers are refused with 503 while health checks, sessions that exist and logs
/// still work; with the very last descriptor gone nobody could be told anything.
pub(crate) fn for_clients(limit: usize) -> usize {
    limit.saturating_sub(RESERVED).max(limit / 2)
}

/// Each connection is a descriptor; the soft limit is a default for programs that hold few.
pub(crate) fn raise_limit() {
    let limit = getrlimit(Resource::Nofile);
    if limit.current < limit.maximum || limit.maximum.is_none() {
        // A refusal leaves the limit as it was; accepting copes with any.
        let _ = setrlimit(
            Resource::Nofile,
            Rlimit {
                current: limit.maximum,
                ..limit
            },
        );
    }
}
