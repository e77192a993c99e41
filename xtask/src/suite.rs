//! `cargo xtask test`: checks, then every test there is, each against the real thing. What CI runs.

use crate::bench::{RELEASE_BIN, release};
use crate::steps::{Report, Step};
use crate::{check, generate, install, repository};
use anyhow::{Result, bail};

/// The conformance application as release build.
const CONFORMANCE_BIN: &str = "target/release/examples/conformance";
/// Seconds that each fuzz target runs.
const FUZZ_SECONDS: &str = "10";

pub fn run(only: &[String], may_install: bool) -> Result<()> {
    let mut suite = Suite {
        only,
        report: Report::default(),
    };
    if may_install {
        suite.report.check("install", install::all);
    }
    suite.group("check", check::steps);
    suite.step(generate::web(true));
    suite.step(Step::new(
        "unit and property tests",
        "cargo test --workspace",
    ));
    suite.step(Step::new("fuzz smoke", "bash fuzz/run.sh").args(&[FUZZ_SECONDS.to_owned()]));
    let built = suite.step(build());
    if built {
        suite.against_release();
    }
    if !suite.report.close() {
        bail!("not everything passed");
    }
    Ok(())
}

fn build() -> Step {
    release(&[
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
        self.only.is_empty() || self.only.iter().any(|part| name.contains(part.as_str()))
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

    /// Foreign clients and suites against what users run.
    fn against_release(&mut self) {
        let root = repository::root();
        let app = root.join(CONFORMANCE_BIN).display().to_string();
        let bin = root.join(RELEASE_BIN).display().to_string();
        self.step(
            Step::new("stock clients", "bash conformance/run.sh").env("CONFORMANCE_BIN", &app),
        );
        self.step(
            Step::new("browser", "node --test --test-concurrency=1 tests/")
                .in_folder("web")
                .env("SOCKEYE_BIN", &bin),
        );
    }
}

/// Every Autobahn case, those of compression included: minutes.
pub fn conformance(args: &[String]) -> Result<()> {
    build().run()?;
    Step::new("autobahn", "bash conformance/autobahn/run.sh")
        .args(args)
        .run()
}
