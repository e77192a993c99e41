//! Takes a snapshot of this machine: the one file here that reads it.

use super::cgroup;
use super::snapshot::{CLOCK, CONTAINER, FILES, Snapshot};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// Their mere existence says: a container.
const CONTAINER_MARKS: [&str; 2] = ["/.dockerenv", "/run/.containerenv"];

/// This machine, as this process sees it.
pub fn look() -> Snapshot {
    let mut snapshot = Snapshot::default();
    for path in FILES {
        snapshot.read(path);
    }
    for path in cgroup::files(&snapshot) {
        snapshot.read(&path);
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let seconds = now.map_or(0, |now| now.as_secs());
    snapshot.note(CLOCK, seconds.to_string());
    let marked = CONTAINER_MARKS.iter().any(|path| Path::new(path).exists());
    if marked || std::env::var_os("KUBERNETES_SERVICE_HOST").is_some() {
        snapshot.note(CONTAINER, "yes".to_owned());
    }
    snapshot
}
