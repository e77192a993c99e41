//! `cargo xtask test`: checks, then every test there is, each against the real thing. What CI runs.

use crate::repository::built;
use crate::steps::{Report, Step};
use crate::{bench, check, generate, install};
use anyhow::{Result, bail};

/// Seconds that each fuzz target runs.
const FUZZ_SECONDS: &str = "10";
/// Cases of Autobahn's sections 1-7, 9 and 10.
const AUTOBAHN_QUICK_CASES: u64 = 301;

/// Steps that run against what users run.
const RELEASE_STEPS: [&str; 6] = [
    "generated files",
    "js clients",
    "python clients",
    "java clients",
    "autobahn",
    "browser",
];

/// All steps, in order.
const STEPS: [&str; 11] = [
    "check",
    "web check",
    "cargo test of the cores",
    "cargo test of the rest",
    "fuzz smoke",
    RELEASE_STEPS[0],
    RELEASE_STEPS[1],
    RELEASE_STEPS[2],
    RELEASE_STEPS[3],
    RELEASE_STEPS[4],
    RELEASE_STEPS[5],
];

pub fn run(only: &[String], may_install: bool) -> Result<()> {
    check_names(only)?;
    let mut suite = Suite {
        only,
        report: Report::default(),
    };
    if may_install {
        suite.report.check("install", install::all);
    }
    suite.group("check", check::steps);
    suite.step(Step::new("web check", "npm run --silent check").in_folder("web"));
    suite.cargo_tests();
    let fuzz = Step::new("fuzz smoke", "sh fuzz/run.sh").args(&[FUZZ_SECONDS.to_owned()]);
    suite.step(fuzz);
    if RELEASE_STEPS.iter().any(|name| suite.wants(name)) && suite.report.step(&release_build()) {
        suite.against_release();
    }
    if !suite.report.close() {
        bail!("not everything passed");
    }
    Ok(())
}

/// A name that is no step's would pass without running anything.
fn check_names(only: &[String]) -> Result<()> {
    for part in only {
        if !STEPS.iter().any(|name| name.contains(part.as_str())) {
            bail!(
                "no step is called {part:?}; there are: {}",
                STEPS.join(", ")
            );
        }
    }
    Ok(())
}

/// What users run, and the application that conformance suites talk to.
fn release_build() -> Step {
    bench::release(&[
        "--package",
        "gateway",
        "--bin",
        "sockeye",
        "--example",
        "conformance",
    ])
}

struct Suite<'a> {
    only: &'a [String],
    report: Report,
}

impl Suite<'_> {
    fn wants(&self, name: &str) -> bool {
        assert!(
            STEPS.contains(&name),
            "{name} is missing in the list of steps"
        );
        self.only.is_empty() || self.only.iter().any(|part| name.contains(part.as_str()))
    }

    /// The cores with debug assertions; what has heavy dependencies as released, so that those are compiled once.
    fn cargo_tests(&mut self) {
        let (mut core, mut release) = (String::new(), String::new());
        for heavy in ["gateway", "control", "shard", "bench"] {
            core.push_str(&format!(" --exclude {heavy}"));
            release.push_str(&format!(" -p {heavy}"));
        }
        let core = format!("cargo test --workspace --no-fail-fast{core}");
        self.step(Step::new("cargo test of the cores", &core));
        let release = format!("cargo test --release --no-fail-fast{release}");
        self.step(Step::new("cargo test of the rest", &release));
    }

    /// True unless it ran and failed.
    fn step(&mut self, step: Step) -> bool {
        !self.wants(&step.name) || self.report.step(&step)
    }

    fn group(&mut self, name: &str, steps: fn(&mut Report)) {
        if self.wants(name) {
            steps(&mut self.report);
        }
    }

    /// Foreign clients, foreign suites and a browser.
    fn against_release(&mut self) {
        if self.wants("generated files") {
            self.report.check("generated files", || generate::run(true));
        }
        for client in ["js", "python", "java"] {
            self.step(conformance_step(
                &format!("{client} clients"),
                &["--only", client],
            ));
        }
        self.autobahn();
        let bin = built("release/sockeye").display().to_string();
        self.step(
            Step::new("browser", "npm run --silent test")
                .in_folder("web")
                .env("SOCKEYE_BIN", &bin),
        );
    }

    fn autobahn(&mut self) {
        if !self.wants("autobahn") {
            return;
        }
        if install::python27().is_some() {
            self.report
                .step(&conformance_step("autobahn", &["--only", "autobahn"]));
        } else {
            let why = "no Python 2.7, which the suite is written in: pyenv install 2.7.18, or \
                       name one with PYTHON27";
            self.report.skip("autobahn", AUTOBAHN_QUICK_CASES, why);
        }
    }
}

/// Every Autobahn case, those of compression included: minutes.
pub fn conformance(args: &[String]) -> Result<()> {
    release_build().run()?;
    conformance_step("autobahn", &["--only", "autobahn", "--cases", "all"])
        .args(args)
        .run()
}

fn conformance_step(name: &str, args: &[&str]) -> Step {
    let server = built("release/examples/conformance").display().to_string();
    let args = ["--server", &server]
        .into_iter()
        .chain(args.iter().copied());
    let args: Vec<String> = args.map(str::to_owned).collect();
    Step::new(name, "bash conformance/run.sh").args(&args)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_steps_that_exist_can_be_asked_for() {
        let check = |words: &[&str]| {
            let only: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            check_names(&only).map_err(|error| error.to_string())
        };
        assert_eq!(check(&[]), Ok(()));
        assert_eq!(check(&["js", "cargo test"]), Ok(()));
        let error = check(&["js", "jss"]).expect_err("a slip");
        assert!(error.starts_with("no step is called \"jss\"; there are: check, "));
        assert!(error.ends_with("autobahn, browser"), "{error}");
    }
}
