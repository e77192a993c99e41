//! Proof of the scenario engine: against a server that drops, duplicates, delays and reorders by a
//! seeded plan it must report exactly what that server did, and nothing against one that behaves.

mod plan;
#[path = "../processes/mod.rs"]
mod processes;
mod server;
mod truth;
#[path = "../websocket/mod.rs"]
mod websocket;
mod words;

use bench::engine::identity::Identity;
use bench::engine::{self, Options, Target};
use bench::live::Silent;
use bench::scenario::Scenario;
use outcome::{Outcome, ResultFile};
use plan::Plan;
use processes::processes;
use server::FaultyServer;
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use truth::Truth;

/// Longer than any delay of a plan: what is still under way at the end is waited for.
const GRACE: Duration = Duration::from_secs(8);

/// `users` in rooms of ten, each sending every `every_ms` to its room.
fn scenario(protocol: &str, users: u32, every_ms: u32, ack: bool) -> String {
    format!(
        r#"
name = "proof"
protocol = "{protocol}"

[variables]
room = "room-${{user / 10}}"

[payloads.note]
size = "120B"
body = '{{"text":"${{stamp}}${{fill}}"}}'

# All are in their rooms before the first message, so nothing is in doubt.
[[phases]]
name = "arrive"
connections = {users}
duration = "300ms"

[[phases]]
name = "load"
duration = "3s"

[flows.talker]
steps = [
  {{ connect = true }},
  {{ join = "${{room}}" }},
  {{ wait = "load" }},
  {{ loop = [{{ emit = "note", payload = "note", to = "${{room}}", ack = {ack} }}], every = "{every_ms}ms" }},
]
"#
    )
}

fn due_ns(body: &str) -> u64 {
    Identity::find(body.as_bytes(), &mut 0).unwrap().due_ns
}

/// Runs a scenario and returns both sides of the story.
fn run(plan: Plan, text: &str, workers: u32) -> (Outcome, Truth) {
    let server = FaultyServer::start(plan, due_ns);
    let scenario = Scenario::parse("proof.toml", text).unwrap();
    let target = Target {
        name: "faulty".into(),
        urls: vec![format!("http://{}", server.addr)],
        pids: Vec::new(),
    };
    let options = Options {
        workers: Some(workers),
        grace: GRACE,
        ..Options::new(processes())
    };
    let outcome = engine::run(&scenario, &target, &options, &mut Silent).unwrap();
    (outcome, server.truth())
}

/// The report must equal the server's own record, figure by figure.
fn assert_same(outcome: &Outcome, truth: &Truth) {
    let totals = &outcome.totals;
    assert!(
        truth.published > 100,
        "too little happened to prove anything: {truth:?}"
    );
    assert_eq!(totals.sent, truth.published, "sent");
    assert_eq!(totals.expected, truth.expected, "expected");
    assert_eq!(totals.received, truth.delivered, "received");
    assert_eq!(totals.lost, truth.lost, "lost");
    assert_eq!(totals.duplicated, truth.duplicated, "duplicated");
    assert_eq!(totals.reordered, truth.reordered, "reordered");
    assert_eq!(totals.stray, 0, "stray");
    assert_eq!(totals.acks_expected, truth.acks_owed, "acks expected");
    assert_eq!(totals.acked, truth.acks_given, "acked");
    assert_eq!(
        totals.either_allowed, 0,
        "nobody joined or left under load, so nothing may be in doubt"
    );
}

/// A third of all deliveries suffers something.
fn every_fault(seed: u64) -> Plan {
    Plan {
        seed,
        drop: 0.05,
        duplicate: 0.05,
        overtaken: 0.08,
        delay: 0.15,
        delay_min: Duration::from_millis(20),
        delay_max: Duration::from_millis(900),
        ack_drop: 0.04,
        ..Plan::HONEST
    }
}

