//! `sockeye bench` and `sockeye shadow`: they hand over to programs of their own, so that nobody builds these who only wants the gateway.

use anyhow::{Context, Result, bail};
use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

/// A program beside this one.
#[derive(Clone, Copy, Debug)]
pub struct Companion {
    name: &'static str,
    package: &'static str,
}

/// The load generator.
pub const BENCH: Companion = Companion {
    name: "sockeye-bench",
    package: "bench",
};
/// Stands before a running Socket.IO server.
pub const SHADOW: Companion = Companion {
    name: "sockeye-shadow",
    package: "shadow",
};

/// Becomes the program; returns only if there is none.
pub fn run(companion: Companion, args: &[OsString]) -> Result<ExitCode> {
    let Companion { name, package } = companion;
    let own = std::env::current_exe().context("cannot find the path of this program")?;
    let error = Command::new(program(own.with_file_name(name), name))
        .args(args)
        .exec();
    match error.kind() {
        ErrorKind::NotFound => bail!(
            "cannot find {name} beside {} or on the PATH: in the source, `cargo build --release --package {package}` builds it, \
             and `cargo install --profile production --path crates/{package}` installs it",
            own.display()
        ),
        _ => Err(error).with_context(|| format!("cannot start {name}")),
    }
}

/// The one of the same build, else the one that the PATH has.
fn program(beside: PathBuf, name: &str) -> PathBuf {
    match beside.exists() {
        true => beside,
        false => name.into(),
    }
}
