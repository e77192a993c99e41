//! `sockeye record`: writes what passes a user, a session or a share of all sessions into a file, for `sockeye replay`.

use crate::config::Request;
use crate::door::{Door, Key, plain};
use crate::trace_calls::ask;
use anyhow::{Context, Result};
use clap::{ArgGroup, Args};
use serde_json::{Value, json};
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, BufWriter, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::signal::unix::{SignalKind, signal};

/// A line of the gateway.
const LINE_BYTES_MAX: u64 = 128 * 1024;
/// So often people are told how far it is.
const WORD_EVERY: Duration = Duration::from_secs(10);

/// Record what passes a user, a session or a share of all sessions, on all nodes, into a file for `sockeye replay`, until the time is over,
/// the file is full, or Ctrl+C. Names and arguments are not recorded, only their marks, types and sizes.
#[derive(Debug, Args)]
#[command(
    group = ArgGroup::new("subject").required(true),
    after_help = "Examples: sockeye record ada.jsonl --user ada, sockeye record day.jsonl --share 1% --seconds 600"
)]
pub struct RecordArgs {
    /// The file. It must not exist.
    file: PathBuf,
    /// All sockets of this user.
    #[arg(long, value_name = "USER", group = "subject")]
    user: Option<String>,
    /// The session of this id, or of the socket of this id.
    #[arg(long, value_name = "ID", group = "subject")]
    session: Option<String>,
    /// Of the sessions that begin from now on so many, by chance: 0.01% to 100%.
    #[arg(long, value_name = "PERCENT", group = "subject")]
    share: Option<String>,
    /// Only in this namespace.
    #[arg(long, value_name = "NAME")]
    namespace: Option<String>,
    /// For so long.
    #[arg(long, value_name = "N", default_value = "600", value_parser = clap::value_parser!(u16).range(1..=600))]
    seconds: u16,
    /// Most lines of each node in a second. What is beyond is counted.
    #[arg(long, value_name = "N", default_value = "1000", value_parser = clap::value_parser!(u16).range(1..=1000))]
    lines: u16,
    /// Most bytes of the file.
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = size)]
    bytes: u64,
    /// Record names and arguments as they are. The key needs the scope `trace:payload`.
    #[arg(long, requires = "reason")]
    payload: bool,
    /// Why, for the audit.
    #[arg(long, value_name = "TEXT", requires = "payload")]
    reason: Option<String>,
    /// Only at the node that is asked.
    #[arg(long)]
    local: bool,
    #[command(flatten)]
    key: Key,
}

fn size(text: &str) -> Result<u64, String> {
    let bytes = units::size(text).ok_or("a size such as 64MiB is needed")?;
    match bytes {
        4_096..=control::recording::FILE_BYTES_MAX => Ok(bytes),
        _ => Err("between 4KiB and 256MiB are needed".to_owned()),
    }
}

impl RecordArgs {
    fn path(&self) -> String {
        let mut path = format!(
            "/v1/trace?record=true&seconds={}&lines={}",
            self.seconds, self.lines
        );
        ask(
            &mut path,
            &[
                ("user", &self.user),
                ("session", &self.session),
                ("share", &self.share),
                ("namespace", &self.namespace),
                ("reason", &self.reason),
            ],
            &[("payload", self.payload), ("local", self.local)],
        );
        path
    }

    /// What the file says it is of. A redacted one has no name.
    fn subject(&self) -> String {
        let named = |kind: &str, name: &Option<String>| {
            let name = name.as_deref().filter(|_| self.payload);
            name.map_or(kind.to_owned(), |name| format!("{kind} {name}"))
        };
        match (&self.user, &self.share) {
            (Some(_), _) => named("user", &self.user),
            (None, Some(share)) => format!("share {share}"),
            // The whole id lets its bearer speak for the session.
            (None, None) => "session".to_owned(),
        }
    }
}

pub fn run(args: &RecordArgs, request: &Request) -> Result<()> {
    let door = Door::of(request, args.key.needed("record what passes")?)?;
    let mut lines = door.stream(&args.path())?;
    let mut tape = Tape::create(args)?;
    let stopped = Arc::new(AtomicBool::new(false));
    stop_on_signal(lines.get_ref(), &stopped)?;
    eprintln!(
        "recording {} into {}; Ctrl+C ends it",
        args.subject(),
        args.file.display()
    );
    let heard = tape.follow(&mut lines, args.bytes);
    let is_stopped = stopped.load(Ordering::Relaxed);
    let (why, trouble) = match heard {
        Ok(why) => (why, None),
        Err(_) if is_stopped => ("it was stopped".to_owned(), None),
        Err(Heard::Gone(why)) => (why.to_string(), Some(why)),
        Err(Heard::Unwritten(why)) => return Err(why),
    };
    tape.end(&why)?;
    eprintln!("{}: {}", plain(&why), tape.summary());
    trouble.map_or(Ok(()), Err)
}

/// What ends a recording early.
enum Heard {
    /// Nothing more comes.
    Gone(anyhow::Error),
    /// The file takes nothing more.
    Unwritten(anyhow::Error),
}

