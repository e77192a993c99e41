//! Load test scenarios against the real gateway: every protocol and transport it serves, the
//! built-in scenarios at a small scale, and the binary's own `bench` command.

use crate::harness::{Gateway, generator};
use crate::tls::pki::{Pki, Secure};
use bench::engine::Launcher;
use bench::engine::{self, Options, Target};
use bench::live::Observer;
use bench::scenario::Scenario;
use outcome::{Outcome, ResultFile, Second};
use std::process::Command;
use std::time::Duration;

const BINARY: &str = env!("CARGO_BIN_EXE_sockeye");

/// The scenarios' own rules, on a gateway that says when it listens.
fn gateway() -> Gateway {
    let rules = include_str!("../../../../benchmarks/scenarios.toml");
    Gateway::start(&rules.replace("level = \"warn\"", "level = \"info\""))
}

struct Quiet;

impl Observer for Quiet {
    fn connecting(&mut self, _progress: bench::live::Progress) {}
    fn second(&mut self, _second: &Second) {}
    fn note(&mut self, _text: &str) {}
}

fn run(scenario: &Scenario, gateways: &[&Gateway], workers: u32) -> Outcome {
    let mut options = Options::new(Launcher {
        program: generator().into(),
        args: vec!["worker".into()],
    });
    options.workers = Some(workers);
    options.grace = Duration::from_secs(20);
    let target = Target {
        name: "sockeye".into(),
        urls: gateways
            .iter()
            .map(|gateway| format!("http://{}", gateway.addr))
            .collect(),
        pids: gateways.iter().map(|gateway| gateway.pid()).collect(),
    };
    engine::run(scenario, &target, &options, &mut Quiet).expect("a run")
}

/// The scenario's own server, with a certificate made for the test: TLS, tokens, compression, one room.
#[test]
fn a_public_chat_loses_nothing() {
    let pki = Pki::new();
    pki.renew("tls", "127.0.0.1");
    let config = include_str!("../../../../benchmarks/chat-public.toml");
    let config = config
        .replace("level = \"warn\"", "level = \"info\"")
        .replace("127.0.0.1:3443", "127.0.0.1:0")
        .replace("\"cert.pem\"", &format!("{:?}", pki.path("tls.pem")))
        .replace("\"key.pem\"", &format!("{:?}", pki.path("tls.key")));
    let server = Secure::new(Gateway::start(&config));
    let text = Scenario::load("chat-public")
        .expect("a built-in scenario")
        .source
        .text;
    let text = text.replace("10_427", "120").replace("2/s", "5/s");
    let scenario = Scenario::parse("chat-public", &text)
        .expect("a scenario")
        .shortened(0.05);
    let mut options = Options::new(Launcher {
        program: generator().into(),
        args: vec!["worker".into()],
    });
    options.authorities = std::fs::read_to_string(pki.path("tls.pem")).ok();
    let target = Target {
        name: "sockeye".into(),
        urls: vec![format!("https://{}", server.addr)],
        pids: vec![server.gateway.pid()],
    };
    let outcome = engine::run(&scenario, &target, &options, &mut Quiet).expect("a run");
    assert_clean(&outcome);
    let totals = &outcome.totals;
    assert_eq!(totals.expected, totals.sent * 120, "{totals:?}");
    assert!(totals.sent >= 10, "{totals:?}");
    assert_eq!(server.handshakes("full"), 120.0);
    let packed = server.gateway.metric("sockeye_deflate_messages_total");
    assert!(packed >= totals.sent as f64, "{packed} compressed");
}

fn assert_clean(outcome: &Outcome) {
    let totals = &outcome.totals;
    assert!(
        outcome.errors.is_empty(),
        "{:?}\n{totals:?}",
        outcome.errors
    );
    assert_eq!(totals.received, totals.expected, "{totals:?}");
    assert_eq!(totals.acked, totals.acks_expected, "{totals:?}");
}

/// Twenty users in rooms of five that send to their room, a hundred messages a second.
fn rooms_of_five(head: &str) -> Scenario {
    let text = format!(
        r#"
name = "rooms"
spread = "${{user / 5}}"
{head}
[[phases]]
name = "talk"
connections = 20
duration = "1s"
rate = "100/s"
[flows.member]
steps = [
  {{ connect = true }},
  {{ join = "room-${{user / 5}}" }},
  {{ loop = [{{ emit = "message", to = "room-${{user / 5}}", echo = true, ack = true }}], pace = "phase" }},
]
"#
    );
    Scenario::parse("rooms.toml", &text).unwrap_or_else(|problems| panic!("{problems}"))
}

fn everyone_hears_everything(head: &str, gateways: &[&Gateway]) {
    let outcome = run(&rooms_of_five(head), gateways, 2);
    assert_clean(&outcome);
    let totals = &outcome.totals;
    assert!(totals.sent > 50, "{totals:?}");
    assert_eq!(totals.expected, totals.sent * 5);
    assert_eq!(outcome.processes.len(), gateways.len());
    assert!(
        outcome
            .processes
            .iter()
            .all(|process| process.rss_peak_bytes > 0)
    );
}

#[test]
fn every_protocol_and_transport() {
    let gateway = gateway();
    everyone_hears_everything("", &[&gateway]);
    everyone_hears_everything("transport = \"polling\"", &[&gateway]);
    everyone_hears_everything("transport = \"upgrade\"", &[&gateway]);
    everyone_hears_everything("protocol = \"websocket\"", &[&gateway]);
}

#[test]
fn rooms_stay_together_when_users_are_spread_over_gateways() {
    let (one, other) = (gateway(), gateway());
    everyone_hears_everything("", &[&one, &other]);
}

