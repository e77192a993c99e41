//! Starts that cannot succeed, and what is said about them: configuration, addresses, the level of the log, the environment.

use super::client::SocketIo;
use crate::harness::{Gateway, PATIENCE, eventually, generator};
use serde_json::json;
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

const CONFIG: &str = "profile = \"socket.io\"\n[server]\nshards = 2\npin = false\n";

/// Runs `sockeye` to its end.
fn run(args: &[&str], file: &str) -> Output {
    run_in(&[], args, file)
}

/// The same with variables of the environment.
fn run_in(env: &[(&str, &str)], args: &[&str], file: &str) -> Output {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("sockeye.toml");
    fs::write(&path, file).expect("a file");
    let mut command = Command::new(env!("CARGO_BIN_EXE_sockeye"));
    command
        .args(args)
        .arg("--config")
        .arg(&path)
        .envs(env.iter().copied())
        .stdin(Stdio::null());
    command.output().expect("run sockeye")
}

#[test]
fn a_port_in_use_is_an_error_that_says_so() {
    let gateway = Gateway::start(CONFIG);
    for (args, addr) in [
        (
            ["--listen", &gateway.addr.to_string(), "--admin", "off"],
            gateway.addr,
        ),
        (
            [
                "--listen",
                "127.0.0.1:0",
                "--admin",
                &gateway.admin.to_string(),
            ],
            gateway.admin,
        ),
    ] {
        let output = run(&args, "");
        // Another start would find the same: a supervisor must not try for ever.
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        let log = String::from_utf8_lossy(&output.stderr);
        assert!(log.contains(&format!("cannot listen on {addr}")), "{log}");
        assert!(log.contains("Address already in use"), "{log}");
        // The port behind that of operators is that of workers.
        let (flag, step) = match addr == gateway.addr {
            true => ("--listen", 1),
            false => ("--admin", 2),
        };
        let port = addr.port().checked_add(step).unwrap_or(3_001);
        let next = format!("add `{flag} 127.0.0.1:{port}` to the command");
        assert!(log.contains(&next), "{log}");
        // After SIGTERM it was called another program while it drained.
        let whose = format!(
            "or a gateway that still drains: `ss -ltnp 'sport = :{}'` says which. Wait until it has ended, or ",
            addr.port()
        );
        assert!(log.contains(&whose), "{log}");
        assert!(!log.contains("panic"), "{log}");
    }
    // The one that was there serves on.
    let mut client = SocketIo::websocket(gateway.addr, "/", json!({}));
    assert_eq!(client.ask("join", &["r".into()]), [json!(["r"])]);
}

/// A newcomer whose port 3000 is taken heard of it last: after Redis, whatever that took.
#[test]
fn a_taken_port_is_told_before_anything_else_begins() {
    let gateway = Gateway::start(CONFIG);
    let taken = gateway.addr.to_string();
    let away = "[cluster]\nadapter = \"redis\"\nurls = [\"redis://127.0.0.1:1\"]\n";
    let output = run(&["--listen", &taken, "--admin", "off"], away);
    let log = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{log}");
    let next = gateway.addr.port().checked_add(1).unwrap_or(3_001);
    let told = format!("or add `--listen 127.0.0.1:{next}` to the command");
    assert!(log.contains("another program has this port"), "{log}");
    assert!(log.contains(&told), "{log}");
    assert!(!log.contains("redis"), "{log}");
}

/// Of `sockeye bench`, 2 says that a server lost something.
#[test]
fn a_slip_of_the_pen_does_not_look_like_a_fault() {
    assert!(generator().exists());
    for args in [
        &["bench", "run", "ticker", "--frobnicate"][..],
        &["bench", "frobnicate"],
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_sockeye"))
            .args(args)
            .output()
            .expect("run sockeye");
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert!(!output.stderr.is_empty(), "{args:?}");
    }
    let output = run(&["--frobnicate"], "");
    assert_eq!(output.status.code(), Some(2), "{output:?}");
}

