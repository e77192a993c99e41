//! The report of a run: steps one after another or beside each other, how each went, and the table and the line at the end.

use crate::steps::Step;
use crate::tally::Tally;
use anyhow::Result;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

/// Rows of steps at once. Each starts gateways, servers and clients, and those of seven rows waited for two processors for so long that
/// their tests failed.
const ROWS_MAX: usize = 4;
const LOOK: Duration = Duration::from_millis(20);

/// How one step went.
#[derive(Debug)]
pub struct Outcome {
    pub name: String,
    pub took: Duration,
    /// Processor time of its processes, as far as somebody waited for them.
    pub busy: Duration,
    pub tally: Tally,
    pub ok: bool,
    /// Why the step was not run.
    pub skipped: Option<String>,
    /// What its runner says that it did not run.
    pub left_out: Vec<String>,
    /// Tests that passed only when they were played again.
    pub second_try: Vec<String>,
    pub leaves_foreign_tests: bool,
}

/// A run of many steps.
#[derive(Debug)]
pub struct Report {
    pub outcomes: Vec<Outcome>,
    /// A step that is not run fails.
    demands_all: bool,
    start: Instant,
}

impl Default for Report {
    fn default() -> Self {
        Report {
            outcomes: Vec::new(),
            demands_all: false,
            start: Instant::now(),
        }
    }
}

impl Report {
    /// Runs a step, quietly if all is well.
    pub fn step(&mut self, step: &Step) -> bool {
        let (outcome, output) = step.outcome_in_two_tries(&AtomicBool::new(false));
        self.finish(outcome, &output)
    }

    /// Runs rows of steps beside each other, those of a row one after another, and the next row when one has ended where they are many.
    /// Cargo locks the folder of its builds: a row begins when the programs run that the row before it builds first.
    pub fn together(&mut self, rows: &[Vec<Step>]) {
        let begun: Vec<AtomicBool> = rows.iter().map(|_| AtomicBool::new(false)).collect();
        let outcomes: Vec<_> = thread::scope(|scope| {
            let mut running: Vec<ScopedJoinHandle<'_, Vec<_>>> = Vec::new();
            for (row, begun) in rows.iter().zip(&begun) {
                while running.iter().filter(|row| !row.is_finished()).count() >= ROWS_MAX {
                    thread::sleep(LOOK);
                }
                running.push(scope.spawn(move || {
                    let outcomes = row.iter().map(|step| step.outcome_in_two_tries(begun));
                    outcomes.collect::<Vec<_>>()
                }));
                while !begun.load(Ordering::Relaxed) {
                    thread::sleep(LOOK);
                }
            }
            let rows = running.into_iter().map(|row| row.join());
            rows.flat_map(|row| row.expect("steps do not panic"))
                .collect()
        });
        for (outcome, output) in outcomes {
            self.finish(outcome, &output);
        }
    }

    /// Runs a check that lives in this program.
    pub fn check(&mut self, name: &str, check: impl FnOnce() -> Result<()>) {
        println!("· {name}");
        let start = Instant::now();
        let result = check();
        if let Err(error) = &result {
            println!("{name}: {error:#}");
        }
        let (ok, took) = (result.is_ok(), start.elapsed());
        let word = if ok { "ok" } else { "FAILED" };
        println!("  {word} {name} ({:.1} s)", took.as_secs_f64());
        let outcome = Outcome {
            name: name.to_owned(),
            took,
            busy: Duration::ZERO,
            tally: Tally::default().settle(ok),
            ok,
            skipped: None,
            left_out: Vec::new(),
            second_try: Vec::new(),
            leaves_foreign_tests: false,
        };
        self.finish(outcome, "");
    }

