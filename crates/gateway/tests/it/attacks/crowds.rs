//! Floods: many connections from one address, connections that come and go, more messages than anybody should send. What one
//! does to the others is counted in the gateway's own work, not in time alone: a busy machine makes time, but no work.
//!
//! `SOCKEYE_CHURN_SECONDS=300 cargo test --release -p gateway --test it churn -- --nocapture` is the long run of the churn.

use super::memory::MIB;
use super::{Attacked, SOON, assert_serves, warmed};
use crate::harness::client::{PLAIN, SOCKETIO, poll_request};
use crate::harness::raw::{masked, upgrade_request};
use crate::harness::{Alone, Gateway, Plain, RawConn, Response, SocketIo, Stop, eventually};
use client::OpCode;
use rustix::process::Signal;
use serde_json::json;
use std::fs;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The same settings with more limits; one shard, so that nobody is spared by chance.
fn on_one_shard(limits: &str) -> String {
    super::SETTINGS
        .replace("shards = 2", "shards = 1")
        .replace("[limits]", &format!("[limits]\n{limits}"))
}

/// Echoes of somebody else while a flood is under way: what the gateway worked between each question and its answer, and how
/// long that took.
struct Echoes {
    work: Vec<Duration>,
    times: Vec<Duration>,
}

impl Echoes {
    /// Asks until `over`, and a hundred times at least.
    fn during(gateway: &Gateway, clients: &mut [SocketIo], over: impl Fn() -> bool) -> Echoes {
        let (mut work, mut times) = (Vec::new(), Vec::new());
        while !over() || times.len() < 100 {
            for client in &mut *clients {
                let (cpu, started) = (gateway.cpu(), Instant::now());
                client.ask(7, &json!(["echo"]));
                times.push(started.elapsed());
                work.push(gateway.cpu() - cpu);
            }
        }
        work.sort();
        times.sort();
        Echoes { work, times }
    }

    /// Of a hundred questions ninety-five wait for less than 50 ms of work. (The asker itself may have to wait for a
    /// processor, while the gateway goes on with the flood; hence not each and every one.)
    #[track_caller]
    fn assert_fair(&self) {
        let part = |list: &[Duration], percent: usize| list[list.len() * percent / 100];
        let worst = *self.times.last().expect("a hundred");
        let shown = format!(
            "{} echoes: p50 {:?}, p95 {:?}, worst {worst:?}; work p95 {:?}",
            self.times.len(),
            part(&self.times, 50),
            part(&self.times, 95),
            part(&self.work, 95),
        );
        println!("{shown}");
        assert!(part(&self.work, 95) < Duration::from_millis(50), "{shown}");
        assert!(part(&self.times, 50) < Duration::from_millis(50), "{shown}");
        let most = *self.work.last().expect("a hundred");
        assert!(most < Duration::from_secs(1), "work {most:?}; {shown}");
        assert!(worst < Duration::from_secs(1), "{shown}");
    }
}

/// Attack F30: 100,000 messages at once are within all limits; they are taken piece by piece, with a turn for everybody else
/// in between, and hold up nobody.
#[test]
fn a_burst_of_tiny_messages_does_not_hold_up_others() {
    let _alone = Alone::wait();
    let gateway = Attacked::weighed(&on_one_shard(""));
    let mut victims = [(); 2].map(|()| SocketIo::connect(gateway.addr));
    let mut flooder = SocketIo::connect(gateway.addr);
    let burst = masked(true, OpCode::Text, b"42[\"nobody listens\"]").repeat(100_000);
    let pieces = burst.len() / (64 * 1024);
    let before = (gateway.cpu(), gateway.metric("sockeye_turns_total"));
    // Over when all is taken, not when the kernel has it.
    let flood = std::thread::spawn(move || {
        flooder.conn.try_send(&burst) && flooder.ask(9, &json!(["echo", 9])) == json!([9])
    });
    let echoes = Echoes::during(&gateway, &mut victims, || flood.is_finished());
    let taken = || gateway.metric("websocket_messages_total") >= 100_000.0;
    assert!(
        eventually(SOON, taken),
        "a burst within all limits was refused"
    );
    assert!(flood.join().expect("the flood"));
    let turns = gateway.metric("sockeye_turns_total") - before.1;
    assert!(
        turns >= pieces as f64,
        "{turns} turns for {pieces} pieces of 64 KiB"
    );
    let each = (gateway.cpu() - before.0).as_secs_f64() / pieces as f64;
    assert!(each < 0.05, "a piece is {each} s of work");
    echoes.assert_fair();
    assert_serves(gateway.addr);
}

