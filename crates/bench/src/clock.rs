//! Owns the one clock of the load generator: monotonic nanoseconds, comparable between the
//! processes of one machine, which is what lets several workers share send stamps.

use rustix::time::{ClockId, clock_gettime};

const NS_PER_S: u64 = 1_000_000_000;

/// Nanoseconds of `CLOCK_MONOTONIC`.
pub fn now_ns() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * NS_PER_S + time.tv_nsec as u64
}

/// CPU time (user + system) this process has used so far, all threads.
pub fn own_cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as u64 * NS_PER_S + time.tv_nsec as u64
}

/// Time that the calling thread was ready to run but got no core so far; 0 where the kernel does
/// not say (proc(5), `schedstat`).
pub fn own_wait_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let wait = text.split_whitespace().nth(1);
    wait.and_then(|wait| wait.parse().ok()).unwrap_or(0)
}

/// The processor time that a worker has used, and its wait for a core, as seen at one time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Used {
    at_ns: u64,
    own_ns: [u64; 2],
}

impl Used {
    pub fn look() -> Self {
        Used {
            at_ns: now_ns(),
            own_ns: [own_cpu_ns(), own_wait_ns()],
        }
    }

    /// Both at a time between this look and a later one, as if they had grown evenly.
    pub fn by(self, later: Used, at_ns: u64) -> [u64; 2] {
        let passed_ns = later.at_ns.saturating_sub(self.at_ns).max(1);
        let until_ns = at_ns.saturating_sub(self.at_ns).min(passed_ns);
        [0, 1].map(|at| {
            let (before, after) = (self.own_ns[at], later.own_ns[at]);
            let more = u128::from(after.saturating_sub(before)) * u128::from(until_ns);
            before + (more / u128::from(passed_ns)) as u64
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A turn of 850 ms was told with the second in which it ended. So of five seconds without a pause one was busy, and a saturated generator
    /// showed its latencies.
    #[test]
    fn a_worker_without_a_pause_is_busy_in_each_second() {
        for turn_ms in [200, 850, 900, 1_700, 1_850, 3_400] {
            let turn_ns = turn_ms * 1_000_000;
            let look = |turn: u64| Used {
                at_ns: turn * turn_ns,
                own_ns: [turn * turn_ns / 2; 2],
            };
            let used_by = |second: u64| {
                let ends_ns = second * NS_PER_S;
                let turn = ends_ns / turn_ns;
                let [cpu_ns, wait_ns] = look(turn).by(look(turn + 1), ends_ns);
                cpu_ns + wait_ns
            };
            let used: Vec<u64> = (1..=5).map(|n| used_by(n) - used_by(n - 1)).collect();
            let is_whole = |ns: &u64| ns.abs_diff(NS_PER_S) <= 4;
            assert!(used.iter().all(is_whole), "{turn_ms} ms: {used:?}");
        }
    }
}
