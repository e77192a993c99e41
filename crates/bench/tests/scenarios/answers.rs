//! What comes back from a server: answers late, missing or double, copies, messages in fragments.

use crate::rig::{assert_clean, run, scenario};
use crate::stream_server::StreamServer;
use bench::report;
use bench::scenario::Scenario;
use outcome::ResultFile;

/// Time enough for all steps, whatever else the machine does.
fn unhurried(connections: u32, steps: &str) -> Scenario {
    let text = format!(
        "name = \"test\"\nprotocol = \"websocket\"\n[[phases]]\nname = \"go\"\nconnections = {connections}\n\
         duration = \"4s\"\n[flows.user]\nsteps = [{{ connect = true }}, {{ wait = \"go\" }}, {steps}]\n"
    );
    Scenario::parse("test.toml", &text).unwrap()
}

#[test]
fn late_missing_and_double_answers_are_told_apart() {
    let steps = r#"
        { emit = "never", ack = true, within = "50ms" },
        { loop = [{ emit = "twice", ack = true }], times = 2 },
        { emit = "slow", ack = true, within = "100ms" },
        { emit = "twice", ack = true },
    "#;
    let outcome = run(&unhurried(3, steps), &StreamServer::start().url, 1);
    let totals = &outcome.totals;
    assert_eq!((totals.acks_expected, totals.acked), (15, 9), "{totals:?}");
    assert_eq!((totals.acked_late, totals.acks_missing()), (3, 3));
    assert_eq!(totals.acks_duplicated, 9, "{totals:?}");
}

#[test]
fn double_answers_alone_are_a_fault() {
    let steps = "{ loop = [{ emit = \"twice\", ack = true }], times = 5 }";
    let outcome = run(&unhurried(2, steps), &StreamServer::start().url, 1);
    let file = ResultFile::Run(Box::new(outcome));
    let verdict = report::document(&file, "test").verdict;
    assert_eq!(verdict.level, outcome::verdict::Level::Bad);
    assert!(
        verdict
            .headline
            .contains("10 of 10 acknowledgements duplicated"),
        "{}",
        verdict.headline
    );
}

#[test]
fn messages_in_fragments_are_put_together() {
    let flows = r#"
[flows.user]
protocol = "websocket"
steps = [
  { connect = true },
  { join = "lobby" },
  { loop = [
      { emit = "pieces", to = "lobby", echo = true },
      { emit = "whole", to = "lobby", echo = true },
    ], every = "100ms" },
]
"#;
    let outcome = run(&scenario(5, "", flows), &StreamServer::start().url, 1);
    assert_clean(&outcome);
    assert!(outcome.totals.received > 50, "{:?}", outcome.totals);
}

#[test]
fn events_that_are_no_deliveries_are_told() {
    let steps = r#"
        { join = "lobby" },
        { loop = [{ emit = "copied", to = "lobby", echo = true, ack = true }], times = 4 },
    "#;
    let outcome = run(&unhurried(1, steps), &StreamServer::start().url, 1);
    assert_eq!((outcome.totals.received, outcome.totals.duplicated), (4, 4));
    let told = outcome.notes.join("\n");
    assert!(
        told.contains("4 of the events in msgs/s were no deliveries"),
        "{told}"
    );
}
