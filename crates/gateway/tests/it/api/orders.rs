//! Events, rooms and ends by HTTP, on one node.

use super::{KEY, accepted, call_with, config, gateway, get, ids, members, post};
use crate::harness::{Gateway, PATIENCE, eventually};
use ::client::full::SocketIo;
use serde_json::{Value, json};

#[test]
fn an_event_reaches_rooms_users_sockets_and_nobody_else() {
    let gateway = gateway();
    let mut clients = members(&gateway, "room", 6);
    let id = clients[0].id.clone();
    let emit = |body: Value| assert_eq!(post(&gateway, "/v1/emit", &body), accepted());
    emit(json!({"event": "all", "all": true, "args": [1, {"a": null}]}));
    emit(json!({"event": "one", "sockets": [id]}));
    emit(json!({"event": "others", "rooms": ["room"], "except": [id], "args": [2]}));
    emit(json!({"event": "nobody", "rooms": ["elsewhere"]}));
    emit(json!({"event": "last", "local": true, "all": true}));
    for (at, client) in clients.iter_mut().enumerate() {
        let events = client.until("last");
        let names: Vec<&str> = events.iter().map(|event| event.name.as_str()).collect();
        let expected = if at == 0 {
            ["all", "one"]
        } else {
            ["all", "others"]
        };
        assert_eq!(names, expected);
        assert_eq!(events[0].args, [json!(1), json!({"a": null})]);
    }
}

