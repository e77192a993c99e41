//! One gateway after another: each upgrade ends a process, and the next one serves at the same addresses.

use crate::harness::{Gateway, PATIENCE, eventually};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, Lines};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The first gateway, and the process that serves now.
pub struct Chain {
    pub first: Gateway,
    folder: TempDir,
    config: PathBuf,
    /// Processes that came after the first.
    later: Vec<u32>,
}

impl Chain {
    pub fn start(config: &str) -> Self {
        Self::start_with(config, &[], &[])
    }

    pub fn start_with(config: &str, flags: &[&str], environment: &[(&str, &str)]) -> Self {
        Self::start_of(config, None, flags, environment)
    }

    /// With the socket at this place.
    pub fn start_at(config: &str, socket: &Path) -> Self {
        Self::start_of(config, Some(socket), &[], &[])
    }

    fn start_of(
        config: &str,
        socket: Option<&Path>,
        flags: &[&str],
        environment: &[(&str, &str)],
    ) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let own = folder.path().join("upgrade.sock");
        let socket = socket.map_or(own, Path::to_owned);
        let text = format!(
            "{config}\n[upgrade]\nsocket = {:?}\n",
            socket.display().to_string()
        );
        let path = folder.path().join("sockeye.toml");
        std::fs::write(&path, &text).expect("write the configuration");
        let first = match environment.is_empty() {
            true => Gateway::start_with(&text, flags),
            false => Gateway::start_in(&text, environment),
        };
        Self {
            first,
            folder,
            config: path,
            later: Vec::new(),
        }
    }

    pub fn socket(&self) -> PathBuf {
        self.folder.path().join("upgrade.sock")
    }

    pub fn folder(&self) -> PathBuf {
        self.folder.path().to_owned()
    }

    /// `sockeye upgrade` with more flags.
    pub fn command(&self, flags: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sockeye"));
        command
            .arg("upgrade")
            .arg("--config")
            .arg(&self.config)
            .args(flags);
        command
    }

    /// An upgrade that must succeed; what it said, and how long it took.
    pub fn upgrade(&mut self) -> (String, Duration) {
        let began = Instant::now();
        let output = self.command(&[]).output().expect("sockeye upgrade");
        let took = began.elapsed();
        let text = said(&output);
        let pid = started(&text);
        self.later.extend(pid);
        assert!(output.status.success(), "{text}");
        assert!(pid.is_some(), "{text}");
        (text, took)
    }

    /// An upgrade that must fail; what it said.
    pub fn failing_upgrade(&mut self, flags: &[&str]) -> String {
        let output = self.command(flags).output().expect("sockeye upgrade");
        let text = said(&output);
        self.later.extend(started(&text));
        assert!(!output.status.success(), "{text}");
        text
    }

    /// An upgrade that is disturbed: it has named its successor, and is not awaited.
    pub fn begin_upgrade(&self) -> UnderWay {
        let mut command = self.command(&[]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("sockeye upgrade");
        let mut lines = BufReader::new(child.stdout.take().expect("its lines")).lines();
        let pid = lines.find_map(|line| started(&line.expect("a line")));
        let Some(successor) = pid else {
            panic!("no successor: {:?}", child.wait_with_output());
        };
        UnderWay {
            child,
            lines,
            successor,
        }
    }

    /// The process that serves now.
    pub fn pid(&self) -> u32 {
        let living = self.later.iter().rev().find(|pid| lives(**pid));
        living.copied().unwrap_or_else(|| self.first.pid())
    }

    pub fn note_successor(&mut self, pid: u32) {
        self.later.push(pid);
    }

    /// The first process has ended by itself, with 0.
    pub fn first_ends(&mut self) {
        let status = self.first.exit_status(3 * PATIENCE);
        assert!(status.is_some_and(|status| status.success()), "{status:?}");
    }
}

/// An upgrade that has begun.
pub struct UnderWay {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    /// The process that is to serve.
    pub successor: u32,
}

impl UnderWay {
    /// Whether the successor serves.
    pub fn succeeds(mut self) -> bool {
        drop(self.lines);
        self.child.wait().expect("its end").success()
    }

    /// Kills the successor; whether it served already.
    pub fn killed_after(self, delay: Duration) -> bool {
        sleep(delay);
        signal(self.successor, Signal::KILL);
        self.succeeds()
    }
}

impl Drop for Chain {
    fn drop(&mut self) {
        for pid in &self.later {
            if lives(*pid) {
                signal(*pid, Signal::KILL);
            }
        }
    }
}

/// Whether the process is there, and is a gateway.
pub fn lives(pid: u32) -> bool {
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm"));
    let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let ended = state
        .rsplit(')')
        .next()
        .is_some_and(|rest| rest.trim().starts_with('Z'));
    name.is_ok_and(|name| name.trim() == "sockeye") && !ended
}

pub fn signal(pid: u32, what: Signal) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        // It may have ended.
        let _ = kill_process(pid, what);
    }
}

pub fn ends(pid: u32) -> bool {
    eventually(3 * PATIENCE, || !lives(pid))
}

/// Both streams of a command.
pub fn said(output: &Output) -> String {
    let texts = [&output.stdout, &output.stderr];
    texts
        .map(|text| String::from_utf8_lossy(text).into_owned())
        .concat()
}

/// The number of the process that an upgrade began.
pub fn started(text: &str) -> Option<u32> {
    let (_, rest) = text.split_once(" as process ")?;
    rest.lines().next()?.trim().parse().ok()
}
