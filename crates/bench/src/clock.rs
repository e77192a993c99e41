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
