//! Slow consumers: a client that stops reading costs a bounded queue and then, by policy, its connection or its oldest
//! messages; the other members of the room notice nothing.

use super::client::{Encoding, Packet, Plain, Polling, SocketIo, Transport};
use crate::harness::client::poll_request;
use crate::harness::{Gateway, PATIENCE, RawConn, eventually};
use serde_json::{Value, json};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Bytes of a message: large, so that the kernel's own buffers (several megabytes) are full soon.
const SIZE: usize = 16 * 1024;
/// Messages: 48 MB.
const COUNT: u64 = 3_000;
const OUTBOX_BYTES: u64 = 256 * 1024;

fn gateway(policy: &str) -> Gateway {
    let limits = format!("[limits]\noutbox_bytes_max = \"256KiB\"\nslow_consumer = \"{policy}\"\n");
    let socketio = "[socketio]\nmax_http_buffer_size = \"64KiB\"\n";
    Gateway::start(&format!(
        "profile = \"socket.io\"\n[server]\nshards = 4\n{socketio}{limits}"
    ))
}

/// A client whose kernel keeps little for it.
fn slow_client(addr: SocketAddr) -> SocketIo {
    let stream = TcpStream::connect(addr).expect("connect");
    rustix::net::sockopt::set_socket_recv_buffer_size(&stream, 16 * 1024).expect("a small buffer");
    let mut client = SocketIo::over(stream, "/", json!({}));
    client.ask("join", &["flood".into()]);
    client
}

fn numbers(events: &[super::client::Event]) -> Vec<u64> {
    events
        .iter()
        .filter(|event| event.name == "flood")
        .map(|event| event.args[0].as_u64().expect("a number"))
        .collect()
}

/// How far ahead of the slowest reader the publisher runs: within the bound, whatever the kernel keeps.
const AHEAD: u64 = OUTBOX_BYTES / SIZE as u64 / 2;

/// Reads `COUNT` messages, says how far it is, and fails when one is missing.
fn read_along(
    mut next: impl FnMut() -> Value + Send + 'static,
) -> (Arc<AtomicU64>, JoinHandle<()>) {
    let seen = Arc::new(AtomicU64::new(0));
    let told = Arc::clone(&seen);
    let reading = std::thread::spawn(move || {
        for n in 0..COUNT {
            assert_eq!(next(), n);
            told.store(n + 1, Ordering::Release);
        }
    });
    (seen, reading)
}

/// One member publishes, two others read along; they must get everything while slow clients do not read.
fn flood(gateway: &Gateway) {
    let addr = gateway.addr;
    let mut reader = SocketIo::websocket(addr, "/", json!({}));
    reader.ask("join", &["flood".into()]);
    let mut plain = Plain::connect(addr, Encoding::Json);
    plain.join("flood");
    let readers = [
        read_along(move || reader.expect("flood").swap_remove(0)),
        read_along(move || plain.next().args.swap_remove(0)),
    ];
    let mut publisher = SocketIo::websocket(addr, "/", json!({}));
    publisher.ask("join", &["flood".into()]);
    let filler = Value::from("x".repeat(SIZE));
    for n in 0..COUNT {
        publisher.emit("flood", &[n.into(), filler.clone()]);
        for (seen, reading) in &readers {
            while n > seen.load(Ordering::Acquire) + AHEAD && !reading.is_finished() {
                std::thread::sleep(Duration::from_micros(50));
            }
        }
    }
    for (_, reading) in readers {
        reading
            .join()
            .expect("who keeps up gets everything in order");
    }
}

/// At the end of what it got is at least half a queue of the newest without a gap, and it is served as before.
fn assert_goes_on_with_the_newest(got: &[u64], slow: &mut SocketIo) {
    let newest = OUTBOX_BYTES / 2 / SIZE as u64;
    let newest: Vec<u64> = (COUNT - newest..COUNT).collect();
    assert!(got.ends_with(&newest), "{got:?}");
    let rooms = slow.ask("join", &["more".into()]);
    assert_eq!(rooms, [json!(["more"])]);
}

/// Attack F26.
#[test]
fn disconnect_ends_the_slow_client_and_nobody_else() {
    let gateway = gateway("disconnect");
    let mut slow = slow_client(gateway.addr);
    flood(&gateway);
    assert_eq!(gateway.closes_reach("slow_consumer", 1.0), 1.0);
    assert_eq!(
        gateway.reaches("websocket_errors_total{type=\"slow_consumer\"}", 1.0),
        1.0
    );
    assert!(gateway.hits_reach("outbox_bytes", 1.0) >= 1.0);
    assert_eq!(gateway.metric("sockeye_dropped_slow_total"), 0.0);
    // What it finds when it reads again: the beginning without a gap, then the end.
    let (events, code, how) = slow.until_closed();
    let got = numbers(&events);
    assert!(got.len() < COUNT as usize);
    assert_eq!(got, (0..got.len() as u64).collect::<Vec<_>>());
    assert!(
        code == Some(4001) || how == "end of stream",
        "{code:?} {how}"
    );
}