#[test]
fn numbers_that_are_too_large_for_floats_and_the_order_of_members_stay() {
    let gateway = gateway();
    let mut client = crate::harness::SocketIo::connect(gateway.addr);
    let body =
        "{\"event\":\"n\",\"all\":true,\"args\":[{\"z\":12345678901234567890123,\"a\":1.0}]}";
    let (answer, _) = call_with(&gateway, &KEY.0, "", "POST", "/v1/emit", body);
    assert_eq!(answer.status, 202, "{answer:?}");
    let packet = client.packet();
    assert_eq!(packet, r#"42["n",{"z":12345678901234567890123,"a":1.0}]"#);
}

#[test]
fn bytes_travel_as_attachments_in_both_directions() {
    let gateway = gateway();
    let mut clients = members(&gateway, "room", 1);
    let body = json!({
        "event": "bytes", "rooms": ["room"], "args": [{"_placeholder": true, "num": 0}], "attachments": ["AAH/"],
        "ack": {"timeout_ms": 10_000},
    });
    let answer = std::thread::scope(|scope| {
        let asked = scope.spawn(|| post(&gateway, "/v1/emit", &body));
        let event = clients[0].next_named("bytes");
        clients[0].answer(event.ack.expect("an ack is wanted"), &event.args);
        asked.join().expect("an answer")
    });
    let echoed = json!([{"args": [{"_placeholder": true, "num": 0}], "attachments": ["AAH/"]}]);
    assert_eq!(
        (answer.0, &answer.1["answers"]),
        (200, &echoed),
        "{answer:?}"
    );
}

/// "Emit, and tell me who got it."
#[test]
fn the_caller_is_told_who_answered_who_left_and_who_was_silent() {
    let gateway = gateway();
    let mut clients = members(&gateway, "room", 3);
    let body = json!({"event": "q", "rooms": ["room"], "args": [1], "ack": {"timeout_ms": 2_000}});
    let (status, told) = std::thread::scope(|scope| {
        let asked = scope.spawn(|| post(&gateway, "/v1/emit", &body));
        let questions: Vec<u64> = clients
            .iter_mut()
            .map(|client| client.next_named("q").ack.expect("an ack is wanted"))
            .collect();
        clients[0].answer(questions[0], &[json!("yes"), json!({"n": 1})]);
        drop(clients.remove(1));
        asked.join().expect("an answer")
    });
    assert_eq!(status, 200, "{told}");
    assert_eq!(told["answers"], json!([{"args": ["yes", {"n": 1}]}]));
    let counts = ["acked", "timed_out", "gone", "undelivered"].map(|name| told[name].as_u64());
    assert_eq!(counts, [Some(1), Some(1), Some(1), Some(0)], "{told}");
    assert_eq!(told["complete"], false);
    // Nobody to ask is no reason to wait.
    let nobody = json!({"event": "q", "rooms": ["none"], "ack": {"timeout_ms": 60_000}});
    let (status, told) = post(&gateway, "/v1/emit", &nobody);
    assert_eq!(
        (status, &told["acked"], &told["complete"]),
        (200, &json!(0), &json!(true))
    );
}

/// It was dropped, and the call used up its time.
#[test]
fn an_answer_above_a_rate_ends_the_wait_for_it() {
    // A client may come and join a room, and no more.
    let gateway = Gateway::start(&config("[rates]\nsession = \"2/3600s\""));
    let mut clients = members(&gateway, "room", 1);
    let body = json!({"event": "q", "rooms": ["room"], "ack": {"timeout_ms": 60_000}});
    let (status, told) = std::thread::scope(|scope| {
        let asked = scope.spawn(|| post(&gateway, "/v1/emit", &body));
        let question = clients[0].next_named("q");
        clients[0].answer(question.ack.expect("an ack is wanted"), &[json!("yes")]);
        asked.join().expect("an answer")
    });
    let refusal = json!({"error": "The client's answer was refused: it was over a rate"});
    assert_eq!(
        (status, &told["answers"]),
        (200, &json!([{ "args": [refusal] }])),
        "{told}"
    );
}

#[test]
fn sockets_join_leave_and_are_put_out() {
    let gateway = gateway();
    let mut clients = members(&gateway, "room", 6);
    let id = clients[0].id.clone();
    let count = |room: &str| get(&gateway, &format!("/v1/rooms/{room}/count"))["sockets"].clone();
    assert_eq!(
        post(
            &gateway,
            "/v1/join",
            &json!({"rooms": ["room"], "join": ["a b", "c"]})
        ),
        accepted()
    );
    assert_eq!([count("a%20b"), count("c")], [json!(6), json!(6)]);
    assert_eq!(
        post(
            &gateway,
            "/v1/leave",
            &json!({"sockets": [id], "leave": ["a b"]})
        ),
        accepted()
    );
    assert_eq!([count("a%20b"), count("c")], [json!(5), json!(6)]);
    assert_eq!(
        post(&gateway, "/v1/leave", &json!({"all": true, "leave": ["c"]})),
        accepted()
    );
    assert_eq!(count("c"), json!(0));

    let rest = json!({"rooms": ["room"], "except": [id], "close": true});
    assert_eq!(post(&gateway, "/v1/disconnect", &rest), accepted());
    for client in &mut clients[1..] {
        client.until_closed();
    }
    assert!(eventually(PATIENCE, || count("room") == json!(1)));
    assert!(gateway.logged("disconnect ordered", PATIENCE));
    assert_eq!(clients[0].ask("join", &[json!("d")]), [json!(["d"])]);
}

/// A client that left the room of its own id could not be put out: orders to its id reached nobody.
#[test]
fn a_client_that_left_its_own_room_was_out_of_reach_of_operators() {
    let gateway = gateway();
    let mut clients = members(&gateway, "room", 2);
    let ids = ids(&clients);
    for client in &mut clients {
        let id = json!(client.id);
        let refused = json!({"error": "Invalid room name"});
        assert_eq!(client.ask("leave", &[id]), [refused]);
    }
    let list = get(
        &gateway,
        &format!("/v1/sockets?socket={}&socket={}", ids[0], ids[1]),
    );
    assert_eq!(list["sockets"].as_array().map(Vec::len), Some(2));
    let order = json!({"sockets": ids, "close": true});
    assert_eq!(post(&gateway, "/v1/disconnect", &order), accepted());
    for client in &mut clients {
        client.until_closed();
    }
}

/// An array in place of the object was taken member by member, in an order that nobody knows: this one put everybody out.
#[test]
fn the_members_of_an_array_were_taken_for_those_of_a_call() {
    let gateway = gateway();
    let mut client = members(&gateway, "room", 1).remove(0);
    let order = json!([false, "/", [], [], [], [], false, true]);
    let (status, body) = post(&gateway, "/v1/disconnect", &order);
    assert_eq!(status, 400, "{body}");
    assert!(
        body["detail"]
            .as_str()
            .is_some_and(|detail| detail.contains("an object is needed")),
        "{body}"
    );
    assert_eq!(client.ask("join", &[json!("room")]), [json!(["room"])]);
}

/// A caller whose computed list of receivers was empty meant nobody, and reached everybody.
#[test]
fn an_empty_list_of_receivers_reaches_nobody() {
    let gateway = gateway();
    let mut clients = members(&gateway, "room", 2);
    for (path, body) in [
        ("/v1/emit", json!({"event": "oops"})),
        ("/v1/emit", json!({"event": "oops", "rooms": []})),
        (
            "/v1/emit",
            json!({"event": "oops", "users": [], "sockets": []}),
        ),
        (
            "/v1/emit",
            json!({"event": "oops", "except": ["room"], "ack": {"timeout_ms": 9}}),
        ),
        ("/v1/disconnect", json!({"close": true})),
        ("/v1/join", json!({"join": ["a"]})),
        ("/v1/leave", json!({"leave": ["room"]})),
    ] {
        let (status, problem) = post(&gateway, path, &body);
        assert_eq!(
            (status, &problem["field"]),
            (400, &json!("all")),
            "{path} {body}"
        );
        let detail = problem["detail"].as_str().expect("a text");
        assert!(detail.starts_with("nobody is meant"), "{detail}");
    }
    let list = call_with(&gateway, &KEY.0, "", "GET", "/v1/sockets?except=room", "").1;
    assert_eq!(list["field"], "all", "{list}");
    assert_eq!(
        post(&gateway, "/v1/emit", &json!({"event": "last", "all": true})),
        accepted()
    );
    assert!(
        clients
            .iter_mut()
            .all(|client| client.until("last").is_empty())
    );
    assert_eq!(get(&gateway, "/v1/rooms/room/count")["sockets"], 2);
}

#[test]
fn a_call_that_cannot_be_used_names_the_field() {
    let gateway = gateway();
    let long = "x".repeat(1_000);
    let deep = format!("{}{}", "[".repeat(600), "]".repeat(600));
    let many: Vec<String> = (0..1_001).map(|n| n.to_string()).collect();
    let emit = |field: &str, value: Value| json!({"event": "a", "all": true, field: value});
    let wrong = [
        ("/v1/emit", json!({"event": ""}), "event"),
        ("/v1/emit", json!({"event": "connect"}), "event"),
        ("/v1/emit", emit("rooms", json!(["a", 7])), "rooms[1]"),
        ("/v1/emit", emit("rooms", json!(["a", ""])), "rooms[1]"),
        ("/v1/emit", emit("rooms", json!(many)), "rooms"),
        ("/v1/emit", emit("rooms", json!("a")), "rooms"),
        ("/v1/emit", emit("sockets", json!(["short"])), "sockets[0]"),
        ("/v1/emit", emit("args", json!(1)), "args"),
        ("/v1/emit", emit("namespace", json!("x")), "namespace"),
        // It was accepted, although no client can ever be there.
        (
            "/v1/emit",
            emit("namespace", json!("/elsewhere")),
            "namespace",
        ),
        ("/v1/emit", emit("volatile", json!(1)), "volatile"),
        (
            "/v1/emit",
            emit("ack", json!({"timeout_ms": 0})),
            "ack.timeout_ms",
        ),
        (
            "/v1/emit",
            emit("ack", json!({"timeout_ms": 60_001})),
            "ack.timeout_ms",
        ),
        (
            "/v1/emit",
            emit("ack", json!({"seconds": 1})),
            "ack.seconds",
        ),
        (
            "/v1/emit",
            emit("attachments", json!(["?"])),
            "attachments[0]",
        ),
        (
            "/v1/emit",
            emit("attachments", json!(["AAAA"])),
            "attachments",
        ),
        ("/v1/emit", emit("every", json!(1)), "every"),
        (
            "/v1/emit",
            json!({"event": "a", "volatile": true, "ack": {"timeout_ms": 1}}),
            "volatile",
        ),
        ("/v1/join", json!({"all": true, "join": [long]}), "join[0]"),
        ("/v1/join", json!({"all": true, "join": []}), "join"),
        (
            "/v1/leave",
            json!({"all": true, "rooms": ["a"], "leave": ["b"]}),
            "all",
        ),
    ];
    for (path, body, field) in wrong {
        let (status, problem) = post(&gateway, path, &body);
        assert_eq!(
            (status, &problem["field"]),
            (400, &json!(field)),
            "{body}: {problem}"
        );
        assert_eq!(problem["type"], "urn:sockeye:problem:invalid-request");
    }
    for body in [
        "",
        "[]",
        "{",
        "{} {}",
        &format!("{{\"event\":\"a\",\"args\":[{deep}]}}"),
        "{\"event\":\"a\",\"event\":\"b\"}",
    ] {
        let (answer, problem) = call_with(&gateway, &KEY.0, "", "POST", "/v1/emit", body);
        assert_eq!(
            (answer.status, &problem["status"]),
            (400, &json!(400)),
            "{body}"
        );
    }
    let mut client = SocketIo::websocket(gateway.addr, "/", json!({}));
    assert_eq!(client.ask("join", &[json!("r")]), [json!(["r"])]);
}

/// A body above the limit was answered in plain text.
#[test]
fn whatever_goes_wrong_under_v1_is_a_problem() {
    let gateway = gateway();
    let large = format!("{{\"event\":\"a\",\"args\":[\"{}\"]}}", "x".repeat(1 << 20));
    for (method, path, body, status) in [
        ("POST", "/v1/emit", large.as_str(), 413),
        ("POST", "/v1/none", "{}", 404),
        ("GET", "/v1/", "", 404),
        ("GET", "/v1/emit", "", 405),
        ("DELETE", "/v1/sockets", "", 405),
        ("POST", "/v1/nodes", "{}", 405),
        ("POST", "/v1/nodes/9/drain", "{}", 404),
        ("POST", "/v1/nodes/x/drain", "{}", 400),
        ("POST", "/v1/openapi.json", "{}", 405),
        ("GET", "/v1/sockets?room=a&limit=x", "", 400),
        ("GET", "/v1/sockets?rooms=a", "", 400),
        ("GET", "/v1/rooms?limit=1001", "", 400),
    ] {
        let (answer, problem) = call_with(&gateway, &KEY.0, "", method, path, body);
        assert_eq!(answer.status, status, "{method} {path}: {answer:?}");
        assert_eq!(
            answer.header("content-type"),
            Some("application/problem+json"),
            "{path}"
        );
        assert_eq!(problem["status"], status, "{path}");
        assert!(
            problem["detail"]
                .as_str()
                .is_some_and(|detail| detail.len() > 10),
            "{problem}"
        );
    }
    let unknown = call_with(&gateway, "wrong", "", "POST", "/v1/emit", "{}").0;
    assert_eq!(
        (unknown.status, unknown.header("content-type")),
        (401, Some("application/problem+json"))
    );
    let keyless = Gateway::start("profile = \"socket.io\"\n");
    let nobody = call_with(&keyless, "wrong", "", "GET", "/v1/sockets", "").0;
    assert_eq!(
        (nobody.status, nobody.header("content-type")),
        (403, Some("application/problem+json"))
    );
}

#[test]
fn a_call_that_is_repeated_under_its_key_is_carried_out_once() {
    let gateway = gateway();
    let mut clients = members(&gateway, "room", 1);
    let emit = |key: &str, n: u64| {
        let body = json!({"event": "n", "rooms": ["room"], "args": [n]}).to_string();
        let header = format!("Idempotency-Key: {key}\r\n");
        call_with(&gateway, &KEY.0, &header, "POST", "/v1/emit", &body)
    };
    for _ in 0..3 {
        let (answer, body) = emit("a", 1);
        assert_eq!((answer.status, body), accepted());
    }
    let (answer, problem) = emit("a", 2);
    assert_eq!(
        (answer.status, &problem["type"]),
        (422, &json!("urn:sockeye:problem:idempotency-key-reused"))
    );
    assert_eq!(emit("", 3).0.status, 400);
    assert_eq!(emit(&"k".repeat(256), 3).0.status, 400);
    assert_eq!(emit("b", 3).0.status, 202);
    assert_eq!(
        [clients[0].expect("n"), clients[0].expect("n")],
        [[json!(1)], [json!(3)]]
    );
}

/// Its connection was cut while clients were asked; it asked again, and the clients were asked twice.
#[test]
fn a_caller_that_comes_back_gets_the_answer_to_its_first_call() {
    let gateway = gateway();
    let mut clients = members(&gateway, "room", 1);
    let body = json!({"event": "q", "rooms": ["room"], "ack": {"timeout_ms": 20_000}}).to_string();
    let header = "Idempotency-Key: once\r\n";
    let mut first = crate::harness::RawConn::connect(gateway.admin);
    first.send(format!(
        "POST /v1/emit HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {}\r\n{header}Content-Length: {}\r\n\r\n{body}",
        KEY.0,
        body.len()
    ));
    let question = clients[0].next_named("q").ack.expect("an ack is wanted");
    first.reset();
    let (answer, told) = std::thread::scope(|scope| {
        let again = scope.spawn(|| call_with(&gateway, &KEY.0, header, "POST", "/v1/emit", &body));
        clients[0].answer(question, &[json!("yes")]);
        again.join().expect("an answer")
    });
    assert_eq!((answer.status, &told["acked"]), (200, &json!(1)));
    post(&gateway, "/v1/emit", &json!({"event": "last", "all": true}));
    assert!(clients[0].until("last").is_empty(), "it was asked once");
}

#[test]
fn a_key_has_its_rate_and_is_told_how_much_is_left() {
    let gateway = Gateway::start(&config("api_rate = \"3/15m\""));
    for left in ["2", "1", "0"] {
        let (answer, _) = call_with(&gateway, &KEY.0, "", "GET", "/v1/rooms", "");
        assert_eq!(
            (answer.status, answer.header("RateLimit-Remaining")),
            (200, Some(left))
        );
        assert_eq!(answer.header("RateLimit-Limit"), Some("3"));
    }
    let (answer, problem) = call_with(&gateway, &KEY.0, "", "GET", "/v1/rooms", "");
    assert_eq!(
        (answer.status, &problem["type"]),
        (429, &json!("urn:sockeye:problem:too-many-requests"))
    );
    let seconds = answer
        .header("Retry-After")
        .and_then(|text| text.parse::<u64>().ok());
    assert!(
        seconds.is_some_and(|seconds| (800..=900).contains(&seconds)),
        "{answer:?}"
    );
}

/// Only what clients said was kept, and had one order on all shards.
#[test]
fn what_programs_and_clients_say_is_kept_in_one_order() {
    let kept = "[namespaces.\"/\"]\nclient_joins = true\n\
                [namespaces.\"/\".events.say]\naction = \"rooms\"\nhistory = true\necho = true\n";
    let gateway = Gateway::start(&config(kept));
    let mut clients = members(&gateway, "room", 6);
    for n in 0..20 {
        match n % 2 {
            0 => clients[n % 6].emit("say", &[json!(n)]),
            _ => {
                let say = json!({"event": "say", "args": [n], "rooms": ["room"]});
                assert_eq!(post(&gateway, "/v1/emit", &say), accepted());
            }
        }
    }
    let heard = clients.iter_mut().map(|client| {
        let said = (0..20).map(|_| client.expect("say").remove(0));
        said.collect::<Vec<Value>>()
    });
    let heard: Vec<_> = heard.collect();
    assert!(heard.iter().all(|order| *order == heard[0]), "{heard:?}");
    let mut late = SocketIo::websocket(gateway.addr, "/", json!({}));
    late.emit("join", &[json!("room")]);
    let history = late.expect("history").remove(0);
    let kept = heard[0]
        .iter()
        .map(|n| json!({"event": "say", "args": [n]}));
    assert_eq!(history["messages"], kept.collect::<Value>());
}
