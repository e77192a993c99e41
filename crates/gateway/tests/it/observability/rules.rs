//! The alert rules as promtool sees them, and the metrics as its linter does.

use super::{promtool, read};
use crate::harness::{Gateway, RawConn};

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
    let alerts: Vec<&str> = rules
        .lines()
        .filter_map(|line| line.trim().strip_prefix("- alert: "))
        .collect();
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
