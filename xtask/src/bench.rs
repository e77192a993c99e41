//! Measurements and screenshots: what the documents show, made again by a command.

use crate::steps::Step;
use crate::{install, repository};
use anyhow::Result;

/// The release binary, where cargo puts it.
pub const RELEASE_BIN: &str = "target/release/sockeye";

/// Builds both sides and lets `sockeye-bench` do the rest.
pub fn run(args: &[String]) -> Result<()> {
    release(&["--package", "gateway", "--package", "bench"]).run()?;
    let bin = repository::root().join(RELEASE_BIN).display().to_string();
    let known = ["suite", "render", "floor"];
    let first = args.first().map(String::as_str).unwrap_or_default();
    let step = Step::new("bench", "target/release/sockeye-bench");
    if known.contains(&first) || first.starts_with('-') && first.contains("help") {
        return step.args(args).run();
    }
    step.args(&["suite".to_owned(), "--sockeye-bin".to_owned(), bin])
        .args(args)
        .run()
}

/// Screenshots of the chat page for the documents.
pub fn demo() -> Result<()> {
    install::browser()?;
    install::npm("web")?;
    release(&["--package", "gateway"]).run()?;
    let bin = repository::root().join(RELEASE_BIN).display().to_string();
    Step::new("screenshots", "node web/screenshots.mjs")
        .env("SOCKEYE_BIN", &bin)
        .run()
}

/// A release build.
pub fn release(args: &[&str]) -> Step {
    let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
    Step::new("release build", "cargo build --release").args(&args)
}
