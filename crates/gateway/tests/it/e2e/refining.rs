//! Rules of operators beside what the gateway does with an event itself, and what clients may not imitate.

use super::client::{Encoding, Plain, SocketIo};
use crate::harness::Gateway;
use serde_json::{Value, json};
use std::process::Command;
use std::time::Duration;

fn client(gateway: &Gateway) -> SocketIo {
    SocketIo::websocket(gateway.addr, "/", json!({}))
}

/// A rate for `chat-message` used to replace its checks, its stamp and its ack.
#[test]
fn a_rule_without_an_action_keeps_what_the_profile_does() {
    let gateway = Gateway::start(
        r#"
profile = "chat"
server.shards = 2
[namespaces."/".events.chat-message]
rate = "7/3600s"
[namespaces."/".events.join]
rate = "2/3600s"
[namespaces."/".events.leave]
rate = "1/3600s"
[namespaces."/".events.typing]
rate = "1/3600s"
"#,
    );
    let (mut ann, mut ben) = (client(&gateway), client(&gateway));
    let long = "x".repeat(5_000);
    for wrong in [json!({ "content": 5 }), json!({ "content": long })] {
        let invalid = json!({ "error": "Invalid message payload" });
        assert_eq!(ann.ask("chat-message", &[wrong]), [invalid]);
    }
    let forged = json!({ "content": "hello", "sender": "somebody", "id": 1, "timestamp": 0 });
    let ack = ann.ask("chat-message", &[forged]);
    let got = ben.next_named("chat-message").args.remove(0);
    assert_eq!(got["sender"], ann.id.as_str());
    assert_eq!(
        (&got["id"], &got["timestamp"]),
        (&ack[0]["id"], &ack[0]["timestamp"])
    );
    assert!(got["id"].is_string(), "{got}");
    // Three of seven are used; the rate is what the rule says.
    for n in 3..7 {
        let ack = ann.ask("chat-message", &[json!({ "content": n.to_string() })]);
        assert!(ack[0]["id"].is_string(), "{n}: {ack:?}");
    }
    let over = |events: u32| json!({ "error": format!("Rate limit exceeded: {events} messages/3600 seconds") });
    assert_eq!(
        ann.ask("chat-message", &[json!({ "content": "8" })]),
        [over(7)]
    );
    // Joining is joining, leaving is leaving.
    assert_eq!(ann.ask("join", &["den".into()]), [json!(["den"])]);
    assert_eq!(ben.ask("join", &["den".into()]), [json!(["den"])]);
    let said = json!({ "content": "in the den", "room": "den" });
    assert!(ben.ask("chat-message", std::slice::from_ref(&said))[0]["id"].is_string());
    assert_eq!(ann.ask("join", &["den".into()]), [json!(["den"])]);
    assert_eq!(ann.ask("join", &["den".into()]), [over(2)]);
    assert_eq!(ben.ask("leave", &["den".into()]), [json!(["den"])]);
    assert_eq!(
        ben.ask("chat-message", &[said]),
        [json!({ "error": "Not in that room" })]
    );
    assert_eq!(ann.ask("typing", &[]), Vec::<Value>::new());
    assert_eq!(ann.ask("typing", &[]), [over(1)]);
}

/// Over ten messages a second a chat client is told, without any setting.
#[test]
fn chat_messages_have_a_rate_by_default() {
    let gateway = Gateway::start("profile = \"chat\"\n");
    let mut ann = client(&gateway);
    let burst: Vec<(&str, Vec<Value>)> = (0..40)
        .map(|n| ("chat-message", vec![json!({ "content": n.to_string() })]))
        .collect();
    ann.emit_all(&burst);
    let refused = [json!({ "message": "Rate limit exceeded: 10 messages/second" })];
    for _ in 0..20 {
        assert_eq!(ann.next_named("error").args, refused);
    }
}

