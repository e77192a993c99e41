//! Whether this node is well: conditions of the alert rules (`deploy/prometheus/alerts.yml`), as far as one node can judge them by
//! itself, so that the console, `/ready?verbose` and `sockeye doctor --live` say what an alert would say. Counters are compared over five
//! minutes, also where an alert looks at a rate.

use super::super::metrics::{Exporter, Figures};
use serde::Serialize;
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use utoipa::ToSchema;

/// Where each alert is explained.
const DOCS: &str = "operations.md#metrics-and-alerts";
/// Counters are compared with what they were so long ago.
const WINDOW: Duration = Duration::from_secs(300);
const SAMPLE_INTERVAL: Duration = Duration::from_secs(30);

/// A test of a metric's value.
#[derive(Clone, Copy, Debug)]
enum When {
    /// One of its values is above this.
    Above(f64),
    /// Its value is below this.
    Below(f64),
    /// Its value, divided by this metric's, is above that.
    Share(&'static str, f64),
    /// It grew by more than this in five minutes.
    Grew(f64),
}

/// A condition under which an operator should look.
#[derive(Debug)]
struct Condition {
    /// The alert of the same name.
    alert: &'static str,
    severity: &'static str,
    metric: &'static str,
    /// Values of its label that count; empty: all.
    labels: &'static [&'static str],
    when: When,
    /// So long it must have been true, seconds.
    holds_s: u64,
    /// `{}` is the figure.
    sentence: &'static str,
}

const fn critical(
    alert: &'static str,
    metric: &'static str,
    when: When,
    sentence: &'static str,
) -> Condition {
    Condition {
        alert,
        severity: "critical",
        metric,
        labels: &[],
        when,
        holds_s: 0,
        sentence,
    }
}

const fn warning(
    alert: &'static str,
    metric: &'static str,
    when: When,
    sentence: &'static str,
) -> Condition {
    Condition {
        severity: "warning",
        ..critical(alert, metric, when, sentence)
    }
}

impl Condition {
    const fn only(self, labels: &'static [&'static str]) -> Self {
        Self { labels, ..self }
    }

    /// As `for` of the alert.
    const fn holds(self, holds_s: u64) -> Self {
        Self { holds_s, ..self }
    }
}

