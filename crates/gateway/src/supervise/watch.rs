//! The life of the supervisor: it passes signals on, waits for all that end below it, and ends with the last gateway.

use super::family::Family;
use crate::program;
use anyhow::{Context, Result};
use rustix::process::{
    Pid, Signal, WaitOptions, WaitStatus, getpid, kill_process, set_child_subreaper, wait,
};
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use tokio::signal::unix::{Signal as Stream, SignalKind, signal};

/// A shell says so much more than the number of the signal that killed a program.
const KILLED: i32 = 128;
/// A gateway that was told so lately to read its configuration may have ended before it did: its successor is told as well.
const RELOAD: Duration = Duration::from_secs(60);

/// For so long a process that ends is waited for, and it is looked at so often.
const ENDING: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(1);

struct Watch {
    program: Option<PathBuf>,
    words: Vec<OsString>,
    /// The gateway that serves.
    main: Pid,
    /// One that was started to take over.
    successor: Option<Pid>,
    /// What another one failed with. If the gateway ends with 0 and was not told to, it had handed over to that one.
    beside: Option<WaitStatus>,
    /// The container ends: whichever gateway serves is told.
    stops: bool,
    reloaded: Option<Instant>,
}

/// Processes that have ended since the last look.
#[derive(Default)]
struct Ended {
    /// What the gateway that serves ended with.
    main: Option<WaitStatus>,
    others: bool,
}

/// What is to be listened to before anything is started.
struct Signals {
    child: Stream,
    terminate: Stream,
    interrupt: Stream,
    hangup: Stream,
    upgrade: Stream,
}

impl Signals {
    fn listen() -> std::io::Result<Self> {
        Ok(Self {
            child: signal(SignalKind::child())?,
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
            upgrade: signal(SignalKind::user_defined2())?,
        })
    }
}

pub fn run(program: Option<PathBuf>, words: Vec<OsString>) -> Result<ExitCode> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().build().context("cannot supervise")?;
    runtime.block_on(async {
        let signals = Signals::listen().context("cannot listen for signals")?;
        // Process 1 gets the orphans anyway; another one asks for those below it.
        set_child_subreaper(Some(getpid())).context("cannot supervise")?;
        let main = start(program.as_ref(), &words, false)?;
        let watch = Watch {
            program,
            words,
            main,
            successor: None,
            beside: None,
            stops: false,
            reloaded: None,
        };
        Ok(watch.live(signals).await)
    })
}

/// Starts a gateway. It is waited for with all other children.
fn start(program: Option<&PathBuf>, words: &[OsString], takes_over: bool) -> Result<Pid> {
    let program = program.cloned().map_or_else(program::own, Ok);
    let program = program.context("cannot find this program; name it with --program")?;
    let mut command = Command::new(&program);
    // A terminal signals a whole group: what this process passes on would be a second signal.
    command.args(words).stdin(Stdio::null()).process_group(0);
    if takes_over {
        command.arg("--take-over");
    }
    let child = command.spawn();
    let child = child.with_context(|| format!("cannot start {}", program.display()))?;
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    pid.context("a process without a number")
}

impl Watch {
    async fn live(mut self, mut signals: Signals) -> ExitCode {
        loop {
            if let Some(status) = self.reap() {
                return code(status);
            }
            tokio::select! {
                _ = signals.child.recv() => {}
                _ = signals.terminate.recv() => self.stop(Signal::TERM),
                _ = signals.interrupt.recv() => self.stop(Signal::INT),
                _ = signals.hangup.recv() => {
                    self.reloaded = Some(Instant::now());
                    self.pass(Signal::HUP);
                }
                _ = signals.upgrade.recv() => self.upgrade(),
            }
        }
    }

    /// Waits for all that have ended, orphans too. What the last gateway ended with, if it did and nobody took over from it.
    fn reap(&mut self) -> Option<WaitStatus> {
        let status = self.collect().main?;
        let ended = self.main;
        let Some(heir) = self.heir() else {
            let was_left = status.exit_status() == Some(0) && !self.stops;
            let Some(other) = self.beside.filter(|_| was_left) else {
                tell(&format!("process {ended} has ended ({})", told(status)));
                return Some(status);
            };
            tell(&format!(
                "process {ended} has ended, and so had the one that took over from it ({})",
                told(other)
            ));
            return Some(other);
        };
        tell(&format!(
            "process {heir} goes on in the place of {ended}, which has ended ({})",
            told(status)
        ));
        (self.main, self.successor, self.beside) = (heir, None, None);
        if self.stops {
            self.pass(Signal::TERM);
        }
        if self.reloaded.is_some_and(|at| at.elapsed() < RELOAD) {
            self.pass(Signal::HUP);
        }
        None
    }

    /// The gateway that took over: a child of this process from the moment at which the one before it ended. Where several have taken over
    /// since this process was last awake, each of them may end while it is looked for. One that is killed is no heir, and is waited for: the
    /// container ends with its signal.
    fn heir(&mut self) -> Option<Pid> {
        let began = Instant::now();
        loop {
            let family = Family::of(std::process::id());
            if let Some(heir) = family.heir {
                return Pid::from_raw(i32::try_from(heir).ok()?);
            }
            let moves = self.collect().others || family.is_one_ending;
            if !moves || began.elapsed() > ENDING {
                return None;
            }
            sleep(LOOK);
        }
    }

    /// Waits for all that have ended.
    fn collect(&mut self) -> Ended {
        let mut ended = Ended::default();
        // Of any group: a gateway has one of its own.
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
            if pid == self.main {
                ended.main = Some(status);
                continue;
            }
            ended.others = true;
            if status.exit_status() != Some(0) {
                self.beside = Some(status);
            }
            if self.successor == Some(pid) {
                self.successor = None;
                tell(&format!(
                    "process {pid} was to take over and has ended ({}): its log says why",
                    told(status)
                ));
            }
        }
        ended
    }

    fn stop(&mut self, signal: Signal) {
        self.stops = true;
        self.pass(signal);
    }

    fn pass(&self, signal: Signal) {
        // It may have ended: then that is found next.
        let _ = kill_process(self.main, signal);
    }

    fn upgrade(&mut self) {
        self.beside = None;
        if let Some(pid) = self.successor {
            return tell(&format!("process {pid} is to take over already"));
        }
        match start(self.program.as_ref(), &self.words, true) {
            Ok(pid) => {
                tell(&format!("process {pid} is to take over from {}", self.main));
                self.successor = Some(pid);
            }
            Err(error) => tell(&format!("{error:#}: process {} goes on", self.main)),
        }
    }
}

/// Whoever reads may have gone.
fn tell(text: &str) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr(), "supervisor: {text}");
}

fn told(status: WaitStatus) -> String {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => format!("code {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "for no reason".to_owned(),
    }
}

fn code(status: WaitStatus) -> ExitCode {
    let killed = status.terminating_signal().map(|signal| KILLED + signal);
    let code = status.exit_status().or(killed).unwrap_or(1);
    ExitCode::from(u8::try_from(code).unwrap_or(1))
}