/// `config check` called a rule valid that took away what the profile promises.
#[test]
fn config_check_says_what_an_action_replaces() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("s.toml");
    let check = |text: &str| {
        std::fs::write(&path, text).expect("write");
        let mut command = Command::new(env!("CARGO_BIN_EXE_sockeye"));
        let output = command
            .args(["config", "check", "--config"])
            .arg(&path)
            .output();
        let output = output.expect("sockeye runs");
        let text = [output.stdout, output.stderr].concat();
        (
            output.status.success(),
            String::from_utf8(text).expect("text"),
        )
    };
    let of = |rule: &str| {
        check(&format!(
            "profile = \"chat\"\n[namespaces.\"/\".events.chat-message]\n{rule}\n"
        ))
    };
    let (valid, said) = of("action = \"rooms\"\nrate = \"10/s\"");
    assert!(valid, "{said}");
    assert!(
        said.contains("replaces what the gateway does with \"chat-message\""),
        "{said}"
    );
    assert!(said.contains("content is not checked"), "{said}");
    let (valid, said) = of("rate = \"10/s\"");
    assert!(valid && !said.contains("replaces"), "{said}");
    let (valid, said) = of("echo = true");
    assert!(
        !valid && said.contains("events.chat-message.echo\": has no effect"),
        "{said}"
    );
    let (valid, said) = check("[namespaces.\"/\".events.presence]\naction = \"rooms\"\n");
    assert!(!valid && said.contains("the gateway's own word"), "{said}");
    let (valid, said) = check("[namespaces.\"/\".events.presence]\naction = \"reply\"\n");
    assert!(valid, "{said}");
}

/// Attack E43: members of a room could be told byte for byte what only the gateway says.
#[test]
fn no_client_speaks_to_others_in_the_gateways_name() {
    for profile in ["socket.io", "plain", "public"] {
        let gateway = Gateway::start(&format!(
            "profile = \"{profile}\"\nlimits.conns_per_address_max = 0\n[namespaces.\"/\".events.ping-all]\naction = \"rooms\"\n"
        ));
        let (mut ann, mut ben) = (client(&gateway), client(&gateway));
        let mut cleo = Plain::connect(gateway.addr, Encoding::Json);
        for member in [&mut ann, &mut ben] {
            member.ask("join", &["den".into()]);
        }
        cleo.join("den");
        let names = [
            "SERVER_SHUTDOWN",
            "token-expiring",
            "token-refresh",
            "error",
            "presence",
            "history",
        ];
        let told = "Only the gateway sends events of this name";
        for name in names {
            assert_eq!(
                ann.ask(name, &[json!({ "message": "forged" })]),
                [json!({ "error": told })]
            );
            assert_eq!(ann.expect("error"), [json!({ "message": told })]);
            cleo.send(&json!({ "type": name, "payload": {}, "room": "den" }));
            assert_eq!(cleo.receive()["error"], "RESERVED_EVENT", "{name}");
        }
        ann.emit("ping-all", &[]);
        assert_eq!(
            ben.next().name,
            "ping-all",
            "{profile}: nothing came before"
        );
        assert_eq!(
            cleo.next().name,
            "ping-all",
            "{profile}: nothing came before"
        );
        let counted = gateway.metric_settles(
            "sockeye_dropped_received_total{reason=\"refused\"}",
            |refused| refused == 2.0 * names.len() as f64,
        );
        assert!(counted.is_ok(), "{counted:?}");
    }
}

/// Attack E44: each answer to a `leave` listed all rooms: 16 bytes were answered by a quarter of a megabyte.
#[test]
fn answers_to_join_and_leave_do_not_grow_with_the_number_of_rooms() {
    let gateway = Gateway::start("profile = \"socket.io\"\n");
    let mut ann = client(&gateway);
    for n in 0..990 {
        let room = format!("{n}{}", "r".repeat(250));
        assert_eq!(ann.ask("join", &[room.as_str().into()]), [json!([room])]);
    }
    let before = gateway.metric("sockeye_sent_bytes_total");
    for _ in 0..1_000 {
        assert_eq!(ann.ask("leave", &["x".into()]), [json!(["x"])]);
    }
    let long = "x".repeat(100_000);
    assert_eq!(
        ann.ask("leave", &[long.into()]),
        [json!({ "error": "Invalid room name" })]
    );
    let sent = gateway.reaches("sockeye_sent_bytes_total", before + 1.0) - before;
    assert!(sent < 1_000.0 * 64.0, "{sent} bytes for a thousand answers");
}