/// Attack F30 where a rate is set: the flooder is told, and then put out with 1008.
#[test]
fn a_flood_over_the_rate_is_cut() {
    let settings = on_one_shard("flood_rejections_max = 100\n");
    let gateway = Attacked::weighed(&format!("{settings}\n[rates]\nsession = \"20/3600s\"\n"));
    let mut flooder = SocketIo::connect(gateway.addr);
    let burst = masked(true, OpCode::Text, b"42[\"nobody listens\"]").repeat(100_000);
    let flood = std::thread::spawn(move || {
        flooder.conn.try_send(&burst);
        flooder
    });
    let closed = || gateway.closes("flood") == 1.0;
    assert!(eventually(SOON, closed), "{:#?}", gateway.metrics());
    drop(flood.join().expect("the flood"));
    let rejected = gateway.metric("sockeye_rate_limited_total{scope=\"session\"}");
    assert!((100.0..200.0).contains(&rejected), "{rejected} rejected");
    assert_serves(gateway.addr);
}

/// Attack A16: one client fills the queues of a hundred that do not read, as fast as it can; somebody else's echo waits for
/// little of that work, and the queues stay within their bound.
#[test]
fn amplification_is_bounded_and_fair() {
    let _alone = Alone::wait();
    let settings = on_one_shard("outbox_bytes_max = \"128KiB\"")
        .replace("[socketio]", "[socketio]\nmax_http_buffer_size = \"64KiB\"");
    let gateway = Gateway::start(&settings);
    let before = warmed(&gateway);
    let mut members: Vec<_> = (0..100).map(|_| Plain::connect(gateway.addr)).collect();
    for member in &mut members {
        member.conn.shrink_receive_buffer(4_096);
        member.send(&json!({"type": "join", "room": "loud"}));
    }
    let mut speaker = Plain::join(gateway.addr, "loud");
    let message = json!({"type": "message", "room": "loud", "payload": "x".repeat(1_000)});
    let burst = masked(true, OpCode::Text, message.to_string()).repeat(2_000);
    let flood = std::thread::spawn(move || {
        speaker.conn.try_send(&burst);
        speaker.send(&json!({"type": "echo", "payload": "taken"}));
        speaker.expect_type("echo");
    });
    let mut bystander = [SocketIo::connect(gateway.addr)];
    let echoes = Echoes::during(&gateway, &mut bystander, || flood.is_finished());
    let grown = gateway.peak_memory().saturating_sub(before);
    flood.join().expect("the flood");
    echoes.assert_fair();
    assert!(grown < 100 * 2 * 128 * 1_024 + 16 * MIB, "{grown} bytes");
    assert_serves(gateway.addr);
}

/// Attack A16: a room of ten thousand, and a member that publishes a kilobyte as fast as it can: what it may say in a minute
/// arrives, once with each, and nothing more.
#[test]
fn a_rate_bounds_what_a_large_room_multiplies() {
    let _alone = Alone::wait();
    const MEMBERS: usize = 10_000;
    // Else the speaker would be put out after a thousand.
    let settings = on_one_shard("flood_rejections_max = 10000\n");
    // Nobody answers a ping before all are there.
    let settings = settings.replace("[socketio]", "[socketio]\nping_interval = \"300s\"");
    let settings = settings.replace(
        "[namespaces.\"/\".events.echo]",
        "[namespaces.\"/\".events.shout]\naction = \"rooms\"\nroom = \"large\"\nrate = \"5/3600s\"\n\
         [namespaces.\"/\".events.echo]",
    );
    let gateway = Gateway::start(&format!("{settings}\n[log]\nconnections = false\n"));
    let mut members: Vec<_> = (0..MEMBERS)
        .map(|_| {
            let mut member = Plain::connect(gateway.addr);
            member.send(&json!({"type": "join", "room": "large"}));
            member
        })
        .collect();
    let joined =
        gateway.metric_settles("websocket_messages_total", |count| count == MEMBERS as f64);
    assert!(joined.is_ok(), "{joined:?} joins");
    let mut speaker = SocketIo::connect(gateway.addr);
    let before = gateway.metric("sockeye_broadcasts_total");
    let message = format!("42[\"shout\",\"{}\"]", "x".repeat(1_000));
    let burst = masked(true, OpCode::Text, message).repeat(5_000);
    let flood = std::thread::spawn(move || {
        speaker.conn.try_send(&burst);
        let told = speaker.expect("error");
        speaker.ask(9, &json!(["echo", 9]));
        told
    });
    let mut bystander = [SocketIo::connect(gateway.addr)];
    let echoes = Echoes::during(&gateway, &mut bystander, || flood.is_finished());
    let told = flood.join().expect("the flood");
    echoes.assert_fair();
    let limited = "sockeye_rate_limited_total{scope=\"event\"}";
    let rejected = gateway.metric_settles(limited, |count| count == 4_995.0);
    assert!(rejected.is_ok(), "{rejected:?} rejected");
    assert!(
        told[0]["message"]
            .to_string()
            .contains("Rate limit exceeded"),
        "{told:?}"
    );
    let sent = gateway.reaches("sockeye_broadcasts_total", before + 5.0);
    assert_eq!(sent - before, 5.0);
    for member in members.iter_mut().step_by(500) {
        for _ in 0..5 {
            member.expect_type("shout");
        }
        assert!(member.conn.is_quiet(Duration::from_millis(20)));
    }
}

