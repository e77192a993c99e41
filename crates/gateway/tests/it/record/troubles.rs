//! Full disks, recorders that stand still, files of strangers, gateways that are not there: a clear word for each, and nothing waits for ever.

use super::{BINARY, OPS, Recorder, comes, config, played, replay};
use crate::harness::{Gateway, PATIENCE, RawConn, eventually};
use rustix::process::Signal;
use serde_json::json;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

fn record(node: &Gateway, file: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(BINARY);
    command.arg("record").arg(file);
    command.args(["--admin", &node.admin.to_string()]);
    command.args(args).output().expect("sockeye record runs")
}

fn words(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn what_cannot_be_recorded_is_told() {
    let node = Gateway::start(&config(""));
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("r.jsonl");
    let output = record(&node, &file, &["--user", "ada"]);
    assert!(words(&output).contains("without an API key"), "{output:?}");
    for share in ["0", "101%", "half"] {
        let output = record(&node, &file, &["--key", &OPS.0, "--share", share]);
        assert!(words(&output).contains("0.01% to 100%"), "{output:?}");
    }
    assert!(!file.exists(), "an order that is refused leaves no file");
    std::fs::write(&file, "precious").expect("a file");
    let output = record(&node, &file, &["--key", &OPS.0, "--user", "ada"]);
    let said = words(&output);
    assert!(
        said.contains("cannot create") && said.contains("exists"),
        "{said}"
    );
    assert_eq!(
        std::fs::read_to_string(&file).expect("the file"),
        "precious"
    );
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn a_recording_is_bounded_in_bytes_and_in_time() {
    let node = Gateway::start(&config(""));
    let mut recorder = Recorder::start(&node, &["--user", "ada", "--bytes", "4KiB"]);
    let mut ada = comes(&node, "ada", "den");
    for number in 0..50 {
        ada.emit("chat", &[json!(number)]);
    }
    let said = recorder.ended();
    assert!(said.contains("the file is full (--bytes): "), "{said}");
    let len = std::fs::metadata(&recorder.file).expect("the file").len();
    assert!(len <= 4_096, "{len}");
    let output = replay(&recorder.file, node.addr, &[]);
    assert_ne!(output.status.code(), Some(2), "it is whole: {output:?}");
    let mut short = Recorder::start(&node, &["--user", "ada", "--seconds", "1"]);
    assert!(short.ended().contains("its time is over: "));
}

/// The limit of the shell stands for a disk that is full: writing fails in the middle.
#[test]
fn a_full_disk_ends_the_recording_with_its_reason() {
    let node = Gateway::start(&config(""));
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("r.jsonl");
    let mut command = Command::new("sh");
    let script = "trap '' XFSZ; ulimit -f 4; exec \"$0\" record \"$1\" --key \"$2\" --admin \"$3\" --user ada";
    command.args(["-c", script, BINARY]).arg(&file);
    command.args([&OPS.0, &node.admin.to_string()]);
    let child = command
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("it starts");
    assert!(eventually(PATIENCE, || node.metric("sockeye_traces_live") == 1.0));
    let mut ada = comes(&node, "ada", "den");
    for number in 0..100 {
        ada.emit("chat", &[json!(number)]);
    }
    let output = child.wait_with_output().expect("its end");
    let said = words(&output);
    assert!(
        said.contains("cannot write on to") && said.contains("--torn"),
        "{said}"
    );
    assert_eq!(output.status.code(), Some(1));
    // What is there can be played, and only if that is asked for.
    let output = replay(&file, node.addr, &[]);
    assert!(words(&output).contains("it is torn"), "{output:?}");
    assert_eq!(output.status.code(), Some(2));
    let output = replay(&file, node.addr, &["--torn", "--json", "--speed", "100"]);
    assert!(!played(&output)["gaps"].as_array().expect("gaps").is_empty());
}

#[test]
fn a_recorder_that_stands_still_misses_lines_and_says_so() {
    let node = Gateway::start(&config(""));
    let mut recorder = Recorder::start(&node, &["--user", "ada"]);
    let mut ada = comes(&node, "ada", "den");
    recorder.waits_for("connect", "", 0);
    recorder.signal(Signal::STOP);
    let dropped = || node.metric("sockeye_trace_lines_total{outcome=\"dropped\"}") > 0.0;
    for number in 0..20_000 {
        ada.emit("chat", &[json!(number)]);
        if number % 100 == 0 && dropped() {
            break;
        }
    }
    // The gateway does not wait for it.
    assert_eq!(ada.ask("echo", &[json!(1)]), [json!(1)]);
    recorder.signal(Signal::CONT);
    let is_told = || !recorder.lines("dropped").is_empty();
    assert!(eventually(PATIENCE, is_told));
    let said = recorder.stop();
    assert!(said.contains("lines found no room"), "{said}");
}

#[test]
fn a_gateway_that_ends_leaves_a_whole_recording() {
    let mut node = Gateway::start(&config(""));
    let mut recorder = Recorder::start(&node, &["--user", "ada"]);
    let _ada = comes(&node, "ada", "den");
    recorder.waits_for("event", "join", 1);
    node.kill();
    let said = recorder.ended();
    assert!(said.contains("has closed the connection"), "{said}");
    assert_eq!(recorder.lines("end").len(), 1);
}

/// In the recording it ended, too; here a moment earlier.
#[test]
fn one_that_the_gateway_puts_out_before_it_leaves_has_left() {
    let node = Gateway::start(&config(""));
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("r.jsonl");
    let line = |at: u64, what: &str, socket: &str| {
        format!(
            "{{\"kind\":\"line\",\"at_ms\":{at},\"direction\":\"in\",\"what\":\"{what}\",\"session\":\"s\",\"socket\":\"{socket}\",\"namespace\":\"/\"}}\n"
        )
    };
    let text = [
        "{\"sockeye_recording\":1}\n".to_owned(),
        line(1, "connect", "one"),
        line(2, "connect", "two"),
        line(4_000, "end", "one"),
        "{\"kind\":\"end\",\"lines\":3}\n".to_owned(),
    ];
    std::fs::write(&file, text.concat()).expect("a file");
    for close in [true, false] {
        std::thread::scope(|scope| {
            let play = scope.spawn(|| replay(&file, node.addr, &["--json"]));
            let are_there = || node.metric("sockeye_sockets") == 2.0;
            assert!(eventually(PATIENCE, are_there));
            // Both know it.
            std::thread::sleep(Duration::from_millis(300));
            let body = json!({"all": true, "close": close}).to_string();
            let request = format!(
                "POST /v1/disconnect HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
                OPS.0,
                body.len()
            );
            assert_eq!(RawConn::exchange(node.admin, request).status, 202);
            let output = play.join().expect("its end");
            let report = played(&output);
            assert_eq!(output.status.code(), Some(0), "{report:#}");
            assert_eq!(report["failed"], 0, "{report:#}");
            assert!(eventually(PATIENCE, || node.metric("sockeye_sockets") == 0.0));
        });
    }
}

/// One read had all of it, and the client counted as one that was not let in.
#[test]
fn one_that_is_let_in_and_put_out_in_one_read_has_left() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("r.jsonl");
    let line = |at: u64, what: &str| {
        format!(
            "{{\"kind\":\"line\",\"at_ms\":{at},\"direction\":\"in\",\"what\":\"{what}\",\"session\":\"s\",\"socket\":\"one\",\"namespace\":\"/\"}}\n"
        )
    };
    let text = [
        "{\"sockeye_recording\":1}\n".to_owned(),
        line(1, "connect"),
        line(100, "end"),
        "{\"kind\":\"end\",\"lines\":2}\n".to_owned(),
    ];
    std::fs::write(&file, text.concat()).expect("a file");
    // No gateway can be told to write both in one segment.
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let addr = listener.local_addr().expect("its address");
    let peer = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a client");
        let mut read = [0; 4_096];
        let mut came = Vec::new();
        while !came.ends_with(b"\r\n\r\n") {
            let count = stream.read(&mut read).expect("a head");
            came.extend_from_slice(&read[..count]);
        }
        let frame = |text: &str| [&[0x81, text.len() as u8], text.as_bytes()].concat();
        let head = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n";
        let open =
            frame("0{\"sid\":\"s\",\"upgrades\":[],\"pingInterval\":25000,\"pingTimeout\":20000}");
        stream
            .write_all(&[&head[..], &open].concat())
            .expect("written");
        assert!(stream.read(&mut read).expect("a CONNECT") > 0);
        let both = [frame("40{\"sid\":\"t\"}"), frame("41")].concat();
        stream.write_all(&both).expect("written");
        while stream.read(&mut read).is_ok_and(|count| count > 0) {}
    });
    let output = replay(&file, addr, &["--json"]);
    let report = played(&output);
    assert_eq!(output.status.code(), Some(0), "{report:#}");
    assert_eq!(report["failed"], 0, "{report:#}");
    peer.join().expect("the peer");
}

