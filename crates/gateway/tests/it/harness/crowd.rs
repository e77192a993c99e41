//! How many want the processors of this machine.

use std::time::{Duration, Instant};

/// More threads than these for each processor, and each waits for the others most of its time. Two compilers and twelve tests that wait
/// for their servers are half as many.
const THREADS_MAX: f64 = 10.0;
/// Fewer threads than these for each processor leave it idle now and then.
const FEW_THREADS: f64 = 1.5;
/// The mean of the last seconds counts: a moment says nothing.
const HORIZON: Duration = Duration::from_secs(5);

/// A test about time waits for so long until a crowd goes. On a machine where one is always there, the next such tests do not wait again.
const CROWD_WAIT_MAX: Duration = Duration::from_secs(60);

/// How much of the processors is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    Small,
    Middle,
    Large,
}

/// The mean number of threads that run or could, for each processor.
pub struct Crowd {
    mean: f64,
    looked: Option<Instant>,
    /// A test waits for it to go, or has waited.
    awaited: Option<Instant>,
}

impl Crowd {
    pub const NOBODY: Crowd = Crowd {
        mean: 0.0,
        looked: None,
        awaited: None,
    };

    /// Whether a test about time is to wait still. Nothing of this process runs: the crowd is of others.
    pub fn delays(&mut self) -> bool {
        let is_large = self.size() == Size::Large;
        self.is_awaited(is_large, Instant::now())
    }

    fn is_awaited(&mut self, is_large: bool, now: Instant) -> bool {
        if !is_large {
            self.awaited = None;
            return false;
        }
        let since = *self.awaited.get_or_insert(now);
        now - since < CROWD_WAIT_MAX
    }

    pub fn size(&mut self) -> Size {
        let now = Instant::now();
        let since = self.looked.replace(now).map(|looked| now - looked);
        let weight = since.map_or(1.0, |since| 1.0 - (-since.div_duration_f64(HORIZON)).exp());
        if let Some(threads) = runnable() {
            self.mean += weight * (threads - self.mean);
        }
        match self.mean {
            mean if mean > THREADS_MAX => Size::Large,
            mean if mean < FEW_THREADS => Size::Small,
            _ => Size::Middle,
        }
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

/// Such a test began at once beside whatever other programs did, and measured them.
#[test]
fn a_test_about_time_did_not_wait_for_a_crowd() {
    let mut crowd = Crowd::NOBODY;
    let (begun, second) = (Instant::now(), Duration::from_secs(1));
    assert!(!crowd.is_awaited(false, begun));
    assert!(crowd.is_awaited(true, begun));
    assert!(crowd.is_awaited(true, begun + CROWD_WAIT_MAX - second));
    // It does not go: nobody waits for it any more.
    let late = begun + CROWD_WAIT_MAX;
    assert!(!crowd.is_awaited(true, late) && !crowd.is_awaited(true, late + second));
    // Another one comes.
    assert!(!crowd.is_awaited(false, late + 2 * second));
    assert!(crowd.is_awaited(true, late + 3 * second));
}

#[test]
fn the_kernel_says_how_many_threads_want_a_processor() {
    let threads = runnable().expect("/proc/stat");
    assert!(threads > 0.0, "this thread runs");
}
