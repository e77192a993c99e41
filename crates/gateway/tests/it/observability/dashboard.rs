//! The dashboard's file: what Grafana needs of it, and the queries in it.

use super::read;
use serde_json::Value;
use std::collections::BTreeSet;

pub fn dashboard() -> Value {
    serde_json::from_str(&read("grafana/sockeye.json")).expect("JSON")
}

fn panels(dashboard: &Value) -> Vec<&Value> {
    let panels = dashboard["panels"].as_array().expect("panels");
    let panels = panels.iter();
    panels.filter(|panel| panel["type"] != "row").collect()
}

/// Title of the panel, and a query as Prometheus takes it.
pub fn queries(dashboard: &Value) -> Vec<(String, String)> {
    let mut queries = Vec::new();
    for panel in panels(dashboard) {
        let title = panel["title"].as_str().expect("a title");
        for target in panel["targets"].as_array().expect("targets") {
            let query = target["expr"].as_str().expect("an expression");
            let query = query
                .replace("$__rate_interval", "10s")
                .replace("$job", "sockeye")
                .replace("$instance", ".*");
            assert!(!query.contains('$'), "{title}: {query}");
            queries.push((title.to_owned(), query));
        }
    }
    queries
}

#[test]
fn every_panel_asks_a_question_and_says_what_to_do() {
    let dashboard = dashboard();
    let rows: Vec<_> = dashboard["panels"]
        .as_array()
        .expect("panels")
        .iter()
        .filter(|panel| panel["type"] == "row")
        .map(|panel| panel["title"].as_str().expect("a title"))
        .collect();
    assert_eq!(
        rows,
        [
            "Business",
            "Performance",
            "Infrastructure",
            "Cluster",
            "Workers",
            "Webhooks",
            "Server API",
            "Recovery",
            "Upgrades",
            "History",
            "Redis",
            "Machines",
        ]
    );
    let mut ids = BTreeSet::new();
    for panel in panels(&dashboard) {
        let title = panel["title"].as_str().expect("a title");
        assert!(title.ends_with('?'), "{title}: not a question");
        let description = panel["description"].as_str().unwrap_or_default();
        assert!(says_what_to_do(description), "{title}: {description:?}");
        let unit = panel["fieldConfig"]["defaults"]["unit"].as_str();
        assert!(unit.is_some_and(|unit| !unit.is_empty()), "{title}");
        assert_eq!(panel["datasource"]["uid"], "${datasource}", "{title}");
        assert!(ids.insert(panel["id"].as_u64()), "{title}: its id is taken");
    }
    let variables: Vec<_> = dashboard["templating"]["list"]
        .as_array()
        .expect("variables")
        .iter()
        .map(|variable| variable["name"].as_str().expect("a name"))
        .collect();
    assert_eq!(variables, ["datasource", "job", "instance"]);
}

/// One thing after the other: the figures of the panel, how they should be, the next step if they are not.
fn says_what_to_do(description: &str) -> bool {
    let parts = description.split_once(". Normal: ");
    let parts = parts.and_then(|(shows, rest)| Some((shows, rest.split_once(". Else: ")?)));
    let Some((shows, (normal, otherwise))) = parts else {
        return false;
    };
    let long_enough = shows.len() > 20 && !normal.is_empty() && otherwise.len() > 20;
    long_enough && otherwise.ends_with('.')
}

/// Nobody saw a worker die: of nineteen metrics none was in a panel or an alert.
#[test]
fn metrics_of_what_fails_apart_from_the_gateway_are_watched() {
    let watched = read("grafana/sockeye.json") + &read("prometheus/alerts.yml");
    let page = read("../docs/metrics.md");
    let names = page.lines().filter_map(|line| line.split('`').nth(1));
    let ours = [
        "sockeye_backend_",
        "sockeye_api_",
        "sockeye_returns_",
        "sockeye_replay",
        "sockeye_parked_",
        "sockeye_journal_",
        "sockeye_history_",
        "sockeye_stream_",
        "sockeye_upgrade",
    ];
    let names = names.filter(|name| ours.iter().any(|prefix| name.starts_with(prefix)));
    let (seen, unseen): (Vec<_>, Vec<_>) = names.partition(|name| watched.contains(name));
    assert_eq!(unseen, Vec::<&str>::new());
    assert!(seen.len() >= 35, "{seen:?}");
}

#[test]
fn no_panel_lies_on_another() {
    let dashboard = dashboard();
    let mut taken = BTreeSet::new();
    for panel in panels(&dashboard) {
        let side = |name: &str| panel["gridPos"][name].as_u64().expect("a position");
        let (x, y, w, h) = (side("x"), side("y"), side("w"), side("h"));
        assert!(x + w <= 24, "{}", panel["title"]);
        for cell in (x..x + w).flat_map(|x| (y..y + h).map(move |y| (x, y))) {
            assert!(taken.insert(cell), "{} at {cell:?}", panel["title"]);
        }
    }
}
