//! The exporter: reads the cells that shards publish once a turn and speaks OpenMetrics. Nothing
//! here is called by a shard, and nothing waits for one.

use crate::process::Usage;
use hub::CloseReason;
use hub::metrics::{Cells, DURATION_BOUNDS_MS, Limit};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Media type of what [`Exporter::text`] returns.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The connection rate is an average over this time.
const RATE_WINDOW: Duration = Duration::from_secs(5);

/// The cells of all shards.
pub type Shards = Arc<[Arc<Cells>]>;

#[derive(Debug)]
pub struct Exporter {
    registry: Registry,
    shards: Shards,
    rate: Arc<RateMeter>,
}

impl Exporter {
    pub fn new(shards: Shards) -> Self {
        let rate = Arc::new(RateMeter::default());
        let mut registry = Registry::default();
        registry.register_collector(Box::new(DataPlane {
            shards: Arc::clone(&shards),
            rate: Arc::clone(&rate),
        }));
        registry.register_collector(Box::new(Process));
        Exporter {
            registry,
            shards,
            rate,
        }
    }

    /// All metrics as text.
    pub fn text(&self) -> Result<String, fmt::Error> {
        let mut text = String::new();
        encode(&mut text, &self.registry)?;
        Ok(text)
    }

    /// To be called about once a second: what a rate is made of.
    pub fn sample(&self, now: Instant) {
        self.rate
            .sample(now, total(&self.shards, |cells| &cells.accepted));
    }
}

/// Accepted connections per second over the last seconds.
#[derive(Debug, Default)]
struct RateMeter {
    samples: Mutex<VecDeque<(Instant, u64)>>,
}

impl RateMeter {
    fn sample(&self, now: Instant, accepted: u64) {
        let mut samples = self.samples.lock().unwrap_or_else(PoisonError::into_inner);
        samples.push_back((now, accepted));
        while samples
            .front()
            .is_some_and(|(at, _)| now.duration_since(*at) > RATE_WINDOW)
        {
            samples.pop_front();
        }
    }

    fn per_second(&self) -> f64 {
        let samples = self.samples.lock().unwrap_or_else(PoisonError::into_inner);
        match (samples.front(), samples.back()) {
            (Some((start, first)), Some((end, last))) if end > start => {
                last.saturating_sub(*first) as f64 / end.duration_since(*start).as_secs_f64()
            }
            _ => 0.0,
        }
    }
}

fn total(shards: &Shards, cell: fn(&Cells) -> &AtomicU64) -> u64 {
    shards
        .iter()
        .map(|cells| cell(cells).load(Ordering::Relaxed))
        .sum()
}

/// One number that all shards have: name without `_total`, help, and where it is.
type Row = (&'static str, &'static str, fn(&Cells) -> &AtomicU64);

/// Names that dashboards and alerts of WebSocket servers commonly use.
const COMMON_GAUGES: [Row; 2] = [
    (
        "websocket_connections_total",
        "Open WebSocket connections.",
        |c| &c.websockets,
    ),
    (
        "message_queue_depth",
        "Messages waiting in the mailboxes of all shards.",
        |c| &c.mailbox,
    ),
];

const COMMON_COUNTERS: [Row; 1] = [(
    "websocket_messages",
    "Messages received from clients.",
    |c| &c.messages_in,
)];

const GAUGES: [Row; 5] = [
    (
        "sockeye_connections",
        "Open connections of any kind.",
        |c| &c.conns,
    ),
    (
        "sockeye_sessions",
        "Sessions: Engine.IO sessions and plain clients.",
        |c| &c.sessions,
    ),
    (
        "sockeye_sockets",
        "Sockets: memberships of sessions in namespaces.",
        |c| &c.sockets,
    ),
    (
        "sockeye_rooms",
        "Rooms with members, counted on each shard.",
        |c| &c.rooms,
    ),
    (
        "sockeye_acks_outstanding",
        "Acknowledgements the server waits for.",
        |c| &c.acks_outstanding,
    ),
];