/// The worst ones first.
const CONDITIONS: &[Condition] = &[
    critical(
        "SockeyeShardStalled",
        "sockeye_shard_stalled_seconds",
        When::Above(5.0),
        "A shard has been in one turn for {} s: its clients get nothing.",
    ),
    critical(
        "SockeyeClusterUnreachable",
        "sockeye_cluster_up",
        When::Below(1.0),
        "The other nodes cannot be reached: each node serves its own clients only.",
    ).holds(30),
    critical(
        "SockeyeClusterMessagesLost",
        "sockeye_cluster_lost_total",
        When::Grew(0.0),
        "{} messages between nodes were lost in five minutes.",
    ),
    critical(
        "SockeyeClusterMessagesLost",
        "sockeye_cluster_resyncs_total",
        When::Grew(0.0),
        "Shards had to be told {} times anew what they missed of other nodes, in five minutes.",
    ),
    critical(
        "SockeyeKeysMissing",
        "sockeye_auth_tokens_total",
        When::Grew(0.0),
        "{} tokens could not be checked in five minutes, because there are no keys: their clients were refused.",
    )
    .only(&["unavailable"])
    .holds(60),
    critical(
        "SockeyeClusterRefuses",
        "sockeye_cluster_refused_total",
        When::Grew(0.0),
        "{} messages to other nodes were refused in five minutes, because too many wait.",
    ),
    critical(
        "SockeyeBackendWithoutWorker",
        "sockeye_backend_without_worker",
        When::Above(0.0),
        "{} backends have no worker: their clients wait, then get errors.",
    ).holds(60),
    critical(
        "SockeyeBackendRefuses",
        "sockeye_backend_refused_total",
        When::Grew(30.0),
        "Backends refused {} events in five minutes.",
    ).holds(60),
    critical(
        "SockeyeDeadLetters",
        "sockeye_backend_dead_letters_total",
        When::Grew(0.0),
        "A backend missed {} messages for good in five minutes.",
    ),
    critical(
        "SockeyeStreamAway",
        "sockeye_stream_away_seconds",
        When::Above(10.0),
        "A namespace of recovery level cluster has had no way through Redis for {} s: publishers are refused.",
    ),
    critical(
        "SockeyeHistoryLost",
        "sockeye_history_events_total",
        When::Grew(0.0),
        "{} events are missing in the history of the last five minutes.",
    )
    .only(&["dropped", "refused"]),
    critical(
        "SockeyeAcceptPaused",
        "sockeye_accept_pauses_total",
        When::Grew(0.0),
        "The process ran out of file descriptors {} times in five minutes.",
    ),
    critical(
        "SockeyeHandlerPanics",
        "sockeye_handler_panics_total",
        When::Grew(0.0),
        "A handler failed {} times in five minutes.",
    ),
    critical(
        "SockeyeRelayFull",
        "sockeye_relay_refused_total",
        When::Grew(0.0),
        "{} connections for other nodes were refused in five minutes, because too many are relayed.",
    ),
    critical(
        "SockeyeNodeServersMissMessages",
        "sockeye_foreign_dropped_total",
        When::Grew(0.0),
        "{} messages of Node servers were dropped in five minutes.",
    ),
    critical(
        "SockeyeNodeServersMissMessages",
        "sockeye_foreign_stream_cuts_total",
        When::Grew(0.0),
        "The stream of Node servers was found cut {} times in five minutes: messages are missing.",
    ),
    warning(
        "SockeyeMemoryHigh",
        "process_resident_memory_bytes",
        When::Share("sockeye_memory_limit_bytes", 0.8),
        "{} of the memory that the process may use is in use.",
    ).holds(300),
    warning(
        "SockeyeConnectionsNearLimit",
        "sockeye_connections",
        When::Share("sockeye_connections_limit", 0.9),
        "{} of the connections that the process may hold are open.",
    ).holds(60),
    warning(
        "SockeyeConnectionRateHigh",
        "websocket_connection_rate",
        When::Above(1_000.0),
        "{} connections come per second.",
    ).holds(60),
    warning(
        "SockeyeQueueDepthHigh",
        "message_queue_depth",
        When::Above(10_000.0),
        "{} messages wait in the mailboxes of the shards.",
    ).holds(60),
    warning(
        "SockeyeConnectionsShed",
        "sockeye_connections_shed_total",
        When::Grew(0.0),
        "{} newcomers were sent away in five minutes.",
    ).holds(60),
    warning(
        "SockeyeBackendQueueFills",
        "sockeye_backend_queue_ratio",
        When::Above(0.8),
        "The queue of a backend is filled to {}.",
    ).holds(60),
    warning(
        "SockeyeWorkersLost",
        "sockeye_backend_workers_lost_total",
        When::Grew(0.0),
        "{} workers were lost in five minutes.",
    ),
    warning(
        "SockeyeHistoryAway",
        "sockeye_history_away_seconds",
        When::Above(30.0),
        "The store of history has taken nothing for {} s.",
    ),
    warning(
        "SockeyeReloadFailed",
        "sockeye_config_last_reload_successful",
        When::Below(1.0),
        "The configuration was refused at the last reload: the old one is in force.",
    ),
    warning(
        "SockeyeUpgradeFailed",
        "sockeye_upgrades_total",
        When::Grew(0.0),
        "{} upgrades were given up in five minutes: the process before goes on.",
    )
    .only(&["failed"]),
    Condition {
        severity: "info",
        ..warning(
            "SockeyeLogLinesDropped",
            "sockeye_log_lines_dropped_total",
            When::Grew(0.0),
            "{} lines of the log were dropped in five minutes.",
        )
        .holds(300)
    },
];

/// A condition that is true now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct Finding {
    /// The alert of the same name.
    pub(crate) name: &'static str,
    /// `critical`, `warning` or `info`.
    pub(crate) severity: &'static str,
    /// The fault, in one sentence.
    pub(crate) sentence: String,
    /// The page of the documentation that helps.
    pub(crate) docs: &'static str,
}

/// The values of all conditions' metrics at one moment.
type Values = Vec<Option<f64>>;

#[derive(Debug, Default)]
struct Kept {
    /// Of the last minutes, for what grows.
    samples: VecDeque<(Instant, Values)>,
    /// Since when each condition is true.
    since: Vec<Option<Instant>>,
    findings: Vec<Finding>,
}

/// The conditions as they were when they were looked at last.
#[derive(Debug, Default)]
pub(crate) struct Conditions(Mutex<Kept>);

impl Conditions {
    /// To be called about once a second.
    pub(crate) fn sample(&self, now: Instant, exporter: &Exporter) {
        let figures = exporter.figures();
        let value = |condition: &Condition| figures.value(condition.metric, condition.labels);
        let values: Values = CONDITIONS.iter().map(value).collect();
        let mut kept = self.kept();
        let old = |(at, _): &(Instant, Values)| now.saturating_duration_since(*at) > WINDOW;
        while kept.samples.front().is_some_and(old) {
            kept.samples.pop_front();
        }
        let newest = kept.samples.back();
        if newest.is_none_or(|(at, _)| now.saturating_duration_since(*at) >= SAMPLE_INTERVAL) {
            kept.samples.push_back((now, values.clone()));
        }
        kept.since.resize(CONDITIONS.len(), None);
        let Kept {
            samples,
            since,
            findings,
        } = &mut *kept;
        findings.clear();
        for (at, condition) in CONDITIONS.iter().enumerate() {
            let before = samples.front().and_then(|(_, values)| values[at]);
            let bound = exporter.is_cut_off() || condition.metric != "sockeye_cluster_up";
            let figure = values[at].filter(|_| bound);
            let figure = figure.and_then(|value| condition.figure(&figures, value, before));
            let Some(figure) = figure else {
                since[at] = None;
                continue;
            };
            let began = *since[at].get_or_insert(now);
            if now.saturating_duration_since(began).as_secs() >= condition.holds_s {
                findings.push(Finding {
                    name: condition.alert,
                    severity: condition.severity,
                    sentence: condition.sentence.replace("{}", &figure),
                    docs: DOCS,
                });
            }
        }
    }