/// Attack A14: three thousand connections from one address, of which fifty are allowed; who comes from another one gets in
/// meanwhile.
#[test]
fn a_flood_of_connections_is_its_addresss_own() {
    let settings = on_one_shard("conns_per_address_max = 50\n");
    let gateway = Gateway::start(&settings);
    let addr = gateway.addr;
    let flood = std::thread::spawn(move || -> Vec<RawConn> {
        let conns = (0..3_000).map(|_| {
            let mut conn = RawConn::connect_from([127, 0, 0, 3], addr);
            conn.try_send(upgrade_request(SOCKETIO, ""));
            conn
        });
        conns.collect()
    });
    let mut rounds = 0;
    while !flood.is_finished() || rounds < 10 {
        assert_serves(addr);
        rounds += 1;
    }
    let mut held = flood.join().expect("the flood");
    let refused = || gateway.hits("conns_per_address") >= 2_950.0;
    assert!(
        eventually(SOON, refused),
        "{} hits",
        gateway.hits("conns_per_address")
    );
    let left = gateway.metric_settles("sockeye_connections", |open| open <= 50.0);
    assert_eq!(left, Ok(50.0));
    // Clients that were let in stay in.
    let served = held.iter_mut().map(is_open).filter(|open| *open).count();
    assert_eq!(served, 50);
}

/// Greeted, and not closed since.
fn is_open(conn: &mut RawConn) -> bool {
    let upgraded = conn
        .response_within(SOON)
        .is_ok_and(|answer| answer.status == 101);
    upgraded
        && conn
            .frame_within(SOON)
            .is_ok_and(|frame| frame.opcode == OpCode::Text)
        && conn.is_quiet(Duration::from_millis(1))
}

/// Attack A14: the kernel's queue of connections nobody has accepted is full; when the gateway comes to it, it is emptied at
/// once and newcomers get in.
#[test]
fn a_full_backlog_is_emptied_at_once() {
    let _alone = Alone::wait();
    use socket2::{Domain, Socket, Type};
    let gateway = Gateway::start(&on_one_shard(""));
    warmed(&gateway);
    gateway.freeze();
    let conns: Vec<Socket> = (0..6_000)
        .map(|_| {
            let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
            socket.set_nonblocking(true).expect("nonblocking");
            // It goes on by itself, or waits for room.
            let _ = socket.connect(&gateway.addr.into());
            socket
        })
        .collect();
    std::thread::sleep(Duration::from_millis(200));
    let waiting = established(gateway.addr);
    assert!(waiting >= 1_024, "only {waiting} wait");
    gateway.signal(Signal::CONT);
    assert_serves(gateway.addr);
    drop(conns);
    let open = gateway.metric_settles("sockeye_connections", |open| open == 0.0);
    assert!(open.is_ok(), "{open:?} connections left");
    assert_serves(gateway.addr);
}

/// Connections in this state (of `/proc/net/tcp`) on the gateway's side.
fn in_state(addr: SocketAddr, state: &str) -> usize {
    let table = fs::read_to_string("/proc/net/tcp").expect("the table of connections");
    let local = format!(":{:04X}", addr.port());
    let lines = table.lines().skip(1).filter(|line| {
        let mut fields = line.split_whitespace().skip(1);
        let is_local = fields.next().is_some_and(|field| field.ends_with(&local));
        is_local && fields.nth(1) == Some(state)
    });
    lines.count()
}

fn established(addr: SocketAddr) -> usize {
    in_state(addr, "01")
}

fn time_wait(addr: SocketAddr) -> usize {
    in_state(addr, "06")
}

/// Attack E26: an address may begin so many sessions a minute; nothing is kept of the others.
#[test]
fn handshakes_of_an_address_are_counted() {
    let gateway = Gateway::start(&format!(
        "{}\n[rates]\nconnects = \"20/3600s\"\n",
        on_one_shard("")
    ));
    let ask = |_| RawConn::exchange(gateway.addr, poll_request(""));
    let answers: Vec<Response> = (0..500).map(ask).collect();
    let begun = answers.iter().filter(|answer| answer.status == 200).count();
    assert_eq!(begun, 20);
    for answer in answers.iter().filter(|answer| answer.status != 200) {
        assert_eq!(answer.status, 429, "{answer:?}");
        assert!(answer.header("retry-after").is_some(), "{answer:?}");
    }
    assert_eq!(gateway.reaches("sockeye_sessions", 20.0), 20.0);
    let limited = gateway.reaches("sockeye_rate_limited_total{scope=\"connects\"}", 480.0);
    assert_eq!(limited, 480.0);
    let mut other = RawConn::connect_from([127, 0, 0, 2], gateway.addr);
    other.send(poll_request(""));
    assert_eq!(other.response().status, 200);
}

