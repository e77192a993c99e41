//! How many want the processors of this machine.

use std::time::{Duration, Instant};

/// More threads than these for each processor, and each waits for the others most of its time. Two compilers and twelve tests that wait
/// for their servers are half as many.
const THREADS_MAX: f64 = 10.0;
/// The mean of the last seconds counts: a moment says nothing.
const HORIZON: Duration = Duration::from_secs(5);

/// The mean number of threads that run or could, for each processor.
pub struct Crowd {
    mean: f64,
    looked: Option<Instant>,
}

impl Crowd {
    pub const NOBODY: Crowd = Crowd {
        mean: 0.0,
        looked: None,
    };

    pub fn is_large(&mut self) -> bool {
        let now = Instant::now();
        let since = self.looked.replace(now).map(|looked| now - looked);
        let weight = since.map_or(1.0, |since| 1.0 - (-since.div_duration_f64(HORIZON)).exp());
        if let Some(threads) = runnable() {
            self.mean += weight * (threads - self.mean);
        }
        self.mean > THREADS_MAX
    }
}

/// `proc_stat(5)`: a line for each processor, and how many threads are runnable. Where there is no such file, no crowd is seen.
fn runnable() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/stat").ok()?;
    let is_processor = |line: &&str| line.starts_with("cpu") && !line.starts_with("cpu ");
    let processors = stat.lines().filter(is_processor).count();
    let threads = stat
        .lines()
        .find_map(|line| line.strip_prefix("procs_running "))?;
    let threads: u32 = threads.trim().parse().ok()?;
    Some(f64::from(threads) / processors.max(1) as f64)
}

#[test]
fn the_kernel_says_how_many_threads_want_a_processor() {
    let threads = runnable().expect("/proc/stat");
    assert!(threads > 0.0, "this thread runs");
}
