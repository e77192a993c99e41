//! The real `sockeye` binary under test, and clients that send exact bytes.
//!
//! Nothing of the gateway is linked: a gateway is a child process on a port of its own, and what it
//! did is read from its answers, its log, its metrics and its memory.

mod alone;
pub mod client;
pub mod gateway;
pub mod raw;

pub use alone::{Alone, Beside};
pub use client::{Plain, Poller, SocketIo};
pub use gateway::Gateway;
pub use raw::{Ended, Frame, RawConn, Response};

use std::time::{Duration, Instant};

/// What a healthy gateway answers well within, even on a machine that is busy with other tests.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Asks until `done` says so; `false` after `within`.
pub fn eventually(within: Duration, mut done: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + within;
    loop {
        if done() {
            return true;
        }
        if Instant::now() >= deadline {
            return false;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}
