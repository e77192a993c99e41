//! One gateway process: start, addresses, log, metrics, memory, end.

use super::RawConn;
use super::{Beside, PATIENCE, eventually};
use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, setrlimit};
use serde_json::Value;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const BINARY: &str = env!("CARGO_BIN_EXE_sockeye");
const CONFIG_FILE: &str = "sockeye.toml";
/// From the start of the process to its `listening` line.
const START_TIMEOUT: Duration = PATIENCE;
/// It listens, and serves.
const LISTENING: &str = "listening";
/// It listens, and lets nobody in yet.
const JOINING: &str = "joining the cluster: clients are told to come again";

/// A running gateway; killed when dropped, and then the test fails if its log tells of a panic.
#[derive(Debug)]
pub struct Gateway {
    /// Where clients connect.
    pub addr: SocketAddr,
    /// Where metrics and health are.
    pub admin: SocketAddr,
    child: Child,
    log: Log,
    reader: Reader,
    files: TempDir,
    /// A test ended it on purpose.
    killed: bool,
    /// The end of a successor that the test let fail, as its panic tells it: the log is one for both.
    excused: Option<&'static str>,
    _beside: Beside,
}

type Log = Arc<Mutex<Vec<String>>>;

/// Held by whoever wants the log unread.
type Reader = Arc<Mutex<()>>;

/// Set when the last line of the log was read.
type IsWhole = Arc<AtomicBool>;

impl Gateway {
    /// Starts with this configuration file; the addresses are free ports of loopback.
    pub fn start(config: &str) -> Gateway {
        Gateway::launch(config, None, &[], &[], LISTENING)
    }

    /// Starts, and waits for its addresses only: it has not joined its cluster.
    pub fn start_waiting(config: &str) -> Gateway {
        Gateway::launch(config, None, &[], &[], JOINING)
    }

    /// Starts with more variables in its environment.
    pub fn start_in(config: &str, environment: &[(&str, &str)]) -> Gateway {
        Gateway::launch(config, None, &[], environment, LISTENING)
    }

    /// Starts with more command line flags.
    pub fn start_with(config: &str, flags: &[&str]) -> Gateway {
        Gateway::launch(config, None, flags, &[], LISTENING)
    }

    /// Starts in a process that may hold this many descriptors.
    pub fn start_limited(config: &str, descriptors: u32) -> Gateway {
        let limit = format!("ulimit -n {descriptors}");
        Gateway::launch(config, Some(&limit), &[], &[], LISTENING)
    }

    /// Starts in a process whose files may have this many bytes: one more is an error, as on a full disk.
    pub fn start_with_small_files(config: &str, bytes: u32) -> Gateway {
        // In blocks of 512 bytes.
        let limit = format!("trap '' XFSZ; ulimit -f {}", bytes / 512);
        Gateway::launch(config, Some(&limit), &[], &[], LISTENING)
    }

