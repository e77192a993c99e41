//! What a scrape says, in both formats, and that the table is sound.

use super::node::{Bounds, Node};
use super::page::label_values;
use super::row::Kind;
use super::table::GROUPS;
use super::*;
use hub::CloseReason;
use hub::metrics::Limit;
use std::collections::BTreeSet;
use std::time::Duration;

fn exporter() -> (Shards, Arc<Node>, Exporter) {
    let shards: Shards = (0..2).map(|_| Arc::new(Cells::default())).collect();
    let node = Arc::new(Node::default());
    let exporter = Exporter::new(Arc::clone(&shards), Arc::clone(&node));
    (shards, node, exporter)
}

fn value(text: &str, series: &str) -> Option<f64> {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(&format!("{series} ")));
    line.and_then(|value| value.parse().ok())
}

#[test]
fn shards_are_added_up() {
    let (shards, _, exporter) = exporter();
    for (shard, count) in shards.iter().zip([1, 2]) {
        shard.websockets.store(count, Ordering::Relaxed);
        shard.messages_in.store(count, Ordering::Relaxed);
        shard.bytes_out.store(count, Ordering::Relaxed);
        shard.closes[CloseReason::ParseError as usize].store(count, Ordering::Relaxed);
        shard.limits[Limit::Payload as usize].store(count, Ordering::Relaxed);
        shard.delivered[2].store(count, Ordering::Relaxed);
    }
    let text = exporter.text("", Format::Classic);
    for series in [
        "websocket_connections_total",
        "websocket_messages_total",
        "sockeye_sent_bytes_total",
        "websocket_errors_total{type=\"parse_error\"}",
        "sockeye_closes_total{reason=\"parse_error\"}",
        "sockeye_limit_hits_total{limit=\"payload\"}",
        "sockeye_protocol_deliveries_total{protocol=\"polling\"}",
    ] {
        assert_eq!(value(&text, series), Some(3.0), "{series} in {text}");
    }
    assert_eq!(value(&text, "websocket_connection_rate"), Some(0.0));
    assert_eq!(
        value(&text, "sockeye_limit_hits_total{limit=\"rate\"}"),
        Some(0.0)
    );
    for name in [
        "process_resident_memory_bytes",
        "process_open_fds",
        "process_start_time_seconds",
    ] {
        assert!(value(&text, name) > Some(0.0), "{name} in {text}");
    }
    // Counted in hundredths of a second: a test may not have used one yet.
    assert!(value(&text, "process_cpu_seconds_total").is_some());
}

#[test]
fn each_shard_has_its_own_numbers() {
    let (shards, _, exporter) = exporter();
    shards[0].busy_us.store(1_500_000, Ordering::Relaxed);
    shards[1].mailbox.store(7, Ordering::Relaxed);
    shards[1].in_turn.store(true, Ordering::Relaxed);
    let start = Instant::now();
    exporter.sample(start);
    exporter.sample(start + Duration::from_secs(2));
    let text = exporter.text("", Format::Classic);
    let both = |name: &str| ["0", "1"].map(|n| value(&text, &format!("{name}{{shard=\"{n}\"}}")));
    assert_eq!(
        both("sockeye_shard_busy_seconds_total"),
        [Some(1.5), Some(0.0)]
    );
    assert_eq!(
        both("sockeye_shard_mailbox_messages"),
        [Some(0.0), Some(7.0)]
    );
    assert_eq!(
        both("sockeye_shard_stalled_seconds"),
        [Some(0.0), Some(2.0)]
    );
}

#[test]
fn durations_are_cumulative_histograms_with_the_bounds_that_were_agreed() {
    let (shards, node, exporter) = exporter();
    shards[0].durations[0].store(4, Ordering::Relaxed);
    shards[1].durations[1].store(2, Ordering::Relaxed);
    shards[1].durations[6].store(1, Ordering::Relaxed);
    shards[1].duration_us.store(1_500, Ordering::Relaxed);
    node.cluster.lag.observe(Duration::from_millis(30));
    let text = exporter.text("", Format::Classic);
    let buckets = |name: &str| -> Vec<(String, f64)> {
        let start = format!("{name}_bucket{{le=\"");
        let lines = text.lines().filter_map(|line| line.strip_prefix(&start));
        lines
            .filter_map(|line| line.split_once("\"} "))
            .map(|(le, count)| (le.to_owned(), count.parse().expect("a count")))
            .collect()
    };
    let wanted = |pairs: &[(&str, f64)]| -> Vec<(String, f64)> {
        pairs.iter().map(|(le, n)| ((*le).to_owned(), *n)).collect()
    };
    let durations = [("0.1", 4.0), ("5", 6.0), ("15", 6.0), ("50", 6.0)];
    let durations = [&durations[..], &[("100", 6.0), ("500", 6.0), ("+Inf", 7.0)]].concat();
    assert_eq!(buckets("websocket_message_duration_ms"), wanted(&durations));
    assert_eq!(value(&text, "websocket_message_duration_ms_sum"), Some(1.5));
    let lag = [
        ("1", 0.0),
        ("5", 0.0),
        ("10", 0.0),
        ("25", 0.0),
        ("50", 1.0),
    ];
    let late = [
        ("100", 1.0),
        ("250", 1.0),
        ("500", 1.0),
        ("1000", 1.0),
        ("+Inf", 1.0),
    ];
    assert_eq!(
        buckets("redis_publish_lag_ms"),
        wanted(&[&lag[..], &late].concat())
    );
}

