//! Owns the protocols the server speaks, as far as a client that loads it needs: Socket.IO, the
//! plain protocol, and Centrifugo's (JSON, version 2). Written against their specifications, not
//! against the tester.

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    SocketIo,
    Plain,
    Centrifugo,
}

/// What a client wants.
#[derive(Debug, PartialEq)]
pub enum Request {
    /// `reply`: what completes the handshake.
    Hello {
        reply: Vec<u8>,
    },
    Join {
        room: String,
        id: u64,
    },
    Leave {
        id: u64,
    },
    /// To all others in a room: the named one, or the sender's own.
    Publish {
        event: String,
        room: Option<String>,
        id: Option<u64>,
        body: String,
    },
    /// Heartbeats and what needs no answer.
    Nothing,
}

impl Protocol {
    pub fn of_target(target: &str) -> Protocol {
        match target {
            target if target.starts_with("/socket.io/") => Protocol::SocketIo,
            target if target.starts_with("/connection/websocket") => Protocol::Centrifugo,
            _ => Protocol::Plain,
        }
    }

    /// Said as soon as the WebSocket is open.
    pub fn greeting(self) -> Option<&'static [u8]> {
        let open =
            br#"0{"sid":"proof","upgrades":[],"pingInterval":25000,"pingTimeout":20000,"maxPayload":1000000}"#;
        (self == Protocol::SocketIo).then_some(open)
    }

    pub fn read(self, text: &str) -> Request {
        match self {
            Protocol::SocketIo => read_socket_io(text),
            Protocol::Plain => read_plain(text),
            Protocol::Centrifugo => read_centrifugo(text),
        }
    }

    /// The answer to a request with an id.
    pub fn ack(self, id: u64, verb: &str) -> Vec<u8> {
        match self {
            Protocol::SocketIo => format!("43{id}[]"),
            Protocol::Plain => format!(r#"{{"type":"ack","id":{id},"payload":null}}"#),
            Protocol::Centrifugo => format!(r#"{{"id":{id},"{verb}":{{}}}}"#),
        }
        .into_bytes()
    }

    pub fn event(self, event: &str, room: &str, body: &str) -> Vec<u8> {
        match self {
            Protocol::SocketIo => format!(r#"42["{event}",{body}]"#),
            Protocol::Plain => {
                format!(r#"{{"type":"{event}","room":"{room}","payload":{body}}}"#)
            }
            Protocol::Centrifugo => {
                format!(r#"{{"push":{{"channel":"{room}","pub":{{"data":{body}}}}}}}"#)
            }
        }
        .into_bytes()
    }
}

fn read_socket_io(text: &str) -> Request {
    if text.starts_with("40") {
        return Request::Hello {
            reply: br#"40{"sid":"x"}"#.to_vec(),
        };
    }
    let Some(event) = text.strip_prefix("42") else {
        return Request::Nothing;
    };
    let data_at = event.find('[').unwrap();
    let id = event[..data_at].parse().ok();
    let data: Value = serde_json::from_str(&event[data_at..]).unwrap();
    let name = data[0].as_str().unwrap().to_owned();
    match (&*name, id) {
        ("join", Some(id)) => Request::Join {
            room: data[1].as_str().unwrap().to_owned(),
            id,
        },
        ("leave", Some(id)) => Request::Leave { id },
        _ => Request::Publish {
            event: name,
            room: None,
            id,
            body: data[1].to_string(),
        },
    }
}

#[derive(Deserialize)]
struct Publish<'a> {
    #[serde(borrow)]
    data: &'a RawValue,
}

#[derive(Deserialize)]
struct Command<'a> {
    #[serde(borrow)]
    publish: Option<Publish<'a>>,
}

fn published(text: &str) -> Option<String> {
    let command: Command<'_> = serde_json::from_str(text).ok()?;
    Some(command.publish?.data.get().to_owned())
}

/// `{}` answers a heartbeat; everything else is one command with an id.
fn read_centrifugo(text: &str) -> Request {
    let object: Value = serde_json::from_str(text).unwrap();
    let Some(id) = object["id"].as_u64().filter(|&id| id > 0) else {
        return Request::Nothing;
    };
    let channel = |verb: &str| object[verb]["channel"].as_str().map(str::to_owned);
    if object["connect"].is_object() {
        let reply = format!(
            r#"{{"id":{id},"connect":{{"client":"proof","version":"0","ping":25,"pong":true}}}}"#
        );
        return Request::Hello {
            reply: reply.into_bytes(),
        };
    }
    if let Some(room) = channel("subscribe") {
        return Request::Join { room, id };
    }
    if channel("unsubscribe").is_some() {
        return Request::Leave { id };
    }
    Request::Publish {
        event: String::new(),
        room: channel("publish"),
        id: Some(id),
        // As it came: the server does not read what is published.
        body: published(text).unwrap_or_default(),
    }
}

fn read_plain(text: &str) -> Request {
    let object: Value = serde_json::from_str(text).unwrap();
    let id = object["id"].as_u64();
    let room = || object["room"].as_str().map(str::to_owned);
    match (object["type"].as_str().unwrap(), id) {
        ("join", Some(id)) => Request::Join {
            room: room().unwrap(),
            id,
        },
        ("leave", Some(id)) => Request::Leave { id },
        (event, id) => Request::Publish {
            event: event.to_owned(),
            room: room(),
            id,
            body: object["payload"].to_string(),
        },
    }
}
