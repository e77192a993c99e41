//! Measurements and screenshots: what the documents show, made again by a command.

use crate::install;
use crate::repository::built;
use crate::steps::Step;
use anyhow::Result;

/// Commands of `sockeye-bench` that do not want the gateway.
const OTHERS: [&str; 7] = [
    "measure", "report", "plots", "floor", "help", "--help", "-h",
];

/// Builds both sides and lets `sockeye-bench` do the rest.
pub fn run(args: &[String]) -> Result<()> {
    release(&["--package", "gateway", "--package", "bench"]).run()?;
    let step = Step::new(
        "bench",
        &built("release/sockeye-bench").display().to_string(),
    );
    if args
        .first()
        .is_some_and(|first| OTHERS.contains(&first.as_str()))
    {
        return step.args(args).run();
    }
    let args = args.strip_prefix(&["suite".to_owned()]).unwrap_or(args);
    let bin = built("release/sockeye").display().to_string();
    step.args(&["suite".to_owned(), "--sockeye-bin".to_owned(), bin])
        .args(args)
        .run()
}

/// Screenshots of the chat page for the documents.
pub fn demo() -> Result<()> {
    install::browser()?;
    install::npm("web")?;
    release(&["--package", "gateway"]).run()?;
    let bin = built("release/sockeye").display().to_string();
    Step::new("screenshots", "node web/screenshots.mjs")
        .env("SOCKEYE_BIN", &bin)
        .run()
}

/// A release build.
pub fn release(args: &[&str]) -> Step {
    let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
    Step::new("release build", "cargo build --release").args(&args)
}