#[test]
fn an_honest_server_has_a_clean_account() {
    let text = scenario("socket.io", 40, 100, true);
    let (outcome, truth) = run(Plan::HONEST, &text, 1);
    assert_same(&outcome, &truth);
    assert!(outcome.totals.is_clean());
    assert_eq!((truth.lost, truth.duplicated, truth.reordered), (0, 0, 0));
    assert_eq!(outcome.totals.connects_succeeded, 40);
    assert_eq!(outcome.totals.dropped(), 0);
}

#[test]
fn every_fault_is_counted_exactly_over_socket_io() {
    for seed in [1, 2, 3] {
        let text = scenario("socket.io", 40, 100, true);
        let (outcome, truth) = run(every_fault(seed), &text, 1);
        assert_same(&outcome, &truth);
        let faults = [truth.lost, truth.duplicated, truth.reordered];
        assert!(faults.iter().all(|&count| count > 50), "{faults:?}");
        assert!(truth.acks_given < truth.acks_owed);
        assert!(!outcome.totals.is_clean());
    }
}

#[test]
fn every_fault_is_counted_exactly_over_other_protocols() {
    for (protocol, seed) in [("websocket", 4), ("centrifugo", 8)] {
        let text = scenario(protocol, 40, 100, true);
        let (outcome, truth) = run(every_fault(seed), &text, 1);
        assert_same(&outcome, &truth);
        let faults = [truth.lost, truth.duplicated, truth.reordered];
        assert!(
            faults.iter().all(|&count| count > 50),
            "{protocol}: {faults:?}"
        );
    }
}

#[test]
#[ignore = "needs Node: cargo xtask test foreign"]
fn centrifugos_own_client_understands_the_server_that_proves_the_dialect() {
    // What the dialect is proved against must itself be right: the official client joins, publishes
    // and hears itself and another one, and the server's record agrees.
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/proof/centrifuge-js");
    if !folder.join("node_modules/.package-lock.json").exists() {
        let install = ["ci", "--no-audit", "--no-fund", "--ignore-scripts"];
        let status = Command::new("npm")
            .args(install)
            .current_dir(&folder)
            .status();
        assert!(status.unwrap().success(), "npm ci in {}", folder.display());
    }
    let server = FaultyServer::start(Plan::HONEST, |_| 0);
    let output = Command::new("node")
        .arg(folder.join("two.mjs"))
        .arg(format!("ws://{}/connection/websocket", server.addr))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "{said}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert_eq!(said.trim(), "first heard 40, second heard 40");
    let truth = server.truth();
    assert_eq!((truth.published, truth.expected, truth.lost), (40, 80, 0));
}

#[test]
fn several_worker_processes_account_like_one() {
    let text = scenario("socket.io", 60, 150, true);
    let (outcome, truth) = run(every_fault(5), &text, 3);
    assert_same(&outcome, &truth);
    assert!(truth.lost > 50 && truth.duplicated > 50 && truth.reordered > 50);
}

#[test]
fn percentiles_agree_with_the_servers_record_within_one_percent() {
    // Every delivery is three to nine seconds late, each by its own: what a busy machine adds on the way is small against it, also to the
    // slowest of a thousand.
    let plan = Plan {
        seed: 6,
        delay: 1.0,
        delay_min: Duration::from_secs(3),
        delay_max: Duration::from_secs(9),
        ..Plan::HONEST
    };
    let text = scenario("socket.io", 40, 100, false);
    let (outcome, truth) = run(plan, &text, 1);
    assert_same(&outcome, &truth);
    let seen = &outcome.latency.delivery;
    assert_eq!(seen.count(), truth.latencies_ns.len() as u64);
    for quantile in [0.01, 0.1, 0.5, 0.9, 0.99, 0.999] {
        let (exact, got) = (truth.latency_ns(quantile) as f64, seen.at(quantile) as f64);
        assert!(
            (got - exact).abs() <= exact * 0.01,
            "{quantile}: {got} for {exact}"
        );
    }
    let mean = truth.latencies_ns.iter().sum::<u64>() as f64 / seen.count() as f64;
    assert!((seen.mean_ns() - mean).abs() <= mean * 0.01);
}

