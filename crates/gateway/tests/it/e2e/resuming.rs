//! Clients of the plain protocol that lose their connection and come back.

use super::client::{Encoding, Plain, WebSocket};
use super::recovery::{Client, say};
use crate::harness::{Gateway, PATIENCE, eventually};
use serde_json::{Value, json};
use std::net::SocketAddr;

/// A plain client that comes back, and what it needs for that.
pub struct Resumer {
    plain: Plain,
    encoding: Encoding,
    pub recovered: bool,
    pid: Option<String>,
    offset: Option<String>,
}

impl Resumer {
    pub fn new(addr: SocketAddr, encoding: Encoding) -> Self {
        Self::open(addr, encoding, json!({ "type": "resume" }))
    }

    fn open(addr: SocketAddr, encoding: Encoding, first: Value) -> Self {
        let headers = match encoding {
            Encoding::Json => "",
            Encoding::Msgpack => "Sec-WebSocket-Protocol: sockeye.msgpack\r\n",
        };
        let socket = WebSocket::connect(addr, "/ws?recovery=1", headers);
        let mut plain = Plain::over(socket, encoding);
        plain.send(&first);
        let answer = plain.receive();
        assert_eq!(answer["type"], "resume", "{answer}");
        let told = &answer["payload"];
        Self {
            plain,
            encoding,
            recovered: told["recovered"].as_bool().expect("a flag"),
            pid: told["pid"].as_str().map(str::to_owned),
            offset: None,
        }
    }

    /// Its connection is gone, without a word; it comes to some node.
    pub fn comes_back(self, addr: SocketAddr) -> Self {
        let (encoding, pid, offset) = (self.encoding, self.pid, self.offset);
        drop(self.plain);
        let mut first = json!({ "type": "resume", "pid": pid });
        if let Some(offset) = &offset {
            first["offset"] = json!(offset);
        }
        let mut back = Self::open(addr, encoding, first);
        back.offset = back.offset.or(offset);
        back
    }

    pub fn join(&mut self, room: &str) {
        assert_eq!(self.plain.join(room), [json!([room])]);
    }

    /// The numbers said to a room, up to one.
    pub fn hears_up_to(&mut self, room: &str, last: u64) -> Vec<u64> {
        let mut numbers = Vec::new();
        while numbers.last() != Some(&last) {
            let message = self.plain.receive();
            assert_eq!(message["room"], room, "{message}");
            self.offset = message["offset"].as_str().map(str::to_owned);
            assert!(self.offset.is_some(), "{message}");
            numbers.push(message["payload"]["n"].as_u64().expect("a number"));
        }
        numbers
    }
}

fn start(level: &str) -> Gateway {
    Gateway::start(&format!(
        "profile = \"socket.io\"\nserver.shards = 2\n\
         [namespaces.\"/\"]\nclient_joins = true\n\
         [namespaces.\"/\".recovery]\nlevel = {level:?}\nwindow = \"20s\"\n\
         [namespaces.\"/\".events.say]\naction = \"rooms\"\nroom_field = \"room\"\n\
         [namespaces.\"/\".events.echo]\naction = \"reply\"\n"
    ))
}

/// Each cut is noticed by nobody before the client is back: it takes its socket from the old connection.
#[test]
fn a_plain_client_that_was_cut_gets_what_it_missed() {
    let gateway = start("node");
    let mut speaker = Client::new(&gateway);
    for encoding in [Encoding::Json, Encoding::Msgpack] {
        let room = format!("{encoding:?}");
        let mut client = Resumer::new(gateway.addr, encoding);
        assert!(!client.recovered);
        client.join(&room);
        say(&mut speaker, &room, 0..3, "x");
        assert_eq!(client.hears_up_to(&room, 2), [0, 1, 2]);
        for round in 1..6 {
            let first = 10 * round;
            say(&mut speaker, &room, first..first + 4, "x");
            client = client.comes_back(gateway.addr);
            assert!(client.recovered, "round {round}");
            say(&mut speaker, &room, first + 4..first + 6, "x");
            let heard = client.hears_up_to(&room, first + 5);
            assert_eq!(heard, (first..first + 6).collect::<Vec<u64>>());
        }
    }
    let recovered = "sockeye_returns_total{outcome=\"recovered\"}";
    assert_eq!(gateway.metric(recovered), 10.0);
    assert!(eventually(PATIENCE, || gateway.metric("sockeye_sockets") <= 3.0));
}

#[test]
fn where_there_is_no_recovery_a_plain_client_is_told_that_it_is_new() {
    let gateway = start("off");
    let mut client = Resumer::new(gateway.addr, Encoding::Json);
    assert!(!client.recovered && client.pid.is_none());
    client.join("den");
    let made_up = json!({ "type": "resume", "pid": "A".repeat(28), "offset": "B".repeat(16) });
    let back = Resumer::open(gateway.addr, Encoding::Json, made_up);
    assert!(!back.recovered && back.pid.is_none());
}

#[test]
fn a_first_word_that_is_no_resume_ends_the_connection_with_a_reason() {
    let gateway = start("node");
    let socket = WebSocket::connect(gateway.addr, "/ws?recovery=1", "");
    let mut plain = Plain::over(socket, Encoding::Json);
    plain.send(&json!({ "type": "message", "payload": 1 }));
    let (told, code, _) = plain.until_closed();
    assert_eq!(told[0]["error"], "INVALID_MESSAGE_FORMAT", "{told:?}");
    let text = told[0]["message"].as_str().expect("words");
    assert!(text.contains("resume") && text.contains("pid"), "{text}");
    assert_eq!(code, Some(4500));
}