    /// The conditions that are true now, the worst ones first.
    pub(crate) fn findings(&self) -> Vec<Finding> {
        self.kept().findings.clone()
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Condition {
    /// The figure for people, if the condition is true.
    fn figure(&self, figures: &Figures<'_>, now: f64, before: Option<f64>) -> Option<String> {
        match self.when {
            When::Above(bound) => (now > bound).then(|| number(now)),
            When::Below(bound) => (now < bound).then(|| number(now)),
            When::Share(of, bound) => {
                let share = now / figures.value(of, &[]).filter(|of| *of > 0.0)?;
                (share > bound).then(|| format!("{:.0} %", share * 100.0))
            }
            When::Grew(bound) => {
                let grown = now - before?;
                (grown > bound).then(|| number(grown))
            }
        }
    }
}

fn number(value: f64) -> String {
    match value.fract() == 0.0 || value >= 100.0 {
        true => format!("{value:.0}"),
        false => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hub::metrics::Cells;
    use std::sync::Arc;
    use std::sync::atomic::Ordering;

    fn exporter(cells: &Arc<Cells>) -> Exporter {
        Exporter::new([Arc::clone(cells)].into(), Arc::default())
    }

    /// Alerts and conditions are two texts: they must name the same metrics and bounds.
    #[test]
    fn each_condition_is_that_of_the_alert_of_its_name() {
        let path = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../deploy/prometheus/alerts.yml"
        );
        let rules = std::fs::read_to_string(path).expect("alerts.yml");
        for condition in CONDITIONS {
            let from = format!("alert: {}\n", condition.alert);
            let (_, rest) = rules.split_once(&from).expect(condition.alert);
            let rule = rest.split("- alert:").next().unwrap_or_default();
            assert!(rule.contains(condition.metric), "{condition:?}");
            let severity = format!("severity: {}", condition.severity);
            assert!(rule.contains(&severity), "{condition:?}");
            let holds = match condition.holds_s {
                0 => None,
                seconds if seconds % 60 == 0 => Some(format!("for: {}m", seconds / 60)),
                seconds => Some(format!("for: {seconds}s")),
            };
            let has_for = rule.contains(" for: ");
            assert_eq!(has_for, holds.is_some(), "{condition:?}");
            assert!(
                holds.is_none_or(|holds| rule.contains(&holds)),
                "{condition:?}"
            );
            for label in condition.labels {
                assert!(rule.contains(label), "{condition:?}");
            }
            match condition.when {
                When::Above(bound) => {
                    assert!(rule.contains(&format!("> {bound}")), "{condition:?}")
                }
                When::Below(_) => assert!(rule.contains("== 0"), "{condition:?}"),
                When::Share(of, bound) => {
                    assert!(rule.contains(of), "{condition:?}");
                    assert!(rule.contains(&format!("> {bound}")), "{condition:?}");
                }
                When::Grew(_) => {
                    let grows = rule.contains("rate(") || rule.contains("increase(");
                    assert!(grows, "{condition:?}");
                }
            }
        }
    }

    #[test]
    fn every_metric_of_a_condition_is_exported() {
        let exporter = exporter(&Arc::default());
        for condition in CONDITIONS {
            assert!(exporter.has(condition.metric), "{condition:?}");
            if let When::Share(of, _) = condition.when {
                assert!(exporter.has(of), "{condition:?}");
            }
        }
    }

    #[test]
    fn a_condition_is_found_when_it_has_been_true_for_long_enough() {
        let cells = Arc::<Cells>::default();
        let (exporter, conditions) = (exporter(&cells), Conditions::default());
        let start = Instant::now();
        let said = |second: u64| {
            conditions.sample(start + Duration::from_secs(second), &exporter);
            let findings = conditions.findings();
            let sentences = findings.into_iter().map(|found| found.sentence);
            sentences.collect::<Vec<_>>().join(" ")
        };
        assert_eq!(said(0), "");
        cells.handler_panics.store(3, Ordering::Relaxed);
        cells.mailbox.store(20_000, Ordering::Relaxed);
        let failed = "A handler failed 3 times in five minutes.";
        let long = "20000 messages wait in the mailboxes of the shards.";
        assert_eq!(said(1), failed);
        assert_eq!(said(60), failed);
        assert_eq!(said(61), format!("{failed} {long}"));
        // One moment without it, and it begins anew.
        cells.mailbox.store(0, Ordering::Relaxed);
        assert_eq!(said(62), failed);
        cells.mailbox.store(20_000, Ordering::Relaxed);
        assert_eq!(said(63), failed);
        // Five minutes later the failures are old.
        said(250);
        assert_eq!(said(400), long);
    }
}
