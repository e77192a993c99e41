//! Callers that take what others need: places, connections, keys.

use super::{KEY, accepted, call_with, config, gateway, key, members, post};
use crate::harness::{Gateway, PATIENCE, RawConn, eventually};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::net::TcpStream;

/// A call that waits for the answers of the room's members, which it has reached.
fn question(node: &Gateway, key: &str, header: &str) -> RawConn {
    let body = json!({"event": "q", "rooms": ["room"], "ack": {"timeout_ms": 60_000}}).to_string();
    let mut conn = RawConn::connect(node.admin);
    conn.send(format!(
        "POST /v1/emit HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {key}\r\n{header}Content-Length: {}\r\n\r\n{body}",
        body.len()
    ));
    conn
}

/// 64 of them, and nobody could send anything for a minute.
#[test]
fn calls_waited_behind_questions_that_no_client_answered() {
    let gateway = Gateway::start(&config("conns_max = 256"));
    let mut clients = members(&gateway, "room", 1);
    let mut questions: Vec<RawConn> = (0..64).map(|_| question(&gateway, &KEY.0, "")).collect();
    let asked: Vec<_> = (0..64).map(|_| clients[0].next_named("q").ack).collect();
    assert!(asked.iter().all(Option::is_some));
    let one_more = question(&gateway, &KEY.0, "").response();
    assert_eq!(one_more.status, 503, "{}", one_more.body);
    let news = json!({"event": "news", "rooms": ["room"]});
    assert_eq!(post(&gateway, "/v1/emit", &news), accepted());
    clients[0].next_named("news");
    for ack in asked.into_iter().flatten() {
        clients[0].answer(ack, &[]);
    }
    for question in &mut questions {
        assert_eq!(question.response().status, 200);
    }
    let failed = "sockeye_api_calls_total{call=\"emit\",door=\"http\",outcome=\"failed\"}";
    assert_eq!(gateway.metric(failed), 1.0);
}

/// A newcomer took the place of the one that was silent for longest, whether it had shown a key or not.
#[test]
fn strangers_ended_a_call_that_waited_for_answers() {
    let gateway = Gateway::start(&config("conns_max = 4"));
    let mut clients = members(&gateway, "room", 1);
    let mut waiting = question(&gateway, &KEY.0, "");
    let ack = clients[0].next_named("q").ack.expect("an ack is wanted");
    let strangers: Vec<RawConn> = (0..20)
        .map(|_| {
            let mut stranger = RawConn::connect(gateway.admin);
            stranger.send("GET /health HTTP/1.1\r\nHost: a\r\n\r\n");
            assert_eq!(stranger.response().status, 200);
            stranger
        })
        .collect();
    clients[0].answer(ack, &[json!(1)]);
    let answer = waiting.response();
    assert_eq!(answer.status, 200, "{}", answer.body);
    drop(strangers);
}

/// 300,000 answers of two bytes took 17 MiB, of which 0.6 were counted.
#[test]
fn remembered_answers_were_counted_without_what_they_take_beside_their_text() {
    const CLIENTS: usize = 250;
    let gateway = gateway();
    let answers = |mut client: client::full::SocketIo| {
        move || {
            loop {
                let event = client.next();
                match event.ack {
                    Some(ack) => client.answer(ack, &[]),
                    None => return,
                }
            }
        }
    };
    let clients: Vec<_> = members(&gateway, "room", CLIENTS)
        .into_iter()
        .map(|client| std::thread::spawn(answers(client)))
        .collect();
    let before = gateway.own_memory();
    let orders = (0..3_000).take_while(|n| {
        let header = format!("Idempotency-Key: {n}\r\n");
        let answer = question(&gateway, &KEY.0, &header).response();
        assert!([200, 503].contains(&answer.status), "{}", answer.body);
        answer.status == 200
    });
    let kept = orders.count() * CLIENTS;
    let more = gateway.own_memory().saturating_sub(before);
    // One caller has 16 MiB, and an answer takes 56 bytes beside what its list has left over.
    assert!((100_000..=310_000).contains(&kept), "{kept} answers");
    assert!(more <= 48 << 20, "{kept} answers took {more} bytes");
    post(&gateway, "/v1/emit", &json!({"event": "last", "all": true}));
    clients
        .into_iter()
        .for_each(|client| client.join().expect("a client"));
}

/// 100,000 keys with the name of a namespace of 1 MiB each were 100 GB, and counted as nothing.
#[test]
fn remembered_keys_were_counted_without_the_names_of_their_namespaces() {
    const LONG: usize = 500_000;
    let namespace = format!("/{}", "n".repeat(LONG));
    let gateway = Gateway::start(&config(&format!("[namespaces.{namespace:?}]")));
    let body = json!({"namespace": namespace, "event": "n", "all": true}).to_string();
    let call = |header: &str| {
        let (answer, told) = call_with(&gateway, &KEY.0, header, "POST", "/v1/emit", &body);
        (answer.status, told)
    };
    let under = |n: usize| call(&format!("Idempotency-Key: {n}\r\n"));
    let remembered = (0..40).take_while(|n| under(*n) == accepted()).count();
    // One caller has 16 MiB.
    assert_eq!(remembered, (16_usize << 20).div_ceil(LONG));
    let (status, problem) = under(40);
    let busy = json!("urn:sockeye:problem:busy");
    assert_eq!((status, &problem["type"]), (503, &busy), "{problem}");
    assert_eq!(under(0), accepted(), "none is forgotten early");
    assert_eq!(call(""), accepted());
}

