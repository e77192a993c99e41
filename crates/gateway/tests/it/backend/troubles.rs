//! Workers that are absent, slow, cut off, killed or replaced. Clients never notice more than time.

use super::{KEY, Kitchen};
use crate::backend::worker::{Handled, Worker, emit, introduced, runtime};
use crate::harness::{PATIENCE, RawConn, SocketIo, eventually};
use serde_json::json;
use std::collections::BTreeMap;

/// Says numbers from one client after the other, without waiting for answers.
fn say(clients: &mut [SocketIo], numbers: std::ops::Range<u64>) {
    for number in numbers {
        for client in clients.iter_mut() {
            client.emit(&json!(["count", number]));
        }
    }
}

/// Each client's last number came back in the ack: all before it were handled.
fn finish(clients: &mut [SocketIo], number: u64) {
    for client in clients.iter_mut() {
        assert_eq!(
            client.ask(number, &json!(["count", number])),
            json!([number])
        );
    }
}

/// Every number of every client was handled: once, or again with a mark; and in order.
fn check(workers: &[&Worker], clients: &[SocketIo], last: u64) {
    let mut all: BTreeMap<String, Vec<Handled>> = BTreeMap::new();
    for worker in workers {
        let mut highest: BTreeMap<String, u64> = BTreeMap::new();
        for handled in &worker.memory().handled {
            let highest = highest.entry(handled.socket.clone()).or_default();
            assert!(
                handled.number > *highest,
                "out of order: {handled:?} after {highest}"
            );
            *highest = handled.number;
            let of_socket = all.entry(handled.socket.clone()).or_default();
            of_socket.push(handled.clone());
        }
    }
    for client in clients {
        let handled = &all[&client.sid];
        for number in 1..=last {
            let times = handled.iter().filter(|handled| handled.number == number);
            assert!(
                times.clone().count() > 0,
                "{number} of {} is lost",
                client.sid
            );
            let unmarked = times.filter(|handled| !handled.redelivered).count();
            assert!(
                unmarked <= 1,
                "{number} of {}: twice without a mark",
                client.sid
            );
        }
    }
}

#[test]
fn a_link_that_is_cut_and_comes_back_loses_and_repeats_nothing() {
    let kitchen = Kitchen::open("rehome_after = \"20s\"\nsocket_max = \"1MiB\"");
    let mut worker = kitchen.worker("a");
    let mut clients: Vec<_> = (0..8).map(|_| kitchen.client()).collect();
    for cut in 0..5 {
        say(&mut clients, 1 + cut * 100..1 + (cut + 1) * 100);
        worker = worker.cut_and_return(kitchen.workers, &KEY.0, "a");
    }
    finish(&mut clients, 501);
    check(&[&worker], &clients, 501);
    let memory = worker.memory();
    assert!(memory.handled.iter().all(|handled| !handled.redelivered));
    assert_eq!(memory.handled.len(), 8 * 501);
    assert!(memory.resumed.is_empty(), "no socket moved");
    drop(memory);
}

