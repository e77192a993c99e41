//! How connections end: by the server with its last bytes, behind an answer, or by the user who has just said something.

use crate::node::Node;
use crate::rig::{assert_clean, run, scenario};
use crate::stream_server::StreamServer;
use outcome::Totals;

/// An end that comes with the last bytes raises no event of its own.
#[test]
fn an_end_behind_the_last_bytes_is_noticed() {
    let flows = r#"
[flows.talker]
protocol = "websocket"
count = 1
steps = [{ connect = true }, { wait = "go" }, { think = "300ms" }, { emit = "last", to = "lobby" }]

[flows.listener]
protocol = "sse"
path = "/sse?n=${user}"
steps = [{ connect = true, room = "lobby" }]
"#;
    let outcome = run(&scenario(60, "", flows), &StreamServer::start().url, 1);
    let totals = &outcome.totals;
    assert_eq!((totals.received, totals.lost), (59, 0), "{totals:?}");
    assert_eq!(totals.dropped(), 59, "{totals:?}");
}

#[test]
#[ignore = "needs Node: cargo xtask test foreign"]
fn what_a_user_says_last_is_sent_before_it_leaves() {
    // The sender may be gone before the server hands it on.
    let flows = r#"
[flows.talker]
count = 5
steps = [
  { connect = true },
  { wait = "go" },
  { think = "200ms" },
  { emit = "pub", to = "bench" },
  { disconnect = true },
]
[flows.listener]
steps = [{ connect = true }, { join = "bench" }]
"#;
    for transport in ["websocket", "polling", "upgrade"] {
        let head = format!("transport = \"{transport}\"");
        let outcome = run(&scenario(10, &head, flows), &Node::start().url, 1);
        let totals = &outcome.totals;
        assert_clean(&outcome);
        assert_eq!((totals.sent, totals.expected), (5, 25), "{transport}");
        assert_eq!(totals.dropped(), 0, "{transport}");
    }
}

#[test]
#[ignore = "needs Node: cargo xtask test foreign"]
fn a_server_may_end_a_connection_behind_any_answer() {
    let flows = r#"
[flows.member]
steps = [
  { connect = true },
  { join = "room" },
  { loop = [{ emit = "message", to = "room", echo = true, ack = true }], every = "500ms" },
]
"#;
    for requests in ["1", "3"] {
        let node = Node::with("MAX_REQUESTS", requests);
        let outcome = run(&scenario(8, "transport = \"polling\"", flows), &node.url, 1);
        assert_clean(&outcome);
        let totals = &outcome.totals;
        assert_eq!((totals.connects_succeeded, totals.dropped()), (8, 0));
        assert!(totals.received > 100, "{totals:?}");
    }
}

/// Three users who ask the small server.
fn asked(steps: &str) -> Totals {
    let flows = format!(
        "[flows.asker]\nprotocol = \"websocket\"\nsteps = [{{ connect = true }}, {{ join = \"lobby\" }}, {{ wait = \"go\" }}, {steps}]"
    );
    run(&scenario(3, "", &flows), &StreamServer::start().url, 1).totals
}

#[test]
fn answers_behind_their_time_are_waited_for_at_the_end() {
    let totals = asked(r#"{ think = "600ms" }, { emit = "slow", ack = true, within = "100ms" }"#);
    assert_eq!(
        (totals.acked, totals.acked_late, totals.acks_missing()),
        (3, 3, 0)
    );
}

/// Every round takes the server's 600 ms.
#[test]
fn rounds_that_a_slow_server_kept_users_from_are_told() {
    let totals = asked(r#"{ loop = [{ emit = "slow", ack = true }], every = "100ms" }"#);
    assert!(totals.rounds_unbegun() >= 12, "{totals:?}");
    assert_eq!(totals.acked, totals.acks_expected, "{totals:?}");
}

#[test]
#[ignore = "needs Node: cargo xtask test foreign"]
fn a_phase_has_its_first_round_and_its_last() {
    let flows = "[flows.a]\nsteps = [{ connect = true }, { loop = [{ emit = \"got\" }], pace = \"phase\" }]";
    for workers in [1, 3] {
        let outcome = run(&scenario(4, "", flows), &Node::start().url, workers);
        assert_eq!(outcome.totals.sent, 100, "{workers} workers");
        assert_eq!(outcome.phases[0].sent, 100, "{workers} workers");
    }
}

/// Three pings in the phase, each answered within two seconds or the server hangs up.
#[test]
#[ignore = "needs Node: cargo xtask test foreign"]
fn heartbeats_are_answered() {
    let node = Node::with("PING", "2000");
    let text = "name = 'test'\n[[phases]]\nname = 'go'\nconnections = 5\nduration = '7s'\n\
                [flows.a]\nsteps = [{ connect = true }]";
    let scenario = bench::scenario::Scenario::parse("test.toml", text).unwrap();
    let outcome = run(&scenario, &node.url, 1);
    assert_clean(&outcome);
    assert_eq!(
        outcome.timeline.last().map(|second| second.connections),
        Some(5)
    );
}

#[test]
fn a_refused_upgrade_is_told_with_its_status() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        use std::io::{Read, Write};
        for mut stream in listener.incoming().flatten() {
            let _ = stream.read(&mut [0; 1024]);
            let _ =
                stream.write_all(b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n");
        }
    });
    let flows = "[flows.refused]\ncount = 3\nsteps = [{ connect = true }]\n\
                 [flows.idle]\nsteps = [{ wait = \"go\" }]";
    let outcome = run(&scenario(4, "", flows), &url, 1);
    let failures = &outcome.totals.connect_failures;
    let reason = "upgrade refused: HTTP/1.1 503 Service Unavailable";
    assert_eq!(failures.get(reason), Some(&3), "{failures:?}");
}
