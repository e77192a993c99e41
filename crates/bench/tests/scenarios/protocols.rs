//! Every protocol, every transport, every kind of step, against a server that behaves.

use crate::node::Node;
use crate::rig::{assert_clean, run, scenario};
use crate::stream_server::StreamServer;

/// Joins, sends to its room at the phase's pace, with and without acknowledgement.
const MEMBER: &str = r#"
[flows.member]
steps = [
  { connect = true },
  { join = "room-${user / 5}" },
  { loop = [
      { emit = "message", to = "room-${user / 5}", echo = true, ack = true },
    ], pace = "phase" },
]
"#;

fn everyone_hears_everything(head: &str, url: &str, workers: u32) {
    let outcome = run(&scenario(20, head, MEMBER), url, workers);
    assert_clean(&outcome);
    let totals = &outcome.totals;
    assert!(totals.sent > 20, "{totals:?}");
    assert_eq!(
        totals.expected,
        totals.sent * 5,
        "rooms of five: {totals:?}"
    );
    assert_eq!(
        (totals.connects_succeeded, totals.connections_peak),
        (20, 20)
    );
    assert_eq!(totals.acks_expected, totals.sent + 20, "a join each");
    let by_second: u64 = outcome.timeline.iter().map(|second| second.expected).sum();
    assert_eq!(by_second, totals.expected);
    assert_eq!(outcome.phases.len(), 1);
    assert!(outcome.latency.delivery.count() > 0 && outcome.latency.ack.count() > 0);
}

#[test]
#[ignore = "needs Node: cargo xtask test foreign"]
fn socket_io_over_websocket() {
    everyone_hears_everything("", &Node::start().url, 1);
}

#[test]
#[ignore = "needs Node: cargo xtask test foreign"]
fn socket_io_over_websocket_with_three_workers() {
    everyone_hears_everything("", &Node::start().url, 3);
}

#[test]
#[ignore = "needs Node: cargo xtask test foreign"]
fn socket_io_over_polling() {
    everyone_hears_everything("transport = \"polling\"", &Node::start().url, 2);
}

#[test]
#[ignore = "needs Node: cargo xtask test foreign"]
fn socket_io_that_upgrades_from_polling() {
    everyone_hears_everything("transport = \"upgrade\"", &Node::start().url, 1);
}

#[test]
fn plain_websocket_and_event_streams_in_one_room() {
    let flows = r#"
[flows.talker]
protocol = "websocket"
count = 2
steps = [
  { connect = true },
  { join = "lobby" },
  { loop = [{ emit = "message", to = "lobby", echo = true }], pace = "phase" },
]

[flows.listener]
protocol = "sse"
path = "/sse?n=${user}"
steps = [{ connect = true, room = "lobby" }, { expect = "message", count = 3 }]
"#;
    let server = StreamServer::start();
    let outcome = run(&scenario(8, "", flows), &server.url, 2);
    assert_clean(&outcome);
    let totals = &outcome.totals;
    assert_eq!(outcome.protocol, "websocket + sse");
    assert!(totals.sent > 20, "{totals:?}");
    assert_eq!(totals.expected, totals.sent * 8);
}

#[test]
#[ignore = "needs Node: cargo xtask test foreign"]
fn own_messages_do_not_come_back_unless_said_so() {
    let flows = r#"
[flows.pusher]
weight = 1
steps = [
  { connect = true },
  { join = "room-${user / 4}" },
  { wait = "go" },
  { loop = [{ emit = "push", to = "room-${user / 4}" }], every = "100ms" },
]
[flows.receiver]
weight = 3
steps = [
  { connect = true },
  { join = "room-${user / 4}" },
  { loop = [{ expect = "push" }, { emit = "got", body = "${iteration}", ack = true }] },
]
"#;
    let outcome = run(&scenario(16, "", flows), &Node::start().url, 2);
    let totals = &outcome.totals;
    assert_clean(&outcome);
    let pushes = totals.sent - (totals.acks_expected - 16);
    assert_eq!(totals.expected, pushes * 3, "{totals:?}");
    assert!(pushes > 20, "{totals:?}");
}

