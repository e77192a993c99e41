//! Programs call all the time: each call is carried out once, or refused and not carried out.

use super::chain::Chain;
use crate::harness::client::SocketIo;
use crate::harness::{PATIENCE, RawConn};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

fn call(admin: SocketAddr, key: &str, path: &str, body: &Value) -> u16 {
    let body = body.to_string();
    let request = format!(
        "POST {path} HTTP/1.1\r\nHost: admin\r\nAuthorization: Bearer {key}\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    RawConn::exchange(admin, request).status
}

#[test]
fn a_call_is_carried_out_once_or_refused() {
    let (key, entry) = identity::keys::generate("ops", &[]).expect("a key");
    let mut chain = Chain::start(&format!(
        "profile = \"socket.io\"\n[server]\nshards = 2\n[admin]\napi_rate = \"100000/s\"\napi_keys = [{entry:?}]\n"
    ));
    let admin = chain.first.admin;
    let mut ann = SocketIo::connect(chain.first.addr);
    ann.ask(1, &json!(["join", "lobby"]));
    let stop = Arc::new(AtomicBool::new(false));
    let (asks, its_key) = (Arc::clone(&stop), key.clone());
    let program = std::thread::spawn(move || {
        let mut statuses = Vec::new();
        while !asks.load(Ordering::Relaxed) {
            let n = statuses.len();
            let body = json!({"event": "count", "args": [n], "rooms": ["lobby"]});
            statuses.push(call(admin, &its_key, "/v1/emit", &body));
            std::thread::sleep(Duration::from_millis(1));
        }
        statuses
    });
    for _ in 0..5 {
        std::thread::sleep(Duration::from_millis(300));
        chain.upgrade();
    }
    std::thread::sleep(Duration::from_millis(300));
    stop.store(true, Ordering::Relaxed);
    let statuses = program.join().expect("the program had an answer each time");
    // It is found by the id that it always had.
    let body = json!({"event": "done", "args": [], "rooms": [ann.sid]});
    assert_eq!(call(admin, &key, "/v1/emit", &body), 202);
    let mut heard = Vec::new();
    loop {
        let packet = ann.packet_within(PATIENCE).expect("an event");
        let event: Vec<Value> = serde_json::from_str(&packet[2..]).expect("JSON");
        match event[0].as_str() {
            Some("count") => heard.push(event[1].as_u64().expect("a number")),
            Some("done") => break,
            _ => {}
        }
    }
    let said = (0..).zip(&statuses).filter(|(_, status)| **status == 202);
    let said: Vec<u64> = said.map(|(n, _)| n).collect();
    let refused = statuses.iter().filter(|status| **status == 503).count();
    println!("{} calls, {refused} refused", statuses.len());
    assert_eq!(said.len() + refused, statuses.len(), "{statuses:?}");
    assert_eq!(heard, said);
    assert!(said.len() > 100);
}
