//! Generated files: the reference pages of configuration and metrics and the example file come from the binary's own
//! tables, web assets from `web/build.mjs`.

use crate::steps::Step;
use crate::{notices, repository};
use anyhow::{Context, Result, bail};
use std::fs;
use std::process::Command;

/// File, and the arguments that make the binary print it.
const PRINTED: [(&str, &[&str]); 4] = [
    ("docs/configuration.md", &["config", "reference"]),
    ("docs/limits.md", &["config", "reference", "--limits"]),
    ("config/sockeye.toml", &["config", "reference", "--toml"]),
    ("docs/metrics.md", &["metrics"]),
];

/// Writes them all, or says which are stale.
pub fn run(check: bool) -> Result<()> {
    printed(check, &[])?;
    if !is_fresh(notices::PAGE, &notices::page()?, check)? {
        bail!("stale: {}; run `cargo xtask gen` and commit", notices::PAGE);
    }
    let flags: Vec<String> = check.then(|| "--check".to_owned()).into_iter().collect();
    Step::new("web assets", "node web/build.mjs")
        .args(&flags)
        .run()
}

/// Those that the binary prints; `profile` are flags for cargo.
pub fn printed(check: bool, profile: &[&str]) -> Result<()> {
    let mut stale = Vec::new();
    for (path, args) in PRINTED {
        let fresh = print(profile, args)?;
        if !is_fresh(path, &fresh, check)? {
            stale.push(path);
        }
    }
    if !stale.is_empty() {
        bail!(
            "stale: {}; run `cargo xtask gen` and commit",
            stale.join(", ")
        );
    }
    println!("gen: what the binary prints is fresh");
    Ok(())
}

/// Whether a file is as it should be, which it is once it is written.
fn is_fresh(path: &str, fresh: &str, check: bool) -> Result<bool> {
    if repository::read(path).unwrap_or_default() == fresh {
        return Ok(true);
    }
    if check {
        return Ok(false);
    }
    let file = repository::root().join(path);
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(&file, fresh).with_context(|| format!("cannot write {path}"))?;
    println!("gen: wrote {path}");
    Ok(true)
}

fn print(profile: &[&str], args: &[&str]) -> Result<String> {
    let mut command = Command::new("cargo");
    command
        .args(["run", "--quiet", "--package", "gateway"])
        .args(profile)
        .arg("--")
        .args(args);
    let output = command
        .current_dir(repository::root())
        .output()
        .context("cannot run cargo")?;
    if !output.status.success() {
        bail!(
            "cannot print {}:\n{}",
            args.join(" "),
            String::from_utf8_lossy(&output.stderr)
        );
    }
    Ok(String::from_utf8(output.stdout)?)
}
