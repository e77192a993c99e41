//! Proof of the tester: against a server that drops, duplicates, delays, reorders and hangs up on
//! purpose it must report exactly what that server did, and nothing against one that behaves.

#[path = "../processes/mod.rs"]
mod processes;
mod server;

use bench::dialect::{Protocol, Target};
use bench::fleet::{Fleet, FleetReport, Launcher};
use bench::ledger::Account;
use bench::swarm::load::{Load, Pace, PublishLoad};
use processes::processes;
use server::{Fault, FaultyServer, Plan, Truth};
use std::thread::sleep;
use std::time::Duration;

const MEMBERS: u32 = 40;
/// The server numbers members in order of joining. One worker that connects them one at a time
/// gives them the same numbers, so that a plan knows whom it hits: member 0 is the publisher.
const IN_FLIGHT: u32 = 1;
/// Long enough for a busy machine; runs that lose nothing do not wait for it.
const GRACE_MS: u64 = 4_000;

fn publish(pace: Pace) -> Load {
    Load::Publish(PublishLoad {
        rooms: 1,
        publishers: 1,
        pace,
        payload_bytes: 128,
    })
}

/// Connects, runs the load for a while, settles.
fn run(
    plan: Plan,
    launcher: &Launcher,
    workers: usize,
    load: &Load,
    span: Duration,
) -> (FleetReport, Truth) {
    let server = FaultyServer::start(plan);
    let target = Target::new(server.addr, Protocol::SocketIo);
    let mut fleet = Fleet::launch(launcher, workers, true).unwrap();
    let connected = fleet.connect(&target, MEMBERS, IN_FLIGHT, 1).unwrap();
    assert_eq!(
        (connected.ready, connected.failed),
        (MEMBERS, 0),
        "{:?}",
        connected.failures
    );
    fleet.start(load).unwrap();
    sleep(span);
    let report = fleet.finish(GRACE_MS).unwrap();
    (report, server.truth())
}

/// The report must equal the server's own record.
fn assert_same(account: &Account, truth: &Truth) {
    assert!(
        truth.published > 20,
        "too little happened to prove anything: {truth:?}"
    );
    let expected = truth.published * u64::from(MEMBERS);
    assert_eq!(account.expected, expected);
    assert_eq!(account.received, truth.delivered, "received");
    assert_eq!(account.lost, truth.dropped, "lost");
    assert_eq!(account.duplicated, truth.duplicated, "duplicated");
    assert_eq!(account.reordered, truth.reordered, "reordered");
    assert_eq!(account.stray, 0, "stray");
}

fn every_fault(member: usize, sequence: u64) -> Fault {
    match (sequence + member as u64) % 10 {
        3 => Fault::Drop,
        5 => Fault::Duplicate,
        7 => Fault::Overtaken,
        _ => Fault::None,
    }
}

#[test]
fn a_good_server_has_a_clean_account() {
    let span = Duration::from_millis(500);
    let load = publish(Pace::Window(16));
    let (report, truth) = run(|_, _| Fault::None, &Launcher::Threads, 1, &load, span);
    assert_same(&report.account, &truth);
    assert_eq!(report.account.fault(), None);
    assert_eq!((report.stalls, report.lost_connections), (0, 0));
}

#[test]
fn drops_duplicates_and_reordering_are_counted_exactly() {
    let span = Duration::from_millis(800);
    let load = publish(Pace::PerSecond(200.0));
    let (report, truth) = run(every_fault, &Launcher::Threads, 1, &load, span);
    assert_same(&report.account, &truth);
    assert!(
        truth.dropped > 0 && truth.duplicated > 0 && truth.reordered > 0,
        "{truth:?}"
    );
    assert!(report.account.fault().is_some());
}

#[test]
fn several_worker_processes_account_like_one() {
    let span = Duration::from_millis(800);
    let load = publish(Pace::PerSecond(200.0));
    let (report, truth) = run(every_fault, &processes(), 3, &load, span);
    assert_same(&report.account, &truth);
}

#[test]
fn a_window_survives_lost_messages_and_counts_them() {
    // Only message 30 is lost, at one member: the window stalls behind it and is abandoned once.
    let plan: Plan = |member, sequence| match (member, sequence) {
        (7, 30) => Fault::Drop,
        _ => Fault::None,
    };
    let load = publish(Pace::Window(4));
    let (report, truth) = run(
        plan,
        &Launcher::Threads,
        1,
        &load,
        Duration::from_millis(1_800),
    );
    assert_same(&report.account, &truth);
    assert_eq!((report.account.lost, report.stalls), (1, 1));
}

