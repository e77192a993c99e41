//! How much of the memory it may have the process uses: what admission is told ten times a second. In which steps it grows, and
//! when what was freed goes back.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

/// Memory in steps of 4 KiB instead of 2 MiB, also where the system has huge pages always: connections come and go one by one,
/// and what they cost is to be seen. Called before there are threads; a kernel that knows no such thing changes nothing.
pub fn grow_in_small_steps() {
    #[cfg(target_os = "linux")]
    let _ = rustix::thread::disable_transparent_huge_pages(true);
}

/// Bytes this process may have: what the operator says, else the tightest limit of its control groups, else the machine's memory.
pub fn limit(configured: Option<u64>) -> Option<u64> {
    configured.or_else(group_limit).or_else(machine_memory)
}

/// `memory.max` of cgroup v2 or `memory.limit_in_bytes` of v1, from the process's own group up to the root.
fn group_limit() -> Option<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let limits = groups.lines().flat_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next().unwrap_or(""), parts.next().unwrap_or("/"));
        match controllers {
            "" => limits_below("/sys/fs/cgroup", path, "memory.max"),
            "memory" => limits_below("/sys/fs/cgroup/memory", path, "memory.limit_in_bytes"),
            _ => Vec::new(),
        }
    });
    // cgroup v1 says "no limit" by a number beyond any machine.
    let machine = machine_memory().unwrap_or(u64::MAX);
    limits.filter(|bytes| *bytes < machine).min()
}

/// Limits of a group and of all groups above it.
fn limits_below(root: &str, path: &str, file: &str) -> Vec<u64> {
    let mut path = path.trim_matches('/');
    let mut limits = Vec::new();
    loop {
        let text = fs::read_to_string(format!("{root}/{path}/{file}"));
        limits.extend(text.ok().and_then(|text| text.trim().parse::<u64>().ok()));
        if path.is_empty() {
            return limits;
        }
        path = path.rsplit_once('/').map_or("", |(above, _)| above);
    }
}

fn machine_memory() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    kib_field(&text, "MemTotal:")
}

/// Resident bytes of this process. `statm` costs a quarter of `status`, and one call where the file stays open: this is asked ten times a second.
fn resident(statm: &File) -> Option<u64> {
    let mut text = [0; STATM_BYTES_MAX];
    let read = statm.read_at(&mut text, 0).ok()?;
    let text = std::str::from_utf8(&text[..read]).ok()?;
    let pages: u64 = text.split_whitespace().nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}

fn kib_field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.starts_with(name))?;
    let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib * 1024)
}

/// Seven numbers, of 20 digits at most, and what is between them (proc(5), `statm`).
const STATM_BYTES_MAX: usize = 7 * 21;

/// Memory that was freed and that the allocator keeps: it counts as resident, but nobody uses it.
#[derive(Debug)]
pub struct Kept {
    given_back: Option<Instant>,
    /// What the kernel says of this process; without it no memory is seen to be used.
    statm: Option<File>,
}

impl Default for Kept {
    fn default() -> Self {
        Self {
            given_back: None,
            statm: File::open("/proc/self/statm").ok(),
        }
    }
}

/// How often freed memory goes back to the system.
const GIVE_BACK_INTERVAL: Duration = Duration::from_secs(1);

impl Kept {
    /// Memory in use, percent of the limit. From `bound` on newcomers are turned away or clients closed, which must not happen for
    /// memory that somebody else had: before it is said that the bound is reached, all that is free goes back.
    pub fn look(&mut self, limit: Option<u64>, bound: u8) -> u8 {
        let is_due = |at: Instant| at.elapsed() >= GIVE_BACK_INTERVAL;
        if self.given_back.is_none_or(is_due) {
            // The first time all of it: what the start needed, nobody wants again.
            shard::heap::give_back(self.given_back.is_none());
            self.given_back = Some(Instant::now());
        }
        let Some((limit, statm)) = limit.zip(self.statm.as_ref()) else {
            return 0;
        };
        let used = percent(resident(statm).unwrap_or(0), limit);
        if used < bound {
            return used;
        }
        shard::heap::give_back(true);
        percent(resident(statm).unwrap_or(0), limit)
    }
}

/// Memory in percent of the limit.
fn percent(used: u64, limit: u64) -> u8 {
    u8::try_from(u128::from(used) * 100 / u128::from(limit.max(1))).unwrap_or(u8::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_bounds_the_process_and_the_operator_bounds_it_more() {
        let machine = machine_memory().expect("/proc/meminfo");
        assert!(limit(None).expect("a limit") <= machine);
        assert_eq!(limit(Some(7)), Some(7));
        let statm = File::open("/proc/self/statm").expect("/proc/self/statm");
        let used = resident(&statm).expect("resident pages");
        assert!(
            (49..=52).contains(&percent(used, used * 2)),
            "{}",
            percent(used, used * 2)
        );
        assert_eq!(percent(used, 1), u8::MAX);
    }

    #[test]
    fn groups_above_bind_too() {
        let folder = tempfile::tempdir().expect("folder");
        let root = folder.path().to_str().expect("path");
        fs::create_dir_all(format!("{root}/a/b")).expect("folders");
        fs::write(format!("{root}/a/memory.max"), "1000\n").expect("file");
        fs::write(format!("{root}/a/b/memory.max"), "max\n").expect("file");
        assert_eq!(limits_below(root, "/a/b", "memory.max"), [1000]);
    }
}
