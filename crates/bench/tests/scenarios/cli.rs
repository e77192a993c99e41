//! The commands as a person uses them: scale, Ctrl-C, refusal of latencies.

use crate::node::Node;
use crate::rig::{Run, run, scenario};
use outcome::ResultFile;
use std::process::{Command, Stdio};

fn bench() -> Command {
    Command::new(env!("CARGO_BIN_EXE_sockeye-bench"))
}

fn stdout(args: &[&str]) -> String {
    let output = bench().args(args).output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_scenarios_are_listed_and_can_be_checked() {
    let list = stdout(&["scenarios"]);
    for name in [
        "staircase",
        "chat-10k",
        "chat-public",
        "million-idle",
        "push-ack",
        "push-churn",
        "ticker",
        "storm",
    ] {
        assert!(list.contains(&format!("{name} ")), "{list}");
        assert!(stdout(&["check", name]).starts_with(&format!("{name}: ")));
    }
}

#[test]
#[ignore = "needs Node: cargo xtask test foreign"]
fn scale_shrinks_connections_and_rates_and_is_told() {
    let text = "name='s'\n[[phases]]\nduration='1s'\nconnections=1000\narrivals='500/s'\nrate='50/s'\n\
                [flows.a]\nsteps=[{connect=true},{loop=[{emit='got',ack=true}],pace='phase'}]";
    let scenario = bench::scenario::Scenario::parse("s", text)
        .unwrap()
        .scaled(0.02);
    let phase = &scenario.phases[0];
    assert_eq!(
        (phase.connections, phase.arrivals, phase.rate),
        (Some(20), Some(10.0), Some(1.0))
    );
    assert_eq!(scenario.users(), 10, "ten a second for one second");
    let outcome = Run::whole(text, &Node::start().url, &["--scale", "0.02"]).outcome;
    assert_eq!((outcome.scale, outcome.totals.connections_peak), (0.02, 10));
    assert!(
        outcome.notes.iter().any(|note| note.contains("0.02")),
        "{:?}",
        outcome.notes
    );
}

#[test]
#[ignore = "needs Node: cargo xtask test foreign"]
fn a_low_soft_limit_of_files_costs_no_connection() {
    let node = Node::start();
    let folder = tempfile::tempdir().unwrap();
    let (file, json) = (folder.path().join("s.toml"), folder.path().join("s.json"));
    let text = "name='s'\n[[phases]]\nduration='1s'\nconnections=150\n\
                [flows.a]\nsteps=[{connect=true},{loop=[{emit='got',ack=true}],every='500ms'}]";
    std::fs::write(&file, text).unwrap();
    let output = Command::new("sh")
        .args(["-c", "ulimit -Sn 64 && exec \"$0\" \"$@\""])
        .args([env!("CARGO_BIN_EXE_sockeye-bench"), "run"])
        .arg(&file)
        .args(["--url", &node.url, "--json"])
        .arg(&json)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    let ResultFile::Run(outcome) = outcome::load(&json).unwrap() else {
        panic!("not a run: {text}")
    };
    assert_eq!(outcome.totals.connections_peak, 150, "{text}");
}

#[test]
fn a_grace_that_makes_no_sense_is_refused() {
    for command in [
        &["run", "ticker"][..],
        &["compare", "ticker", "--server", "a=http://127.0.0.1:9"],
    ] {
        let output = bench()
            .args(command)
            .args(["--grace", "18446744073709551615"])
            .output();
        let told = String::from_utf8(output.unwrap().stderr).unwrap();
        assert!(
            told.contains("18446744073709551615 is not in 0..=3600"),
            "{told}"
        );
    }
}

#[test]
fn a_slip_of_the_pen_does_not_look_like_a_fault() {
    for args in [
        &["run", "ticker", "--scale", "0"][..],
        &["run", "ticker", "--frobnicate"],
        &["frobnicate"],
    ] {
        let output = bench().args(args).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{args:?}");
        assert!(!output.stderr.is_empty(), "{args:?}");
    }
    assert!(stdout(&["--help"]).contains("scenarios"));
}

#[test]
fn a_list_may_be_read_in_part() {
    let mut child = bench()
        .arg("scenarios")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn a_scenario_has_users_for_all_its_counts() {
    let file = tempfile::NamedTempFile::with_suffix(".toml").unwrap();
    let text = "name='test'\n[[phases]]\nconnections=100\nduration='1s'\n\
                [flows.a]\ncount=150\nsteps=[{connect=true}]";
    std::fs::write(&file, text).unwrap();
    let told = stdout(&["check", file.path().to_str().unwrap()]);
    assert!(told.contains("100 users instead of 150"), "{told}");
    // Counts stay as they are at any scale.
    let output = bench()
        .arg("run")
        .arg(file.path())
        .args(["--scale", "2"])
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(told.contains("for 150 users and there are 200"), "{told}");
}

#[test]
#[ignore = "needs Node: cargo xtask test foreign"]
fn a_saturated_generator_refuses_its_latencies() {
    // More random letters than any machine can roll, and none of them is sent.
    let text = r#"
name = "too much"
[[phases]]
connections = 10
rate = "1_000_000/s"
duration = "5s"
[flows.busy]
weight = 4
steps = [{ connect = true }, { loop = [{ auth = '{"token":"${text(20000)}"}' }], pace = "phase" }]
[flows.measured]
steps = [{ connect = true }, { loop = [{ emit = "got", ack = true }], every = "100ms" }]
"#;
    let scenario = bench::scenario::Scenario::parse("too-much.toml", text).unwrap();
    let outcome = run(&scenario, &Node::start().url, 1);
    let reason = outcome.latency_refused().expect("latencies are shown");
    assert!(reason.contains("generator"), "{reason}");
    assert!(outcome.phases[0].generator_saturated.is_some());
}

#[test]
#[ignore = "needs Node: cargo xtask test foreign"]
fn a_generator_with_time_to_spare_shows_its_latencies() {
    let flows = "[flows.a]\nsteps = [{ connect = true }, { loop = [{ emit = \"got\", ack = true }], every = \"500ms\" }]";
    let outcome = run(&scenario(2, "", flows), &Node::start().url, 1);
    let lag_ms = outcome.generator.turn_lag_p99_ms.unwrap();
    // A machine that is busy otherwise may delay anyone; then refusing is right.
    assert!(
        outcome.latency_refused().is_none() || lag_ms > 10.0,
        "{:?}",
        outcome.generator
    );
}

fn suite(out: &std::path::Path, more: &[&str]) -> outcome::Suite {
    let output = bench()
        .args(["suite", "--quick", "--no-node", "--benchmarks"])
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/../../benchmarks"))
        .arg("--out")
        .arg(out)
        .args(more)
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}");
    match outcome::load(out).unwrap() {
        ResultFile::Suite(suite) => suite,
        other => panic!("not a suite: {other:?}"),
    }
}

/// The floors are servers as well: each case has its figure, and a second run keeps what it did not measure.
#[test]
fn the_suite_measures_what_it_is_asked_for_and_keeps_the_rest() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("suite.json");
    let first = suite(&out, &["--only", "delivery-100-window-16,ack-depth-8"]);
    let cases: Vec<&str> = first.cases.iter().map(|case| &*case.case).collect();
    assert_eq!(cases, ["ack-depth-8", "delivery-100-window-16"]);
    for case in &first.cases {
        assert!(case.failures.is_empty(), "{:?}", case.failures);
        let [run] = &case.servers[0].runs[..] else {
            panic!("{} rounds", case.servers[0].runs.len())
        };
        assert_eq!(case.servers[0].name, "floor");
        assert!(run.totals.is_clean(), "{:?}", run.totals);
        let figure = case.figure.of(run).unwrap();
        assert!(
            figure > 0.0 && figure < 1_000.0,
            "{}: {figure} us",
            case.case
        );
    }
    let second = suite(&out, &["--keep", "--only", "ack-depth-8"]);
    let cases: Vec<&str> = second.cases.iter().map(|case| &*case.case).collect();
    assert_eq!(cases, ["ack-depth-8", "delivery-100-window-16"]);
    let report = stdout(&["report", out.to_str().unwrap()]);
    assert!(
        report.contains("acked event, 1,000 connections, depth 8"),
        "{report}"
    );
    // A slip of the pen leaves no empty result behind.
    let refused = bench()
        .args(["suite", "--only", "delivry"])
        .current_dir(folder.path())
        .output()
        .unwrap();
    assert!(!folder.path().join("benchmarks").exists());
    let told = String::from_utf8_lossy(&refused.stderr);
    assert!(told.contains("there is no case \"delivry\""), "{told}");
}
