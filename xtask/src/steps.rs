//! Runs commands one after another: each is announced and timed, the output of one that fails is
//! shown whole, what one that passes left out is said again at the end, and the tests that its runner
//! reports are counted.

use crate::repository;
use crate::tally::Tally;
use anyhow::{Context, Result};
use std::fs::File;
use std::io::{IsTerminal, Read, Seek, Write};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A command to run in the repository.
#[derive(Clone, Debug)]
pub struct Step {
    pub name: String,
    program: String,
    args: Vec<String>,
    folder: String,
    env: Vec<(String, String)>,
}

impl Step {
    /// From words separated by spaces.
    pub fn new(name: &str, command: &str) -> Self {
        let mut words = command.split_whitespace().map(str::to_owned);
        let program = words.next().unwrap_or_default();
        Step {
            name: name.to_owned(),
            program,
            args: words.collect(),
            folder: String::new(),
            env: Vec::new(),
        }
    }

    pub fn args(mut self, args: &[String]) -> Self {
        self.args.extend(args.iter().cloned());
        self
    }

    /// A folder relative to the root.
    pub fn in_folder(mut self, folder: &str) -> Self {
        folder.clone_into(&mut self.folder);
        self
    }

    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command
            .args(&self.args)
            .current_dir(repository::root().join(&self.folder));
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
        command
    }

    /// As one would type it.
    pub fn shown(&self) -> String {
        let mut words: Vec<String> = self
            .env
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        words.push(self.program.clone());
        words.extend(self.args.iter().cloned());
        let line = words.join(" ");
        if self.folder.is_empty() {
            line
        } else {
            format!("(cd {} && {line})", self.folder)
        }
    }

    /// Runs with the terminal's own streams.
    pub fn run(&self) -> Result<()> {
        println!("+ {}", self.shown());
        let status = self.command().status();
        let status = status.with_context(|| format!("cannot run {}", self.program))?;
        anyhow::ensure!(status.success(), "{} ended with {status}", self.shown());
        Ok(())
    }
}

/// How one step went.
#[derive(Debug)]
pub struct Outcome {
    pub name: String,
    pub took: Duration,
    pub tally: Tally,
    pub ok: bool,
    /// Why the step was not run.
    pub skipped: Option<String>,
    /// What its runner says that it did not run.
    pub left_out: Vec<String>,
}

/// How runners begin a line about something that they do not run.
const LEFT_OUT: &str = "NOT RUN: ";

/// A run of many steps.
#[derive(Debug, Default)]
pub struct Report {
    pub outcomes: Vec<Outcome>,
}

impl Report {
    /// Runs a step, quietly if all is well.
    pub fn step(&mut self, step: &Step) -> bool {
        println!("· {}: {}", step.name, step.shown());
        let _ = std::io::stdout().flush();
        let start = Instant::now();
        let (ok, output) = match captured(step) {
            Ok(result) => result,
            Err(error) => (false, format!("{error:#}\n")),
        };
        let tally = Tally::read(&output).settle(ok);
        self.finish(Outcome {
            name: step.name.clone(),
            took: start.elapsed(),
            tally,
            ok,
            skipped: None,
            left_out: left_out(&output),
        });
        if !ok {
            println!(
                "---- output of {} ----\n{}---- end of {} ----",
                step.name, output, step.name
            );
        }
        ok
    }

    /// Runs a check that lives in this program.
    pub fn check(&mut self, name: &str, check: impl FnOnce() -> Result<()>) {
        println!("· {name}");
        let start = Instant::now();
        let result = check();
        if let Err(error) = &result {
            println!("{name}: {error:#}");
        }
        let ok = result.is_ok();
        let tally = Tally::default().settle(ok);
        self.finish(Outcome {
            name: name.to_owned(),
            took: start.elapsed(),
            tally,
            ok,
            skipped: None,
            left_out: Vec::new(),
        });
    }