#[test]
fn the_formats_differ_where_they_must() {
    let (_, _, exporter) = exporter();
    let (open, classic) = (
        exporter.text("", Format::OpenMetrics),
        exporter.text("", Format::Classic),
    );
    for (text, line) in [
        (&open, "# TYPE websocket_messages counter\n"),
        (&open, "# TYPE websocket_connections_total gauge\n"),
        (
            &open,
            "websocket_message_duration_ms_bucket{le=\"5.0\"} 0\n",
        ),
        (&classic, "# TYPE websocket_messages_total counter\n"),
        (
            &classic,
            "websocket_message_duration_ms_bucket{le=\"5\"} 0\n",
        ),
        (&open, "\nwebsocket_messages_total 0\n"),
        (&classic, "\nwebsocket_messages_total 0\n"),
    ] {
        assert!(text.contains(line), "{line:?} in {text}");
    }
    assert!(open.ends_with("\n# EOF\n") && !classic.contains("EOF"));
    let prometheus = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5";
    assert_eq!(Format::accepted(prometheus), Format::OpenMetrics);
    assert_eq!(Format::accepted("*/*"), Format::Classic);
}

#[test]
fn what_is_not_known_is_left_out() {
    let (_, node, exporter) = exporter();
    let series = "sockeye_memory_limit_bytes";
    assert!(!exporter.text("", Format::Classic).contains(series));
    let bounds = Bounds {
        connections: 9,
        memory_bytes: Some(1 << 30),
    };
    node.bounds.set(bounds).expect("set once");
    let text = exporter.text("", Format::Classic);
    assert_eq!(value(&text, series), Some(f64::from(1 << 30)));
    assert_eq!(value(&text, "sockeye_connections_limit"), Some(9.0));
}

#[test]
fn reloads_are_told_with_the_last_one_s_result() {
    let (_, node, exporter) = exporter();
    let state = || {
        let text = exporter.text("", Format::Classic);
        [
            "sockeye_config_reloads_total{result=\"success\"}",
            "sockeye_config_reloads_total{result=\"failure\"}",
            "sockeye_config_last_reload_successful",
        ]
        .map(|series| value(&text, series).expect(series))
    };
    assert_eq!(state(), [0.0, 0.0, 1.0]);
    node.reloads.failed();
    assert_eq!(state(), [0.0, 1.0, 0.0]);
    node.reloads.succeeded();
    assert_eq!(state(), [1.0, 1.0, 1.0]);
}

/// Prometheus' rules for names, which the two histograms in milliseconds and the gauge with `_total` are older than.
#[test]
fn the_table_keeps_to_the_rules_of_naming() {
    let mut names = BTreeSet::new();
    for metric in GROUPS.iter().flat_map(|group| group.metrics) {
        let name = metric.name;
        assert!(names.insert(name), "{name} twice");
        assert!(metric.help.ends_with('.'), "{name}: no full stop");
        let values = label_values(metric);
        assert!(
            values.is_none_or(|all| all.iter().all(|(_, values)| !values.is_empty())),
            "{name}: no values"
        );
        let legal = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
        assert!(name.bytes().all(legal), "{name}");
        if name != "websocket_connections_total" {
            let counts = metric.kind == Kind::Counter;
            assert_eq!(name.ends_with("_total"), counts, "{name}");
        }
        let ours = name.starts_with("sockeye_") || name.starts_with("process_");
        let agreed = ["websocket_", "redis_publish_lag_ms", "message_queue_depth"];
        assert!(
            ours || agreed.iter().any(|start| name.starts_with(start)),
            "{name}"
        );
    }
}

#[test]
fn a_help_text_names_no_metric_that_is_not_there() {
    let all = || GROUPS.iter().flat_map(|group| group.metrics);
    for metric in all() {
        let words = metric
            .help
            .split(|c: char| !c.is_alphanumeric() && c != '_');
        for word in words.filter(|word| word.starts_with("sockeye_")) {
            assert!(
                all().any(|other| other.name == word),
                "{}: {word}",
                metric.name
            );
        }
    }
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