#[test]
fn a_bad_configuration_is_refused_with_all_its_problems() {
    let file = "[server]\nshard = 2\nlisten = [\"nowhere\"]\n[socketio]\nping_interval = \"soon\"\npingTimeout = \"1s\"\n[limits]\nslow_consumer = \"ignore\"\n";
    let output = run(&[], file);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let text = String::from_utf8_lossy(&output.stderr);
    for (line, part) in [
        (2, "shards"),
        (3, "nowhere"),
        (5, "soon"),
        (6, "ping_timeout"),
        (8, "drop-oldest"),
    ] {
        let named = text
            .lines()
            .any(|problem| problem.contains(part) && problem.contains(&format!(":{line}")));
        assert!(named, "line {line}, {part:?} in\n{text}");
    }
    assert!(text.contains("5 problems in the configuration"), "{text}");
    // Checked without being started: the same problems, the code of a failed check.
    let output = run(&["config", "check"], file);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let checked = [output.stdout, output.stderr].concat();
    assert!(String::from_utf8_lossy(&checked).contains("5 problems in the configuration"));
    assert_eq!(run(&["config", "check"], CONFIG).status.code(), Some(0));
}

/// What `config check` says of a file, and its exit code.
fn check(file: &str) -> (String, Option<i32>) {
    let output = run(&["config", "check"], file);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    (said, output.status.code())
}

#[test]
fn a_word_that_is_no_log_level_silenced_everything() {
    for (level, advice) in [
        ("warning", "did you mean \"warn\"?"),
        (
            "loud",
            "one of off, error, warn, info, debug, trace is needed",
        ),
    ] {
        let file = format!("[log]\nlevel = {level:?}\n");
        let (said, code) = check(&file);
        assert!(
            said.contains(&format!("cannot use log level {level:?}")),
            "{said}"
        );
        assert!(said.contains(":2:1: ") && said.contains(advice), "{said}");
        assert_eq!(code, Some(1), "{said}");
        assert_eq!(run(&[], &file).status.code(), Some(2));
    }
}

#[test]
fn why_a_start_failed_is_written_whatever_the_level() {
    let gateway = Gateway::start(CONFIG);
    let taken = gateway.addr.to_string();
    for level in ["off", "error", "control=debug"] {
        let file = format!("[log]\nlevel = {level:?}\n");
        let output = run(&["--listen", &taken, "--admin", "off"], &file);
        let log = String::from_utf8_lossy(&output.stderr);
        assert_eq!(log.lines().count(), 1, "level {level}: {log}");
        assert!(log.contains(&format!("cannot listen on {taken}")), "{log}");
    }
}

/// Each of these was called valid, and then failed at the start, did nothing, or broke something else.
#[test]
fn settings_that_cannot_work_together_passed_the_check() {
    let both = "[server]\nlisten = [\"127.0.0.1:3904\"]\nadmin = \"127.0.0.1:3904\"\n";
    let any = "[server]\nlisten = [\":3904\"]\nadmin = \"127.0.0.1:3904\"\n";
    let takeover =
        "[compression]\nserver_takeover = true\n[limits]\nslow_consumer = \"drop-oldest\"\n";
    let history = "[namespaces.\"/\".events.e]\naction = \"reply\"\nhistory = true\n";
    let echo = "[namespaces.\"/\".events.e]\naction = \"reply\"\necho = true\n";
    for (file, place, words) in [
        (both, ":3:1: ", "server.listen has 127.0.0.1:3904"),
        (any, ":3:1: ", "a port of its own"),
        (
            takeover,
            ":2:1: ",
            "limits.slow_consumer is \"drop-oldest\"",
        ),
        (
            history,
            ":3:1: ",
            "only actions \"rooms\" and \"backend\" have a history, not \"reply\"",
        ),
        (
            echo,
            ":3:1: ",
            "only action \"rooms\" has an echo, not \"reply\"",
        ),
        (
            "[plain]\npath = \"/health\"\n",
            ":2:1: ",
            "the gateway serves it already",
        ),
        (
            "[plain]\npath = \"/ready\"\n",
            ":2:1: ",
            "the gateway serves it already",
        ),
        (
            "[plain]\npath = \"/app.js\"\n",
            ":2:1: ",
            "the gateway serves it already",
        ),
    ] {
        let (said, code) = check(file);
        assert!(said.contains(place) && said.contains(words), "{file}{said}");
        assert_eq!(code, Some(1), "{file}{said}");
    }
    let without_page = "profile = \"plain\"\n[plain]\npath = \"/app.js\"\n";
    assert_eq!(check(without_page).1, Some(0), "nothing else is there");
}