    fn launch(
        config: &str,
        limit: Option<&str>,
        flags: &[&str],
        environment: &[(&str, &str)],
        until: &str,
    ) -> Gateway {
        let beside = Beside::wait();
        raise_descriptor_limit();
        let files = tempfile::tempdir().expect("a temporary folder");
        let path = files.path().join(CONFIG_FILE);
        fs::write(&path, config).expect("write the configuration");
        let mut command = match limit {
            None => Command::new(binary()),
            Some(limit) => {
                let mut shell = Command::new("sh");
                let script = format!("{limit} && exec \"$0\" \"$@\"");
                shell.args(["-c", &script]).arg(binary());
                shell
            }
        };
        command.args(["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"]);
        command.arg("--config").arg(&path).args(flags);
        command
            .envs(environment.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let mut child = command.spawn().expect("start sockeye");
        let (log, reader) = (Log::default(), Reader::default());
        let is_whole = follow(&mut child, &log, &reader);
        let Some((addr, admin)) = listening(&mut child, (&log, &is_whole), until) else {
            let _ = child.kill();
            let _ = child.wait();
            panic!("sockeye did not start:\n{}", lock(&log).join("\n"));
        };
        Gateway {
            addr,
            admin,
            child,
            log,
            reader,
            files,
            killed: false,
            excused: None,
            _beside: beside,
        }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Log lines so far.
    pub fn log(&self) -> Vec<String> {
        lock(&self.log).clone()
    }

    /// From now on nobody reads the log, until the guard is dropped.
    pub fn stop_reading_the_log(&self) -> MutexGuard<'_, ()> {
        self.reader.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a log line that holds `text`.
    pub fn logged(&self, text: &str, within: Duration) -> bool {
        eventually(within, || {
            lock(&self.log).iter().any(|line| line.contains(text))
        })
    }

    pub fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Resident memory, bytes.
    pub fn memory(&self) -> u64 {
        self.status_bytes("VmRSS:")
    }

    /// Resident memory that the process allocated: without its program and libraries, which a build without optimization has
    /// a lot of.
    pub fn own_memory(&self) -> u64 {
        self.status_bytes("RssAnon:")
    }

    /// The most resident memory there ever was, bytes.
    pub fn peak_memory(&self) -> u64 {
        self.status_bytes("VmHWM:")
    }

    fn status_bytes(&self, field: &str) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid()));
        let status = status.expect("status of the gateway");
        let line = status.lines().find_map(|line| line.strip_prefix(field));
        let kilobytes = line.and_then(|line| line.trim().strip_suffix("kB"));
        let kilobytes: u64 = kilobytes
            .and_then(|n| n.trim().parse().ok())
            .expect("a size in kB");
        kilobytes * 1024
    }

    /// Bytes of one part, as `/debug/memory` counts them.
    pub fn memory_part(&self, part: &str) -> u64 {
        let request = "GET /debug/memory HTTP/1.1\r\nHost: admin\r\nConnection: close\r\n\r\n";
        let body = RawConn::exchange(self.admin, request).body;
        let memory: Value = serde_json::from_str(&body).expect("JSON");
        let bytes = memory["total"][part].as_u64();
        bytes.unwrap_or_else(|| panic!("{part} in {memory:#}"))
    }

    /// Descriptors that the process holds.
    pub fn descriptors(&self) -> usize {
        let list = fs::read_dir(format!("/proc/{}/fd", self.pid()));
        list.expect("descriptors of the gateway").count()
    }

    /// Sets the soft limit of descriptors (RLIMIT_NOFILE) of a process whose hard one is `maximum`.
    #[cfg(target_os = "linux")]
    pub fn limit_descriptors(&self, numbers: u64, maximum: u64) {
        let pid = i32::try_from(self.pid()).ok().and_then(Pid::from_raw);
        let limit = Rlimit {
            current: Some(numbers),
            maximum: Some(maximum),
        };
        rustix::process::prlimit(pid, Resource::Nofile, limit)
            .expect("a limit of the gateway's descriptors");
    }

    /// The number that the next descriptor of the process would have.
    #[cfg(target_os = "linux")]
    pub fn next_descriptor(&self) -> u64 {
        let is_free = |number: &u64| {
            !std::path::Path::new(&format!("/proc/{}/fd/{number}", self.pid())).exists()
        };
        (0..).find(is_free).expect("a number")
    }

    /// Processor time used so far, user and system.
    pub fn cpu(&self) -> Duration {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid()));
        let stat = stat.expect("stat of the gateway");
        // The name in parentheses may hold blanks; fields 14 and 15 are ticks of 10 ms.
        let after_name = stat.rsplit(')').next().unwrap_or_default();
        let ticks = after_name.split_whitespace().skip(11).take(2);
        let ticks: u64 = ticks
            .map(|field| field.parse::<u64>().expect("ticks"))
            .sum();
        Duration::from_millis(ticks * 10)
    }

    /// All metrics by name with labels, as the admin listener tells them: `name{label="x"}`.
    pub fn metrics(&self) -> BTreeMap<String, f64> {
        let mut conn = RawConn::connect(self.admin);
        conn.send(b"GET /metrics HTTP/1.1\r\nHost: admin\r\nConnection: close\r\n\r\n");
        let response = conn.response();
        assert_eq!(response.status, 200, "{response:?}");
        let samples = response.body.lines().filter(|line| !line.starts_with('#'));
        samples
            .filter_map(|line| {
                let (name, value) = line.rsplit_once(' ')?;
                Some((name.to_owned(), value.parse().ok()?))
            })
            .collect()
    }

    /// One metric, summed over its labels unless the name has some; 0 when there is none of that name.
    pub fn metric(&self, name: &str) -> f64 {
        let of_name = |sample: &str| {
            let labels = sample.strip_prefix(name);
            labels.is_some_and(|labels| labels.is_empty() || labels.starts_with('{'))
        };
        let metrics = self.metrics();
        let samples = metrics.iter().filter(|(sample, _)| of_name(sample));
        samples.map(|(_, value)| value).sum()
    }

    /// A counter once it is at least so much, or what it was when patience ended: what a turn counts while it writes or closes,
    /// and what shards tell each other, is published a little after clients saw it.
    pub fn reaches(&self, name: &str, least: f64) -> f64 {
        let (Ok(value) | Err(value)) = self.metric_settles(name, |value| value >= least);
        value
    }

    /// How many sessions and connections ended for this reason.
    pub fn closes(&self, reason: &str) -> f64 {
        self.metric(&closes(reason))
    }

    /// The same, once it is at least so many.
    pub fn closes_reach(&self, reason: &str, least: f64) -> f64 {
        self.reaches(&closes(reason), least)
    }

    /// How often this limit bit.
    pub fn hits(&self, limit: &str) -> f64 {
        self.metric(&hits(limit))
    }

    /// The same, once it is at least so often.
    pub fn hits_reach(&self, limit: &str, least: f64) -> f64 {
        self.reaches(&hits(limit), least)
    }

    /// Waits until a metric is what it should be; the last value otherwise.
    pub fn metric_settles(&self, name: &str, wanted: impl Fn(f64) -> bool) -> Result<f64, f64> {
        let mut value = 0.0;
        // Longer than the gateway waits for a peer to close.
        let settled = eventually(3 * PATIENCE, || {
            value = self.metric(name);
            wanted(value)
        });
        if settled { Ok(value) } else { Err(value) }
    }

    /// A successor may end with this panic: the test takes from it what it needs.
    pub fn excuse(&mut self, end: &'static str) {
        self.excused = Some(end);
    }

    /// Asks the process to end (SIGTERM).
    pub fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// Ends the process at once (SIGKILL).
    pub fn kill(&mut self) {
        self.killed = true;
        self.signal(Signal::KILL);
        let _ = self.child.wait();
    }

    /// SIGSTOP: it stands still when this returns.
    pub fn freeze(&self) {
        servers::freeze(self.pid());
    }

    pub fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.pid()).ok().and_then(Pid::from_raw);
        kill_process(pid.expect("a process id"), signal).expect("signal the gateway");
    }

    /// Gives it another configuration file and has it read (SIGHUP).
    pub fn reload(&self, config: &str) {
        let path = self.files.path().join(CONFIG_FILE);
        fs::write(path, config).expect("write the configuration");
        self.signal(Signal::HUP);
    }

    /// The same, and waits until it is done: the keys that were applied, and those that wait for a restart.
    pub fn reloaded(&self, config: &str) -> (String, String) {
        let told = || {
            let log = self.log().into_iter();
            let lines = log.filter_map(|line| serde_json::from_str::<Value>(&line).ok());
            let lines = lines.filter(|line| line["message"] == "reloaded");
            lines.collect::<Vec<_>>()
        };
        let before = told().len();
        self.reload(config);
        assert!(eventually(PATIENCE, || told().len() > before), "a reload");
        let line = told().swap_remove(before);
        let keys = |name: &str| line[name].as_str().expect("keys").to_owned();
        (keys("applied"), keys("needs_restart"))
    }

    /// Waits for the end of the process; `None` when it goes on.
    pub fn exit_status(&mut self, within: Duration) -> Option<ExitStatus> {
        let deadline = Instant::now() + within;
        loop {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Some(status);
            }
            if Instant::now() >= deadline {
                return None;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let ended = self.child.try_wait().ok().flatten();
        let _ = self.child.kill();
        let _ = self.child.wait();
        let log = lock(&self.log).join("\n");
        if std::thread::panicking() {
            let tail: Vec<_> = log.lines().rev().take(15).collect();
            eprintln!(
                "end of the gateway's log, latest first:\n{}",
                tail.join("\n")
            );
            return;
        }
        let mut lines = log
            .lines()
            .filter(|line| self.excused.is_none_or(|end| !line.contains(end)));
        let panicked = lines
            .any(|line| line.contains("\"message\":\"panic\"") || line.contains("panicked at"));
        assert!(!panicked, "the gateway panicked:\n{log}");
        let crashed = !self.killed && ended.is_some_and(|status| status.code().is_none());
        assert!(!crashed, "the gateway died: {ended:?}\n{log}");
    }
}

