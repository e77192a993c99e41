//! Which commit this is, for `sockeye --version`: from git, else from `SOCKEYE_COMMIT` (packagers), else nothing, as in a
//! tarball. And how addresses are written that the loader fills in.

use std::process::Command;

fn main() {
    println!("cargo::rerun-if-env-changed=SOCKEYE_COMMIT");
    let given = std::env::var("SOCKEYE_COMMIT").ok();
    let commit = given.or_else(commit).filter(|commit| !commit.is_empty());
    let (version, target) = (env!("CARGO_PKG_VERSION"), std::env::var("TARGET"));
    let target = target.unwrap_or_default();
    let known: Vec<_> = commit.into_iter().chain([target]).collect();
    println!(
        "cargo::rustc-env=SOCKEYE_VERSION={version} ({})",
        known.join(", ")
    );
    if loader_packs() {
        // A bit for each address in place of 24 bytes: every start reads all of them, and they stay resident.
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}

/// The loader of this machine reads addresses that are packed (glibc 2.36), and the program is built for this machine.
fn loader_packs() -> bool {
    let native = std::env::var("HOST").ok() == std::env::var("TARGET").ok();
    let gnu = std::env::var("CARGO_CFG_TARGET_ENV").is_ok_and(|env| env == "gnu");
    native && gnu && glibc().is_some_and(|version| version >= (2, 36))
}

/// As `getconf` says it: "glibc 2.36".
fn glibc() -> Option<(u32, u32)> {
    let output = Command::new("getconf").arg("GNU_LIBC_VERSION").output();
    let text = String::from_utf8(output.ok()?.stdout).ok()?;
    let (major, minor) = text.trim().strip_prefix("glibc ")?.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// Short hash and day of the last commit, if this folder is the repository's and not inside another one.
fn commit() -> Option<String> {
    let root = git(&["rev-parse", "--show-prefix"])?;
    if root != "crates/gateway/" {
        return None;
    }
    // Written by each commit and checkout.
    let log = git(&[
        "rev-parse",
        "--path-format=absolute",
        "--git-path",
        "logs/HEAD",
    ])?;
    if std::path::Path::new(&log).exists() {
        println!("cargo::rerun-if-changed={log}");
    }
    git(&["log", "-1", "--format=%h, %cs"])
}

fn git(args: &[&str]) -> Option<String> {
    let output = Command::new("git").args(args).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
