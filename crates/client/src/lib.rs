//! Clients for tests, of everything that the gateway speaks. Their codecs are not ours (tungstenite, rmpv), so that a fault in `wire` cannot
//! hide in its own tests; what is so small that it has no codec (Engine.IO, Socket.IO) is written here from the protocols' own texts.
//!
//! They block, and panic when what must come does not: in a test that is what one wants.

pub mod brief;
pub mod conn;
pub mod full;
mod websocket;

pub use conn::{Ended, RawConn, Response};
pub use websocket::{Frame, OpCode};

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