#[test]
fn clients_of_a_dead_worker_go_on_with_another() {
    let kitchen = Kitchen::open("socket_max = \"1MiB\"");
    let dead = kitchen.worker("a");
    let mut clients: Vec<_> = (0..8).map(|_| kitchen.client()).collect();
    say(&mut clients, 1..100);
    let heir = kitchen.worker("b");
    say(&mut clients, 100..200);
    // What a dead process did is known only to itself.
    let before = dead.die();
    say(&mut clients, 200..300);
    finish(&mut clients, 300);
    let resumed = heir.memory().resumed.clone();
    assert_eq!(resumed.len(), 8);
    assert!(
        resumed
            .iter()
            .all(|resume| resume.rooms.iter().any(|room| room == "kitchen"))
    );
    assert!(
        resumed
            .iter()
            .all(|resume| resume.data == r#"{"cook":true}"#)
    );
    let after = heir.memory().handled.clone();
    for client in &clients {
        let of = |all: &[Handled]| {
            let own = all.iter().filter(|handled| handled.socket == client.sid);
            own.map(|handled| (handled.number, handled.redelivered))
                .collect::<Vec<_>>()
        };
        let (before, after) = (of(&before), of(&after));
        assert!(
            before.is_sorted() && after.is_sorted(),
            "{before:?} {after:?}"
        );
        for number in 1..=300 {
            let early = before.iter().any(|(other, _)| *other == number);
            let late = after.iter().find(|(other, _)| *other == number);
            assert!(early || late.is_some(), "{number} is lost");
            if early && let Some((_, marked)) = late {
                assert!(marked, "{number} twice without a mark");
            }
        }
    }
    // The room survived, too.
    clients[0].emit(&json!(["news", "soup"]));
    for client in &mut clients {
        assert_eq!(client.expect("news"), [json!("soup")]);
    }
}

/// Undecided and let in: the restarted process was taken for the one before, whose commands it had not given. Its own were taken for said already.
#[test]
fn a_worker_that_was_killed_and_came_back_under_its_name_was_told_of_no_socket() {
    let kitchen = Kitchen::open("rehome_after = \"60s\"");
    let before = kitchen.worker("a");
    // It decides, and covers nothing of it: as one whose first handler takes long.
    before.hold();
    let mut client = kitchen.client();
    let mut waiting = SocketIo::open(kitchen.gateway.addr);
    waiting.send(r#"40{"never":true}"#);
    let asked = eventually(PATIENCE, || before.memory().connects.len() == 2);
    assert!(asked, "both newcomers");
    before.die();
    let after = kitchen.worker("a");
    let welcome = after.memory().welcome.clone().expect("a welcome");
    assert!(!welcome.resumed);
    let told = eventually(PATIENCE, || {
        let memory = after.memory();
        memory.resumed.len() == 1 && memory.connects.len() == 1
    });
    assert!(told, "{:?}", after.memory());
    let resume = after.memory().resumed[0].clone();
    let connect = resume.connect.expect("its beginning");
    assert_eq!(connect.socket, client.sid);
    assert!(resume.rooms.iter().any(|room| room == "kitchen"));
    assert_eq!(resume.data, r#"{"cook":true}"#);
    // Its first commands count.
    after.say(emit(&["kitchen"], "news", &json!(["back"])));
    assert_eq!(client.expect("news"), [json!("back")]);
    assert_eq!(client.ask(1, &json!(["count", 1])), json!([1]));
}

#[test]
fn the_end_of_a_client_was_told_to_nobody_when_its_worker_was_away_for_long() {
    let kitchen = Kitchen::open("rehome_after = \"10ms\"\npark_timeout = \"50ms\"");
    let worker = kitchen.worker("a");
    let (gone, mut stays) = (kitchen.client(), kitchen.client());
    let name = gone.sid.clone();
    worker.die();
    drop(gone);
    let parked = kitchen
        .gateway
        .reaches("sockeye_backend_parked_sockets", 2.0);
    assert_eq!(parked, 2.0);
    // Events that came later have waited for long enough by then.
    let answer = stays.ask(1, &json!(["count", 1]));
    assert_eq!(answer[0]["error"], "No backend is connected");
    let next = kitchen.worker("b");
    let told = eventually(PATIENCE, || {
        let memory = next.memory();
        memory.gone.iter().any(|gone| gone.socket == name)
    });
    assert!(told, "{:?}", next.memory());
    assert_eq!(stays.ask(2, &json!(["count", 2])), json!([2]));
}

#[test]
fn an_answer_that_a_dead_worker_owes_comes_from_another() {
    let kitchen = Kitchen::open("rehome_after = \"10ms\"");
    let dead = kitchen.worker("a");
    let mut client = kitchen.client();
    dead.freeze();
    client.send(r#"421["echo","still"]"#);
    // It is with the frozen worker, or on the way.
    let sent = || kitchen.metric("sockeye_backend_kept_bytes") > 0.0;
    assert!(eventually(PATIENCE, sent));
    drop(dead);
    let _heir = kitchen.worker("b");
    assert_eq!(client.packet_starting("43"), r#"431["still"]"#);
}

#[test]
fn while_no_worker_is_there_clients_stay_and_newcomers_wait() {
    let kitchen = Kitchen::open("rehome_after = \"10ms\"");
    let worker = kitchen.worker("a");
    let mut clients = vec![kitchen.client(), kitchen.client()];
    drop(worker);
    assert!(eventually(PATIENCE, || kitchen
        .metric("sockeye_backend_parked_sockets")
        == 2.0));
    say(&mut clients, 1..50);
    let mut newcomer = SocketIo::open(kitchen.gateway.addr);
    newcomer.send("40{}");
    newcomer.send(r#"425["echo","early"]"#);
    assert!(eventually(PATIENCE, || kitchen
        .metric("sockeye_backend_parked_sockets")
        == 3.0));
    assert_eq!(kitchen.metric("sockeye_backend_without_worker"), 1.0);
    assert!(kitchen.metric("sockeye_backend_queue_ratio") > 0.0);
    let heir = kitchen.worker("b");
    assert!(eventually(PATIENCE, || kitchen
        .metric("sockeye_backend_without_worker")
        == 0.0));
    finish(&mut clients, 50);
    check(&[&heir], &clients, 50);
    assert!(newcomer.packet().starts_with("40{"));
    assert_eq!(newcomer.packet_starting("43"), r#"435["early"]"#);
}

#[test]
fn a_newcomer_that_nobody_decides_about_is_refused_in_time() {
    let kitchen = Kitchen::open("connect_timeout = \"300ms\"");
    let mut alone = SocketIo::open(kitchen.gateway.addr);
    alone.send("40{}");
    let unavailable = r#"44{"message":"service unavailable","data":{"retry_after_ms":1000}}"#;
    assert_eq!(alone.packet(), unavailable);
    let worker = kitchen.worker("a");
    let mut ignored = SocketIo::open(kitchen.gateway.addr);
    ignored.send(r#"40{"never":true}"#);
    assert_eq!(ignored.packet(), unavailable);
    assert!(
        eventually(PATIENCE, || !worker.memory().gone.is_empty()),
        "its worker is told"
    );
}

/// It held its place among the questions until the time for the decision was up, and so kept others out.
#[test]
fn a_plain_newcomer_that_left_before_the_decision_was_waited_for() {
    let kitchen = Kitchen::open("connect_timeout = \"10m\"");
    let undecided = |count: f64| {
        let name = "sockeye_asks_outstanding";
        let settled = kitchen.gateway.metric_settles(name, |open| open == count);
        assert!(settled.is_ok(), "{settled:?}, not {count}");
    };
    let newcomer = RawConn::websocket(kitchen.gateway.addr, "/ws");
    undecided(1.0);
    newcomer.reset();
    undecided(0.0);
}

#[test]
fn events_that_no_worker_takes_are_refused_by_name() {
    let kitchen = Kitchen::open("rehome_after = \"10ms\"\npark_timeout = \"300ms\"");
    let worker = kitchen.worker("a");
    let mut client = kitchen.client();
    drop(worker);
    let answer = client.ask(1, &json!(["echo", 1]));
    assert_eq!(answer, json!([{"error": "No backend is connected"}]));
    let _heir = kitchen.worker("b");
    assert_eq!(
        client.ask(2, &json!(["echo", 2])),
        json!([2]),
        "it is still here"
    );
}

/// The defaults have this order, too: the answer was due before the event was given up.
#[test]
fn an_event_that_no_worker_had_was_said_to_be_unanswered() {
    let more = "rehome_after = \"10ms\"\nanswer_timeout = \"100ms\"\npark_timeout = \"400ms\"";
    let kitchen = Kitchen::open(more);
    let worker = kitchen.worker("a");
    let mut client = kitchen.client();
    drop(worker);
    let parked = || kitchen.metric("sockeye_backend_parked_sockets") == 1.0;
    assert!(eventually(PATIENCE, parked));
    let answer = client.ask(1, &json!(["echo", 1]));
    assert_eq!(answer, json!([{"error": "No backend is connected"}]));
}

/// They got a DISCONNECT packet, and stock clients do not come back after one.
#[test]
fn clients_closed_for_want_of_a_worker_stayed_away() {
    let kitchen = Kitchen::open(
        "rehome_after = \"10ms\"\npark_timeout = \"100ms\"\nclose_when_absent = true",
    );
    let worker = kitchen.worker("a");
    let mut client = kitchen.client();
    drop(worker);
    let frame = client.conn.frame();
    assert_eq!(frame.close_code(), Some(1013), "{frame:?}");
    let closes = kitchen.gateway.closes_reach("no_backend", 1.0);
    assert_eq!(closes, 1.0);
}

#[test]
fn an_answer_that_never_comes_is_an_error_in_time() {
    let kitchen = Kitchen::open("answer_timeout = \"300ms\"");
    let _worker = kitchen.worker("a");
    let mut client = kitchen.client();
    let answer = client.ask(1, &json!(["mute"]));
    assert_eq!(
        answer,
        json!([{"error": "The backend did not answer in time"}])
    );
}

#[test]
fn a_worker_that_handles_nothing_costs_a_bounded_amount() {
    let kitchen = Kitchen::open("window = \"8KiB\"\nsocket_max = \"16KiB\"\nqueue_max = \"64KiB\"");
    let worker = kitchen.worker("a");
    let mut client = kitchen.client();
    worker.freeze();
    for number in 1..1_000 {
        client.emit(&json!(["count", number, "x".repeat(1_000)]));
    }
    let answer = client.ask(1, &json!(["count", 1_000, "x".repeat(1_000)]));
    assert_eq!(answer, json!([{"error": "The backend has too much to do"}]));
    let refused = kitchen
        .gateway
        .reaches("sockeye_backend_refused_total", 900.0);
    assert!(refused >= 900.0, "{refused}");
    // The gauge follows the events.
    let kept = kitchen.gateway.reaches("sockeye_backend_kept_bytes", 1.0);
    assert!(kept > 0.0 && kept <= 64.0 * 1024.0, "{kept}");
}

/// Workers speak once a second, and a stranger that has just come was silent for less.
#[test]
fn strangers_took_the_place_of_a_worker() {
    let kitchen = Kitchen::open_with("conns_max = 4", "");
    let _worker = kitchen.worker("a");
    let mut client = kitchen.client();
    let _strangers: Vec<RawConn> = (0..50).map(|_| RawConn::connect(kitchen.workers)).collect();
    assert!(
        kitchen
            .gateway
            .logged("gives its place to another", PATIENCE)
    );
    assert_eq!(client.ask(1, &json!(["echo", 7])), json!([7]));
}

#[test]
fn a_worker_that_says_nothing_is_left_behind() {
    let kitchen = Kitchen::open("silent_after = \"400ms\"");
    // It attaches and never says a word again: no sign of life comes from a stream that nobody serves.
    let runtime = runtime();
    let first = introduced("kitchen", "mute");
    let stream = runtime.block_on(super::open(kitchen.workers, &KEY.0, first));
    let _stream = stream.expect("attached");
    let mut client = SocketIo::open(kitchen.gateway.addr);
    client.send("40{}");
    let _worker = kitchen.worker("b");
    assert!(
        client.packet().starts_with("40{"),
        "another worker let it in"
    );
}

/// Its connection was well and it said something all the time: its clients waited for ever.
#[test]
fn a_worker_that_spoke_and_read_nothing_kept_its_clients() {
    let kitchen = Kitchen::open("stalled_after = \"2s\"\nwindow = \"4KiB\"");
    let deaf = kitchen.worker("a");
    let mut clients: Vec<_> = (0..4).map(|_| kitchen.client()).collect();
    let heir = kitchen.worker("b");
    deaf.freeze();
    say(&mut clients, 1..101);
    finish(&mut clients, 101);
    check(&[&deaf, &heir], &clients, 101);
    assert_eq!(heir.memory().resumed.len(), 4);
    let lost = "sockeye_backend_workers_lost_total{reason=\"stalled\"}";
    assert_eq!(kitchen.gateway.reaches(lost, 1.0), 1.0);
    let log = kitchen.gateway.log();
    assert!(log.iter().any(|line| line.contains("handled nothing")));
}

#[test]
fn a_worker_that_leaves_hands_over_and_nothing_is_done_twice() {
    let kitchen = Kitchen::open("socket_max = \"1MiB\"");
    let mut workers = vec![kitchen.worker("0")];
    let mut clients: Vec<_> = (0..8).map(|_| kitchen.client()).collect();
    let mut last = 0;
    for deploy in 1..4 {
        say(&mut clients, last + 1..last + 101);
        let old = workers.last().expect("a worker");
        old.leave();
        workers.push(kitchen.worker(&deploy.to_string()));
        last += 100;
    }
    finish(&mut clients, last + 1);
    check(&workers.iter().collect::<Vec<_>>(), &clients, last + 1);
    for old in &workers[..3] {
        assert!(eventually(PATIENCE, || old.memory().goodbye));
    }
    let marked = workers.iter().any(|worker| {
        let memory = worker.memory();
        memory.handled.iter().any(|handled| handled.redelivered)
    });
    assert!(!marked, "nothing was in doubt");
}

/// Each request of a stranger was a line of the log: it filled disks.
#[test]
fn strangers_wrote_a_line_of_the_log_for_each_stream() {
    let kitchen = Kitchen::open("");
    let refused = runtime().block_on(super::intake::strangers(kitchen.workers, 2_000));
    assert_eq!(refused, 2_000);
    let part = "sockeye_http_refused_total{part=\"workers\"}";
    assert_eq!(kitchen.gateway.reaches(part, 2_000.0), 2_000.0);
    let suppressed = || kitchen.metric("sockeye_log_lines_suppressed_total");
    let written = || {
        let log = kitchen.gateway.log().into_iter();
        log.filter(|line| line.contains("worker refused")).count() as f64
    };
    // A hundred in each second that it took, and one that tells of the others. The last lines are still on their way.
    assert!(eventually(PATIENCE, || written() + suppressed() == 2_000.0));
    assert!(suppressed() > 0.0);
}