    /// From now on what is not run counts as failed: where CI runs, everything has to be there.
    pub fn demand_all(&mut self) {
        self.demands_all = true;
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
            busy: Duration::ZERO,
            tally,
            ok: !self.demands_all,
            skipped,
            left_out: Vec::new(),
            second_try: Vec::new(),
            leaves_foreign_tests: false,
        };
        self.outcomes.push(outcome);
    }

    fn finish(&mut self, mut outcome: Outcome, output: &str) -> bool {
        if self.demands_all && outcome.ok && !outcome.left_out.is_empty() {
            outcome.ok = false;
            outcome.tally = outcome.tally.settle(false);
            println!("  FAILED {}: where CI is set, all has to run", outcome.name);
        }
        let name = &outcome.name;
        if !outcome.ok && !output.is_empty() {
            println!("---- output of {name} ----\n{output}---- end of {name} ----");
        }
        let ok = outcome.ok;
        self.outcomes.push(outcome);
        ok
    }

    /// The tests that steps left to another one were run by it.
    pub fn foreign_tests_were_run(&mut self) {
        let left = self
            .outcomes
            .iter_mut()
            .filter(|outcome| outcome.leaves_foreign_tests);
        left.for_each(|outcome| outcome.tally.skipped = 0);
    }

    /// The table of all steps and the closing line that CI reads. True if all is well.
    pub fn close(&self) -> bool {
        println!(
            "\n{:<34} {:>9} {:>9}  result",
            "step", "seconds", "processor"
        );
        for outcome in &self.outcomes {
            let word = match (&outcome.skipped, outcome.ok) {
                (Some(_), true) => "skipped",
                (Some(_), false) => "NOT RUN",
                (None, true) => "ok",
                (None, false) => "FAILED",
            };
            let [seconds, busy] = [outcome.took, outcome.busy].map(|time| time.as_secs_f64());
            println!(
                "{:<34} {seconds:>9.1} {busy:>9.1}  {word}{}",
                outcome.name,
                outcome.tally.shown()
            );
            for what in &outcome.left_out {
                println!("    not run: {what}");
            }
            for name in &outcome.second_try {
                println!("    passed only at the second try: {name}");
            }
        }
        let busy: Duration = self.outcomes.iter().map(|outcome| outcome.busy).sum();
        let times = [self.start.elapsed(), busy].map(|time| time.as_secs_f64());
        println!(
            "{:<34} {:>9.1} {:>9.1}",
            "from beginning to end", times[0], times[1]
        );
        let total = self
            .outcomes
            .iter()
            .fold(Tally::default(), |sum, of| sum.plus(of.tally));
        println!("\n{}", total.closing_line());
        self.outcomes.iter().all(|outcome| outcome.ok)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All cases of Autobahn were said to pass where none was run.
    #[test]
    fn what_is_not_run_passed_where_all_is_demanded() {
        for demands_all in [false, true] {
            let mut report = Report::default();
            if demands_all {
                report.demand_all();
            }
            report.skip("autobahn", 101, "no Python 2.7");
            assert_eq!(report.close(), !demands_all);
        }
    }

    /// A check that was left out by the program of a step passed, too.
    #[test]
    fn what_a_step_leaves_out_passed_where_all_is_demanded() {
        let text = "NOT RUN: unit: no systemd-analyze\n1 passed, 0 failed, 1 skipped";
        for demands_all in [false, true] {
            let mut report = Report::default();
            if demands_all {
                report.demand_all();
            }
            let is_ok = report.step(&Step::new("say", "echo").args(&[text.to_owned()]));
            assert_eq!((is_ok, report.close()), (!demands_all, !demands_all));
            assert_eq!(report.outcomes[0].tally.failed, u64::from(demands_all));
        }
    }

    #[test]
    fn rows_run_beside_each_other_and_their_steps_one_after_another() {
        let folder = std::env::temp_dir().join(format!("xtask-rows-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let step = |name: &str, script: &str| {
            let step = Step::new(name, "sh -c").args(&[script.to_owned()]);
            step.in_folder(&folder.display().to_string())
        };
        let mut report = Report::default();
        report.together(&[
            vec![step("first", "sleep 0.1; touch a"), step("second", "test -e a && touch b")],
            vec![step("beside", "i=0; while [ ! -e b ] && [ $i -lt 100 ]; do i=$((i+1)); sleep 0.1; done; test -e b")],
        ]);
        let names: Vec<_> = report
            .outcomes
            .iter()
            .map(|outcome| (outcome.name.as_str(), outcome.ok))
            .collect();
        assert_eq!(names, [("first", true), ("second", true), ("beside", true)]);
        let _ = std::fs::remove_dir_all(folder);
    }
}
