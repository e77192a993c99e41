//! Owns how tests run a scenario: quietly, with worker processes of the real binary, or by its command line.

use crate::processes::processes;
use bench::engine::{self, Options, Target};
use bench::live::{Observer, Progress};
use bench::scenario::Scenario;
use outcome::{Outcome, ResultFile, Second};
use rustix::process::Pid;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

/// Hears everything, says nothing.
#[derive(Debug, Default)]
pub struct Listener {
    pub connecting: Vec<(u64, u64)>,
    pub seconds: usize,
    pub notes: Vec<String>,
}

impl Observer for Listener {
    fn connecting(&mut self, progress: Progress) {
        self.connecting.push((progress.done, progress.total));
    }

    fn second(&mut self, _second: &Second) {
        self.seconds += 1;
    }

    fn note(&mut self, text: &str) {
        self.notes.push(text.to_owned());
    }
}

/// A scenario of one phase of two seconds, slow enough for a busy machine: head, then flows.
pub fn scenario(connections: u32, head: &str, flows: &str) -> Scenario {
    // A rate that no loop follows is refused.
    let rate = match flows.contains("pace = \"phase\"") {
        true => "rate = \"50/s\"\n",
        false => "",
    };
    let text = format!(
        "name = \"test\"\n{head}\n[[phases]]\nname = \"go\"\nconnections = {connections}\n\
         duration = \"2s\"\n{rate}{flows}"
    );
    Scenario::parse("test.toml", &text).unwrap_or_else(|problems| panic!("{problems}\n{text}"))
}

pub fn run(scenario: &Scenario, url: &str, workers: u32) -> Outcome {
    run_trusting(None, scenario, url, workers)
}

/// `authorities`: certificates to trust.
pub fn run_trusting(
    authorities: Option<String>,
    scenario: &Scenario,
    url: &str,
    workers: u32,
) -> Outcome {
    let mut options = Options::new(processes());
    options.authorities = authorities;
    options.workers = Some(workers);
    options.grace = Duration::from_secs(20);
    let target = Target {
        name: "test".into(),
        urls: vec![url.into()],
        pids: Vec::new(),
    };
    let mut listener = Listener::default();
    let outcome = engine::run(scenario, &target, &options, &mut listener).unwrap();
    assert!(listener.seconds > 0, "the observer saw no second");
    let users = u64::from(scenario.users());
    assert_eq!(listener.connecting.last(), Some(&(users, users)));
    assert!(listener.notes.iter().any(|note| note.contains("begins")));
    outcome
}

/// Everything arrived, once and in order, and something did happen.
pub fn assert_clean(outcome: &Outcome) {
    let totals = &outcome.totals;
    // A round that was not begun says that the machine is busy, and nothing of the server.
    let mut errors = outcome.errors.keys();
    let is_late = |error: &String| error.starts_with("loop: rounds not begun");
    assert!(errors.all(is_late), "{:?}\n{totals:?}", outcome.errors);
    assert_eq!(totals.received, totals.expected, "{totals:?}");
    assert_eq!(totals.acked, totals.acks_expected, "{totals:?}");
    assert_eq!(outcome.partial, None);
}

/// A run by the real binary, from its start to its end.
pub struct Run {
    folder: TempDir,
    child: Child,
    stderr: BufReader<ChildStderr>,
}

/// How it ended.
pub struct Ended {
    code: Option<i32>,
    pub text: String,
    pub outcome: Outcome,
}

impl Ended {
    /// Its exit code, and words of its report.
    #[track_caller]
    pub fn tells(&self, code: i32, words: &[&str]) {
        assert_eq!(self.code, Some(code), "{}", self.text);
        for word in words {
            assert!(self.text.contains(word), "{word}: {}", self.text);
        }
    }
}

impl Run {
    /// From its start to its end.
    pub fn whole(scenario: &str, url: &str, more: &[&str]) -> Ended {
        Run::start(scenario, url, more).end()
    }

    pub fn start(scenario: &str, url: &str, more: &[&str]) -> Run {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("scenario.toml");
        std::fs::write(&file, scenario).unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_sockeye-bench"))
            .arg("run")
            .arg(&file)
            .args(["--url", url, "--json"])
            .arg(folder.path().join("result.json"))
            .args(more)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        Run {
            folder,
            child,
            stderr,
        }
    }

    /// Waits until its phase has begun.
    pub fn begun(mut self) -> Run {
        while !self.line().contains("\"go\" begins") {}
        self
    }

    /// What it says next.
    pub fn line(&mut self) -> String {
        let mut line = String::new();
        let read = self.stderr.read_line(&mut line).unwrap();
        assert!(read > 0, "it ended");
        line
    }

    pub fn pid(&self) -> Pid {
        Pid::from_raw(self.child.id() as i32).unwrap()
    }

    /// Its worker processes.
    pub fn workers(&self) -> Vec<Pid> {
        let id = self.child.id();
        let text = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap();
        let ids = text.split_whitespace().map(|id| id.parse().unwrap());
        ids.filter_map(Pid::from_raw).collect()
    }

    pub fn end(mut self) -> Ended {
        let (mut rest, mut text) = (String::new(), String::new());
        self.stderr.read_to_string(&mut rest).unwrap();
        let mut stdout = self.child.stdout.take().unwrap();
        stdout.read_to_string(&mut text).unwrap();
        let code = self.child.wait().unwrap().code();
        let path = self.folder.path().join("result.json");
        let outcome = match outcome::load(&path) {
            Ok(ResultFile::Run(outcome)) => *outcome,
            other => panic!("no result: {other:?}\n{rest}\n{text}"),
        };
        Ended {
            code,
            text,
            outcome,
        }
    }
}
