//! Owns what /proc says about a server process: CPU time, resident memory.

use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

/// CPU time that one thread has used so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Thread {
    pub cpu_ns: u64,
    /// Ready to run, without a core.
    pub wait_ns: u64,
}

/// One observed process.
#[derive(Clone, Copy, Debug)]
pub struct Process {
    pub pid: u32,
}

impl Process {
    /// User + system time of all threads, in nanoseconds. The scheduler's own count is finer than
    /// the 10 ms ticks of `stat`, but forgets threads that have ended: neither says too much.
    pub fn cpu_ns(&self) -> Result<u64> {
        let of_threads = self.threads().map_or(0, |threads| {
            threads.values().map(|thread| thread.cpu_ns).sum()
        });
        Ok(of_threads.max(self.cpu_ns_of_ticks()?))
    }

    /// Every thread by its id, as the scheduler counts it (proc(5), `schedstat`).
    pub fn threads(&self) -> Result<BTreeMap<u64, Thread>> {
        let mut threads = BTreeMap::new();
        for thread in fs::read_dir(self.path("task"))? {
            let thread = thread?;
            let id = thread.file_name().to_string_lossy().parse()?;
            // A thread may end between the listing and the reading.
            let Ok(text) = fs::read_to_string(thread.path().join("schedstat")) else {
                continue;
            };
            let mut fields = text
                .split_whitespace()
                .map(|field| field.parse().unwrap_or(0));
            let (cpu_ns, wait_ns) = (fields.next().unwrap_or(0), fields.next().unwrap_or(0));
            threads.insert(id, Thread { cpu_ns, wait_ns });
        }
        Ok(threads)
    }

    fn cpu_ns_of_ticks(&self) -> Result<u64> {
        let text = self.read("stat")?;
        // proc(5): the command name may hold anything, even parentheses; fields count behind it.
        let (_, fields) = text.rsplit_once(')').context("odd /proc stat line")?;
        let ticks: u64 = fields
            .split_whitespace()
            .skip(11)
            .take(2)
            .map(|field| field.parse::<u64>().unwrap_or(0))
            .sum();
        Ok(ticks * 1_000_000_000 / rustix::param::clock_ticks_per_second())
    }

    /// Resident memory in bytes, as exact as the kernel offers.
    pub fn rss_bytes(&self) -> Result<u64> {
        let exact = self.read("smaps_rollup").ok().and_then(|text| {
            let line = text.lines().find_map(|line| line.strip_prefix("Rss:"))?;
            line.split_whitespace().next()?.parse::<u64>().ok()
        });
        if let Some(kib) = exact {
            return Ok(kib * 1024);
        }
        self.rss_bytes_at_hand()
    }

    /// Resident memory as the kernel counts it anyway: cheap, but off by some pages a thread.
    pub fn rss_bytes_at_hand(&self) -> Result<u64> {
        let text = self.read("statm")?;
        let pages: u64 = text
            .split_whitespace()
            .nth(1)
            .context("odd /proc statm line")?
            .parse()?;
        Ok(pages * rustix::param::page_size() as u64)
    }

    fn path(&self, name: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/{name}", self.pid))
    }

    fn read(&self, name: &str) -> Result<String> {
        let path = self.path(name);
        fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_counts_the_work_of_other_threads() {
        let own = Process {
            pid: std::process::id(),
        };
        let clock = crate::clock::own_cpu_ns;
        let (outer, before, inner) = (clock(), own.cpu_ns().unwrap(), clock());
        let burner = std::thread::spawn(move || while clock() < inner + 300_000_000 {});
        burner.join().unwrap();
        let inner = clock() - inner;
        let used = own.cpu_ns().unwrap() - before;
        let outer = clock() - outer;
        // Counts lag by up to a tick for each thread that runs, and other tests run threads, too.
        let lag = 100_000_000;
        assert!(
            (inner.saturating_sub(lag)..outer + lag).contains(&used),
            "{used} of {inner} to {outer}"
        );
    }

    #[test]
    fn memory_of_this_process_is_seen() {
        let own = Process {
            pid: std::process::id(),
        };
        let before = own.rss_bytes().unwrap();
        let block = std::hint::black_box(vec![1u8; 32 << 20]);
        assert!(own.rss_bytes().unwrap() >= before + (30 << 20));
        drop(block);
    }
}
