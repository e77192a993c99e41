//! The log: one line per notable moment on stderr, JSON for machines, pretty on a terminal.
//!
//! Lines go through a bounded queue to a thread of their own. A terminal that is stopped or a pipe
//! nobody reads therefore never holds up a data-plane thread: lines are dropped and counted then.

mod level;

use crate::config::{Log, LogFormat};
use crate::queue::{Queue, Waiting, queue};
use level::FATAL;
use process::log::LogLoss;
use std::backtrace::{Backtrace, BacktraceStatus};
use std::io::{self, IsTerminal, Write};
use std::panic::PanicHookInfo;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Duration;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Registry, fmt, reload};

/// Lines waiting to be written.
const QUEUE_LINES: usize = 8_192;
/// Longest line; what is longer is cut and says so.
const LINE_BYTES_MAX: usize = 32 * 1024;
/// What is kept of a line that is cut.
const LINE_BYTES_KEPT: usize = 1024;
/// How long the end of the process waits for the last lines.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// Handle to the running log.
#[derive(Debug)]
pub struct Telemetry {
    filter: reload::Handle<EnvFilter, Registry>,
    sink: Sink,
}

impl Telemetry {
    /// Starts the log of this process. To be called once.
    pub fn start(log: &Log) -> Telemetry {
        let filter = level::filter(&log.level).unwrap_or_else(|_| EnvFilter::new("info"));
        let (filter, handle) = reload::Layer::new(filter);
        let pretty = match log.format {
            LogFormat::Auto => io::stderr().is_terminal(),
            LogFormat::Json => false,
            LogFormat::Pretty => true,
        };
        let style = match (pretty, shows_colours()) {
            (false, _) => Style::Json,
            (true, true) => Style::Coloured,
            (true, false) => Style::Plain,
        };
        let sink = Sink::start(io::stderr(), style, Arc::default());
        let writer = sink.clone();
        let lines = fmt::layer().with_writer(move || writer.clone());
        let registry = tracing_subscriber::registry().with(filter);
        // A second log in one process (tests) keeps the first one.
        let _ = if pretty {
            registry
                .with(lines.with_ansi(style == Style::Coloured))
                .try_init()
        } else {
            registry
                .with(lines.json().flatten_event(true).with_current_span(false))
                .try_init()
        };
        std::panic::set_hook(Box::new(log_panic));
        Telemetry {
            filter: handle,
            sink,
        }
    }

    /// Applies another level to the running log.
    pub fn set_level(&self, level: &str) {
        if let Ok(filter) = level::filter(level) {
            let _ = self.filter.reload(filter);
        }
    }

    /// Counters of lines that were lost.
    pub fn loss(&self) -> Arc<LogLoss> {
        Arc::clone(&self.sink.loss)
    }

    /// Writes why the process ends, whatever the level, and waits until it is written.
    pub fn fatal(&self, error: &anyhow::Error) {
        tracing::error!(target: FATAL, "{error:#}");
        self.flush();
    }

    /// Waits until the lines so far are written, but not for long.
    pub fn flush(&self) {
        self.sink.flush();
    }
}

/// Whether the log may be coloured: on a terminal, unless <https://no-color.org> or the terminal's name say otherwise.
fn shows_colours() -> bool {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    io::stderr().is_terminal()
        && set("NO_COLOR").is_none()
        && set("TERM").is_none_or(|terminal| terminal != "dumb")
}

/// A panic is written whatever the level; with RUST_BACKTRACE it says how it came about.
fn log_panic(panic: &PanicHookInfo<'_>) {
    let place = panic
        .location()
        .map(ToString::to_string)
        .unwrap_or_default();
    let what = panic.payload_as_str().unwrap_or("no message");
    let thread = std::thread::current();
    let thread = thread.name().unwrap_or_default();
    let backtrace = Backtrace::capture();
    if backtrace.status() == BacktraceStatus::Captured {
        tracing::error!(target: FATAL, thread, place, what, %backtrace, "panic");
    } else {
        tracing::error!(target: FATAL, thread, place, what, "panic");
    }
}