/// A packet with an eleventh attachment was refused all the same.
#[test]
fn a_number_of_attachments_that_no_parser_takes_was_configured() {
    let (said, code) = check("[limits]\nattachments_max = 11\n");
    let needed = "\"limits.attachments_max\": a whole number from 1 to 10 is needed, not 11";
    assert!(said.contains(":2:") && said.contains(needed), "{said}");
    assert_eq!(code, Some(1), "{said}");
    assert_eq!(check("[limits]\nattachments_max = 10\n").1, Some(0));
}

/// These were called valid. The first ended the process at a client's first poll, the second at the start; with the others nobody got in.
#[test]
fn bounds_that_no_gateway_can_live_with_passed_the_check() {
    for (section, setting, words) in [
        (
            "limits",
            "outbox_bytes_max = 18446744073709551615",
            "\"1048576GiB\" at most",
        ),
        (
            "limits",
            "read_bytes_per_turn = \"1000GiB\"",
            "must be \"256MiB\" or less",
        ),
        (
            "limits",
            "handshake_timeout = \"0s\"",
            "must be longer than zero",
        ),
        (
            "socketio",
            "connect_timeout = \"0s\"",
            "must be longer than zero",
        ),
        (
            "socketio",
            "upgrade_timeout = \"0s\"",
            "must be longer than zero",
        ),
    ] {
        let (said, code) = check(&format!("[{section}]\n{setting}\n"));
        assert!(said.contains(":2:1: ") && said.contains(words), "{said}");
        assert_eq!(code, Some(1), "{said}");
    }
    let largest = "[limits]\noutbox_bytes_max = \"1048576GiB\"\nread_bytes_per_turn = \"256MiB\"\n";
    assert_eq!(check(largest).1, Some(0), "these are the largest");
}

/// A full disk ended these commands without a word, and nobody knew why there was no key.
#[test]
fn a_verdict_or_a_key_that_nobody_got_was_lost_without_a_word() {
    let told = |args: &[&str], out: Stdio| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sockeye"));
        command.args(args).stdin(Stdio::null()).stdout(out);
        let output = command.output().expect("run sockeye");
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), error)
    };
    for (args, code) in [
        (&["config", "reference"][..], 1),
        (&["config", "show"], 1),
        (&["config", "check"], 1),
        (&["doctor", "--record"], 2),
        (&["api-key", "ci"], 1),
    ] {
        let full = File::options().write(true).open("/dev/full");
        let (ended, error) = told(args, full.expect("a full disk").into());
        assert_eq!(ended, Some(code), "{args:?}: {error}");
        assert!(error.starts_with("cannot write: "), "{args:?}: {error}");
        // A reader that stops wants no words, and does not have the verdict.
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let gone = (Some(code), String::new());
        assert_eq!(told(args, writer.into()), gone, "{args:?}");
    }
}

