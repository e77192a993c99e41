//! Runs commands: each is announced with the time it usually takes, says now and then how far it is, and is timed. The output of one
//! that fails is shown whole, what one that passes left out is said again at the end, and the tests that its runner reports are
//! counted.

use crate::again::{self, Runner};
use crate::report::Outcome;
use crate::tally::Tally;
use crate::{install, repository};
use anyhow::{Context, Result};
use std::fs::{self, File};
use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// How often a step that takes long says how far it is.
const PROGRESS_EVERY: Duration = Duration::from_secs(20);

/// A step that is not done by then stands still: it is ended, and fails. The longest one of CI takes 14 minutes on two cores, and was not
/// done after 20 on two that were half as fast.
const STEP_MAX: Duration = Duration::from_secs(40 * 60);

/// A command to run in the repository.
#[derive(Clone, Debug)]
pub struct Step {
    pub name: String,
    program: String,
    args: Vec<String>,
    folder: String,
    env: Vec<(String, String)>,
    takes: &'static str,
    leaves_foreign_tests: bool,
    second_try: bool,
    /// Its tests are files that `node --test` plays.
    plays_files: bool,
    /// Words before the program.
    behind: &'static [&'static str],
    limit: Duration,
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
            takes: "",
            leaves_foreign_tests: false,
            second_try: false,
            plays_files: false,
            behind: &[],
            limit: STEP_MAX,
        }
    }

    /// How long it usually takes: on two cores, with nothing built before.
    pub fn takes(mut self, time: &'static str) -> Self {
        self.takes = time;
        self
    }

    /// A test that its runner calls ignored belongs to another step.
    pub fn leaves_foreign_tests(mut self) -> Self {
        self.leaves_foreign_tests = true;
        self
    }

    /// Real processes on a busy machine may miss a moment: a few tests that fail are played once more, aloud.
    pub fn may_try_again(mut self) -> Self {
        self.second_try = true;
        self
    }

    /// Its program ends with a call of `node --test`, which is to speak TAP: newer versions do so only where they are asked.
    pub fn plays_files(mut self) -> Self {
        self.plays_files = true;
        self
    }

    /// It computes while others wait, and never instead of them: one that wakes up has its core at once, so what others measure stays
    /// what it is (SCHED_IDLE, sched(7)). Beside others that compute it stands still.
    pub fn while_others_wait(mut self) -> Self {
        self.behind = &["chrt", "--idle", "0"];
        self
    }

    /// For long runs at night.
    pub fn within(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    fn runner(&self) -> Runner {
        match self.program.as_str() {
            "cargo" => Runner::Cargo,
            _ if self.plays_files => Runner::Node,
            _ => Runner::Other,
        }
    }

    /// Of a call of `cargo test`, only these tests; of one of `node --test`, only these files.
    fn only(mut self, names: &[String]) -> Self {
        match self.runner() {
            Runner::Cargo => {}
            Runner::Node => {
                "node".clone_into(&mut self.program);
                let flags = "--test --test-reporter=tap --test-timeout=300000 --test-concurrency=1";
                self.args = flags.split_whitespace().map(str::to_owned).collect();
                return self.args(names);
            }
            Runner::Other => return self,
        }
        if !self.args.iter().any(|arg| arg == "--") {
            self.args.push("--".to_owned());
        }
        self.args.push("--exact".to_owned());
        self.args(names)
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
        let mut words = self.words().into_iter();
        let mut command = Command::new(words.next().unwrap_or_default());
        command
            .args(words)
            .current_dir(repository::root().join(&self.folder));
        command.env("PATH", install::search_path());
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
        command
    }

    /// The program and its arguments.
    fn words(&self) -> Vec<String> {
        let mut words: Vec<String> = self.behind.iter().map(|&word| word.to_owned()).collect();
        words.push(self.program.clone());
        words.extend(self.args.iter().cloned());
        words
    }

    /// As one would type it.
    pub fn shown(&self) -> String {
        let mut words: Vec<String> = self
            .env
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        words.extend(self.words());
        let line = words.join(" ");
        if self.folder.is_empty() {
            line
        } else {
            format!("(cd {} && {line})", self.folder)
        }
    }

    /// Cargo runs what it built, and locks the folder of the build no longer. Other programs do not lock it.
    fn is_built(&self, log: &Log) -> bool {
        let is_running = |line: &str| line.trim_start().starts_with("Running ");
        self.runner() != Runner::Cargo || log.text().lines().any(is_running)
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

/// How runners begin a line about something that they do not run.
const LEFT_OUT: &str = "NOT RUN: ";

fn left_out(output: &str) -> Vec<String> {
    let lines = output
        .lines()
        .filter_map(|line| line.strip_prefix(LEFT_OUT));
    lines.map(str::to_owned).collect()
}

impl Step {
    /// As `outcome`; what failed is played again where the step allows it.
    pub fn outcome_in_two_tries(&self, begun: &AtomicBool) -> (Outcome, String) {
        let (first, output) = self.outcome(begun);
        if first.ok || !self.second_try {
            return (first, output);
        }
        // As the runner counted, and not as it was settled: a step that did not end counted nothing.
        let counted = Tally::read(&output);
        let names = again::what_failed(self.runner(), &self.name, &output, counted);
        let Some(names) = names else {
            return (first, output);
        };
        println!(
            "---- output of {}, first try ----\n{output}---- end of {} ----",
            self.name, self.name
        );
        let (second, output) = self.clone().only(&names).outcome(begun);
        let failed = first.tally.failed;
        // A name that no test has any more is no test that passed.
        let ok = second.ok && second.tally.passed >= failed;
        let tally = if ok {
            Tally {
                passed: first.tally.passed + failed,
                failed: 0,
                skipped: first.tally.skipped,
            }
        } else {
            first.tally
        };
        let outcome = Outcome {
            took: first.took + second.took,
            busy: first.busy + second.busy,
            tally,
            ok,
            second_try: if ok { names } else { Vec::new() },
            ..first
        };
        (outcome, output)
    }

    /// Runs to its end; says when it begins, how far it is, and how it ended.
    fn outcome(&self, begun: &AtomicBool) -> (Outcome, String) {
        let usually = match self.takes {
            "" => String::new(),
            time => format!(" (about {time})"),
        };
        println!("· {}{usually}: {}", self.name, self.shown());
        let _ = std::io::stdout().flush();
        let start = Instant::now();
        let mut busy = Duration::ZERO;
        let (ok, output) = match self.captured(begun, &mut busy) {
            Ok(result) => result,
            Err(error) => (false, format!("{error:#}\n")),
        };
        begun.store(true, Ordering::Relaxed);
        let (took, tally) = (start.elapsed(), Tally::read(&output).settle(ok));
        let word = if ok { "ok" } else { "FAILED" };
        println!(
            "  {word} {} ({:.1} s){}",
            self.name,
            took.as_secs_f64(),
            tally.shown()
        );
        let outcome = Outcome {
            name: self.name.clone(),
            took,
            busy,
            tally,
            ok,
            skipped: None,
            left_out: left_out(&output),
            second_try: Vec::new(),
            leaves_foreign_tests: self.leaves_foreign_tests,
        };
        (outcome, output)
    }

    /// Both streams in the order they were written, in a file: a pipe can be held open by a child that outlives its parent.
    fn captured(&self, begun: &AtomicBool, busy: &mut Duration) -> Result<(bool, String)> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("xtask-{}-{number}.log", std::process::id()));
        let log = Log(path);
        let file = File::create(&log.0)?;
        let mut command = self.command();
        command
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file);
        if !std::io::stdout().is_terminal() {
            command
                .env("CARGO_TERM_COLOR", "never")
                .env("NO_COLOR", "1");
        }
        let child = command.spawn();
        let mut child = child.with_context(|| format!("cannot run {}", self.program))?;
        let (start, mut told) = (Instant::now(), Duration::ZERO);
        let status = loop {
            // A process that has ended can be asked until somebody has waited for it.
            *busy = processor_time(child.id()).unwrap_or(*busy);
            if let Some(status) = child.try_wait()? {
                break status;
            }
            std::thread::sleep(Duration::from_millis(50));
            if !begun.load(Ordering::Relaxed) && self.is_built(&log) {
                begun.store(true, Ordering::Relaxed);
            }
            if start.elapsed() >= self.limit {
                end_all(child.id());
                child.wait()?;
                let text = format!("{}\nended: not done after {:?}\n", log.text(), self.limit);
                return Ok((false, text));
            }
            if start.elapsed() >= told + PROGRESS_EVERY {
                told = start.elapsed();
                println!(
                    "  … {}, {} s: {}",
                    self.name,
                    told.as_secs(),
                    log.last_line()
                );
            }
        };
        Ok((status.success(), log.text()))
    }
}