#[test]
#[ignore = "needs Node: cargo xtask test foreign"]
fn users_come_and_go_think_and_return() {
    let flows = r#"
[flows.wanderer]
steps = [
  { auth = '{"token":"${user}"}' },
  { connect = true },
  { loop = [
      { join = "room" },
      { emit = "message", to = "room", echo = true, ack = true },
      { think = { min = "1ms", max = "20ms" } },
      { leave = "room" },
      { disconnect = true },
      { reconnect = true, min = "10ms", max = "50ms", jitter = 0.3, attempts = 5 },
    ], times = 5 },
]
"#;
    let outcome = run(&scenario(6, "", flows), &Node::start().url, 2);
    let totals = &outcome.totals;
    assert!(outcome.errors.is_empty(), "{:?}", outcome.errors);
    assert_eq!(
        (totals.lost, totals.stray, totals.duplicated),
        (0, 0, 0),
        "{totals:?}"
    );
    assert!(
        totals.connects_succeeded > 6 && totals.connects_succeeded <= 36,
        "{totals:?}"
    );
    assert!(
        totals.either_allowed > 0,
        "someone was on the way in or out: {totals:?}"
    );
}

#[test]
#[ignore = "needs Node: cargo xtask test foreign"]
fn a_phase_is_waited_for_and_arrivals_follow_their_rate() {
    let text = r#"
name = "phases"
[[phases]]
name = "arrive"
arrivals = "40/s"
duration = "1s"
[[phases]]
name = "storm"
duration = "4s"
[flows.user]
steps = [
  { connect = true },
  { wait = "storm" },
  { disconnect = true },
  { reconnect = true },
  { join = "room-${user}" },
]
"#;
    let scenario = bench::scenario::Scenario::parse("phases.toml", text).unwrap();
    assert_eq!(scenario.users(), 40);
    let mut options = bench::engine::Options::new(crate::processes::processes());
    options.workers = Some(2);
    let node = Node::start();
    let target = bench::engine::Target {
        urls: vec![node.url.clone()],
        pids: vec![node.pid(), std::process::id()],
        ..Default::default()
    };
    let mut listener = crate::rig::Listener::default();
    let outcome = bench::engine::run(&scenario, &target, &options, &mut listener).unwrap();
    for phase in &outcome.phases {
        let each = &phase.process_cpu_s;
        let sum: f64 = each.iter().sum();
        assert_eq!(each.len(), 2, "{each:?}");
        assert!(
            (sum - phase.server_cpu_s.unwrap()).abs() < 1e-9,
            "{phase:?}"
        );
    }
    let totals = &outcome.totals;
    assert_eq!(
        (totals.connects_succeeded, totals.acked),
        (80, 40),
        "{totals:?}"
    );
    assert!(outcome.errors.is_empty(), "{:?}", outcome.errors);
    let names: Vec<&str> = outcome.phases.iter().map(|phase| &*phase.name).collect();
    assert_eq!(names, ["arrive", "storm"]);
}

#[test]
#[ignore = "needs Node: cargo xtask test foreign"]
fn a_server_that_refuses_is_named() {
    let flows = "[flows.a]\ncount = 3\nnamespace = \"/nowhere\"\nsteps = [{ connect = true }]\n\
                 [flows.b]\nsteps = [{ connect = true }]";
    let outcome = run(&scenario(4, "", flows), &Node::start().url, 1);
    let reason = "connect: refused: Invalid namespace".to_owned();
    assert_eq!(
        outcome.errors.get(&reason),
        Some(&3),
        "{:?}",
        outcome.errors
    );
    assert_eq!(outcome.totals.failed_connects(), 3);
}

/// What nodes are compared with.
#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn two_servers_of_socket_io_share_rooms() {
    let redis = servers::Redis::start();
    let nodes = [0, 1].map(|_| Node::with("REDIS", &redis.url()));
    let flows = "[flows.publisher]\ncount = 1\nsteps = [{ connect = true }, { join = 'room' }, \
                 { loop = [{ emit = 'push', to = 'room' }], pace = \"phase\" }]\n\
                 [flows.member]\nsteps = [{ connect = true }, { join = 'room' }]";
    let scenario = scenario(2, "spread = '${user}'", flows);
    let options = bench::engine::Options::new(crate::processes::processes());
    let target = bench::engine::Target {
        urls: nodes.iter().map(|node| node.url.clone()).collect(),
        ..Default::default()
    };
    let mut listener = crate::rig::Listener::default();
    let outcome = bench::engine::run(&scenario, &target, &options, &mut listener).unwrap();
    crate::rig::assert_clean(&outcome);
    assert!(outcome.totals.received > 0, "{:?}", outcome.totals);
}
