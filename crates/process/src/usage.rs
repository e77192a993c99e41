//! What the operating system knows about this process, under Prometheus' standard names.

use std::time::Duration;

/// One reading; a value that the system does not tell is left out.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usage {
    pub resident_bytes: Option<u64>,
    pub virtual_bytes: Option<u64>,
    pub cpu: Option<Duration>,
    pub open_fds: Option<u64>,
    pub max_fds: Option<u64>,
    /// Seconds since 1970.
    pub start_time: Option<f64>,
    pub threads: Option<u64>,
}

#[cfg(target_os = "linux")]
impl Usage {
    /// Reads /proc; with many connections open the count of descriptors takes milliseconds.
    pub fn read() -> Self {
        Usage {
            open_fds: open_fds(),
            ..Self::light()
        }
    }

    /// The same without that count.
    pub fn light() -> Self {
        let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
        let fields = stat_fields(&stat);
        // Numbered as in proc_pid_stat(5), from 1; the name in field 2 is cut off with field 1.
        let field = |number: usize| {
            fields
                .get(number - 3)
                .and_then(|text| text.parse::<u64>().ok())
        };
        let ticks = rustix::param::clock_ticks_per_second();
        let seconds = |count: u64| count as f64 / ticks as f64;
        let cpu = field(14)
            .zip(field(15))
            .map(|(user, system)| seconds(user + system));
        let start = boot_time()
            .zip(field(22))
            .map(|(boot, start)| boot + seconds(start));
        Usage {
            resident_bytes: field(24).map(|pages| pages * rustix::param::page_size() as u64),
            virtual_bytes: field(23),
            cpu: cpu.map(Duration::from_secs_f64),
            open_fds: None,
            max_fds: rustix::process::getrlimit(rustix::process::Resource::Nofile).current,
            start_time: start,
            threads: field(20),
        }
    }
}

#[cfg(not(target_os = "linux"))]
impl Usage {
    /// Known on Linux only.
    pub fn read() -> Self {
        Usage::default()
    }

    /// Known on Linux only.
    pub fn light() -> Self {
        Usage::default()
    }
}

/// Fields from the third on: the second, the name, may contain spaces and parentheses itself.
#[cfg(target_os = "linux")]
fn stat_fields(stat: &str) -> Vec<&str> {
    stat.rsplit_once(") ")
        .map(|(_, rest)| rest.split(' ').collect())
        .unwrap_or_default()
}

#[cfg(target_os = "linux")]
fn boot_time() -> Option<f64> {
    // It does not change, and the file is long on large machines.
    static READ: std::sync::OnceLock<Option<f64>> = std::sync::OnceLock::new();
    *READ.get_or_init(read_boot_time)
}

#[cfg(target_os = "linux")]
fn read_boot_time() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/stat").ok()?;
    stat.lines()
        .find_map(|line| line.strip_prefix("btime "))
        .and_then(|text| text.parse().ok())
}

#[cfg(target_os = "linux")]
fn open_fds() -> Option<u64> {
    // One of them is the folder being read.
    let count = std::fs::read_dir("/proc/self/fd").ok()?.count();
    u64::try_from(count.saturating_sub(1)).ok()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use std::time::{SystemTime, UNIX_EPOCH};

    #[test]
    fn this_process_is_seen_as_it_is() {
        let usage = Usage::read();
        let resident = usage.resident_bytes.expect("resident");
        assert!((500_000..10_000_000_000).contains(&resident), "{resident}");
        assert!(usage.virtual_bytes > usage.resident_bytes);
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .expect("clock")
            .as_secs_f64();
        let age = now - usage.start_time.expect("start time");
        assert!((-2.0..3_600.0).contains(&age), "started {age} s ago");
        assert!(usage.threads >= Some(1));
        assert!(usage.max_fds > usage.open_fds, "{usage:?}");
    }

    #[test]
    fn more_open_files_are_counted() {
        let before = Usage::read().open_fds.expect("fds");
        let files: Vec<_> = (0..50)
            .map(|_| std::fs::File::open("/dev/null").expect("open"))
            .collect();
        let after = Usage::read().open_fds.expect("fds");
        // Other tests of this process open and close files meanwhile.
        assert!(
            after >= before + 30,
            "{before} then {after} with {} more",
            files.len()
        );
    }

    #[test]
    fn a_name_with_parentheses_does_not_shift_the_fields() {
        assert_eq!(stat_fields("7 (a) b) c) S 1 2"), ["S", "1", "2"]);
    }
}