#[test]
fn files_of_strangers_and_gateways_that_are_not_there() {
    let node = Gateway::start(&config(""));
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("r.jsonl");
    let head = "{\"sockeye_recording\":1,\"of\":\"\\u001b[2Jx\",\"payload\":true}\n";
    let line = "{\"kind\":\"line\",\"at_ms\":7,\"direction\":\"in\",\"what\":\"event\",\"socket\":\"s\",\"namespace\":\"/\",\"event\":\"n\"}\n";
    let far = line.replace(":7,", ":99999999999999,");
    let end = "{\"kind\":\"end\",\"lines\":1}\n";
    for (text, why) in [
        (
            "\u{1}\u{2}".to_owned(),
            "line 1 is no beginning of a recording",
        ),
        (
            format!("{head}{}", "y".repeat(1 << 20)),
            "line 2 has more than",
        ),
        (format!("{head}{line}"), "it is torn"),
        (
            format!("{head}{line}{far}{}", end.replace('1', "2")),
            "hours apart",
        ),
        (
            format!("{head}{}", end.replace('1', "0")),
            "nobody does anything",
        ),
        (
            format!("{head}{}{end}", line.replace("\"/\"", "\"/a,b\"")),
            "is no namespace",
        ),
    ] {
        std::fs::write(&file, text).expect("a file");
        let output = replay(&file, node.addr, &[]);
        let said = words(&output);
        assert!(said.contains(why) && !said.contains('\u{1b}'), "{said}");
        assert_eq!(output.status.code(), Some(2), "{said}");
    }
    std::fs::write(&file, format!("{head}{line}{end}")).expect("a file");
    // Nobody listens there, and somebody who says nothing.
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let addr = silent.local_addr().expect("its address");
    let report = played(&replay(&file, addr, &["--json"]));
    let sample = report["samples"][0].as_str().expect("a reason");
    assert!(sample.contains("not let in within 10 s"), "{sample}");
    drop(silent);
    let output = replay(&file, addr, &["--json"]);
    let sample = played(&output)["samples"][0].clone();
    assert!(
        sample
            .as_str()
            .expect("a reason")
            .contains("cannot connect"),
        "{sample}"
    );
    assert_eq!(output.status.code(), Some(1));
}
