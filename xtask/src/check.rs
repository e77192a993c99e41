//! All that can be said about the repository without running it. The lane `fast` begins with the same.

use crate::report::Report;
use crate::{generate, law, plan, tidy};
use anyhow::{Result, bail};

pub fn run() -> Result<()> {
    let mut report = Report::default();
    report.step(&plan::format());
    report.check("law", law::run);
    report.check("tidy", tidy::run);
    report.step(&plan::lints());
    report.check("generated files", || generate::run(true));
    if !report.close() {
        bail!("the check failed");
    }
    Ok(())
}