#[test]
fn lost_connections_are_named_and_their_messages_are_lost() {
    let plan: Plan = |member, sequence| match (member, sequence) {
        (5 | 6 | 20, 10) => Fault::Cut,
        _ => Fault::None,
    };
    let load = publish(Pace::PerSecond(100.0));
    let (report, truth) = run(
        plan,
        &Launcher::Threads,
        1,
        &load,
        Duration::from_millis(600),
    );
    assert_same(&report.account, &truth);
    assert_eq!((truth.cut, report.lost_connections), (3, 3));
    assert_eq!(
        report.losses.get("closed by the server with 1001"),
        Some(&3)
    );
}

#[test]
fn missing_and_repeated_acknowledgements_are_counted_exactly() {
    // Of 8 in flight some are never answered; the others keep the connection busy.
    let plan: Plan = |connection, sequence| match (connection % 4, sequence) {
        (1, 20 | 40) => Fault::Drop,
        (2, 30) => Fault::Duplicate,
        _ => Fault::None,
    };
    let load = Load::Echo {
        depth: 8,
        payload_bytes: 128,
    };
    let (report, truth) = run(
        plan,
        &Launcher::Threads,
        1,
        &load,
        Duration::from_millis(500),
    );
    assert_eq!(truth.acks_dropped, u64::from(MEMBERS) / 4 * 2);
    assert_eq!(report.account.lost, truth.acks_dropped);
    assert_eq!(report.account.duplicated, truth.duplicated);
    assert_eq!(
        report.account.received,
        report.account.expected - truth.acks_dropped
    );
}

#[test]
fn percentiles_agree_with_the_servers_record_within_one_percent() {
    // 0.4 to 1.18 s, constant for each member, so that order stays right.
    let plan: Plan = |member, _| Fault::Delay(Duration::from_millis(400 + 20 * member as u64));
    let load = publish(Pace::PerSecond(50.0));
    let (report, mut truth) = run(
        plan,
        &Launcher::Threads,
        1,
        &load,
        Duration::from_millis(1_500),
    );
    assert_same(&report.account, &truth);
    assert_eq!(report.account.fault(), None);
    truth.latencies.sort_unstable();
    assert_eq!(report.latency.count(), truth.latencies.len() as u64);
    for quantile in [0.1, 0.5, 0.9, 0.99] {
        let rank = (quantile * truth.latencies.len() as f64).ceil() as usize - 1;
        let (exact, seen) = (
            truth.latencies[rank] as f64,
            report.latency.distribution().at(quantile) as f64,
        );
        assert!(
            (seen - exact).abs() <= exact * 0.01,
            "{quantile}: {seen} for {exact}"
        );
    }
}

#[test]
fn heartbeats_are_answered() {
    let server = FaultyServer::start(|_, _| Fault::None);
    let target = Target::new(server.addr, Protocol::SocketIo);
    let mut fleet = Fleet::launch(&Launcher::Threads, 1, true).unwrap();
    fleet.connect(&target, MEMBERS, IN_FLIGHT, 1).unwrap();
    server.ping_all();
    for _ in 0..200 {
        if server.truth().pongs == u64::from(MEMBERS) {
            break;
        }
        sleep(Duration::from_millis(10));
    }
    assert_eq!(server.truth().pongs, u64::from(MEMBERS));
    assert_eq!(fleet.snapshot(false).unwrap().pings, u64::from(MEMBERS));
}

#[test]
fn a_refused_upgrade_is_a_failure_with_its_status() {
    // A server that answers something else than 101: a plain HTTP responder.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let target = Target::new(listener.local_addr().unwrap(), Protocol::SocketIo);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            use std::io::{Read, Write};
            let mut stream = stream;
            let _ = stream.read(&mut [0u8; 1024]);
            let _ = stream.write_all(b"HTTP/1.1 503 Service Unavailable\r\n\r\n");
        }
    });
    let mut fleet = Fleet::launch(&Launcher::Threads, 1, true).unwrap();
    let report = fleet.connect(&target, 3, 2, 0).unwrap();
    assert_eq!((report.ready, report.failed), (0, 3));
    let reason = "upgrade refused: HTTP/1.1 503 Service Unavailable";
    assert_eq!(
        report.failures.get(reason),
        Some(&3),
        "{:?}",
        report.failures
    );
}