#[test]
fn a_cut_connection_is_a_drop_and_what_it_missed_before_is_lost() {
    let plan = Plan {
        cut: Some((7, 30)),
        ..Plan::HONEST
    };
    let text = scenario("socket.io", 40, 100, false);
    let (outcome, truth) = run(plan, &text, 1);
    assert_eq!(truth.cut, 1);
    assert_eq!(outcome.totals.dropped(), 1, "{:?}", outcome.totals.drops);
    assert_eq!(outcome.totals.duplicated + outcome.totals.reordered, 0);
    // The message that was due when it was cut; the tester cannot see when the server decided, so
    // those of the last moment may be counted as lost, but none that arrived.
    assert_eq!(
        outcome.totals.received + outcome.totals.either_received,
        truth.delivered
    );
    assert!(outcome.totals.lost >= truth.lost, "{:?}", outcome.totals);
}

/// Runs a command on the scenario by the real binary; what it left as JSON, said, and ended with.
fn command(name: &str, users: u32, more: &[&str]) -> (ResultFile, String, Option<i32>) {
    let folder = tempfile::tempdir().unwrap();
    let (file, json) = (
        folder.path().join("proof.toml"),
        folder.path().join("out.json"),
    );
    std::fs::write(&file, scenario("socket.io", users, 100, true)).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_sockeye-bench"));
    command.arg(name).arg(&file).arg("--json").arg(&json);
    let grace = GRACE.as_secs().to_string();
    let output = command
        .args(["--grace", &grace])
        .args(more)
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    let result = outcome::load(&json).unwrap_or_else(|error| panic!("{error:#}\n{errors}"));
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    (result, said, output.status.code())
}

#[test]
fn the_command_line_writes_the_same_account_as_json() {
    let server = FaultyServer::start(every_fault(7), due_ns);
    let url = format!("http://{}", server.addr);
    let (ResultFile::Run(outcome), ..) = command("run", 30, &["--url", &url]) else {
        panic!("not a run")
    };
    assert_same(&outcome, &server.truth());
}

#[test]
fn a_comparison_keeps_every_round_of_every_server() {
    let servers = [Plan::HONEST, every_fault(9)].map(|plan| FaultyServer::start(plan, due_ns));
    let honest = format!("honest=http://{}", servers[0].addr);
    let faulty = format!("faulty={},protocol=websocket", servers[1].addr);
    let rounds = ["--rounds", "2", "--pause", "0"];
    let more = [&["--server", &honest, "--server", &faulty][..], &rounds].concat();
    let (result, said, code) = command("compare", 20, &more);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("honest") && said.contains("faulty"), "{said}");
    let ResultFile::Comparison(comparison) = result else {
        panic!("not a comparison")
    };
    let names: Vec<&str> = comparison.servers.iter().map(|one| &*one.name).collect();
    assert_eq!(names, ["honest", "faulty"]);
    for (contestant, server) in comparison.servers.iter().zip(&servers) {
        let truth = server.truth();
        assert_eq!(contestant.runs.len(), 2);
        let sum = |of: fn(&outcome::Totals) -> u64| -> u64 {
            contestant.runs.iter().map(|run| of(&run.totals)).sum()
        };
        assert_eq!(sum(|totals| totals.sent), truth.published);
        assert_eq!(sum(|totals| totals.expected), truth.expected);
        assert_eq!(sum(|totals| totals.lost), truth.lost);
        assert_eq!(sum(|totals| totals.duplicated), truth.duplicated);
        assert_eq!(sum(|totals| totals.reordered), truth.reordered);
    }
    let protocols = comparison.servers.iter().map(|one| &*one.runs[0].protocol);
    assert_eq!(protocols.collect::<Vec<_>>(), ["socket.io", "websocket"]);
    // Another server begins each round: honest, faulty, then faulty, honest.
    let starts = |at: usize| {
        comparison.servers[at]
            .runs
            .iter()
            .map(|run| run.started_unix_ms)
    };
    let (honest, faulty): (Vec<u64>, Vec<u64>) = (starts(0).collect(), starts(1).collect());
    assert!(
        honest[0] < faulty[0] && faulty[1] < honest[1],
        "{honest:?} {faulty:?}"
    );
}
