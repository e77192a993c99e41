//! `docs/metrics.md`: the table of metrics for people.

use super::row::Metric;
use super::table::GROUPS;
use super::{Samples, View};
use std::fmt::Write as _;

const INTRO: &str = "\
<!-- Made by `cargo xtask gen` from crates/control/src/metrics/table.rs. -->

# Metrics

`GET /metrics` on the private listener (`server.admin`, port 9090). A client that asks for OpenMetrics, as Prometheus does, gets it; all others get
the classic text format. A scrape reads what the shards publish in each turn: it holds up nobody and may come as often as you like.

Every value a label can have is listed here: clients cannot add one. `shard` is the number of a data-plane thread. Counters and histograms
begin at 0 with the process. [operations.md](operations.md#metrics-and-alerts) has the alerts and the dashboard made of these.
";

/// A metric's labels and the values of each, unless they depend on the machine or the build.
pub(super) fn label_values(metric: &Metric) -> Option<Vec<(&'static str, Vec<String>)>> {
    if matches!(metric.label, "" | "shard" | "version" | "namespace") {
        return None;
    }
    let nothing = super::node::Node::default();
    let view = View {
        shards: &[],
        node: &nothing,
        usage: process::usage::Usage::default(),
        accept_rate: 0.0,
        stalled: Vec::new(),
    };
    let rows: Vec<String> = match (metric.read)(&view) {
        Samples::Labelled(rows) => rows.into_iter().map(|(values, _)| values).collect(),
        Samples::Histograms(rows) => rows.into_iter().map(|(values, _)| values).collect(),
        _ => return None,
    };
    let names = metric.label.split(',').enumerate();
    let labels = names.map(|(at, name)| {
        let mut values: Vec<String> = Vec::new();
        for value in rows.iter().filter_map(|row| row.split(',').nth(at)) {
            if !values.iter().any(|known| known == value) {
                values.push(value.to_owned());
            }
        }
        (name, values)
    });
    Some(labels.collect())
}

/// The page.
fn markdown() -> String {
    let mut page = INTRO.to_owned();
    for group in GROUPS {
        // Writing to a string does not fail.
        let _ = write!(page, "\n## {}\n\n{}\n\n", group.title, group.intro);
        page.push_str("| name | type | labels | meaning |\n|---|---|---|---|\n");
        for metric in group.metrics {
            row(&mut page, metric);
        }
    }
    page
}

fn row(page: &mut String, metric: &Metric) {
    let labels = match label_values(metric) {
        None if metric.label.is_empty() => String::new(),
        None => format!("`{}`", metric.label),
        Some(labels) => {
            let labels = labels.iter().map(|(name, values)| {
                let values: Vec<String> = values.iter().map(|value| format!("`{value}`")).collect();
                format!("`{name}`: {}", values.join(", "))
            });
            labels.collect::<Vec<_>>().join("; ")
        }
    };
    let (name, kind) = (metric.name, metric.kind.name());
    let _ = writeln!(page, "| `{name}` | {kind} | {labels} | {} |", metric.help);
}

/// With UPDATE=1 in the environment it is written anew.
#[test]
fn the_page_is_fresh() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/metrics.md");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(path, markdown()).expect("write the page");
    }
    let page = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        page == markdown(),
        "docs/metrics.md is stale: run `cargo xtask gen`"
    );
}
