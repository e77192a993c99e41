//! Owns the limit of open files: each connection is one, and so a process holds only so many.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Most connections of one worker, however many files it may open.
const WORKER_MAX: u32 = 18_500;
/// Of a thousand files of a process, those that are for connections; the others are for what it does besides.
const PER_THOUSAND: u64 = 925;

/// Raises the soft limit to the hard one: the soft limit is a default for programs that hold few.
/// Worker processes and servers that this one starts have it from here.
pub fn raise() {
    let limit = getrlimit(Resource::Nofile);
    // A refusal leaves the limit as it was; a connection too many is then counted as failed.
    let _ = setrlimit(
        Resource::Nofile,
        Rlimit {
            current: limit.maximum,
            ..limit
        },
    );
}

/// Workers that hold so many connections, each with its limit raised.
pub fn workers_for(connections: u32) -> u32 {
    let files = getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX);
    connections.div_ceil(connections_of(files)).max(1)
}

fn connections_of(files: u64) -> u32 {
    let connections = files.min(u32::MAX.into()) * PER_THOUSAND / 1000;
    u32::try_from(connections).map_or(WORKER_MAX, |of_limit| of_limit.clamp(1, WORKER_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_holds_what_its_limit_allows_and_no_more_than_one_can_serve() {
        assert_eq!(connections_of(20_000), 18_500);
        assert_eq!(connections_of(1_024), 947);
        assert_eq!(connections_of(1_048_576), 18_500);
        assert_eq!(connections_of(u64::MAX), 18_500);
        assert_eq!(connections_of(0), 1);
    }

    #[test]
    fn there_is_always_a_worker() {
        assert_eq!(workers_for(0), 1);
        assert_eq!(workers_for(1), 1);
        assert!(workers_for(1_000_000) >= 54, "18,500 each");
    }
}