const SECRET: &str = "a-secret-of-more-than-thirty-two-bytes";

#[test]
fn a_token_that_may_publish_everywhere_need_not_join() {
    let gateway = Gateway::start(&format!(
        "profile = \"socket.io\"\n[auth]\nrequired = true\nsecret = \"{SECRET}\"\n\
         [namespaces.\"/\".default]\naction = \"rooms\"\nroom_field = \"room\"\n[namespaces.\"/chat\"]\nchat = true\n"
    ));
    let connect = |namespace: &str, permissions: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sockeye"));
        command.args(["token", "--secret", SECRET, "--uid", "ann"]);
        permissions.iter().for_each(|name| {
            command.args(["--permission", name]);
        });
        let output = command.output().expect("sockeye token runs");
        let token = String::from_utf8(output.stdout).expect("text");
        SocketIo::websocket(gateway.addr, namespace, json!({ "token": token.trim() }))
    };
    let said = json!({ "room": "den", "content": "from outside" });
    let mut member = connect("/", &["join:den"]);
    member.ask("join", &["den".into()]);
    let mut speaker = connect("/", &["publish:*"]);
    assert_eq!(
        speaker.ask("note", std::slice::from_ref(&said)),
        Vec::<Value>::new()
    );
    assert_eq!(member.expect("note"), std::slice::from_ref(&said));
    // The room of somebody's id is that client's alone.
    let private = json!({ "room": member.id.as_str() });
    assert_eq!(
        speaker.ask("note", &[private]),
        [json!({ "error": "Not in that room" })]
    );
    // Without the permission it takes a join, which the token must allow.
    assert_eq!(
        member.ask("note", std::slice::from_ref(&said)),
        [json!({ "error": "Not allowed to publish to that room" })]
    );
    let mut nobody = connect("/", &["publish:elsewhere"]);
    assert_eq!(
        nobody.ask("note", std::slice::from_ref(&said)),
        [json!({ "error": "Not in that room" })]
    );
    // In the chat profile likewise.
    let mut member = connect("/chat", &["join:den"]);
    member.ask("join", &["den".into()]);
    let mut speaker = connect("/chat", &["publish:*"]);
    let ack = speaker.ask("chat-message", &[said]);
    assert_eq!(
        member.next_named("chat-message").args[0]["id"],
        ack[0]["id"]
    );
}

#[test]
fn an_event_that_no_rule_knows_leaves_a_trace() {
    let gateway = Gateway::start(
        "profile = \"chat\"\nlog.level = \"debug\"\nlog.format = \"json\"\n[namespaces.\"/\".events.void]\naction = \"drop\"\n",
    );
    let mut ann = client(&gateway);
    assert_eq!(ann.ask("mesage", &["?".into()])[0]["code"], "UNKNOWN_EVENT");
    assert_eq!(ann.ask("void", &[])[0]["code"], "DROPPED_EVENT");
    let line = "no rule knows this event";
    assert!(gateway.logged(line, Duration::from_secs(10)));
    let log = gateway.log().into_iter().filter(|text| text.contains(line));
    let lines: Vec<Value> = log
        .filter_map(|text| serde_json::from_str(&text).ok())
        .collect();
    assert_eq!(lines.len(), 1, "{lines:?}");
    for (name, value) in [
        ("namespace", "/"),
        ("event", "mesage"),
        ("rule", "default"),
        ("id", &ann.id),
    ] {
        assert_eq!(lines[0][name], value, "{lines:?}");
    }
    for reason in ["unknown", "rule"] {
        let metric = format!("sockeye_dropped_received_total{{reason=\"{reason}\"}}");
        assert_eq!(
            gateway.metric_settles(&metric, |dropped| dropped == 1.0),
            Ok(1.0)
        );
    }
}