/// Whether `level` is a level or a list of directives.
pub fn check_level(level: &str) -> Result<(), String> {
    level::filter(level).map(drop)
}

#[derive(Debug)]
enum Entry {
    Line(Vec<u8>),
    Flush(SyncSender<()>),
}

/// The writing end: never blocks.
#[derive(Clone, Debug)]
struct Sink {
    queue: Queue<Entry>,
    /// Dropped since the log last said so.
    dropped: Arc<AtomicU64>,
    loss: Arc<LogLoss>,
    style: Style,
}

/// What lines look like: what is put in their place must look so too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Style {
    Json,
    Plain,
    Coloured,
}

impl Sink {
    fn start(out: impl Write + Send + 'static, style: Style, loss: Arc<LogLoss>) -> Sink {
        let (queue, entries) = queue(QUEUE_LINES);
        let dropped = Arc::new(AtomicU64::new(0));
        let (lost, counters) = (Arc::clone(&dropped), Arc::clone(&loss));
        let thread = std::thread::Builder::new().name("log".to_owned());
        // Without a thread there is no log, which is no reason not to serve.
        let _ = thread.spawn(move || write_lines(&entries, out, style, &lost, &counters));
        Sink {
            queue,
            dropped,
            loss,
            style,
        }
    }

    fn flush(&self) {
        let (done, written) = sync_channel(1);
        if self.queue.offer(Entry::Flush(done)) {
            let _ = written.recv_timeout(FLUSH_TIMEOUT);
        }
    }
}

