//! A second try for tests that failed on a busy machine. Steps that run real processes may ask for it; steps of pure code may not.
//! Nothing is hidden: the first failure is shown whole, and the closing table names each test that needed a second try.

use crate::tally::Tally;

/// More failures than these in one step are no matter of a busy machine: the step fails at once.
const FAILURES_MAX: usize = 3;

/// The words of a runner about its tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Runner {
    /// `cargo test`: single tests can be played again by their names.
    Cargo,
    /// `node --test`: the files of tests that failed can be played again.
    Node,
    /// Any other: the whole step is played again.
    Other,
}

/// The names of what is played again: tests, or the step itself. `None` if too much failed, or if the step did not run to its end.
pub fn what_failed(runner: Runner, step: &str, output: &str, tally: Tally) -> Option<Vec<String>> {
    let failed = usize::try_from(tally.failed).ok()?;
    if !(1..=FAILURES_MAX).contains(&failed) {
        return None;
    }
    let lines = |begin: &str| {
        output
            .lines()
            .filter(|line| line.trim().starts_with(begin))
            .count()
    };
    // Each program of tests says both. One that crashed, or was ended, said how many it would run.
    if runner == Runner::Cargo && lines("running ") != lines("test result: ") {
        return None;
    }
    let names = match runner {
        Runner::Cargo => cargo_failures(output),
        Runner::Node => return node_failures(output),
        Runner::Other if tally.passed > 0 => return Some(vec![format!("{failed} of {step}")]),
        Runner::Other => return None,
    };
    (names.len() == failed).then_some(names)
}

/// `test a::b ... FAILED`, as cargo's test runner says it.
fn cargo_failures(output: &str) -> Vec<String> {
    let failed = output.lines().filter_map(|line| {
        let name = line.trim().strip_prefix("test ")?;
        name.strip_suffix(" ... FAILED").map(str::to_owned)
    });
    failed.collect()
}

/// The files of tests that failed, as `node --test` says them in TAP: a line for the test, then its place. `None` if one has no place.
fn node_failures(output: &str) -> Option<Vec<String>> {
    let mut lines = output.lines();
    let mut files = Vec::new();
    while let Some(line) = lines.next() {
        if !line.starts_with("not ok ") {
            continue;
        }
        let mut about = lines.by_ref().take_while(|line| *line != "  ...");
        let place = about.find_map(|line| line.strip_prefix("  location: '"))?;
        let (file, _) = place.split_once(".mjs:")?;
        let file = format!("{file}.mjs");
        if !files.contains(&file) {
            files.push(file);
        }
    }
    (!files.is_empty()).then_some(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// For one test of a page all pages were played again, for a quarter of an hour.
    #[test]
    fn one_failure_in_a_browser_cost_the_whole_step_again() {
        let output = "ok 1 - a\n  ---\n  ...\nnot ok 2 - b\n  ---\n  duration_ms: 1\n  location: '/x/tests/b.test.mjs:9:1'\n  ...\nnot ok 3 - c\n  ---\n  location: '/x/tests/b.test.mjs:20:1'\n  ...\n";
        let files = what_failed(Runner::Node, "browser", output, failed(1, 2));
        assert_eq!(files, Some(vec!["/x/tests/b.test.mjs".to_owned()]));
        let nowhere = "not ok 1 - b\n  ---\n  ...\n";
        assert_eq!(
            what_failed(Runner::Node, "browser", nowhere, failed(1, 1)),
            None
        );
    }

    fn failed(passed: u64, failed: u64) -> Tally {
        Tally {
            passed,
            failed,
            skipped: 0,
        }
    }

    #[test]
    fn only_the_tests_that_failed_are_named() {
        let output = "running 2 tests\ntest a::one ... ok\ntest a::two ... FAILED\ntest result: FAILED. 1 passed; 1 failed;\n";
        let names = what_failed(Runner::Cargo, "gateway tests", output, failed(1, 1));
        assert_eq!(names, Some(vec!["a::two".to_owned()]));
    }

    #[test]
    fn many_failures_and_broken_steps_get_no_second_try() {
        let four = "running 13 tests\ntest a ... FAILED\ntest b ... FAILED\ntest c ... FAILED\ntest d ... FAILED\ntest result: FAILED.";
        assert_eq!(what_failed(Runner::Cargo, "x", four, failed(9, 4)), None);
        let broken = "error[E0308]: mismatched types";
        assert_eq!(what_failed(Runner::Cargo, "x", broken, failed(0, 1)), None);
        assert_eq!(what_failed(Runner::Other, "x", "", failed(0, 1)), None);
        assert_eq!(what_failed(Runner::Other, "x", "", failed(30, 4)), None);
        let step = what_failed(Runner::Other, "x", "", failed(30, 3));
        assert_eq!(step, Some(vec!["3 of x".to_owned()]));
    }

    /// One test failed, another one stood still until its time was over: only the first was played again, and the step had passed.
    #[test]
    fn a_step_that_did_not_end_passed() {
        let ended = "running 2 tests\ntest a ... FAILED\nended: not done after 1800s\n";
        assert_eq!(what_failed(Runner::Cargo, "x", ended, failed(0, 1)), None);
        let crashed = "running 1 test\ntest b ... ok\ntest result: ok. 1 passed; 0 failed;\nrunning 2 tests\ntest a ... FAILED\n";
        assert_eq!(what_failed(Runner::Cargo, "x", crashed, failed(1, 1)), None);
    }
}
