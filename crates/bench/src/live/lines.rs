//! Owns the plain view: one line for a note, for each tenth of the connections and for every five
//! seconds. For logs and pipes; a terminal gets a bar as well.

use super::Observer;
use crate::outcome::Second;
use std::io::Write;

/// Seconds between two lines.
const EVERY: u64 = 5;

#[derive(Debug)]
pub struct Lines<W: Write> {
    out: W,
    tenths: u64,
    seconds: u64,
}

impl<W: Write> Lines<W> {
    pub fn new(out: W) -> Self {
        Lines {
            out,
            tenths: 0,
            seconds: 0,
        }
    }

    fn line(&mut self, text: &str) {
        // A closed pipe is no reason to end a measurement.
        let _ = writeln!(self.out, "{text}");
    }
}

impl<W: Write> Observer for Lines<W> {
    fn connecting(&mut self, done: u64, total: u64) {
        let tenths = done * 10 / total.max(1);
        if tenths != self.tenths {
            self.tenths = tenths;
            self.line(&format!("connecting {done}/{total}"));
        }
    }

    fn second(&mut self, second: &Second) {
        self.seconds += 1;
        if self.seconds.is_multiple_of(EVERY) {
            self.line(&format!(
                "{:>5.0} s  {} connections  {} sent/s  {} received/s  {} errors",
                second.t_s, second.connections, second.sent, second.received, second.errors
            ));
        }
    }

    fn note(&mut self, text: &str) {
        self.line(text);
    }
}
