//! `sockeye bench`: hands over to the load generator, a program of its own, so that nobody builds it who only wants the gateway.

use anyhow::{Context, Result, bail};
use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

const NAME: &str = "sockeye-bench";

/// Becomes the generator; returns only if there is none.
pub fn run(args: &[OsString]) -> Result<ExitCode> {
    let own = std::env::current_exe().context("cannot find the path of this program")?;
    let error = Command::new(program(own.with_file_name(NAME)))
        .args(args)
        .exec();
    match error.kind() {
        ErrorKind::NotFound => bail!(
            "cannot find {NAME} beside {} or on the PATH: in the source, `cargo build --release --package bench` builds it, \
             and `cargo install --profile production --path crates/bench` installs it",
            own.display()
        ),
        _ => Err(error).with_context(|| format!("cannot start {NAME}")),
    }
}

/// The one of the same build, else the one that the PATH has.
fn program(beside: PathBuf) -> PathBuf {
    match beside.exists() {
        true => beside,
        false => NAME.into(),
    }
}