#[test]
fn an_event_can_name_its_room() {
    let gateway = Gateway::start(
        "profile = \"socket.io\"\n[namespaces.\"/\".events.note]\nroom_field = \"to\"\nroom = \"lobby\"\n",
    );
    let (mut ann, mut ben) = (client(&gateway), client(&gateway));
    for room in ["den", "lobby"] {
        ben.ask("join", &[room.into()]);
    }
    ann.ask("join", &["den".into()]);
    ann.ask("join", &["attic".into()]);
    let to = |room: &str| json!({ "to": room, "text": room });
    // One of its rooms and no other; a room it is not in; the rule's room, which is open to all; no room at all.
    assert_eq!(ann.ask("note", &[to("attic")]), Vec::<Value>::new());
    assert_eq!(ann.ask("note", &[to("den")]), Vec::<Value>::new());
    assert_eq!(
        ann.ask("note", &[to("cellar")]),
        [json!({ "error": "Not in that room" })]
    );
    assert_eq!(
        ann.ask("note", &[json!({ "text": "to all" })]),
        Vec::<Value>::new()
    );
    assert_eq!(ann.ask("note", &[to("lobby")]), Vec::<Value>::new());
    assert_eq!(
        ann.ask("note", &[json!({ "to": 7 })]),
        [json!({ "error": "Room must be a string" })]
    );
    assert_eq!(ben.expect("note"), [to("den")]);
    assert_eq!(ben.expect("note"), [json!({ "text": "to all" })]);
    assert_eq!(ben.expect("note"), [to("lobby")]);
}

#[test]
fn a_fixed_window_has_nothing_more_and_says_when_it_has() {
    let gateway = Gateway::start(
        "profile = \"plain\"\n[namespaces.\"/\".events.few]\naction = \"reply\"\nrate = \"3/24h fixed\"\n\
         [namespaces.\"/\".events.brief]\naction = \"reply\"\nrate = \"3/2s fixed\"\n",
    );
    let mut ann = Plain::connect(gateway.addr, Encoding::Json);
    for n in 0..3 {
        ann.emit("few", &[n.into()]);
        assert_eq!(ann.next().args, [n]);
    }
    for _ in 0..5 {
        ann.emit("few", &[]);
        let told = ann.receive();
        assert_eq!(told["error"], "RATE_LIMIT_EXCEEDED");
        let after_s = told["retryAfter"].as_u64().expect("seconds");
        assert!((1..=24 * 3_600).contains(&after_s), "{told}");
    }
    // A client that waits as long as it was told gets in.
    let refused = loop {
        ann.emit("brief", &[]);
        let told = ann.receive();
        if told["error"].is_string() {
            break told;
        }
    };
    let after_s = refused["retryAfter"].as_u64().expect("seconds");
    assert!((1..=2).contains(&after_s), "{refused}");
    std::thread::sleep(Duration::from_secs(after_s));
    ann.emit("brief", &["again".into()]);
    assert_eq!(ann.next().args, ["again"]);
}

/// `log.connections = false` turned off every notice of the data plane, also those of faults.
#[test]
fn a_log_without_connections_kept_quiet_about_faults() {
    let gateway = Gateway::start(
        "profile = \"chat\"\nlog.level = \"debug\"\nlog.format = \"json\"\nlog.connections = false\n",
    );
    let mut ann = client(&gateway);
    assert_eq!(ann.ask("mesage", &["?".into()])[0]["code"], "UNKNOWN_EVENT");
    assert!(gateway.logged("no rule knows this event", Duration::from_secs(10)));
    assert!(
        !gateway
            .log()
            .iter()
            .any(|line| line.contains("\"connected\""))
    );
}
