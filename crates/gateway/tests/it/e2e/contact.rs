//! First contact: what a start says, where it listens, how it is stopped, what the command line tells of itself.

use super::client::SocketIo;
use crate::harness::{Gateway, PATIENCE, eventually};
use rustix::process::Signal;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use serde_json::{Value, json};
use std::fs::{File, OpenOptions};
use std::io::Read;
use std::net::SocketAddr;
use std::process::{Command, Output, Stdio};

const CONFIG: &str = "[server]\nshards = 2\npin = false\ndrain_window = \"30s\"\n";

fn sockeye(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sockeye"));
    let output = command.args(args).stdin(Stdio::null()).output();
    output.expect("run sockeye")
}

fn said(args: &[&str]) -> String {
    let output = sockeye(args);
    assert_eq!(output.status.code(), Some(0), "{args:?}: {output:?}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// The line that says: ready.
fn listening(gateway: &Gateway) -> Value {
    let lines = gateway.log().into_iter();
    let mut lines = lines.filter_map(|line| serde_json::from_str::<Value>(&line).ok());
    let line = lines.find(|line| line["message"] == "listening");
    line.expect("the gateway is ready")
}

#[test]
fn the_start_says_what_to_open_what_was_read_and_how_to_stop() {
    let gateway = Gateway::start(CONFIG);
    let line = listening(&gateway);
    let port = gateway.addr.port();
    assert_eq!(line["url"], format!("http://localhost:{port}"));
    let file = line["file"].as_str().expect("a file");
    assert!(file.ends_with("/sockeye.toml"), "{file}");
    assert_eq!(line["stop"], "Ctrl-C");
    assert_eq!(
        format!("sockeye {}\n", line["version"].as_str().unwrap_or_default()),
        said(&["--version"])
    );
}

#[test]
fn all_addresses_are_those_of_both_families() {
    let gateway = Gateway::start_with(CONFIG, &["--listen", ":0"]);
    let line = listening(&gateway);
    let all = line["addresses"]
        .as_str()
        .and_then(|list| list.split(',').nth(1));
    let all: SocketAddr = all
        .and_then(|text| text.parse().ok())
        .expect("a second address");
    let has_ipv6 = std::fs::read_to_string("/proc/net/if_inet6").is_ok_and(|text| !text.is_empty());
    assert_eq!(all.is_ipv6(), has_ipv6, "{line}");
    let v4 = SocketAddr::from(([127, 0, 0, 1], all.port()));
    let v6 = SocketAddr::from(([0, 0, 0, 0, 0, 0, 0, 1], all.port()));
    for (n, addr) in [v4, v6]
        .into_iter()
        .take(1 + usize::from(has_ipv6))
        .enumerate()
    {
        let mut client = SocketIo::websocket(addr, "/", json!({}));
        client.ask("join", &["kitchen".into()]);
        let peer = format!("\"peer\":\"{}\"", addr.ip());
        assert!(
            gateway.logged(&peer, PATIENCE),
            "client {n} is {peer}: {:?}",
            gateway.log()
        );
    }
    let default = said(&["config", "show", "--json"]);
    let default: Value = serde_json::from_str(&default).expect("JSON");
    assert_eq!(default["server.listen"]["value"], json!(["[::]:3000"]));
}

#[test]
fn nothing_said_that_a_second_interrupt_ends_it() {
    let mut gateway = Gateway::start(CONFIG);
    let _client = SocketIo::websocket(gateway.addr, "/", json!({}));
    gateway.signal(Signal::INT);
    assert!(gateway.logged("Ctrl-C or SIGTERM again ends it at once", PATIENCE));
    assert!(gateway.is_alive(), "the client has half a minute");
    gateway.signal(Signal::INT);
    let ended = gateway.exit_status(PATIENCE).expect("ended at once");
    assert_eq!(ended.code(), Some(0));
}

/// What a start that fails writes on a terminal.
fn on_a_terminal(variables: &[(&str, &str)]) -> String {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let taken = taken
        .local_addr()
        .map(|addr| (addr.to_string(), taken))
        .expect("an address");
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
    grantpt(&terminal).expect("grant");
    unlockpt(&terminal).expect("unlock");
    let name = ptsname(&terminal, Vec::new())
        .expect("its name")
        .into_string()
        .expect("UTF-8");
    let screen = OpenOptions::new()
        .read(true)
        .write(true)
        .open(name)
        .expect("open it");
    let mut command = Command::new(env!("CARGO_BIN_EXE_sockeye"));
    command.args(["--admin", "off", "--listen", &taken.0]);
    command.env_remove("NO_COLOR").env("TERM", "xterm-256color");
    command.envs(variables.iter().copied()).stdin(Stdio::null());
    let mut child = command.stderr(screen).spawn().expect("run sockeye");
    assert_eq!(child.wait().expect("its end").code(), Some(2));
    drop(command);
    let mut text = Vec::new();
    // A terminal whose other end is closed ends with an error, behind all that was written.
    let _ = File::from(terminal).read_to_end(&mut text);
    String::from_utf8(text).expect("UTF-8")
}

#[test]
fn colours_were_shown_to_those_who_want_none() {
    for (variables, coloured) in [
        (&[][..], true),
        (&[("NO_COLOR", "")], true),
        (&[("NO_COLOR", "1")], false),
        (&[("TERM", "dumb")], false),
    ] {
        let text = on_a_terminal(variables);
        assert!(text.contains("cannot listen on"), "{variables:?}: {text:?}");
        assert_eq!(text.contains('\u{1b}'), coloured, "{variables:?}: {text:?}");
    }
}

#[test]
fn shells_and_man_know_every_command() {
    let commands = [
        "config",
        "doctor",
        "token",
        "plan",
        "bench",
        "api-key",
        "completions",
    ];
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = said(&["completions", shell]);
        for command in commands {
            assert!(script.contains(command), "{shell}: {command}");
        }
    }
    assert_eq!(sockeye(&["completions", "tcsh"]).status.code(), Some(2));
    let page = said(&["man"]);
    assert!(page.contains(".TH sockeye 1"), "{page}");
    let folder = tempfile::tempdir().expect("a folder");
    said(&["man", folder.path().to_str().expect("a path")]);
    for command in commands {
        let page = folder.path().join(format!("sockeye-{command}.1"));
        assert!(page.exists(), "{}", page.display());
    }
}

#[test]
fn help_shows_what_to_type_and_the_version_says_which_build_it_is() {
    let help = said(&["--help"]);
    assert!(help.contains("Examples:\n  sockeye "), "{help}");
    let version = said(&["--version"]);
    let build = version.trim().split_once(" (").expect(&version).1;
    assert!(build.ends_with(')') && build.contains("linux"), "{version}");
}

/// It judged a million connections, which no laptop allows.
#[test]
fn the_doctor_judged_what_nobody_asked_for() {
    let report = |file: &str| {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("sockeye.toml");
        std::fs::write(&path, file).expect("a file");
        let path = path.to_str().expect("a path").to_owned();
        let output = sockeye(&["doctor", "--json", "--config", &path]);
        let json: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        (output.status.code(), json)
    };
    // What is in use changes from one moment to the next, and the ceiling with it.
    let mut seen = Value::Null;
    let as_many_as_there_is_room_for = eventually(PATIENCE, || {
        let (code, json) = report("");
        seen = json;
        matches!(code, Some(0 | 1)) && seen["connections"].as_u64() <= seen["ceiling"].as_u64()
    });
    assert!(as_many_as_there_is_room_for, "{seen:#}");
    let (code, json) = report("[limits]\nconns_max = 100000000\n");
    assert_eq!((code, &json["connections"]), (Some(2), &json!(100_000_000)));
}

/// "there is no benchmarks/results/suite.json here"
#[test]
fn a_plan_was_had_in_the_source_tree_only() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sockeye"));
        let output = command.args(args).current_dir(folder.path()).output();
        let output = output.expect("run sockeye");
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        String::from_utf8(output.stdout).expect("UTF-8")
    };
    let plan = run(&["plan", "--users", "100000"]);
    assert!(
        plan.contains("nodes") && plan.contains("AWS IoT Core"),
        "{plan}"
    );
    let advice = run(&["plan", "advise", "--direction", "down"]);
    assert!(advice.starts_with("take Server-Sent Events\n"), "{advice}");
}
