//! Calls of the server API around an upgrade: one that is repeated behind it is the same call, and its caller has no new window.

use super::chain::Chain;
use crate::cluster::questions::{KEY, api, post_with};
use crate::harness::{PATIENCE, RawConn};
use client::full::SocketIo;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{scope, sleep, spawn};
use std::time::{Duration, Instant};

const PAUSE: Duration = Duration::from_millis(2);

fn start(api: &str) -> Chain {
    Chain::start(&format!(
        "profile = \"socket.io\"\n[server]\nshards = 2\n{api}"
    ))
}

fn member(chain: &Chain) -> SocketIo {
    let mut client = SocketIo::websocket(chain.first.addr, "/", json!({}));
    assert_eq!(client.ask("join", &[json!("room")]), [json!(["room"])]);
    client
}

fn news(n: usize) -> Value {
    json!({"event": "n", "rooms": ["room"], "args": [n]})
}

/// Under a key.
fn emit(admin: SocketAddr, key: &str, body: &Value) -> (u16, Value) {
    let header = format!("Idempotency-Key: {key}\r\n");
    post_with(admin, "/v1/emit", &header, body)
}

/// The numbers that it heard before a word that is said now.
fn heard(admin: SocketAddr, client: &mut SocketIo) -> Vec<u64> {
    let last = json!({"event": "last", "rooms": ["room"]});
    assert_eq!(post_with(admin, "/v1/emit", "", &last).0, 202);
    let events = client.until("last").into_iter();
    let numbers = events.map(|event| event.args[0].as_u64().expect("a number"));
    numbers.collect()
}

#[test]
fn a_call_that_was_repeated_behind_an_upgrade_was_carried_out_again() {
    let mut chain = start(&api());
    let (mut client, admin) = (member(&chain), chain.first.admin);
    let question = json!({"event": "q", "rooms": ["room"], "ack": {"timeout_ms": 20_000}});
    let asks = question.clone();
    let asked = spawn(move || emit(admin, "q", &asks));
    let ack = client.next_named("q").ack.expect("an ack is wanted");
    client.answer(ack, &[json!("yes")]);
    let answer = asked.join().expect("an answer");
    assert_eq!((answer.0, &answer.1["acked"]), (200, &json!(1)));
    let told = emit(admin, "a", &news(1));
    assert_eq!(told.0, 202);
    for _ in 0..2 {
        chain.upgrade();
        assert_eq!(emit(admin, "a", &news(1)), told);
        assert_eq!(emit(admin, "q", &question), answer);
        let (status, problem) = emit(admin, "a", &news(2));
        let reused = "urn:sockeye:problem:idempotency-key-reused";
        assert_eq!((status, &problem["type"]), (422, &json!(reused)));
    }
    assert_eq!(emit(admin, "b", &news(3)).0, 202);
    assert_eq!(heard(admin, &mut client), [1, 3]);
}

/// No record could have its namespace, and that ended the whole handoff.
#[test]
fn a_call_in_a_namespace_with_a_long_name_stopped_every_upgrade() {
    let name = format!("/{}", "n".repeat(70_000));
    let mut chain = start(&format!("[namespaces.{name:?}]\n{}", api()));
    let admin = chain.first.admin;
    let call = |n: usize| {
        emit(
            admin,
            "a",
            &json!({"namespace": name, "event": "n", "all": true, "args": [n]}),
        )
    };
    let told = call(1);
    assert_eq!(told.0, 202, "{told:?}");
    chain.upgrade();
    assert_eq!(call(1), told);
    assert_eq!(call(2).0, 422, "the key is known");
}

/// Clients have the question, and nobody will know what they answered.
#[test]
fn a_call_that_an_upgrade_interrupts_is_not_begun_anew() {
    let mut chain = start(&api());
    let (mut client, admin) = (member(&chain), chain.first.admin);
    let question = json!({"event": "q", "rooms": ["room"], "ack": {"timeout_ms": 20_000}});
    let asks = question.clone();
    let _asked = spawn(move || emit(admin, "q", &asks));
    client.next_named("q").ack.expect("an ack is wanted");
    for _ in 0..2 {
        chain.upgrade();
        let (status, problem) = emit(admin, "q", &question);
        let unknown = "urn:sockeye:problem:no-answer";
        assert_eq!((status, &problem["type"]), (504, &json!(unknown)));
    }
    assert_eq!(heard(admin, &mut client), [0; 0]);
}

/// Until something else is answered than that nothing was done; what that is.
fn insists(admin: SocketAddr, n: usize) -> u16 {
    let body = news(n).to_string();
    let request = format!(
        "POST /v1/emit HTTP/1.1\r\nHost: a\r\nConnection: close\r\nAuthorization: Bearer {}\r\nIdempotency-Key: {n}\r\nContent-Length: {}\r\n\r\n{body}",
        KEY.0,
        body.len()
    );
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        sleep(PAUSE);
        let Ok(mut conn) = RawConn::try_connect(admin) else {
            continue;
        };
        conn.try_send(&request);
        match conn.response_within(PATIENCE) {
            Ok(response) if response.status != 503 => return response.status,
            _ => {}
        }
    }
    panic!("nobody answers call {n}");
}

/// Some come in the pause, and some lose their connection there.
#[test]
fn calls_that_are_repeated_until_they_are_answered_are_carried_out_once() {
    const UPGRADES: usize = 6;
    let mut chain = start(&api());
    let (mut client, admin) = (member(&chain), chain.first.admin);
    let over = AtomicBool::new(false);
    let told = scope(|scope| {
        let caller = scope.spawn(|| {
            let mut told = Vec::new();
            while !over.load(Ordering::Relaxed) {
                told.push(insists(admin, told.len()));
            }
            told
        });
        (0..UPGRADES).for_each(|_| drop(chain.upgrade()));
        over.store(true, Ordering::Relaxed);
        caller.join().expect("answers")
    });
    let heard = heard(admin, &mut client);
    let unknown: Vec<usize> = (0..told.len()).filter(|n| told[*n] != 202).collect();
    println!("{} calls, of which {unknown:?} may be done", told.len());
    assert!(unknown.iter().all(|n| told[*n] == 504), "{told:?}");
    assert!(unknown.len() <= UPGRADES, "{unknown:?}");
    let done = heard.iter().filter(|n| !unknown.contains(&(**n as usize)));
    let expected = (0..told.len()).filter(|n| !unknown.contains(n));
    assert!(done.copied().eq(expected.map(|n| n as u64)), "{heard:?}");
    let mut once = heard.clone();
    once.dedup();
    assert_eq!(once, heard);
}

#[test]
fn a_caller_had_a_new_window_after_each_upgrade() {
    let mut chain = start(&api().replace("100000/1s", "5/3600s"));
    let admin = chain.first.admin;
    let call = || post_with(admin, "/v1/emit", "", &news(1)).0;
    assert_eq!([call(), call(), call()], [202; 3]);
    chain.upgrade();
    assert_eq!([call(), call(), call()], [202, 202, 429]);
    chain.upgrade();
    assert_eq!(call(), 429);
}