#[test]
fn drop_oldest_keeps_the_newest_and_counts_what_is_missing() {
    let gateway = gateway("drop-oldest");
    let mut slow = slow_client(gateway.addr);
    flood(&gateway);
    assert_eq!(gateway.closes("slow_consumer"), 0.0);
    // The client reads again: the beginning, a gap, the newest; and goes on.
    slow.emit("marker", &[]);
    let mut got = Vec::new();
    while got.last() != Some(&(COUNT - 1)) {
        got.extend(slow.expect("flood")[0].as_u64());
    }
    assert!(
        got.windows(2).all(|pair| pair[0] < pair[1]),
        "in order, none twice"
    );
    let missing = COUNT - got.len() as u64;
    assert!(missing > 0);
    let dropped = gateway.reaches("sockeye_dropped_slow_total", missing as f64);
    assert_eq!(dropped, missing as f64);
    assert_goes_on_with_the_newest(&got, &mut slow);
}

#[test]
fn a_client_that_does_not_poll_is_slow_too() {
    for policy in ["disconnect", "drop-oldest"] {
        let gateway = gateway(policy);
        let session = Polling::connect(gateway.addr, "");
        let again = Polling::again(gateway.addr, &session.path);
        let sid = session.open["sid"].as_str().expect("sid").to_owned();
        let mut slow = SocketIo::join_namespace(Box::new(session), sid, "/", json!({}));
        slow.ask("join", &["flood".into()]);
        flood(&gateway);
        if policy == "disconnect" {
            assert_eq!(gateway.closes_reach("slow_consumer", 1.0), 1.0);
            let (_, _, how) = slow.until_closed();
            assert!(how == "close packet" || how.starts_with("400 "), "{how}");
            assert_eq!(again.post("42[\"join\",\"x\"]").status, 400);
        } else {
            let mut polling = again;
            let mut got: Vec<u64> = Vec::new();
            while got.last() != Some(&(COUNT - 1)) {
                let Packet::Text(text) = polling.receive() else {
                    panic!("closed")
                };
                let event: Value = serde_json::from_str(&text[1..]).expect("an event");
                got.extend(event[1].as_u64());
            }
            let dropped = gateway.metric("sockeye_dropped_slow_total");
            assert_eq!(dropped, (COUNT - got.len() as u64) as f64);
            assert_goes_on_with_the_newest(&got, &mut slow);
        }
    }
}

/// Attack F26: memory stays within the queues' bounds however many clients stop reading.
#[test]
fn many_slow_clients_cost_no_more_than_their_queues() {
    const CLIENTS: usize = 40;
    let gateway = Arc::new(gateway("drop-oldest"));
    // Once without them: what four shards work with is not theirs.
    flood(&gateway);
    let before = gateway.memory();
    let slow: Vec<SocketIo> = (0..CLIENTS).map(|_| slow_client(gateway.addr)).collect();
    flood(&gateway);
    let each = gateway.memory().saturating_sub(before) / CLIENTS as u64;
    let queued = gateway.memory_part("outboxes") / CLIENTS as u64;
    println!(
        "per client that does not read, bound {OUTBOX_BYTES} B: {queued} B queued, {each} B more of resident memory"
    );
    // What waits may pass the bound by a quarter while old events make room for new ones. What the allocator keeps of earlier
    // sizes, and what four shards work with for all, comes on top. Without a bound it would be 48 MB.
    assert!(
        queued < OUTBOX_BYTES * 3 / 2,
        "{queued} bytes queued per client"
    );
    assert!(each < OUTBOX_BYTES * 10, "{each} bytes per client");
    assert!(
        gateway.metric("sockeye_dropped_slow_total") > CLIENTS as f64,
        "nobody was slow"
    );
    drop(slow);
}

