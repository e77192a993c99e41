//! The alert rules as promtool sees them, and the metrics as its linter does.

use super::{deploy, promtool, read};
use crate::harness::{Gateway, RawConn};
use std::collections::BTreeSet;

#[test]
#[ignore = "needs Prometheus: cargo xtask test foreign"]
fn the_rules_are_valid_and_each_fires_and_stays_quiet() {
    let (ok, said) = promtool(&["check", "rules", "alerts.yml"], "");
    assert!(ok, "{said}");
    let (ok, said) = promtool(&["check", "config", "prometheus.yml"], "");
    assert!(ok, "{said}");
    let (ok, said) = promtool(&["test", "rules", "alerts_test.yml"], "");
    assert!(ok, "{said}");
    let (rules, tests) = (
        read("prometheus/alerts.yml"),
        read("prometheus/alerts_test.yml"),
    );
    let alerts = alerts(&rules);
    assert!(alerts.len() >= 15, "{alerts:?}");
    for alert in alerts {
        for name in [format!("{alert} fires"), format!("{alert} stays quiet")] {
            assert!(
                tests.contains(&format!("- name: {name}\n")),
                "no test {name}"
            );
        }
    }
}

fn alerts(rules: &str) -> Vec<&str> {
    let lines = rules.lines().map(str::trim);
    lines
        .filter_map(|line| line.strip_prefix("- alert: "))
        .collect()
}

/// Thresholds and words that operators were promised.
#[test]
fn the_rules_that_were_agreed_are_there() {
    let rules = read("prometheus/alerts.yml");
    for (condition, summary) in [
        ("websocket_connection_rate > 1000", "Scale up immediately"),
        (
            "process_resident_memory_bytes / sockeye_memory_limit_bytes > 0.8",
            "Memory leak likely",
        ),
        (
            "(rate(redis_publish_lag_ms_bucket[5m]))) > 100",
            "Redis overloaded",
        ),
        ("message_queue_depth > 10000", "Processing bottleneck"),
        (
            "sockeye_connections / sockeye_connections_limit > 0.9",
            "Connections near the cap",
        ),
    ] {
        let rule = rules
            .split("- alert:")
            .find(|rule| rule.contains(&format!("summary: \"{summary}\"")));
        let rule = rule.unwrap_or_else(|| panic!("no rule says {summary}"));
        assert!(rule.contains(condition), "{condition} in {rule}");
    }
}

/// Pages with names of all metrics and of all alerts. Each other page may tell of a failure and the metric of it.
const REFERENCES: &[&str] = &["configuration.md", "metrics.md", "operations.md"];

/// Names and texts of the other pages.
fn pages() -> Vec<(String, String)> {
    let folder = std::fs::read_dir(deploy("../docs")).expect("docs");
    let names = folder.map(|entry| entry.expect("a page").file_name());
    let names = names.map(|name| name.into_string().expect("UTF-8"));
    let told = names.filter(|name| name.ends_with(".md") && !REFERENCES.contains(&name.as_str()));
    let page = |name: String| {
        let text = read(&format!("../docs/{name}"));
        (name, text)
    };
    let mut pages: Vec<_> = told.map(page).collect();
    pages.sort();
    pages
}

/// Names of metrics in a text, without the beginnings of several names (`sockeye_relay_*`).
fn metrics(text: &str) -> BTreeSet<&str> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '*');
    let ours = ["sockeye_", "websocket_", "redis_publish_", "message_queue_"];
    let named = words.filter(|word| ours.iter().any(|prefix| word.starts_with(prefix)));
    let whole = named.filter(|word| !word.ends_with(['_', '*']));
    // A quantile is taken of the buckets.
    whole.map(|word| word.trim_end_matches("_bucket")).collect()
}

/// Rows of tables, and items of lists with the lines that go on with them.
fn failures(page: &str) -> impl Iterator<Item = &str> {
    page.lines().filter(|line| {
        ["|", "* ", "  "]
            .iter()
            .any(|begin| line.starts_with(begin))
    })
}

/// A failure that only a metric tells of is told to nobody, unless an alert asks for it.
#[test]
fn each_metric_of_a_failure_is_in_an_alert_or_says_why_not() {
    let (rules, operations) = (read("prometheus/alerts.yml"), read("../docs/operations.md"));
    let alerting = metrics(&rules);
    let (_, why) = operations
        .split_once("### Metrics without an alert\n")
        .expect("the list");
    let (why, _) = why.split_once("\n#").expect("more after it");
    let rows: Vec<_> = why.lines().filter(|line| line.starts_with("| `")).collect();
    assert!(
        rows.iter()
            .all(|row| row.matches('|').count() == 3 && row.len() > 30)
    );
    let excused: BTreeSet<_> = rows.iter().flat_map(|row| metrics(row)).collect();
    let mut unheard = Vec::new();
    let mut told = BTreeSet::new();
    let pages = pages();
    assert!(pages.len() > 25, "{} pages", pages.len());
    for (page, text) in &pages {
        for row in failures(text) {
            told.extend(metrics(row));
            let names = metrics(row).into_iter();
            let unknown = names.filter(|name| !alerting.contains(name) && !excused.contains(name));
            unheard.extend(unknown.map(|name| format!("{page}: {name}")));
        }
    }
    assert_eq!(
        unheard,
        Vec::<String>::new(),
        "no alert and no reason in operations.md"
    );
    let idle: Vec<_> = excused
        .iter()
        .filter(|name| alerting.contains(*name) || !told.contains(*name))
        .collect();
    assert_eq!(
        idle,
        Vec::<&&str>::new(),
        "reasons that nobody needs any more"
    );
    assert!(told.len() > 25, "{told:?}");
}

/// An operator who is woken by an alert looks it up.
#[test]
fn each_alert_is_in_the_table_of_operators_and_none_else() {
    let (rules, operations) = (read("prometheus/alerts.yml"), read("../docs/operations.md"));
    let fires: BTreeSet<&str> = alerts(&rules).into_iter().collect();
    let (_, table) = operations
        .split_once("| alert | fires when |")
        .expect("the table");
    let (table, _) = table.split_once("\n\n").expect("its end");
    let first_cells = table.lines().filter_map(|row| row.split('|').nth(1));
    let names = first_cells.flat_map(|cell| cell.split('`').skip(1).step_by(2));
    assert_eq!(names.collect::<BTreeSet<_>>(), fires);
}

#[test]
fn the_chart_has_the_same_alerts() {
    let (shipped, charts) = (
        read("prometheus/alerts.yml"),
        read("helm/sockeye/alerts.yml"),
    );
    assert!(
        shipped == charts,
        "cp deploy/prometheus/alerts.yml deploy/helm/sockeye/"
    );
}

/// The names that are older than Prometheus' advice are the only ones its linter may object to.
#[test]
#[ignore = "needs Prometheus: cargo xtask test foreign"]
fn the_linter_objects_only_to_the_common_names() {
    let gateway = Gateway::start("profile = \"socket.io\"\n");
    let request = "GET /metrics HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    let text = RawConn::exchange(gateway.admin, request).body;
    let (_, said) = promtool(&["check", "metrics"], &text);
    let objections: Vec<&str> = said
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    let known = [
        "redis_publish_lag_ms",
        "websocket_connections_total",
        "websocket_message_duration_ms",
    ];
    let mut names = objections.clone();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names, known, "{said}");
    // Proof that it reads what it is given.
    let (ok, said) = promtool(&["check", "metrics"], &format!("{text}half a line"));
    assert!(!ok && said.contains("error"), "{said}");
}
