//! The standard output of commands. Its reader may stop before the end (`sockeye sockets | head`).

use anyhow::{Context, Result};
use std::fmt::Display;
use std::io::{self, Write};

/// The reader has gone. That ends a command, and is no failure.
#[derive(Clone, Copy, Debug)]
pub struct ReaderGone;

impl Display for ReaderGone {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("nobody reads on")
    }
}

impl std::error::Error for ReaderGone {}

/// Writes it as it is, and at once.
pub fn print(text: impl Display) -> Result<()> {
    let mut out = io::stdout().lock();
    written(write!(out, "{text}").and_then(|()| out.flush()))
}

/// The same with the end of a line.
pub fn line(text: impl Display) -> Result<()> {
    print(format_args!("{text}\n"))
}

/// The same where the verdict of a command does not depend on it: that nobody reads on is no failure.
pub fn aside(text: impl Display) -> Result<()> {
    match print(text) {
        Err(error) if error.is::<ReaderGone>() => Ok(()),
        result => result,
    }
}

fn written(result: io::Result<()>) -> Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Err(ReaderGone.into()),
        result => result.context("cannot write"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_reader_that_stopped_is_no_failure() {
        let gone = written(Err(io::ErrorKind::BrokenPipe.into())).expect_err("gone");
        assert!(gone.downcast_ref::<ReaderGone>().is_some());
        let full = written(Err(io::ErrorKind::StorageFull.into())).expect_err("full");
        assert!(full.downcast_ref::<ReaderGone>().is_none());
        assert!(format!("{full:#}").starts_with("cannot write: "));
        assert!(written(Ok(())).is_ok());
    }
}
