//! Socket.IO 5 as a client: one namespace, events, acks both ways, binary.

use super::transport::{Packet, Polling, Transport, open_session};
use super::websocket::{Frame, WebSocket};
use super::{Event, as_bytes, bytes, replace};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::net::{SocketAddr, TcpStream};

/// What a packet means to the user of a client.
#[derive(Clone, Debug, PartialEq)]
enum Message {
    Event(Event),
    Ack(u64, Vec<Value>),
    Closed(Option<u16>, String),
}

#[derive(Debug)]
pub struct SocketIo {
    transport: Box<dyn Transport>,
    namespace: String,
    /// Id of the session.
    pub sid: String,
    /// Id of the socket.
    pub id: String,
    acks: u64,
    /// Events that came while an ack was waited for.
    waiting: VecDeque<Event>,
}

const WEBSOCKET: &str = "/socket.io/?EIO=4&transport=websocket";

impl SocketIo {
    pub fn websocket(addr: SocketAddr, namespace: &str, auth: Value) -> Self {
        Self::over(TcpStream::connect(addr).expect("connect"), namespace, auth)
    }

    /// Over a connection made by the caller.
    pub fn over(stream: TcpStream, namespace: &str, auth: Value) -> Self {
        let mut socket = WebSocket::upgrade(stream, WEBSOCKET, "");
        let Frame::Text(open) = socket.frame() else {
            panic!("no open packet")
        };
        let sid = open_session(&open)["sid"]
            .as_str()
            .expect("a sid")
            .to_owned();
        Self::join_namespace(Box::new(socket), sid, namespace, auth)
    }

    pub fn polling(addr: SocketAddr, namespace: &str, auth: Value) -> Self {
        let polling = Polling::connect(addr, "");
        let sid = polling.open["sid"].as_str().expect("a sid").to_owned();
        Self::join_namespace(Box::new(polling), sid, namespace, auth)
    }

    /// Joins over a session that is open.
    pub fn join_namespace(
        mut transport: Box<dyn Transport>,
        sid: String,
        namespace: &str,
        auth: Value,
    ) -> Self {
        let prefix = if namespace == "/" {
            String::new()
        } else {
            format!("{namespace},")
        };
        transport.send(&[Packet::Text(format!("0{prefix}{auth}"))]);
        let answer = transport.receive();
        let Packet::Text(text) = &answer else {
            panic!("no CONNECT: {answer:?}")
        };
        let json = text.strip_prefix(&format!("0{prefix}"));
        let json = json.unwrap_or_else(|| panic!("not connected: {text:?}"));
        let connected: Value = serde_json::from_str(json).expect("JSON");
        let id = connected["sid"].as_str().expect("a socket id").to_owned();
        Self {
            transport,
            namespace: prefix,
            sid,
            id,
            acks: 0,
            waiting: VecDeque::new(),
        }
    }

    pub fn emit(&mut self, name: &str, args: &[Value]) {
        let packets = self.event(name, args, "");
        self.transport.send(&packets);
    }

    /// Leaves the namespace and joins it again with other auth; the session stays.
    pub fn rejoin(&mut self, auth: Value) {
        let namespace = &self.namespace;
        let packets = [format!("1{namespace}"), format!("0{namespace}{auth}")];
        self.transport.send(&packets.map(Packet::Text));
        let answer = self.transport.receive();
        let Packet::Text(text) = &answer else {
            panic!("no CONNECT: {answer:?}")
        };
        let json = text.strip_prefix(&format!("0{namespace}"));
        let connected: Value = serde_json::from_str(json.expect("CONNECT")).expect("JSON");
        self.id = connected["sid"].as_str().expect("a socket id").to_owned();
    }

    /// Leaves the namespace; the session stays.
    pub fn leave_namespace(&mut self) {
        self.transport
            .send(&[Packet::Text(format!("1{}", self.namespace))]);
    }

    /// Ends the session.
    pub fn leave_session(&mut self) {
        self.transport.send(&[Packet::Closed(None, String::new())]);
    }

    /// Several events at once (one request of a polling client).
    pub fn emit_all(&mut self, events: &[(&str, Vec<Value>)]) {
        let packets: Vec<Packet> = events
            .iter()
            .flat_map(|(name, args)| self.event(name, args, ""))
            .collect();
        self.transport.send(&packets);
    }

    /// Emits and waits for the ack.
    pub fn ask(&mut self, name: &str, args: &[Value]) -> Vec<Value> {
        self.ask_later(name, args);
        self.ack()
    }

    /// Emits with an ack that nobody waits for yet.
    pub fn ask_later(&mut self, name: &str, args: &[Value]) -> u64 {
        let id = self.acks;
        self.acks += 1;
        let packets = self.event(name, args, &id.to_string());
        self.transport.send(&packets);
        id
    }

    /// Waits for the answer to what was asked last.
    pub fn ack(&mut self) -> Vec<Value> {
        self.ack_or_end()
            .unwrap_or_else(|(code, text)| panic!("closed: {code:?} {text}"))
    }

    /// The same, where the session may end first.
    pub fn ack_or_end(&mut self) -> Result<Vec<Value>, (Option<u16>, String)> {
        let id = self.acks - 1;
        loop {
            match self.message() {
                Message::Ack(answered, args) => {
                    assert_eq!(answered, id, "acks come in the order of their questions");
                    return Ok(args);
                }
                Message::Event(event) => self.waiting.push_back(event),
                Message::Closed(code, text) => return Err((code, text)),
            }
        }
    }