/// A slow member costs an entry for each event that waits, not a copy of it; what it cost is given back when it leaves.
#[test]
fn members_that_do_not_read_share_what_waits_and_its_memory_is_given_back() {
    const MEMBERS: usize = 300;
    const EVENTS: u64 = 300;
    let limits = "[limits]\noutbox_bytes_max = \"8MiB\"\n[admission]\nmemory_max = \"80MiB\"\n";
    let gateway = Gateway::start(&format!(
        "profile = \"socket.io\"\n[server]\nshards = 4\n{limits}"
    ));
    let program = gateway.memory() - gateway.own_memory();
    let slow: Vec<SocketIo> = (0..MEMBERS).map(|_| slow_client(gateway.addr)).collect();
    let mut reader = SocketIo::websocket(gateway.addr, "/", json!({}));
    reader.ask("join", &["flood".into()]);
    let mut publisher = SocketIo::websocket(gateway.addr, "/", json!({}));
    publisher.ask("join", &["flood".into()]);
    let filler = Value::from("x".repeat(SIZE));
    for n in 0..EVENTS {
        publisher.emit("flood", &[n.into(), filler.clone()]);
        assert_eq!(reader.expect("flood")[0], n);
    }
    let waiting = gateway.reaches("sockeye_waiting_bytes", 1e6);
    let peak = gateway.peak_memory();
    println!(
        "{waiting} bytes wait for {MEMBERS} members; {peak} bytes of resident memory at the peak, \
         {program} of them the program"
    );
    assert!(waiting >= 1e6, "nobody was slow: {waiting} bytes wait");
    assert!(peak - program <= 40 << 20, "{peak} bytes");
    let queued = gateway.memory_part("outboxes");
    drop(slow);
    // What the allocator keeps of it for the next ones depends on how busy the machine was.
    let left = || gateway.memory_part("outboxes");
    assert!(
        eventually(PATIENCE, || left() < queued / 10),
        "{} of {queued} bytes are still held",
        left()
    );
    SocketIo::websocket(gateway.addr, "/", json!({}));
    assert_eq!(gateway.metric("sockeye_admission_refused_total"), 0.0);
}

/// An allocator that keeps for an hour what was freed: nobody uses that memory, and nobody is turned away for it.
#[test]
fn newcomers_were_turned_away_for_memory_that_was_free() {
    const WAITING: u64 = 80 << 20;
    let settings = "profile = \"socket.io\"\n[server]\nshards = 1\n[limits]\noutbox_bytes_max = \"256MiB\"\n\
                    waiting_bytes_max = \"256MiB\"\n[admission]\nmemory_percent_shed = 0\n";
    let used = Gateway::start(settings).memory();
    let bound = used + WAITING / 2;
    let settings = format!("{settings}memory_max = {}\n", bound * 10 / 9);
    let gateway = Gateway::start_in(&settings, &[("MIMALLOC_PURGE_DELAY", "3600000")]);
    let comes_in = || RawConn::exchange(gateway.addr, poll_request("")).status;
    assert_eq!(comes_in(), 200);
    let slow = slow_client(gateway.addr);
    let mut publisher = SocketIo::websocket(gateway.addr, "/", json!({}));
    publisher.ask("join", &["flood".into()]);
    let filler = Value::from("x".repeat(512 * 1024));
    for n in 0..WAITING / (512 * 1024) {
        publisher.emit("flood", &[n.into(), filler.clone()]);
    }
    assert!(eventually(PATIENCE, || comes_in() == 503), "memory is full");
    drop(slow);
    assert!(
        eventually(PATIENCE, || comes_in() == 200),
        "{} bytes are resident, newcomers wait from {bound} on",
        gateway.memory()
    );
}

/// The namespace's own policy and key, on the real binary: nobody who polls late is told of prices that are past.
#[test]
fn a_client_that_polls_late_hears_only_the_newest_of_each_key() {
    let gateway = Gateway::start(
        "profile = \"socket.io\"\n[namespaces.\"/\"]\nslow_consumer = \"conflate\"\nconflate_by = \"symbol\"\n",
    );
    let session = Polling::connect(gateway.addr, "");
    let mut late = Polling::again(gateway.addr, &session.path);
    let sid = session.open["sid"].as_str().expect("sid").to_owned();
    let mut slow = SocketIo::join_namespace(Box::new(session), sid, "/", json!({}));
    slow.ask("join", &["prices".into()]);
    let mut publisher = SocketIo::websocket(gateway.addr, "/", json!({}));
    publisher.ask("join", &["prices".into()]);
    for n in 0..100 {
        for symbol in ["A", "B"] {
            publisher.emit("price", &[json!({ "symbol": symbol, "price": n })]);
        }
    }
    assert_eq!(
        gateway.reaches("sockeye_dropped_slow_total{policy=\"conflate\"}", 198.0),
        198.0
    );
    for symbol in ["A", "B"] {
        let Packet::Text(text) = late.receive() else {
            panic!("closed")
        };
        let newest = json!(["price", { "symbol": symbol, "price": 99 }]);
        assert_eq!(text, format!("2{newest}"));
    }
}