/// A device that never ends was read until the memory was full.
#[test]
fn a_configuration_without_an_end_was_read_for_ever() {
    for command in [&["config", "check"][..], &["config", "show"], &[]] {
        let mut sockeye = Command::new(env!("CARGO_BIN_EXE_sockeye"));
        sockeye.args(command).args(["--config", "/dev/full"]);
        let output = sockeye.stdin(Stdio::null()).output().expect("run sockeye");
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said);
        let why = "/dev/full: cannot read the configuration file: it has more than the 33554432 bytes that are allowed";
        assert!(said.contains(why), "{command:?}: {said}");
        let failed = if command.is_empty() { 2 } else { 1 };
        assert_eq!(output.status.code(), Some(failed), "{command:?}: {said}");
    }
    let redis = "[cluster]\nadapter = \"redis\"\nurls = [\"rediss://127.0.0.1:1\"]\n";
    for file in [
        "[auth]\nsecret_file = \"/dev/zero\"\n".to_owned(),
        "[auth]\npublic_key_file = \"/dev/zero\"\n".to_owned(),
        "[auth]\njwks_file = \"/dev/zero\"\n".to_owned(),
        "[tls]\nlisten = [\"127.0.0.1:0\"]\ncert = [\"/dev/zero\"]\nkey = [\"/dev/zero\"]\n"
            .to_owned(),
        format!("{redis}tls_ca = \"/dev/zero\"\n"),
    ] {
        let (said, code) = check(&file);
        let why = "/dev/zero: it has more than the ";
        assert!(said.contains(why), "{file}{said}");
        assert_eq!(code, Some(1), "{file}{said}");
    }
}

/// A start waited for a writer in silence, and what a failed command wrote was an empty configuration.
#[test]
fn a_pipe_without_a_writer_was_waited_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let pipe = folder.path().join("pipe");
    let made = Command::new("mkfifo").arg(&pipe).status();
    assert!(made.expect("run mkfifo").success());
    let shown = pipe.display();
    let nobody = "nobody has written to it for 2 s";
    for (file, why) in [
        (format!("[auth]\nsecret_file = \"{shown}\"\n"), nobody),
        (
            format!(
                "[tls]\nlisten = [\"127.0.0.1:0\"]\ncert = [\"{shown}\"]\nkey = [\"{shown}\"]\n"
            ),
            nobody,
        ),
    ] {
        let (said, code) = check(&file);
        assert!(said.contains(why), "{file}{said}");
        assert_eq!(code, Some(1), "{file}{said}");
    }
    let check = |config: &Path, stdin: Option<&str>| {
        let mut sockeye = Command::new(env!("CARGO_BIN_EXE_sockeye"));
        sockeye.args(["config", "check", "--config"]).arg(config);
        sockeye.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut running = sockeye.stderr(Stdio::piped()).spawn().expect("run sockeye");
        let mut written = running.stdin.take().expect("a pipe");
        let text = stdin.unwrap_or_default();
        written.write_all(text.as_bytes()).expect("written");
        drop(written);
        let output = running.wait_with_output().expect("its end");
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said).into_owned();
        (output.status.code(), said)
    };
    let (code, said) = check(&pipe, None);
    let why = format!("{shown}: cannot read the configuration file: {nobody}");
    assert!(code == Some(1) && said.contains(&why), "{said}");
    let (code, said) = check(Path::new("/dev/stdin"), None);
    let why =
        "/dev/stdin: cannot read the configuration file: it is a pipe, and nothing came by it";
    assert!(code == Some(1) && said.contains(why), "{said}");
    // As `<(…)` has it.
    for path in ["/dev/stdin", "/proc/self/fd/0", "/dev/fd/0"] {
        let (code, said) = check(Path::new(path), Some(CONFIG));
        assert_eq!(code, Some(0), "{path}: {said}");
        let (code, said) = check(Path::new(path), Some("[server]\nshard = 2\n"));
        assert!(
            code == Some(1) && said.contains(&format!("{path}:2")),
            "{said}"
        );
    }
}

/// A newcomer in the wrong folder heard only what the system said.
#[test]
fn a_configuration_that_is_not_there_names_the_next_step() {
    let mut sockeye = Command::new(env!("CARGO_BIN_EXE_sockeye"));
    sockeye.args(["config", "check", "--config", "/nowhere/sockeye.toml"]);
    let output = sockeye.stdin(Stdio::null()).output().expect("run sockeye");
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    assert!(said.contains("No such file"), "{said}");
    assert!(said.contains("; `sockeye init` writes one"), "{said}");
}

