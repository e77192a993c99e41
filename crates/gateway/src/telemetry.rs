//! The log: one line per notable moment on stderr, JSON for machines, pretty on a terminal.
//!
//! Lines go through a bounded queue to a thread of their own. A terminal that is stopped or a pipe
//! nobody reads therefore never holds up a data-plane thread: lines are dropped and counted then.

use crate::config::{Log, LogFormat};
use control::metrics::node::LogLoss;
use std::backtrace::{Backtrace, BacktraceStatus};
use std::io::{self, IsTerminal, Write};
use std::panic::PanicHookInfo;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Registry, fmt, reload};

/// Lines waiting to be written.
const QUEUE_LINES: usize = 8_192;
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
        let sink = Sink::start(io::stderr(), Arc::default());
        let filter = EnvFilter::try_new(&log.level).unwrap_or_else(|_| EnvFilter::new("info"));
        let (filter, handle) = reload::Layer::new(filter);
        let pretty = match log.format {
            LogFormat::Auto => io::stderr().is_terminal(),
            LogFormat::Json => false,
            LogFormat::Pretty => true,
        };
        let writer = sink.clone();
        let lines = fmt::layer().with_writer(move || writer.clone());
        let registry = tracing_subscriber::registry().with(filter);
        // A second log in one process (tests) keeps the first one.
        let _ = if pretty {
            registry
                .with(lines.with_ansi(io::stderr().is_terminal()))
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
        if let Ok(filter) = EnvFilter::try_new(level) {
            let _ = self.filter.reload(filter);
        }
    }

    /// Counters of lines that were lost.
    pub fn loss(&self) -> Arc<LogLoss> {
        Arc::clone(&self.sink.loss)
    }

    /// Waits until the lines so far are written, but not for long.
    pub fn flush(&self) {
        self.sink.flush();
    }
}

/// A panic is a line like any other; with RUST_BACKTRACE it says how it came about.
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
        tracing::error!(thread, place, what, %backtrace, "panic");
    } else {
        tracing::error!(thread, place, what, "panic");
    }
}

/// Whether `level` is a level or a list of directives.
pub fn check_level(level: &str) -> Result<(), String> {
    EnvFilter::try_new(level)
        .map(drop)
        .map_err(|error| error.to_string())
}

#[derive(Debug)]
enum Entry {
    Line(Vec<u8>),
    Flush(SyncSender<()>),
}

/// The writing end: never blocks.
#[derive(Clone, Debug)]
struct Sink {
    queue: SyncSender<Entry>,
    /// Dropped since the log last said so.
    dropped: Arc<AtomicU64>,
    loss: Arc<LogLoss>,
}

impl Sink {
    fn start(out: impl Write + Send + 'static, loss: Arc<LogLoss>) -> Sink {
        let (queue, entries) = sync_channel(QUEUE_LINES);
        let dropped = Arc::new(AtomicU64::new(0));
        let lost = Arc::clone(&dropped);
        let thread = std::thread::Builder::new().name("log".to_owned());
        // Without a thread there is no log, which is no reason not to serve.
        let _ = thread.spawn(move || write_lines(&entries, out, &lost));
        Sink {
            queue,
            dropped,
            loss,
        }
    }

    fn flush(&self) {
        let (done, written) = sync_channel(1);
        if self.queue.try_send(Entry::Flush(done)).is_ok() {
            let _ = written.recv_timeout(FLUSH_TIMEOUT);
        }
    }
}

impl Write for Sink {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if self.queue.try_send(Entry::Line(line.to_vec())).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
            self.loss.dropped.fetch_add(1, Ordering::Relaxed);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn write_lines(entries: &Receiver<Entry>, mut out: impl Write, dropped: &AtomicU64) {
    for entry in entries {
        let lost = dropped.swap(0, Ordering::Relaxed);
        if lost > 0 {
            let _ = writeln!(
                out,
                "{{\"level\":\"WARN\",\"message\":\"log lines dropped\",\"count\":{lost}}}"
            );
        }
        match entry {
            Entry::Line(line) => {
                let _ = out.write_all(&line);
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
        let mut sink = Sink::start(terminal.clone(), Arc::default());
        let stopped = terminal.stopped.lock().expect("stopped");
        for _ in 0..QUEUE_LINES + 100 {
            sink.write_all(b"line\n").expect("never fails");
        }
        assert!(sink.dropped.load(Ordering::Relaxed) >= 99);
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
    }

    #[test]
    fn levels_are_checked() {
        assert_eq!(check_level("info"), Ok(()));
        assert_eq!(check_level("info,control=debug"), Ok(()));
        assert!(check_level("x=y=z").is_err());
    }
}