/// The built-in scenario with phases of two seconds.
fn shortened(name: &str, scale: f64) -> Scenario {
    let text = Scenario::load(name)
        .expect("a built-in scenario")
        .source
        .text;
    // Workers read the text again, so it is the text that changes.
    let lines = text
        .lines()
        .map(|line| match line.starts_with("duration = ") {
            true => "duration = \"2s\"",
            false => line,
        });
    let text = lines.collect::<Vec<_>>().join("\n");
    let scenario = Scenario::parse(name, &text).unwrap_or_else(|problems| panic!("{problems}"));
    scenario.scaled(scale)
}

#[test]
fn the_built_in_scenarios_run_without_an_error() {
    for (name, scale) in [
        ("staircase", 0.004),
        ("chat-10k", 0.3),
        ("million-idle", 0.0001),
        ("push-ack", 0.01),
        ("push-churn", 0.01),
        ("ticker", 0.02),
    ] {
        let gateway = gateway();
        let outcome = run(&shortened(name, scale), &[&gateway], 2);
        assert_clean(&outcome);
        assert!(
            outcome.totals.connections_peak > 50,
            "{name}: {:?}",
            outcome.totals
        );
        assert_eq!(outcome.scale, scale);
    }
}

#[test]
fn a_storm_reconnects_everyone() {
    let gateway = gateway();
    let outcome = run(&shortened("storm", 0.004), &[&gateway], 2);
    assert_clean(&outcome);
    let totals = &outcome.totals;
    assert_eq!(
        (totals.connects_succeeded, totals.acked),
        (400, 400),
        "{totals:?}"
    );
    let latency = &outcome.latency;
    assert_eq!((latency.connect.count(), latency.again.count()), (200, 200));
}

/// One command starts the gateways, runs the scenario on all of them, and leaves none behind.
#[test]
fn a_crowd_needs_one_command() {
    let folder = tempfile::tempdir().expect("a folder");
    let json = folder.path().join("result.json");
    let config = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../benchmarks/scenarios.toml"
    );
    let output = Command::new(generator())
        .args([
            "run",
            "million-idle",
            "--scale",
            "0.0003",
            "--time-scale",
            "0.05",
        ])
        .args(["--gateways", "3", "--gateway-config", config, "--json"])
        .arg(&json)
        .output()
        .expect("sockeye");
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}");
    let Ok(ResultFile::Run(run)) = outcome::load(&json) else {
        panic!("no result: {told}");
    };
    assert_eq!((run.processes.len(), run.totals.connections_peak), (3, 300));
    for process in &run.processes {
        assert!(process.rss_before_bytes > 0, "{process:?}");
        let left = std::path::Path::new("/proc").join(process.pid.to_string());
        assert!(!left.exists(), "{process:?} still runs");
    }
}

/// A scenario of nodes, its rates cut to what a busy machine does.
fn over_nodes(name: &str, gateways: &[&Gateway]) -> Outcome {
    let mut text = Scenario::load(name)
        .expect("a built-in scenario")
        .source
        .text;
    for rate in ["1_000/s", "6_250/s", "9_375/s", "12_500/s", "1_600/s"] {
        text = text.replace(rate, "100/s");
    }
    let scenario = Scenario::parse(name, &text).expect("a scenario");
    run(&scenario.shortened(0.1), gateways, 2)
}

#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn what_crosses_nodes_is_counted() {
    let redis = servers::Redis::start();
    let rules = include_str!("../../../../benchmarks/nodes.toml");
    let rules = rules
        .replace("redis://127.0.0.1:6379", &redis.url())
        .replace("level = \"warn\"", "level = \"info\"");
    let [one, two] = [Gateway::start(&rules), Gateway::start(&rules)];
    for node in [&one, &two] {
        let peers = node.metric_settles("sockeye_cluster_peers", |peers| peers == 1.0);
        assert_eq!(peers, Ok(1.0));
    }
    let nodes = [&one, &two];
    for name in ["nodes-rooms", "nodes-crowd", "nodes-paced"] {
        let outcome = over_nodes(name, &nodes);
        assert_clean(&outcome);
        let carried = one.metric("sockeye_cluster_away_total");
        assert!(carried >= outcome.totals.sent as f64, "{name}: {carried}");
    }
    assert_eq!(
        two.metric("sockeye_cluster_away_total"),
        0.0,
        "nobody publishes there"
    );
}

#[test]
fn messages_between_gateways_without_a_cluster_are_missed() {
    let [one, two] = [gateway(), gateway()];
    let totals = over_nodes("nodes-paced", &[&one, &two]).totals;
    assert!(totals.expected > 0 && totals.received == 0, "{totals:?}");
}

#[test]
fn the_gateway_hands_bench_over_to_the_generator_beside_it() {
    assert!(generator().exists());
    let output = Command::new(BINARY)
        .args(["bench", "scenarios"])
        .output()
        .expect("sockeye");
    assert!(output.status.success());
    assert!(String::from_utf8_lossy(&output.stdout).contains("staircase"));
    let output = Command::new(BINARY)
        .args(["bench", "check", "nothing.toml"])
        .output()
        .expect("sockeye");
    assert!(!output.status.success());
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        told.starts_with("cannot read scenario nothing.toml"),
        "{told}"
    );
}

/// A gateway that was installed alone.
#[test]
fn without_a_generator_bench_says_how_to_get_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let alone = folder.path().join("sockeye");
    std::fs::copy(BINARY, &alone).expect("a copy");
    let output = Command::new(&alone)
        .args(["bench", "scenarios"])
        .env("PATH", folder.path())
        .output()
        .expect("sockeye");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(
        told.starts_with("cannot find sockeye-bench beside"),
        "{told}"
    );
    assert!(
        told.contains("cargo install --profile production --path crates/bench"),
        "{told}"
    );
}