/// What a process and those that it has waited for have computed, in user's and in system's time.
fn processor_time(pid: u32) -> Option<Duration> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // Its name, in brackets, may have spaces.
    let fields = stat.rsplit_once(')')?.1.split_whitespace();
    let ticks: Vec<u64> = fields.skip(11).take(4).flat_map(str::parse).collect();
    // A hundredth of a second each, whatever the kernel counts in.
    Some(Duration::from_millis(10 * ticks.iter().sum::<u64>()))
}

/// Ends a process and all that it started: servers of its tests would go on, beside the second try.
fn end_all(pid: u32) {
    let mut pids = vec![pid.to_string()];
    let mut at = 0;
    while let Some(pid) = pids.get(at) {
        let lists = fs::read_dir(format!("/proc/{pid}/task"))
            .into_iter()
            .flatten();
        let lists = lists.flatten().map(|thread| thread.path().join("children"));
        let children = lists.flat_map(fs::read_to_string);
        let children: Vec<_> = children.flat_map(|list| words(&list)).collect();
        pids.extend(children);
        at += 1;
    }
    // Some may have ended by now.
    let _ = Command::new("kill").arg("-9").args(pids).status();
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

/// Removed when dropped.
struct Log(PathBuf);

impl Log {
    fn text(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.0).unwrap_or_default()).into_owned()
    }

    fn last_line(&self) -> String {
        let text = self.text();
        let line = text.lines().rev().find(|line| !line.trim().is_empty());
        line.unwrap_or("nothing said yet")
            .trim()
            .chars()
            .take(100)
            .collect()
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Report;

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

    /// It fails, leaves a file, and passes where it finds that file.
    #[test]
    fn a_test_that_passes_only_the_second_time_is_named() {
        let folder = empty_folder("again");
        let script = "if [ -e tried ]; then echo '4 passed, 0 failed'; else touch tried; echo '3 passed, 1 failed'; exit 1; fi";
        let step = Step::new("flaky", "bash -c").args(&[script.to_owned()]);
        let step = step.in_folder(&folder.display().to_string());
        let mut report = Report::default();
        assert!(!report.step(&step), "no second try was asked for");
        fs::remove_file(folder.join("tried")).expect("it was tried");
        assert!(report.step(&step.may_try_again()));
        let outcome = &report.outcomes[1];
        assert_eq!(outcome.second_try, ["1 of flaky"]);
        assert_eq!((outcome.tally.passed, outcome.tally.failed), (4, 0));
        let _ = fs::remove_dir_all(folder);
    }

    fn empty_folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("xtask-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("a folder");
        folder
    }

    /// It said that all is well, and had run nothing.
    #[test]
    fn a_second_try_without_a_test_passed() {
        let folder = empty_folder("again-nothing");
        let script = "if [ -e tried ]; then echo '0 passed, 0 failed'; else touch tried; echo '3 passed, 1 failed'; exit 1; fi";
        let step = Step::new("flaky", "bash -c").args(&[script.to_owned()]);
        let step = step.in_folder(&folder.display().to_string());
        let mut report = Report::default();
        assert!(!report.step(&step.may_try_again()));
        let _ = fs::remove_dir_all(folder);
    }

    /// A process of a test that outlived it held the runner's pipe, and the run never ended.
    #[test]
    fn a_step_that_stood_still_held_up_all() {
        let mut report = Report::default();
        let still = Step::new("still", "sleep 60").within(Duration::from_millis(10));
        assert!(!report.step(&still));
        assert_eq!(report.outcomes[0].tally.failed, 1);
    }

    #[test]
    fn what_a_step_had_started_outlived_it() {
        let pid = std::env::temp_dir().join(format!("xtask-pid-{}", std::process::id()));
        let script = format!("sleep 60 & echo $! > {}; wait", pid.display());
        let still = Step::new("still", "sh -c").args(&[script]);
        assert!(!Report::default().step(&still.within(Duration::from_millis(500))));
        let begun = fs::read_to_string(&pid).expect("it had begun");
        let _ = fs::remove_file(pid);
        let stat = PathBuf::from(format!("/proc/{}/stat", begun.trim()));
        let lives = || fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") Z "));
        let deadline = Instant::now() + Duration::from_secs(10);
        while lives() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(10));
        }
        assert!(!lives(), "process {begun} goes on");
    }

    #[test]
    fn what_a_step_computed_is_counted() {
        let mut report = Report::default();
        let script = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; sleep 0.2";
        report.step(&Step::new("busy", "sh -c").args(&[script.to_owned()]));
        let busy = report.outcomes[0].busy;
        assert!(busy >= Duration::from_millis(20), "{busy:?}");
        assert!(busy < report.outcomes[0].took, "{busy:?}");
    }

    #[test]
    fn cargo_has_built_when_it_runs_programs() {
        let path = std::env::temp_dir().join(format!("xtask-built-{}", std::process::id()));
        let log = Log(path);
        let (cargo, other) = (Step::new("x", "cargo test"), Step::new("x", "npm test"));
        fs::write(&log.0, "   Compiling wire v0.1.0\n").expect("a log");
        assert!(!cargo.is_built(&log) && other.is_built(&log));
        let running = "   Compiling wire v0.1.0\n     Running tests/it/main.rs (target/it-1)\n";
        fs::write(&log.0, running).expect("a log");
        assert!(cargo.is_built(&log));
    }

    #[test]
    fn single_tests_of_cargo_are_played_again_by_their_names() {
        let step = Step::new("gateway tests", "cargo test --test it -- --test-threads 12");
        assert_eq!(
            step.only(&["a::two".to_owned()]).shown(),
            "cargo test --test it -- --test-threads 12 --exact a::two"
        );
        let bare = Step::new("bench tests", "cargo test");
        assert_eq!(
            bare.only(&["b".to_owned()]).shown(),
            "cargo test -- --exact b"
        );
    }

    #[test]
    fn what_is_shown_can_be_typed() {
        let step = Step::new("x", "npm ci").in_folder("web").env("A", "1");
        assert_eq!(step.shown(), "(cd web && A=1 npm ci)");
        let behind = Step::new("x", "cargo clippy").while_others_wait();
        assert_eq!(behind.shown(), "chrt --idle 0 cargo clippy");
    }
}
