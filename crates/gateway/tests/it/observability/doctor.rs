//! `sockeye doctor` as it is called: exit codes, JSON, and snapshots of other machines.

use serde_json::Value;
use std::process::{Command, Output, Stdio};

fn doctor(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sockeye"));
    command
        .arg("doctor")
        .args(args)
        .current_dir(std::env::temp_dir())
        .stdin(Stdio::null());
    command.output().expect("run sockeye doctor")
}

fn json(args: &[&str]) -> (Option<i32>, Value) {
    let output = doctor(&[args, &["--json"]].concat());
    let text = String::from_utf8_lossy(&output.stdout);
    let json = serde_json::from_str(&text).unwrap_or_else(|_| panic!("{output:?}"));
    (output.status.code(), json)
}

#[test]
fn this_machine_can_hold_ten_connections_and_not_a_hundred_million() {
    let (code, few) = json(&["--connections", "10"]);
    assert!(matches!(code, Some(0 | 1)), "{code:?} {few:#}");
    assert_eq!(few["connections"], 10);
    assert!(few["ceiling"].as_u64() > Some(10), "{few:#}");
    let (code, many) = json(&["--connections", "100000000"]);
    assert_eq!(
        (code, &many["status"]),
        (Some(2), &Value::from("fail")),
        "{many:#}"
    );
    let findings = many["findings"].as_array().expect("findings");
    let failed = findings
        .iter()
        .filter(|finding| finding["status"] == "fail");
    for finding in failed {
        assert!(
            finding["fix"].is_string() && finding["needed"] != "",
            "{finding:#}"
        );
    }
}

#[test]
fn a_recorded_snapshot_is_judged_as_the_machine_was() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("snapshot.txt");
    let recorded = doctor(&["--record"]);
    assert_eq!(recorded.status.code(), Some(0), "{recorded:?}");
    std::fs::write(&path, &recorded.stdout).expect("write the snapshot");
    let path = path.to_str().expect("a path");
    let (code, there) = json(&["--connections", "50000", "--from", path]);
    let (here_code, here) = json(&["--connections", "50000"]);
    assert_eq!(code, here_code);
    // Numbers change from one moment to the next, verdicts do not.
    let names = |report: &Value| -> Vec<(Value, Value)> {
        let findings = report["findings"].as_array().expect("findings").iter();
        let name = |f: &Value| (f["name"].clone(), f["status"].clone());
        findings.map(name).collect()
    };
    assert_eq!(names(&there), names(&here));
}

#[test]
fn what_is_no_snapshot_is_an_error_that_says_how_to_make_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("sockeye.toml");
    for bytes in [&b""[..], b"[server]\nshards = 2\n", b"\xff\x00\x01garbage"] {
        std::fs::write(&path, bytes).expect("write");
        let output = doctor(&["--from", path.to_str().expect("a path")]);
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(
            told.contains("doctor --record") && output.stdout.is_empty(),
            "{output:?}"
        );
    }
}

#[test]
fn the_table_ends_with_a_verdict() {
    let output = doctor(&["--connections", "1000000"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        text.starts_with("For 1,000,000 connections, this "),
        "{text}"
    );
    let last = text.lines().last().unwrap_or_default();
    assert!(
        last.starts_with("As things are: ") && last.ends_with(" fail."),
        "{last}"
    );
    assert!(!text.contains('\u{1b}'), "colours in a pipe");
}

#[test]
fn a_wrong_configuration_is_a_failure_like_any_other() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("s.toml");
    std::fs::write(&path, "[server]\nshard = 1\n").expect("write");
    let path = path.to_str().expect("a path");
    let (code, report) = json(&["--connections", "10", "--config", path]);
    assert_eq!(code, Some(2));
    let finding = &report["findings"][0];
    assert_eq!(
        (&finding["name"], &finding["status"]),
        (&"configuration".into(), &"fail".into())
    );
}
