//! All that can be said about the repository without running it. CI runs the same steps first.

use crate::steps::{Report, Step};
use crate::{generate, law, tidy};
use anyhow::{Result, bail};

pub fn run() -> Result<()> {
    let mut report = Report::default();
    steps(&mut report);
    report.check("generated files", || generate::run(true));
    if !report.close() {
        bail!("the check failed");
    }
    Ok(())
}

/// What `check` and `test` have in common.
pub fn steps(report: &mut Report) {
    report.step(&Step::new("format", "cargo fmt --all --check"));
    report.check("law", law::run);
    report.check("tidy", tidy::run);
    report.step(&Step::new(
        "lints",
        "cargo clippy --release --workspace --all-targets -- --deny warnings",
    ));
}