/// The order of 16 calls under one key is not known; that it is carried out once is.
#[test]
fn one_order_under_one_key_from_many_callers_at_once_is_carried_out_once() {
    let gateway = gateway();
    let mut clients = members(&gateway, "room", 1);
    let header = "Idempotency-Key: storm\r\n";
    let order = |body: &Value| {
        let body = body.to_string();
        let (answer, told) = call_with(&gateway, &KEY.0, header, "POST", "/v1/emit", &body);
        (answer.status, told)
    };
    let same = json!({"event": "n", "args": [1], "rooms": ["room"]});
    let answers: Vec<_> = std::thread::scope(|scope| {
        let calls: Vec<_> = (0..16).map(|_| scope.spawn(|| order(&same))).collect();
        calls
            .into_iter()
            .map(|call| call.join().expect("an answer"))
            .collect()
    });
    assert!(
        answers.iter().all(|answer| *answer == accepted()),
        "{answers:?}"
    );
    let other = order(&json!({"event": "n", "args": [2], "rooms": ["room"]}));
    assert_eq!(other.0, 422, "{}", other.1);
    post(&gateway, "/v1/emit", &json!({"event": "last", "all": true}));
    let heard = clients[0].until("last");
    assert_eq!(heard.len(), 1, "{heard:?}");
    // The names of keys are each caller's own.
    let (other, entry) = key("other", &[]);
    drop(gateway);
    let gateway =
        Gateway::start(&config("").replace("api_keys = [", &format!("api_keys = [{entry:?}, ")));
    for (key, status) in [(&KEY.0, 202), (&other, 202)] {
        let body = json!({"event": key, "all": true}).to_string();
        let (answer, told) = call_with(&gateway, key, header, "POST", "/v1/emit", &body);
        assert_eq!(answer.status, status, "{told}");
    }
}

/// Connections without a request, on both listeners, as many as a process may open.
#[test]
fn a_crowd_without_requests_kept_out_no_caller() {
    let gateway = Gateway::start(&config(
        "[workers]\nlisten = \"127.0.0.1:0\"\nconns_max = 64",
    ));
    let log = gateway.log();
    let line = log.iter().find(|line| line.contains("\"listening\""));
    let line: Value = serde_json::from_str(line.expect("a line")).expect("JSON");
    let workers = line["workers"]
        .as_str()
        .expect("an address")
        .parse()
        .expect("an address");
    let before = gateway.descriptors();
    let crowd: Vec<RawConn> = (0..2_000)
        .map(|n| RawConn::connect(if n % 2 == 0 { gateway.admin } else { workers }))
        .collect();
    // Both have their bounds.
    let bounded = || gateway.descriptors() <= before + 64 + 64 + 8;
    assert!(eventually(PATIENCE, bounded), "{}", gateway.descriptors());
    assert_eq!(
        post(&gateway, "/v1/emit", &json!({"event": "a", "all": true})),
        accepted()
    );
    let client = super::grpc::Client::of(&gateway, &KEY.0);
    let rooms: Result<control::api::proto::Rooms, _> = client.call(
        "ListRooms",
        control::api::proto::ListRoomsRequest::default(),
    );
    assert!(rooms.is_ok(), "{rooms:?}");
    // Nobody could tell how many had lost their places.
    for part in ["admin", "workers"] {
        let displaced = format!("sockeye_displaced_total{{part={part:?}}}");
        assert!(gateway.reaches(&displaced, 936.0) >= 936.0, "{part}");
    }
    drop(crowd);
}

/// Behind 128 that were not accepted yet, the kernel let the next one wait for a second.
#[test]
fn a_burst_of_strangers_kept_an_operator_out_for_a_second() {
    let more = "[workers]\nlisten = \"127.0.0.1:0\"";
    let gateway = Gateway::start(&config(more));
    let workers = super::grpc::Client::of(&gateway, &KEY.0).addr;
    // Nothing is accepted meanwhile: the kernel must have room for all of them.
    gateway.freeze();
    let crowd: Vec<_> = [gateway.admin, workers]
        .iter()
        .flat_map(|addr| (0..400).map(|_| TcpStream::connect_timeout(addr, PATIENCE)))
        .map(|conn| conn.expect("a place in the backlog"))
        .collect();
    gateway.signal(Signal::CONT);
    let news = json!({"event": "a", "all": true});
    assert_eq!(post(&gateway, "/v1/emit", &news), accepted());
    drop(crowd);
}