/// A signal closes the connection: the one who reads it then ends the file.
fn stop_on_signal(stream: &TcpStream, stopped: &Arc<AtomicBool>) -> Result<()> {
    let (stream, stopped) = (stream.try_clone()?, Arc::clone(stopped));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot wait for signals")?;
    std::thread::spawn(move || {
        runtime.block_on(async {
            let signals = (
                signal(SignalKind::interrupt()),
                signal(SignalKind::terminate()),
            );
            let (Ok(mut interrupt), Ok(mut terminate)) = signals else {
                return;
            };
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
            stopped.store(true, Ordering::Relaxed);
            // It may be closed already.
            let _ = stream.shutdown(Shutdown::Both);
        });
    });
    Ok(())
}

/// The file while it is written.
struct Tape {
    out: BufWriter<File>,
    path: PathBuf,
    bytes: u64,
    lines: u64,
    dropped: u64,
}

impl Tape {
    fn create(args: &RecordArgs) -> Result<Self> {
        let path = args.file.clone();
        let mut options = OpenOptions::new();
        // Others on this machine have no business with it.
        let file = options.write(true).create_new(true).mode(0o600).open(&path);
        let file = file.with_context(|| format!("cannot create {}", path.display()))?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let head = json!({
            "sockeye_recording": control::recording::VERSION, "of": args.subject(), "payload": args.payload,
            "began_ms": now.map_or(0, |now| now.as_millis() as u64), "by": concat!("sockeye ", env!("SOCKEYE_VERSION")),
        });
        let mut tape = Self {
            out: BufWriter::new(file),
            path,
            bytes: 0,
            lines: 0,
            dropped: 0,
        };
        tape.write(&format!("{head}\n"))?;
        tape.flush()?;
        Ok(tape)
    }

    /// Until it is over; says why it is.
    fn follow(&mut self, from: &mut BufReader<TcpStream>, bytes_max: u64) -> Result<String, Heard> {
        let (mut text, mut told) = (String::new(), Instant::now());
        loop {
            text.clear();
            let read = from.by_ref().take(LINE_BYTES_MAX).read_line(&mut text);
            let read = read.context("cannot read on: the gateway said nothing for 15 s");
            let gone = "the gateway, or a proxy before it, has closed the connection";
            match read.map_err(Heard::Gone)? {
                0 => return Err(Heard::Gone(anyhow::anyhow!(gone))),
                _ if !text.ends_with('\n') => {
                    return Err(Heard::Gone(anyhow::anyhow!("a line broke off: {gone}")));
                }
                _ => {}
            }
            let line: Value = serde_json::from_str(&text)
                .context("cannot read a line of the gateway")
                .map_err(Heard::Gone)?;
            match line["kind"].as_str() {
                Some("end") => return Ok(line["why"].as_str().unwrap_or_default().to_owned()),
                Some("begin" | "alive") => {}
                kind => {
                    if self.bytes + text.len() as u64 + END_BYTES > bytes_max {
                        return Ok("the file is full (--bytes)".to_owned());
                    }
                    self.dropped += line["lines"].as_u64().unwrap_or_default();
                    self.lines += u64::from(kind == Some("line"));
                    self.aside(&line);
                    self.write(&text).map_err(Heard::Unwritten)?;
                }
            }
            if from.buffer().is_empty() {
                self.flush().map_err(Heard::Unwritten)?;
            }
            if told.elapsed() >= WORD_EVERY {
                told = Instant::now();
                eprintln!("{}", self.summary());
            }
        }
    }

    fn aside(&self, line: &Value) {
        if line["kind"] == "node" {
            let why = line["why"].as_str().map(|why| format!(": {}", plain(why)));
            eprintln!(
                "node {}: {}{}",
                line["node"],
                line["state"].as_str().unwrap_or_default(),
                why.unwrap_or_default()
            );
        }
    }

    fn write(&mut self, text: &str) -> Result<()> {
        self.bytes += text.len() as u64;
        let written = self.out.write_all(text.as_bytes());
        written.with_context(|| self.unwritten())
    }

    fn flush(&mut self) -> Result<()> {
        let flushed = self.out.flush();
        flushed.with_context(|| self.unwritten())
    }

    fn unwritten(&self) -> String {
        let path = self.path.display();
        format!(
            "cannot write on to {path} ({}): make room; `sockeye replay --torn` plays what it has",
            self.summary()
        )
    }

    fn end(&mut self, why: &str) -> Result<()> {
        let end = json!({"kind": "end", "why": why, "lines": self.lines, "dropped": self.dropped});
        self.write(&format!("{end}\n"))?;
        self.flush()?;
        let synced = self.out.get_ref().sync_all();
        match synced.is_err() && is_plain(&self.path) {
            true => synced.with_context(|| self.unwritten()),
            false => Ok(()),
        }
    }

    fn summary(&self) -> String {
        let (lines, bytes) = (self.lines, units::format_size(self.bytes));
        match self.dropped {
            0 => format!("{lines} lines, {bytes}"),
            dropped => format!("{lines} lines, {bytes}; {dropped} lines found no room"),
        }
    }
}

/// Room for the last line.
const END_BYTES: u64 = 512;

/// A device cannot be synced.
fn is_plain(path: &Path) -> bool {
    path.metadata().is_ok_and(|file| file.is_file())
}