const COUNTERS: [Row; 17] = [
    (
        "sockeye_connections_accepted",
        "Connections accepted.",
        |c| &c.accepted,
    ),
    (
        "sockeye_connections_shed",
        "Connections refused because of a limit.",
        |c| &c.shed,
    ),
    (
        "sockeye_connections_moved",
        "Connections moved to the shard of their session.",
        |c| &c.moved,
    ),
    (
        "sockeye_accept_pauses",
        "Times accepting stopped for want of descriptors.",
        |c| &c.accept_pauses,
    ),
    (
        "sockeye_socket_connects",
        "Sockets connected to a namespace.",
        |c| &c.connects,
    ),
    (
        "sockeye_socket_disconnects",
        "Sockets that left their namespace.",
        |c| &c.disconnects,
    ),
    ("sockeye_deliveries", "Events delivered to clients.", |c| {
        &c.deliveries
    }),
    ("sockeye_broadcasts", "Broadcasts begun.", |c| &c.broadcasts),
    (
        "sockeye_relayed",
        "Messages sent from shard to shard.",
        |c| &c.relayed,
    ),
    (
        "sockeye_received_bytes",
        "Bytes received from clients.",
        |c| &c.bytes_in,
    ),
    ("sockeye_sent_bytes", "Bytes sent to clients.", |c| {
        &c.bytes_out
    }),
    ("sockeye_writes", "Write calls.", |c| &c.writes),
    ("sockeye_turns", "Turns of the shards' loops.", |c| &c.turns),
    (
        "sockeye_dropped_volatile",
        "Volatile events dropped: not writable.",
        |c| &c.dropped_volatile,
    ),
    (
        "sockeye_dropped_slow",
        "Events dropped for slow consumers.",
        |c| &c.dropped_slow,
    ),
    (
        "sockeye_dropped_received",
        "Messages dropped: invalid, or by a rule.",
        |c| &c.dropped_in,
    ),
    ("sockeye_handler_panics", "Handlers that failed.", |c| {
        &c.handler_panics
    }),
];

/// Ends of connections that are nobody's intention.
const ERRORS: [CloseReason; 11] = [
    CloseReason::TransportError,
    CloseReason::ParseError,
    CloseReason::ProtocolError,
    CloseReason::InvalidUtf8,
    CloseReason::MessageTooBig,
    CloseReason::SlowConsumer,
    CloseReason::ConnectTimeout,
    CloseReason::MessageTimeout,
    CloseReason::HandshakeTimeout,
    CloseReason::LimitExceeded,
    CloseReason::InternalError,
];

#[derive(Debug)]
struct DataPlane {
    shards: Shards,
    rate: Arc<RateMeter>,
}

impl Collector for DataPlane {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        let encoder = &mut encoder;
        for (name, help, cell) in COMMON_GAUGES.iter().chain(&GAUGES) {
            gauge(encoder, name, help, total(&self.shards, *cell))?;
        }
        for (name, help, cell) in COMMON_COUNTERS.iter().chain(&COUNTERS) {
            counter(encoder, name, help, total(&self.shards, *cell))?;
        }
        self.durations(encoder)?;
        self.rate(encoder)?;
        let help = "Connections that ended with an error, by reason.";
        let errors = ERRORS
            .iter()
            .map(|reason| (reason.name(), self.closes(*reason)));
        labelled(encoder, "websocket_errors", help, "type", errors)?;
        let help = "Sessions and connections that ended, by reason.";
        let closes = CloseReason::ALL
            .iter()
            .map(|reason| (reason.name(), self.closes(*reason)));
        labelled(encoder, "sockeye_closes", help, "reason", closes)?;
        let help = "Times a limit was reached.";
        let hits = Limit::NAMES
            .iter()
            .enumerate()
            .map(|(limit, name)| (*name, self.hits(limit)));
        labelled(encoder, "sockeye_limit_hits", help, "limit", hits)
    }
}

impl DataPlane {
    fn closes(&self, reason: CloseReason) -> u64 {
        let index = CloseReason::ALL.iter().position(|other| *other == reason);
        let cells = |cells: &Arc<Cells>| {
            index.map_or(0, |index| cells.closes[index].load(Ordering::Relaxed))
        };
        self.shards.iter().map(cells).sum()
    }

