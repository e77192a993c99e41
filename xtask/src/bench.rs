//! Measurements and screenshots: what the documents show, made again by a command.

use crate::install;
use crate::repository::built;
use crate::steps::Step;
use anyhow::Result;

/// Builds both sides and lets `sockeye-bench` do the rest.
pub fn run(args: &[String]) -> Result<()> {
    production(&["--package", "gateway", "--package", "bench"]).run()?;
    let step = Step::new(
        "bench",
        &built("production/sockeye-bench").display().to_string(),
    );
    let bin = built("production/sockeye").display().to_string();
    step.args(&whole(args, &bin)).run()
}

/// The suite, which is also meant where only its flags are given, wants the gateway; other commands are passed on as they are.
fn whole(args: &[String], bin: &str) -> Vec<String> {
    let flags = match args.split_first() {
        None => args,
        Some((first, flags)) if first == "suite" => flags,
        Some((first, _)) if first == "--help" => return args.to_vec(),
        Some((first, _)) if first.starts_with("--") => args,
        Some(_) => return args.to_vec(),
    };
    let suite = ["suite", "--sockeye-bin", bin].map(str::to_owned);
    [suite.as_slice(), flags].concat()
}

/// Pictures of the chat page and of the console for the documents.
pub fn demo() -> Result<()> {
    install::browser()?;
    install::npm("web")?;
    production(&["--package", "gateway"]).run()?;
    let bin = built("production/sockeye").display().to_string();
    Step::new("screenshots", "node web/screenshots.mjs")
        .env("SOCKEYE_BIN", &bin)
        .run()
}

/// A build as it is shipped: all measurements are of such ones.
pub fn production(args: &[&str]) -> Step {
    let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
    Step::new(
        "production build",
        "cargo build --profile production --locked",
    )
    .args(&args)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_suite_is_given_the_gateway() {
        let whole = |line: &str| {
            let args: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
            whole(&args, "/s").join(" ")
        };
        for suite in ["", "--quick", "--only hold --keep"] {
            let given = format!("suite --sockeye-bin /s {suite}");
            assert_eq!(whole(suite), given.trim_end());
            assert_eq!(whole(&format!("suite {suite}")), given.trim_end());
        }
        for other in [
            "run million-idle --scale 0.1",
            "compare a b",
            "scenarios",
            "check x.toml",
            "report r.json",
            "plots",
            "floor echo",
            "plan --users 10",
            "help run",
            "--help",
            "-h",
        ] {
            assert_eq!(whole(other), other);
        }
    }
}
