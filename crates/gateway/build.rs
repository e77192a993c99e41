//! Which commit this is, for `sockeye --version`: from git, else from `SOCKEYE_COMMIT` (packagers), else nothing, as in a
//! tarball.

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
