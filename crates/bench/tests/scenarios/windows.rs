//! Several unanswered events of one user, and the dialect of servers that know nothing above the WebSocket frame.

use crate::node::Node;
use crate::rig::{assert_clean, run, scenario};
use crate::stream_server::StreamServer;
use bench::server::{Contender, Server};

/// The small server answers `slow` after 600 ms: one after the other there would be two rounds in a second.
#[test]
fn as_many_events_are_unanswered_as_the_window_says() {
    let flows = "[flows.asker]\nprotocol = \"websocket\"\nsteps = [{ connect = true }, { join = \"lobby\" }, { wait = \"go\" }, \
                 { loop = [{ emit = \"slow\", ack = true, window = 4 }], times = 4 }]";
    let outcome = run(&scenario(3, "", flows), &StreamServer::start().url, 1);
    let totals = &outcome.totals;
    assert_eq!((totals.acks_expected, totals.acked), (3 + 12, 3 + 12));
    assert_clean(&outcome);
}

#[test]
#[ignore = "needs Node: cargo xtask test foreign"]
fn a_full_window_gives_up_what_is_never_answered() {
    let flows = "[flows.asker]\nsteps = [{ connect = true }, { wait = \"go\" }, \
                 { loop = [{ emit = \"nobody-answers\", ack = true, window = 2, within = \"200ms\" }], times = 4 }]";
    let outcome = run(&scenario(1, "", flows), &Node::start().url, 1);
    let totals = &outcome.totals;
    assert_eq!(
        (totals.sent, totals.acked, totals.acks_missing()),
        (4, 0, 4)
    );
    assert!(totals.failed() >= 2, "{totals:?}");
}

/// Without a bound it would send for ever; with one, each message waits for one that came back.
#[test]
#[ignore = "needs Node: cargo xtask test foreign"]
fn a_message_that_comes_back_makes_room_for_the_next() {
    let flows = "[flows.sender]\ncount = 1\nsteps = [{ connect = true }, { join = \"r\" }, { wait = \"go\" }, \
                 { loop = [{ emit = \"message\", to = \"r\", echo = true, window = 16 }] }]\n\
                 [flows.member]\nsteps = [{ connect = true }, { join = \"r\" }]";
    let outcome = run(&scenario(20, "", flows), &Node::start().url, 1);
    let totals = &outcome.totals;
    assert_clean(&outcome);
    assert!(totals.sent > 100, "{totals:?}");
    assert_eq!(totals.received, totals.sent * 20);
}

fn floor(mode: &str) -> Server {
    let program = env!("CARGO_BIN_EXE_sockeye-bench").as_ref();
    let args = ["floor", mode].map(str::to_owned);
    Contender::new("floor", program, &args, None)
        .start()
        .unwrap()
}

#[test]
fn bare_servers_echo_and_broadcast() {
    let echo = "[flows.asker]\nsteps = [{ connect = true }, { wait = \"go\" }, \
                { loop = [{ emit = \"x\", ack = true, window = 8 }], times = 500 }]";
    let outcome = run(
        &scenario(5, "protocol = \"bare\"", echo),
        floor("echo").url(),
        1,
    );
    assert_clean(&outcome);
    assert_eq!(outcome.totals.acked, 2_500);
    let send = "[flows.sender]\ncount = 1\nsteps = [{ connect = true }, { join = \"r\" }, { wait = \"go\" }, \
                { loop = [{ emit = \"x\", to = \"r\", echo = true, window = 4 }], times = 500 }]\n\
                [flows.member]\nsteps = [{ connect = true }, { join = \"r\" }]";
    for mode in ["send", "send-coalesced"] {
        let floor = floor(mode);
        let outcome = run(&scenario(10, "protocol = \"bare\"", send), floor.url(), 1);
        assert_clean(&outcome);
        let totals = &outcome.totals;
        assert_eq!((totals.sent, totals.received), (500, 5_000), "{mode}");
    }
}