    /// Answers a question of the server.
    pub fn answer(&mut self, id: u64, args: &[Value]) {
        let mut data = Value::from(args.to_vec());
        let attachments = detach(&mut data);
        let packets = self.packets(('3', '6'), &id.to_string(), &data, attachments);
        self.transport.send(&packets);
    }

    /// The next event.
    #[expect(clippy::should_implement_trait, reason = "events have no end")]
    pub fn next(&mut self) -> Event {
        if let Some(event) = self.waiting.pop_front() {
            return event;
        }
        match self.message() {
            Message::Event(event) => event,
            other => panic!("an event was due, not {other:?}"),
        }
    }

    /// The next event of this name; events of other names are passed over.
    pub fn next_named(&mut self, name: &str) -> Event {
        loop {
            let event = self.next();
            if event.name == name {
                return event;
            }
        }
    }

    /// The next event, which must have this name; its arguments.
    pub fn expect(&mut self, name: &str) -> Vec<Value> {
        let event = self.next();
        assert_eq!(event.name, name, "{event:?}");
        event.args
    }

    /// All events until one is called `name`.
    pub fn until(&mut self, name: &str) -> Vec<Event> {
        let mut events = Vec::new();
        loop {
            let event = self.next();
            if event.name == name {
                return events;
            }
            events.push(event);
        }
    }

    /// Events until the session is closed, and how it was closed.
    pub fn until_closed(&mut self) -> (Vec<Event>, Option<u16>, String) {
        let mut events: Vec<Event> = self.waiting.drain(..).collect();
        loop {
            match self.message() {
                Message::Event(event) => events.push(event),
                Message::Ack(..) => {}
                Message::Closed(code, text) => return (events, code, text),
            }
        }
    }

    fn event(&self, name: &str, args: &[Value], ack: &str) -> Vec<Packet> {
        let mut data: Vec<Value> = vec![name.into()];
        data.extend_from_slice(args);
        let mut data = Value::from(data);
        let attachments = detach(&mut data);
        self.packets(('2', '5'), ack, &data, attachments)
    }

    fn packets(
        &self,
        (plain, binary): (char, char),
        ack: &str,
        data: &Value,
        attachments: Vec<Vec<u8>>,
    ) -> Vec<Packet> {
        let namespace = &self.namespace;
        let head = match attachments.len() {
            0 => format!("{plain}{namespace}{ack}{data}"),
            count => format!("{binary}{count}-{namespace}{ack}{data}"),
        };
        let attachments = attachments.into_iter().map(Packet::Binary);
        [Packet::Text(head)]
            .into_iter()
            .chain(attachments)
            .collect()
    }

    fn message(&mut self) -> Message {
        let text = match self.transport.receive() {
            Packet::Text(text) => text,
            Packet::Closed(code, text) => return Message::Closed(code, text),
            Packet::Binary(bytes) => panic!("bytes that nobody announced: {bytes:?}"),
        };
        let (kind, mut rest) = text.split_at(1);
        let mut attachments = Vec::new();
        if kind == "5" || kind == "6" {
            let (count, behind) = rest.split_once('-').expect("a number of attachments");
            for _ in 0..count.parse().expect("a number of attachments") {
                match self.transport.receive() {
                    Packet::Binary(bytes) => attachments.push(bytes),
                    other => panic!("an attachment was due, not {other:?}"),
                }
            }
            rest = behind;
        }
        if kind == "1" {
            return Message::Closed(None, "disconnect packet".to_owned());
        }
        let rest = rest
            .strip_prefix(&self.namespace)
            .unwrap_or_else(|| panic!("{text:?}"));
        let at = rest
            .find('[')
            .unwrap_or_else(|| panic!("no data: {text:?}"));
        let id = rest[..at].parse().ok();
        let mut data: Value = serde_json::from_str(&rest[at..]).expect("data in JSON");
        attach(&mut data, &attachments);
        let Value::Array(mut args) = data else {
            panic!("no array: {text:?}")
        };
        match kind {
            "2" | "5" => {
                let name = args.remove(0).as_str().expect("a name").to_owned();
                Message::Event(Event {
                    name,
                    args,
                    ack: id,
                    room: None,
                })
            }
            "3" | "6" => Message::Ack(id.expect("an ack's id"), args),
            _ => panic!("a packet that was not due: {text:?}"),
        }
    }
}

/// Takes the bytes out of a packet's data and leaves placeholders.
fn detach(data: &mut Value) -> Vec<Vec<u8>> {
    let mut attachments = Vec::new();
    replace(data, &mut |value| {
        attachments.push(as_bytes(value)?);
        Some(json!({ "_placeholder": true, "num": attachments.len() - 1 }))
    });
    attachments
}

/// Puts them back.
fn attach(data: &mut Value, attachments: &[Vec<u8>]) {
    let mut used = 0;
    replace(data, &mut |value| {
        value.as_object()?.get("_placeholder")?;
        used += 1;
        Some(bytes(&attachments[value["num"].as_u64()? as usize]))
    });
    assert_eq!(used, attachments.len(), "each attachment has its place");
}