/// Attack A15: connections that come and go, in every way to go, as fast as two clients can or a thousand a second. Memory is
/// flat, and the gateway is not the one that is left with `TIME_WAIT`.
#[test]
fn churn_leaves_nothing() {
    let _alone = Alone::wait();
    let seconds = std::env::var("SOCKEYE_CHURN_SECONDS").ok();
    let seconds: u64 = seconds.map_or(6, |text| text.parse().expect("seconds"));
    let gateway = Attacked::weighed(&format!(
        "{}\n[log]\nconnections = false\n",
        super::SETTINGS
    ));
    let (over, churned) = (AtomicBool::new(false), AtomicU64::new(0));
    let (mut resident, mut waits) = (Vec::new(), 0);
    std::thread::scope(|scope| {
        let _stop = Stop(&over);
        for lane in 0..4 {
            let (addr, over, churned) = (gateway.addr, &over, &churned);
            scope.spawn(move || churn(addr, lane, over, churned));
        }
        let started = Instant::now();
        while started.elapsed() < Duration::from_secs(seconds) {
            std::thread::sleep(Duration::from_secs(1));
            resident.push(gateway.memory());
            waits = time_wait(gateway.addr).max(waits);
        }
        over.store(true, Ordering::Relaxed);
    });
    let churned = churned.load(Ordering::Relaxed);
    let [early, late] = [resident.len() / 3, resident.len() - 1].map(|at| resident[at]);
    println!(
        "{churned} connections in {seconds} s; resident {early} bytes after a third, {late} at the end; \
         {waits} in TIME_WAIT at most"
    );
    assert!(churned > 50 * seconds, "too few connections");
    assert!(
        late <= early * 105 / 100,
        "{early} bytes grew to {late}: {resident:?}"
    );
    // Only a closing handshake leaves one here, as RFC 6455 §7.1.1 has the server close first; a quarter of them end so.
    assert!(
        waits as u64 <= churned / 4 + 1,
        "{waits} connections in TIME_WAIT on the gateway's side"
    );
    for name in ["sockeye_sessions", "sockeye_sockets", "sockeye_rooms"] {
        let settled = gateway.metric_settles(name, |value| value == 0.0);
        assert!(settled.is_ok(), "{name}: {settled:?}");
    }
    assert_serves(gateway.addr);
}

/// Two hundred and fifty connections a second from an address of its own, until it is over.
fn churn(addr: SocketAddr, lane: u8, over: &AtomicBool, churned: &AtomicU64) {
    let started = Instant::now();
    for n in 0_u32.. {
        if over.load(Ordering::Relaxed) {
            return;
        }
        let due = started + Duration::from_millis(4) * n;
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        let conn = RawConn::connect_from([127, 0, 1, 1 + lane], addr);
        let target = if n % 5 == 4 { PLAIN } else { SOCKETIO };
        let mut conn = conn.upgraded(target, "");
        if target == SOCKETIO {
            let mut client = SocketIo::over(conn);
            client.join_namespace("/", "");
            let room = ["lobby".to_owned(), format!("churn-{lane}-{n}")];
            client.ask(1, &json!(["join", room[n as usize % 2]]));
            conn = client.conn;
        }
        match n % 4 {
            0 => conn.reset(),
            1 => {
                conn.send_frame(true, OpCode::Close, 1000_u16.to_be_bytes());
                conn.half_close();
            }
            _ => drop(conn),
        }
        churned.fetch_add(1, Ordering::Relaxed);
    }
}

/// Attack A15: who joins and leaves a thousand times is told of to the other shards a few times: once a turn at most.
#[test]
fn storms_of_joins_are_coalesced() {
    let gateway = Attacked::weighed(super::SETTINGS);
    let mut client = SocketIo::connect(gateway.addr);
    let before = gateway.metric("sockeye_mailbox_messages_total");
    let both = ["42[\"join\",\"storm\"]", "42[\"leave\",\"storm\"]"];
    let both = both
        .map(|packet| masked(true, OpCode::Text, packet))
        .concat();
    client.conn.send(both.repeat(1_000));
    client.ask(7, &json!(["echo"]));
    let relayed = gateway.metric("sockeye_mailbox_messages_total") - before;
    println!("{relayed} messages between shards for 1,000 joins and leaves");
    assert!(relayed <= 100.0, "{relayed} messages between shards");
    assert_serves(gateway.addr);
}
