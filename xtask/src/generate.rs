//! Generated files: the reference pages of configuration and metrics and the example file come from the binary's own
//! tables, web assets from `web/build.mjs`.

use crate::repository;
use crate::steps::Step;
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

pub fn run(check: bool) -> Result<()> {
    let mut stale = Vec::new();
    for (path, args) in PRINTED {
        let fresh = print(args)?;
        if repository::read(path).unwrap_or_default() == fresh {
            continue;
        }
        if check {
            stale.push(path);
        } else {
            let file = repository::root().join(path);
            if let Some(folder) = file.parent() {
                fs::create_dir_all(folder)?;
            }
            fs::write(&file, fresh).with_context(|| format!("cannot write {path}"))?;
            println!("gen: wrote {path}");
        }
    }
    let flags: Vec<String> = check.then(|| "--check".to_owned()).into_iter().collect();
    Step::new("web assets", "node web/build.mjs")
        .args(&flags)
        .run()?;
    if !stale.is_empty() {
        bail!(
            "stale: {}; run `cargo xtask gen` and commit",
            stale.join(", ")
        );
    }
    println!("gen: all files are fresh");
    Ok(())
}

fn print(args: &[&str]) -> Result<String> {
    let mut command = Command::new("cargo");
    command
        .args(["run", "--quiet", "--release", "--package", "gateway", "--"])
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