#[test]
fn the_advice_to_add_a_namespace_was_refused_in_its_turn() {
    let (said, _) = check("[plain]\nnamespace = \"chat\"\n");
    let advice = "add [namespaces.\"/chat\"]";
    assert!(said.contains(advice), "{said}");
    let followed = "[plain]\nnamespace = \"/chat\"\n[namespaces.\"/chat\"]\n";
    assert_eq!(check(followed).1, Some(0));
    let (said, _) = check("[plain]\nnamespace = \"chat\"\n[namespaces.\"/chat\"]\n");
    assert!(said.contains("did you mean \"/chat\"?"), "{said}");
}

#[test]
fn a_variable_with_one_underscore_was_ignored_without_a_word() {
    let env = [("SOCKEYE_LISTEN", "127.0.0.1:1")];
    let output = run_in(&env, &["config", "check"], CONFIG);
    let said = String::from_utf8_lossy(&output.stdout);
    let warning = "environment SOCKEYE_LISTEN is not read; did you mean SOCKEYE__SERVER__LISTEN?";
    assert!(said.contains(warning), "{said}");
    assert_eq!(output.status.code(), Some(0), "{said}");
    // In the log, too, of a start that fails only because of what comes later.
    let gateway = Gateway::start(CONFIG);
    let taken = gateway.addr.to_string();
    let output = run_in(&env, &["--listen", &taken, "--admin", "off"], "");
    let log = String::from_utf8_lossy(&output.stderr);
    assert!(log.contains(warning), "{log}");
}

/// It was the table of a namespace in which nobody ever was.
#[test]
fn a_pattern_in_place_of_a_namespace_was_taken_without_a_word() {
    let file = format!("{CONFIG}[namespaces.\"/dyn-*\"]\nclient_joins = true\n");
    let (said, code) = check(&file);
    let warning = "\"namespaces.\"/dyn-*\"\": the name stands for itself alone";
    assert!(
        said.contains("warning: ") && said.contains(warning),
        "{said}"
    );
    assert_eq!(code, Some(0), "{said}");
    // The start says so, too.
    let gateway = Gateway::start(&file);
    let told = gateway.logged("stands for itself alone", PATIENCE);
    assert!(told, "{:?}", gateway.log());
}

/// What a container's health check asks: 0 while the gateway lives, 1 when it is gone. Whether it wants clients is another question.
#[test]
fn health_is_told_by_the_exit_code() {
    let mut gateway = Gateway::start("profile = \"chat\"\n[server]\ndrain_window = \"60s\"\n");
    let admin = gateway.admin.to_string();
    let health = |flag: Option<&str>| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sockeye"));
        let output = command
            .args(["health", "--admin", &admin])
            .args(flag)
            .output();
        let output = output.expect("run sockeye");
        let told = [output.stdout, output.stderr].concat();
        let told = String::from_utf8_lossy(&told).into_owned();
        (output.status.code(), told)
    };
    assert_eq!(health(None), (Some(0), "healthy\n".to_owned()));
    let ready = Some("--ready");
    assert_eq!(health(ready), (Some(0), "ready\n".to_owned()));
    let _client = SocketIo::websocket(gateway.addr, "/", json!({}));
    gateway.terminate();
    assert!(gateway.logged("\"message\":\"draining\"", PATIENCE));
    let (code, told) = health(ready);
    assert_eq!(code, Some(1), "{told}");
    assert!(told.contains("/ready answers 503"), "{told}");
    assert_eq!(health(None).0, Some(0), "a supervisor lets it drain");
    gateway.terminate();
    assert!(gateway.exit_status(PATIENCE).is_some());
    let (code, told) = health(None);
    assert_eq!(code, Some(1), "{told}");
    assert!(
        told.contains(&format!("cannot ask http://{admin}/health")),
        "{told}"
    );
}

/// The queue before the log had all of its 65,536 places from the start: 6 MiB of a process to which nobody had come yet.
#[test]
fn a_queue_that_was_empty_had_all_its_places() {
    const BYTES_MAX: u64 = 10 << 20;
    let gateway = Gateway::start("[server]\nshards = 1\npin = false\n");
    // What the start itself needed goes back a moment later.
    let is_small = eventually(PATIENCE, || gateway.own_memory() < BYTES_MAX);
    assert!(is_small, "{} bytes", gateway.own_memory());
}
