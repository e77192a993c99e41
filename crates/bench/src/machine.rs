//! Owns the facts about the machine and the installed peers that a result file carries.

use serde::{Deserialize, Serialize};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Machine {
    pub started_unix_s: u64,
    pub cpu: String,
    pub cores: usize,
    pub kernel: String,
    pub memory_gib: f64,
    /// One-minute load average when the run began: other people's work.
    pub load_before: f64,
    pub node: Option<String>,
    pub socket_io: Option<String>,
    pub commit: Option<String>,
}

impl Machine {
    /// Facts of this machine; `benchmarks` is the folder with the peers.
    pub fn detect(benchmarks: &Path) -> Machine {
        Machine {
            started_unix_s: SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .map_or(0, |elapsed| elapsed.as_secs()),
            cpu: field("/proc/cpuinfo", "model name").unwrap_or_else(|| "unknown".into()),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            kernel: first_line("/proc/sys/kernel/osrelease").unwrap_or_else(|| "unknown".into()),
            memory_gib: memory_gib().unwrap_or(0.0),
            load_before: load_average().unwrap_or(0.0),
            node: output("node", &["--version"]),
            socket_io: package_version(&benchmarks.join("node-socketio"), "socket.io"),
            commit: output("git", &["rev-parse", "--short", "HEAD"]),
        }
    }

    /// Day of the run, UTC.
    pub fn date(&self) -> String {
        let (year, month, day) = civil(self.started_unix_s / 86_400);
        format!("{year}-{month:02}-{day:02}")
    }
}

fn field(path: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim().to_string())
}

fn first_line(path: &str) -> Option<String> {
    Some(
        fs::read_to_string(path)
            .ok()?
            .lines()
            .next()?
            .trim()
            .to_string(),
    )
}

fn memory_gib() -> Option<f64> {
    let text = field("/proc/meminfo", "MemTotal")?;
    let kib: f64 = text.split_whitespace().next()?.parse().ok()?;
    Some(kib / 1024.0 / 1024.0)
}

/// Memory of this machine that is in use and could not be had at once.
pub fn memory_used() -> Option<u64> {
    let kib = |name| -> Option<u64> {
        let text = field("/proc/meminfo", name)?;
        text.split_whitespace().next()?.parse().ok()
    };
    Some((kib("MemTotal")? - kib("MemAvailable")?) * 1024)
}

fn load_average() -> Option<f64> {
    first_line("/proc/loadavg")?
        .split_whitespace()
        .next()?
        .parse()
        .ok()
}

fn output(program: &str, args: &[&str]) -> Option<String> {
    let output = Command::new(program).args(args).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    (output.status.success()).then(|| text.trim().to_string())
}

fn package_version(folder: &Path, package: &str) -> Option<String> {
    let path = folder
        .join("node_modules")
        .join(package)
        .join("package.json");
    let manifest: serde_json::Value = serde_json::from_str(&fs::read_to_string(path).ok()?).ok()?;
    Some(manifest.get("version")?.as_str()?.to_string())
}

/// Year, month and day of a day count since 1970-01-01: years are walked, which is plenty.
fn civil(mut days: u64) -> (u64, u64, u64) {
    let is_leap = |year: u64| {
        (year.is_multiple_of(4) && !year.is_multiple_of(100)) || year.is_multiple_of(400)
    };
    let mut year = 1970;
    while days >= 365 + u64::from(is_leap(year)) {
        days -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let february = 28 + u64::from(is_leap(year));
    let lengths = [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 1;
    for length in lengths {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    (year, month, days + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_become_dates() {
        assert_eq!(civil(0), (1970, 1, 1));
        assert_eq!(civil(11_016), (2000, 2, 29));
        assert_eq!(civil(20_454), (2026, 1, 1));
        assert_eq!(civil(20_453), (2025, 12, 31));
    }

    #[test]
    fn this_machine_has_facts() {
        let machine = Machine::detect(Path::new("."));
        assert!(machine.cores >= 1);
        assert!(machine.memory_gib > 0.1);
        assert_ne!(machine.kernel, "unknown");
    }
}