/// Another one than that of this build may be named: measurements take the release's.
fn binary() -> OsString {
    std::env::var_os("SOCKEYE_BIN").unwrap_or_else(|| BINARY.into())
}

/// Tests hold the clients' ends of many connections.
fn raise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    setrlimit(Resource::Nofile, raised).expect("the soft limit raised to the hard one");
}

fn lock(log: &Log) -> MutexGuard<'_, Vec<String>> {
    log.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Keeps the log; a pipe that nobody reads would cost lines.
fn follow(child: &mut Child, log: &Log, reader: &Reader) -> IsWhole {
    let stderr = child.stderr.take().expect("the log is piped");
    let (log, reader) = (Arc::clone(log), Arc::clone(reader));
    let is_whole = IsWhole::default();
    let whole = Arc::clone(&is_whole);
    std::thread::spawn(move || {
        for line in BufReader::new(stderr).split(b'\n').map_while(Result::ok) {
            drop(reader.lock());
            lock(&log).push(String::from_utf8_lossy(&line).into_owned());
        }
        whole.store(true, Ordering::Release);
    });
    is_whole
}

/// The addresses of the `listening` line; `None` when the process ended or took too long.
fn listening(
    child: &mut Child,
    (log, is_whole): (&Log, &IsWhole),
    until: &str,
) -> Option<(SocketAddr, SocketAddr)> {
    let deadline = Instant::now() + START_TIMEOUT;
    let said = || {
        lock(log).iter().find_map(|line| {
            let line: Value = serde_json::from_str(line).ok()?;
            (line["message"] == until).then_some(())?;
            let address = line["addresses"].as_str()?.split(',').next()?;
            Some((address.parse().ok()?, line["admin"].as_str()?.parse().ok()?))
        })
    };
    while Instant::now() < deadline {
        let found = said();
        if found.is_some() {
            return found;
        }
        if !matches!(child.try_wait(), Ok(None)) {
            // Its last words may still be in the pipe: a process may say where it is, and end at once. Whoever inherited the pipe may hold it.
            eventually(PATIENCE, || is_whole.load(Ordering::Acquire));
            return said();
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    None
}

fn closes(reason: &str) -> String {
    format!("sockeye_closes_total{{reason=\"{reason}\"}}")
}

fn hits(limit: &str) -> String {
    format!("sockeye_limit_hits_total{{limit=\"{limit}\"}}")
}
