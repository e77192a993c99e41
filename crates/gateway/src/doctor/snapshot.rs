//! What the doctor looks at: small files of /proc and /sys, read once. A snapshot can be written down and examined
//! elsewhere, which is also how the tests see machines other than their own.

use std::collections::BTreeMap;

/// Which group of each hierarchy this process is in.
pub const GROUPS: &str = "/proc/self/cgroup";
/// Where the hierarchies are mounted.
pub const MOUNTS: &str = "/proc/self/mountinfo";
/// Where the limit of open files stands.
pub const LIMITS: &str = "/proc/self/limits";
/// Which cores this process may run on.
pub const STATUS: &str = "/proc/self/status";
pub const MEMINFO: &str = "/proc/meminfo";
pub const CLOCKSOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";

/// Always looked at; those of control groups depend on what the first two say.
pub const FILES: &[&str] = &[
    GROUPS,
    MOUNTS,
    LIMITS,
    STATUS,
    MEMINFO,
    "/proc/sys/fs/file-max",
    "/proc/sys/fs/file-nr",
    "/proc/sys/fs/nr_open",
    "/proc/sys/net/core/somaxconn",
    "/proc/sys/net/core/netdev_max_backlog",
    "/proc/sys/net/ipv4/tcp_max_syn_backlog",
    "/proc/sys/net/ipv4/ip_local_port_range",
    "/proc/sys/net/ipv4/tcp_mem",
    "/proc/sys/net/ipv4/tcp_rmem",
    "/proc/sys/net/ipv4/tcp_wmem",
    "/proc/sys/net/netfilter/nf_conntrack_max",
    CLOCKSOURCE,
];

/// Not files: where a snapshot keeps what has none.
pub const CLOCK: &str = "clock";
pub const CONTAINER: &str = "container";

#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    files: BTreeMap<String, String>,
}

impl Snapshot {
    /// Keeps a file of this machine, if there is one.
    pub(super) fn read(&mut self, path: &str) {
        if let Ok(text) = std::fs::read_to_string(path) {
            self.note(path, text);
        }
    }

    pub(super) fn note(&mut self, name: &str, text: String) {
        self.files.insert(name.to_owned(), text);
    }

    /// Written down: each file behind a line `==> path <==`.
    pub fn to_text(&self) -> String {
        let files = self.files.iter();
        files
            .map(|(path, text)| format!("==> {path} <==\n{}\n", text.trim_end()))
            .collect()
    }

    /// The same, read again; what is wrong with it if it is something else.
    pub fn from_text(text: &str) -> Result<Snapshot, String> {
        let mut files = BTreeMap::new();
        let mut path = None;
        for line in text.lines() {
            let header = line.strip_prefix("==> ");
            if let Some(name) = header.and_then(|rest| rest.strip_suffix(" <==")) {
                path = Some(name.to_owned());
                files.insert(name.to_owned(), String::new());
            } else if let Some(file) = path.as_ref().and_then(|path| files.get_mut(path)) {
                file.push_str(line);
                file.push('\n');
            } else if !line.trim().is_empty() {
                let beginning: String = line.chars().take(40).collect();
                return Err(format!(
                    "it begins with {beginning:?}, not with a line like `==> {LIMITS} <==`"
                ));
            }
        }
        if files.is_empty() {
            return Err("it is empty".to_owned());
        }
        let told = FILES.iter().chain([&CLOCK]);
        if !told.into_iter().any(|path| files.contains_key(*path)) {
            return Err("it tells nothing that the doctor looks at".to_owned());
        }
        Ok(Snapshot { files })
    }

    pub fn text(&self, path: &str) -> Option<&str> {
        self.files.get(path).map(|text| text.trim())
    }

    /// The numbers of a file that holds nothing else.
    pub fn numbers(&self, path: &str) -> Option<Vec<u64>> {
        let words = self.text(path)?.split_whitespace();
        words.map(|word| word.parse().ok()).collect()
    }

    pub fn number(&self, path: &str) -> Option<u64> {
        self.numbers(path)?.first().copied()
    }

    /// The words behind the beginning of a line.
    pub fn field(&self, path: &str, name: &str) -> Option<Vec<&str>> {
        let mut lines = self.text(path)?.lines();
        let rest = lines.find_map(|line| line.strip_prefix(name))?;
        Some(rest.split_whitespace().collect())
    }

    /// Bytes of a line of /proc/meminfo.
    pub fn memory(&self, name: &str) -> Option<u64> {
        let kilobytes: u64 = self.field(MEMINFO, name)?.first()?.parse().ok()?;
        Some(kilobytes * 1024)
    }

    /// Soft and hard limit of open files; `None` is unlimited.
    pub fn open_files(&self) -> Option<(Option<u64>, Option<u64>)> {
        let words = self.field(LIMITS, "Max open files")?;
        let limit = |at: usize| match *words.get(at)? {
            "unlimited" => Some(None),
            word => word.parse().ok().map(Some),
        };
        Some((limit(0)?, limit(1)?))
    }

    /// Cores that this process may run on.
    pub fn cores(&self) -> Option<u64> {
        let lists = self.field(STATUS, "Cpus_allowed_list:")?;
        lists.first()?.split(',').map(range_len).sum()
    }
}

/// Numbers in `4` or `0-3`.
fn range_len(range: &str) -> Option<u64> {
    let (first, last) = range.split_once('-').unwrap_or((range, range));
    let (first, last): (u64, u64) = (first.parse().ok()?, last.parse().ok()?);
    last.checked_sub(first).map(|len| len + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_down_is_read_again() {
        let snapshot = crate::doctor::machine::look();
        let again = Snapshot::from_text(&snapshot.to_text()).expect("a snapshot");
        assert!(snapshot.files.len() > 3, "{snapshot:?}");
        for (path, text) in &snapshot.files {
            assert_eq!(again.text(path), Some(text.trim()), "{path}");
        }
    }

    #[test]
    fn fields_are_found_in_the_forms_the_kernel_writes() {
        let text = "==> /proc/self/limits <==\nLimit      Soft Limit  Hard Limit  Units\n\
                    Max open files            1024                 unlimited            files\n\
                    ==> /proc/self/status <==\nCpus_allowed_list:\t0-2,5,8-9\n\
                    ==> /proc/meminfo <==\nMemTotal:  2048 kB\n";
        let snapshot = Snapshot::from_text(text).expect("a snapshot");
        assert_eq!(snapshot.open_files(), Some((Some(1024), None)));
        assert_eq!(snapshot.cores(), Some(6));
        assert_eq!(snapshot.memory("MemTotal:"), Some(2 << 20));
        assert_eq!(snapshot.memory("MemAvailable:"), None);
    }

    #[test]
    fn what_is_no_snapshot_is_refused() {
        for (text, told) in [
            ("", "it is empty"),
            (" \n\n", "it is empty"),
            ("[server]\nshards = 2\n", "it begins with \"[server]\""),
            (
                "==> readme.md <==\nhello\n",
                "nothing that the doctor looks at",
            ),
        ] {
            let problem = Snapshot::from_text(text).expect_err(text);
            assert!(problem.contains(told), "{text:?}: {problem}");
        }
    }
}
