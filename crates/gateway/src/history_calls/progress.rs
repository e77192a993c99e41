//! How far a long call has come, for the one who waits at a terminal.

use std::io::IsTerminal as _;
use std::time::{Duration, Instant};

const EVERY: Duration = Duration::from_secs(1);

/// Says it now and then: a line that is written over on a terminal, or lines in a log.
#[derive(Debug)]
pub(super) struct Progress {
    said: Instant,
    is_terminal: bool,
}

impl Progress {
    pub(super) fn new() -> Self {
        Self {
            said: Instant::now(),
            is_terminal: std::io::stderr().is_terminal(),
        }
    }

    pub(super) fn at(&mut self, text: impl FnOnce() -> String) {
        let every = if self.is_terminal { EVERY } else { 10 * EVERY };
        if self.said.elapsed() < every {
            return;
        }
        self.said = Instant::now();
        match self.is_terminal {
            true => eprint!("\r{}\x1b[K", text()),
            false => eprintln!("{}", text()),
        }
    }

    pub(super) fn end(&self, text: &str) {
        let over = if self.is_terminal { "\r\x1b[K" } else { "" };
        eprintln!("{over}{text}");
    }
}
