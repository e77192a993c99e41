//! Generated files: the reference pages of configuration, limits and metrics and the example file come from the tables of
//! the code, web assets from `web/build.mjs`.

use crate::steps::Step;
use crate::{notices, repository};
use anyhow::{Context, Result, bail};
use std::fs;

/// Writes them all, or says which are stale.
pub fn run(check: bool) -> Result<()> {
    reference(check)?;
    if !is_fresh(notices::PAGE, &notices::page()?, check)? {
        bail!("stale: {}; run `cargo xtask gen` and commit", notices::PAGE);
    }
    let flags: Vec<String> = check.then(|| "--check".to_owned()).into_iter().collect();
    Step::new("web assets", "node web/build.mjs")
        .args(&flags)
        .run()
}

/// The pages of configuration, limits and metrics, the example file, and the figures that plans begin with: tests compare them
/// with the tables of keys and metrics and with what was measured, and write them when they are told to.
fn reference(check: bool) -> Result<()> {
    let tests = "cargo test --quiet --locked --profile ci --workspace --bin sockeye --lib -- fresh limits_page built_in_figures";
    let step = Step::new("reference pages", tests);
    let step = if check { step } else { step.env("UPDATE", "1") };
    step.run()
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