    fn hits(&self, limit: usize) -> u64 {
        self.shards
            .iter()
            .map(|cells| cells.limits[limit].load(Ordering::Relaxed))
            .sum()
    }

    fn durations(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let bounds = DURATION_BOUNDS_MS.into_iter().chain([f64::INFINITY]);
        let buckets: Vec<(f64, u64)> = bounds
            .enumerate()
            .map(|(index, bound)| {
                let cells = self.shards.iter();
                (
                    bound,
                    cells
                        .map(|cells| cells.durations[index].load(Ordering::Relaxed))
                        .sum(),
                )
            })
            .collect();
        let count = buckets.iter().map(|(_, count)| count).sum();
        let sum_ms = total(&self.shards, |cells| &cells.duration_us) as f64 / 1_000.0;
        let help = "Time from the arrival of a message to the flush of what it caused.";
        let name = "websocket_message_duration_ms";
        let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Histogram)?;
        metric.encode_histogram::<[(&str, &str); 0]>(sum_ms, count, &buckets, None)
    }

    fn rate(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let help = "Connections accepted per second, over the last five seconds.";
        let gauge = ConstGauge::new(self.rate.per_second());
        let name = "websocket_connection_rate";
        gauge.encode(encoder.encode_descriptor(name, help, None, MetricType::Gauge)?)
    }
}

#[derive(Debug)]
struct Process;

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        let usage = Usage::read();
        let gauges = [
            (
                "process_resident_memory_bytes",
                "Resident memory.",
                usage.resident_bytes,
            ),
            (
                "process_virtual_memory_bytes",
                "Virtual memory.",
                usage.virtual_bytes,
            ),
            ("process_open_fds", "Open file descriptors.", usage.open_fds),
            (
                "process_max_fds",
                "File descriptors the process may open.",
                usage.max_fds,
            ),
            ("process_threads", "Threads.", usage.threads),
        ];
        for (name, help, value) in gauges {
            if let Some(value) = value {
                gauge(&mut encoder, name, help, value)?;
            }
        }
        if let Some(cpu) = usage.cpu {
            let counter = ConstCounter::new(cpu.as_secs_f64());
            let (name, help) = ("process_cpu_seconds", "User and system CPU time.");
            counter.encode(encoder.encode_descriptor(name, help, None, MetricType::Counter)?)?;
        }
        if let Some(start) = usage.start_time {
            let gauge = ConstGauge::new(start);
            let (name, help) = (
                "process_start_time_seconds",
                "Start, in seconds since 1970.",
            );
            gauge.encode(encoder.encode_descriptor(name, help, None, MetricType::Gauge)?)?;
        }
        let (name, help) = ("sockeye_build_info", "Version of the running binary.");
        let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        let label = [("version", env!("CARGO_PKG_VERSION"))];
        metric.encode_family(&label)?.encode_gauge(&1_i64)
    }
}

fn gauge(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    value: u64,
) -> Result<(), fmt::Error> {
    // Gauges are signed in the text format's data model; ours never are.
    let gauge = ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX));
    gauge.encode(encoder.encode_descriptor(name, help, None, MetricType::Gauge)?)
}

fn counter(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    value: u64,
) -> Result<(), fmt::Error> {
    let counter = ConstCounter::new(value);
    counter.encode(encoder.encode_descriptor(name, help, None, MetricType::Counter)?)
}

