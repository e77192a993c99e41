//! Owns the facts about the machine that a result file carries.

use serde::{Deserialize, Serialize};
use std::fs;
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
    pub commit: Option<String>,
}

impl Machine {
    /// Facts of this machine.
    pub fn detect() -> Machine {
        Machine {
            started_unix_s: SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .map_or(0, |elapsed| elapsed.as_secs()),
            cpu: field("/proc/cpuinfo", "model name").unwrap_or_else(|| "unknown".into()),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            kernel: first_line("/proc/sys/kernel/osrelease").unwrap_or_else(|| "unknown".into()),
            memory_gib: kib("MemTotal").unwrap_or(0) as f64 / 1024.0 / 1024.0,
            load_before: load_average().unwrap_or(0.0),
            commit: commit(),
        }
    }

    /// Day of the run, UTC.
    pub fn date(&self) -> String {
        let (year, month, day) = wire::calendar::civil((self.started_unix_s / 86_400) as i64);
        format!("{year}-{month:02}-{day:02}")
    }
}

fn field(path: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim().to_string())
}

fn first_line(path: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    Some(text.lines().next()?.trim().to_string())
}

/// A figure of the kernel's account of memory.
fn kib(name: &str) -> Option<u64> {
    let text = field("/proc/meminfo", name)?;
    text.split_whitespace().next()?.parse().ok()
}

/// Memory of this machine that is in use and could not be had at once.
pub fn memory_used() -> Option<u64> {
    Some((kib("MemTotal")? - kib("MemAvailable")?) * 1024)
}

fn load_average() -> Option<f64> {
    let line = first_line("/proc/loadavg")?;
    line.split_whitespace().next()?.parse().ok()
}

fn commit() -> Option<String> {
    let mut git = Command::new("git");
    let output = git.args(["rev-parse", "--short", "HEAD"]).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    (output.status.success()).then(|| text.trim().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_facts() {
        let machine = Machine::detect();
        assert!(machine.cores >= 1);
        assert!(machine.memory_gib > 0.1);
        assert_ne!(machine.kernel, "unknown");
    }
}
