//! What operators are told of Redis before a node starts.

use serde_json::Value;
use servers::Redis;
use std::process::{Command, Output, Stdio};

/// Runs a command with a configuration for this Redis.
fn run(command: &[&str], url: &str) -> Output {
    let folder = tempfile::tempdir().expect("a folder");
    let config = format!("[cluster]\nadapter = \"redis\"\nurls = [{url:?}]\nsecret = \"s\"\n");
    let file = folder.path().join("sockeye.toml");
    std::fs::write(&file, config).expect("write the configuration");
    let mut sockeye = Command::new(env!("CARGO_BIN_EXE_sockeye"));
    sockeye.args(command).arg("--config").arg(&file);
    sockeye.stdin(Stdio::null()).output().expect("run sockeye")
}

fn check(url: &str) -> (Option<i32>, String) {
    let output = run(&["config", "check", "--online"], url);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    (output.status.code(), said)
}

/// What the doctor found under this name, and its exit code.
fn finding(redis: &Redis, name: &str) -> (Option<i32>, Value) {
    let output = run(&["doctor", "--connections", "10", "--json"], &redis.url());
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let mut findings = report["findings"].as_array().expect("findings").iter();
    let found = findings.find(|finding| finding["name"] == name).cloned();
    let found = found.unwrap_or_else(|| panic!("{name} in {report:#}"));
    (output.status.code(), found)
}

#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn config_check_connects_when_it_is_asked_to() {
    let mut redis = Redis::start();
    let (code, said) = check(&redis.url());
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("cluster.urls answer: redis 7."), "{said}");
    let url = redis.url();
    redis.kill();
    let (code, said) = check(&url);
    assert_eq!(code, Some(1), "{said}");
    assert!(
        said.contains(&format!("cannot reach Redis at {}", redis.addr())),
        "{said}"
    );
    // What cannot be reached is no mistake of the file.
    let offline = run(&["config", "check"], &url);
    assert_eq!(offline.status.code(), Some(0), "{offline:?}");
}

#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn the_doctor_judges_redis() {
    const BUFFER: &str = "client-output-buffer-limit pubsub";
    let mut redis = Redis::start();
    let (_, engine) = finding(&redis, "engine");
    assert_eq!(engine["status"], "ok", "{engine:#}");
    let (_, buffer) = finding(&redis, BUFFER);
    assert_eq!(buffer["status"], "ok", "{buffer:#}");
    redis.ask(&[
        "CONFIG",
        "SET",
        "client-output-buffer-limit",
        "pubsub 0 0 0",
    ]);
    let (code, buffer) = finding(&redis, BUFFER);
    assert_eq!(
        (code > Some(0), &buffer["status"]),
        (true, &Value::from("warn"))
    );
    let fix = buffer["fix"].as_str().expect("a fix");
    assert!(
        fix.contains("CONFIG SET client-output-buffer-limit"),
        "{fix}"
    );
    redis.kill();
    let (code, urls) = finding(&redis, "cluster.urls");
    assert_eq!((code, &urls["status"]), (Some(2), &Value::from("fail")));
}