fn labelled(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    label: &str,
    values: impl Iterator<Item = (&'static str, u64)>,
) -> Result<(), fmt::Error> {
    let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
    for (value, count) in values {
        ConstCounter::new(count).encode(metric.encode_family(&[(label, value)])?)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exporter() -> (Shards, Exporter) {
        let shards: Shards = (0..2).map(|_| Arc::new(Cells::default())).collect();
        (Arc::clone(&shards), Exporter::new(shards))
    }

    fn value(text: &str, series: &str) -> Option<f64> {
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix(&format!("{series} ")));
        line.and_then(|value| value.parse().ok())
    }

    #[test]
    fn the_common_names_are_there_with_the_sum_of_all_shards() {
        let (shards, exporter) = exporter();
        for (index, cells) in (1..).zip(shards.iter()) {
            cells.websockets.store(index * 10, Ordering::Relaxed);
            cells.messages_in.store(index, Ordering::Relaxed);
            cells.mailbox.store(index, Ordering::Relaxed);
            cells.closes[3].store(index, Ordering::Relaxed);
            cells.limits[1].store(index, Ordering::Relaxed);
        }
        let text = exporter.text().expect("text");
        let value = |series: &str| value(&text, series);
        assert_eq!(value("websocket_connections_total"), Some(30.0));
        assert_eq!(value("websocket_messages_total"), Some(3.0));
        assert_eq!(value("message_queue_depth"), Some(3.0));
        let reason = CloseReason::ALL[3].name();
        assert_eq!(
            value(&format!("websocket_errors_total{{type=\"{reason}\"}}")),
            Some(3.0)
        );
        assert_eq!(
            value(&format!("sockeye_closes_total{{reason=\"{reason}\"}}")),
            Some(3.0)
        );
        let limit = Limit::NAMES[1];
        assert_eq!(
            value(&format!("sockeye_limit_hits_total{{limit=\"{limit}\"}}")),
            Some(3.0)
        );
        assert_eq!(value("websocket_connection_rate"), Some(0.0));
        for name in [
            "process_resident_memory_bytes",
            "process_open_fds",
            "process_start_time_seconds",
        ] {
            assert!(
                value(name).is_some_and(|value| value > 0.0),
                "{name} in {text}"
            );
        }
        // Counted in hundredths of a second: a test may not have used one yet.
        assert!(value("process_cpu_seconds_total").is_some());
        assert!(text.ends_with("# EOF\n"));
    }

    #[test]
    fn durations_are_a_cumulative_histogram() {
        let (shards, exporter) = exporter();
        shards[0].durations[0].store(4, Ordering::Relaxed);
        shards[1].durations[1].store(2, Ordering::Relaxed);
        shards[1].durations[6].store(1, Ordering::Relaxed);
        shards[1].duration_us.store(1_500, Ordering::Relaxed);
        let text = exporter.text().expect("text");
        let bucket = |le: &str| {
            value(
                &text,
                &format!("websocket_message_duration_ms_bucket{{le=\"{le}\"}}"),
            )
        };
        let counts = ["0.1", "5.0", "500.0", "+Inf"].map(bucket);
        assert_eq!(counts, [Some(4.0), Some(6.0), Some(6.0), Some(7.0)]);
        assert_eq!(
            value(&text, "websocket_message_duration_ms_count"),
            Some(7.0)
        );
        assert_eq!(value(&text, "websocket_message_duration_ms_sum"), Some(1.5));
    }

    #[test]
    fn the_connection_rate_looks_back_a_few_seconds() {
        let meter = RateMeter::default();
        let start = Instant::now();
        for second in 0..20 {
            // 100 a second, then none for the last six.
            let accepted = 100 * second.min(13);
            meter.sample(start + Duration::from_secs(second), accepted);
            if second == 10 {
                assert_eq!(meter.per_second(), 100.0);
            }
        }
        assert_eq!(meter.per_second(), 0.0);
    }

    #[test]
    fn close_reasons_are_documented_with_their_codes() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/protocol.md");
        let page = std::fs::read_to_string(page).expect("docs/protocol.md");
        for reason in CloseReason::ALL {
            let code = reason
                .close_code()
                .map_or("none".to_owned(), |code| code.to_string());
            let name = format!("`{}`", reason.name());
            let row = page
                .lines()
                .find(|line| line.starts_with('|') && line.contains(&name));
            let row = row.unwrap_or_else(|| panic!("{name} has no row"));
            assert!(
                row.contains(&format!("| {code} |")),
                "{name} has {code}, the page says {row}"
            );
        }
    }

    #[test]
    fn names_are_said_once() {
        let (_, exporter) = exporter();
        let text = exporter.text().expect("text");
        let mut names: Vec<_> = text
            .lines()
            .filter_map(|line| line.strip_prefix("# TYPE "))
            .collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
        assert!(count > 25, "{count}");
    }
}