    /// Notes loudly what is not run.
    pub fn skip(&mut self, name: &str, tests: u64, why: &str) {
        let line = "!".repeat(80);
        println!("{line}\n!! SKIPPED {name}: {why}\n{line}");
        let tally = Tally {
            skipped: tests,
            ..Tally::default()
        };
        let skipped = Some(why.to_owned());
        let outcome = Outcome {
            name: name.to_owned(),
            took: Duration::ZERO,
            tally,
            ok: true,
            skipped,
            left_out: Vec::new(),
        };
        self.outcomes.push(outcome);
    }

    fn finish(&mut self, outcome: Outcome) {
        let word = if outcome.ok { "ok" } else { "FAILED" };
        let seconds = outcome.took.as_secs_f64();
        println!(
            "  {word} {} ({seconds:.1} s){}",
            outcome.name,
            outcome.tally.shown()
        );
        self.outcomes.push(outcome);
    }

    /// The table of all steps and the closing line that CI reads. True if all is well.
    pub fn close(&self) -> bool {
        println!("\n{:<34} {:>9}  result", "step", "seconds");
        for outcome in &self.outcomes {
            let word = match (&outcome.skipped, outcome.ok) {
                (Some(_), _) => "skipped",
                (None, true) => "ok",
                (None, false) => "FAILED",
            };
            let seconds = outcome.took.as_secs_f64();
            println!(
                "{:<34} {seconds:>9.1}  {word}{}",
                outcome.name,
                outcome.tally.shown()
            );
            for what in &outcome.left_out {
                println!("    not run: {what}");
            }
        }
        let total = self
            .outcomes
            .iter()
            .fold(Tally::default(), |sum, of| sum.plus(of.tally));
        println!("\n{}", total.closing_line());
        self.outcomes.iter().all(|outcome| outcome.ok)
    }
}

fn left_out(output: &str) -> Vec<String> {
    let lines = output
        .lines()
        .filter_map(|line| line.strip_prefix(LEFT_OUT));
    lines.map(str::to_owned).collect()
}

/// Both streams in the order they were written, in a file: a pipe can be held open by a child that
/// outlives its parent.
fn captured(step: &Step) -> Result<(bool, String)> {
    let path = std::env::temp_dir().join(format!("xtask-{}.log", std::process::id()));
    let mut log = File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .open(&path)?;
    std::fs::remove_file(&path)?;
    let mut command = step.command();
    command
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log.try_clone()?);
    if !std::io::stdout().is_terminal() {
        command
            .env("CARGO_TERM_COLOR", "never")
            .env("NO_COLOR", "1");
    }
    let status = command
        .status()
        .with_context(|| format!("cannot run {}", step.program))?;
    log.rewind()?;
    let mut output = Vec::new();
    log.read_to_end(&mut output)?;
    Ok((
        status.success(),
        String::from_utf8_lossy(&output).into_owned(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_counted_by_its_runners_words_and_its_exit_code() {
        let mut report = Report::default();
        let say = |text: &str| Step::new("say", "echo").args(&[text.to_owned()]);
        assert!(report.step(&say("test result: ok. 3 passed; 0 failed; 0 ignored;")));
        assert!(!report.step(&Step::new("fail", "false")));
        assert!(!report.step(&Step::new("missing", "no-such-program-here")));
        let sum = report
            .outcomes
            .iter()
            .fold(Tally::default(), |sum, of| sum.plus(of.tally));
        assert_eq!((sum.passed, sum.failed), (3, 2));
        assert!(!report.close());
    }

    #[test]
    fn what_a_passing_step_leaves_out_is_kept_for_the_end() {
        let mut report = Report::default();
        let text = "NOT RUN: deflate: no such flag\n1 passed, 0 failed, 1 skipped";
        assert!(report.step(&Step::new("say", "echo").args(&[text.to_owned()])));
        let outcome = &report.outcomes[0];
        assert_eq!(outcome.left_out, ["deflate: no such flag"]);
        assert_eq!(outcome.tally.skipped, 1);
    }

    #[test]
    fn what_is_shown_can_be_typed() {
        let step = Step::new("x", "npm ci").in_folder("web").env("A", "1");
        assert_eq!(step.shown(), "(cd web && A=1 npm ci)");
    }
}