impl Write for Sink {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let kept = if line.len() > LINE_BYTES_MAX {
            cut(line, self.style)
        } else {
            clean(line, self.style)
        };
        let bytes = kept.len() as u64;
        self.loss.queued_bytes.fetch_add(bytes, Ordering::Relaxed);
        if !self.queue.offer(Entry::Line(kept)) {
            self.loss.queued_bytes.fetch_sub(bytes, Ordering::Relaxed);
            self.dropped.fetch_add(1, Ordering::Relaxed);
            self.loss.dropped.fetch_add(1, Ordering::Relaxed);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A line without what terminals obey and without lines of its own making: JSON leaves U+0080 to U+009F as they are, and the
/// formats for people leave what comes by `Display` (tracing-subscriber escapes only the rest).
fn clean(line: &[u8], style: Style) -> Vec<u8> {
    let body = line.strip_suffix(b"\n").unwrap_or(line);
    let c1 = |bytes: &[u8]| matches!(bytes, [0xc2, 0x80..=0x9f]);
    if !body.iter().any(u8::is_ascii_control) && !body.windows(2).any(c1) {
        return line.to_vec();
    }
    let body = String::from_utf8_lossy(body);
    let mut text = String::with_capacity(body.len() + 16);
    for (at, char) in body.char_indices() {
        match char {
            '\n' if style != Style::Json => text.push_str("\n    | "),
            '\u{1b}' if style == Style::Coloured && is_colour(&body[at..]) => text.push(char),
            char if char.is_control() => text.push_str(&format!("\\u{:04x}", u32::from(char))),
            char => text.push(char),
        }
    }
    text.push('\n');
    text.into_bytes()
}

/// `ESC [ 1;31 m`: changes the look of what follows and nothing else (ECMA-48 8.3.117).
fn is_colour(text: &str) -> bool {
    let parameters = text.strip_prefix("\u{1b}[").unwrap_or_default();
    let rest = parameters.trim_start_matches(|c: char| c.is_ascii_digit() || c == ';');
    rest.starts_with('m')
}

/// The beginning of a line that is too long, as a line of its own.
fn cut(line: &[u8], style: Style) -> Vec<u8> {
    let begin = String::from_utf8_lossy(&line[..LINE_BYTES_KEPT.min(line.len())]);
    let bytes = line.len();
    if style == Style::Json {
        let cut = serde_json::json!({
            "level": "WARN", "message": "log line cut", "bytes": bytes, "begin": begin,
        });
        format!("{cut}\n").into_bytes()
    } else {
        format!("{} … ({bytes} bytes)\n", begin.trim_end()).into_bytes()
    }
}

fn write_lines(
    entries: &Waiting<Entry>,
    mut out: impl Write,
    style: Style,
    dropped: &AtomicU64,
    loss: &LogLoss,
) {
    while let Some(entry) = entries.next() {
        let lost = dropped.swap(0, Ordering::Relaxed);
        if lost > 0 {
            let _ = if style == Style::Json {
                let line = r#"{"level":"WARN","message":"log lines dropped","count":"#;
                writeln!(out, "{line}{lost}}}")
            } else {
                writeln!(out, "WARN log lines dropped count={lost}")
            };
        }
        match entry {
            Entry::Line(line) => {
                let _ = out.write_all(&line);
                let bytes = line.len() as u64;
                loss.queued_bytes.fetch_sub(bytes, Ordering::Relaxed);
            }
            Entry::Flush(done) => {
                let _ = out.flush();
                let _ = done.try_send(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    /// A reader that can be stopped, as a terminal can.
    #[derive(Clone, Default)]
    struct Terminal {
        text: Arc<Mutex<Vec<u8>>>,
        stopped: Arc<Mutex<()>>,
    }

    impl Terminal {
        fn text(&self) -> String {
            String::from_utf8_lossy(&self.text.lock().expect("text")).into_owned()
        }
    }

    impl Write for Terminal {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let _wait = self.stopped.lock().expect("stopped");
            self.text.lock().expect("text").extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_stopped_terminal_costs_lines_and_not_time() {
        let terminal = Terminal::default();
        let mut sink = Sink::start(terminal.clone(), Style::Json, Arc::default());
        let stopped = terminal.stopped.lock().expect("stopped");
        for _ in 0..QUEUE_LINES + 100 {
            sink.write_all(b"line\n").expect("never fails");
        }
        // `dropped` begins anew when the log's thread takes its first line, which may be late.
        assert!(sink.loss.dropped.load(Ordering::Relaxed) >= 99);
        drop(stopped);
        // The queue drains; then the loss is told.
        while !terminal.text().contains("log lines dropped") {
            std::thread::yield_now();
        }
        // It may be told while the queue is still full; sooner or later there is room for another line.
        while !terminal.text().ends_with("last\n") {
            sink.write_all(b"last\n").expect("never fails");
            Sink::flush(&sink);
        }
        // What is written no longer waits.
        while sink.loss.queued_bytes.load(Ordering::Relaxed) > 0 {
            std::thread::yield_now();
        }
    }

    /// The text of a field, whoever wrote it (attack A11): one line, no control characters, not megabytes.
    #[test]
    fn fields_are_escaped_and_cut() {
        let evil = "\u{1b}[2J\u{1b}[31mred\r\n{\"message\":\"forged\"}\u{7}\u{9b}31m";
        for style in [Style::Json, Style::Plain, Style::Coloured] {
            let terminal = Terminal::default();
            let sink = Sink::start(terminal.clone(), style, Arc::default());
            let writer = sink.clone();
            let lines = fmt::layer().with_writer(move || writer.clone());
            let log = || {
                tracing::info!(field = evil, shown = %evil, "{evil}");
                tracing::info!(field = "a".repeat(1 << 20), "long");
            };
            let registry = tracing_subscriber::registry();
            if style == Style::Json {
                let registry = registry.with(lines.json().flatten_event(true));
                tracing::subscriber::with_default(registry, log);
            } else {
                let registry = registry.with(lines.with_ansi(style == Style::Coloured));
                tracing::subscriber::with_default(registry, log);
            }
            Sink::flush(&sink);
            let text = terminal.text();
            for (at, c) in text.char_indices() {
                let colour = style == Style::Coloured && is_colour(&text[at..]);
                assert!(!c.is_control() || c == '\n' || colour, "{text:?}");
            }
            assert!(text.len() < 4_096, "{} bytes", text.len());
            for line in text.lines() {
                let value = serde_json::from_str::<serde_json::Value>(line);
                assert_eq!(value.is_ok(), style == Style::Json, "{line}");
            }
            let lines = text.lines().filter(|line| !line.starts_with("    | "));
            assert_eq!(lines.count(), 2, "{text:?}");
        }
    }
}
