//! Owns a server that misbehaves by plan and keeps an exact record of it. A thread for each
//! connection, one lock around all rooms: slow, and simple enough to be believed.

use super::plan::{Fate, Plan};
use super::truth::{MemberRecord, Truth, Written};
use super::websocket::{Frame, Head, Reader, bytes, text};
use super::words::{Protocol, Request};
use bench::clock::now_ns;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};
use tungstenite::protocol::CloseFrame;
use tungstenite::protocol::frame::coding::CloseCode;

/// Reads when a message was due from its body.
pub type DueNs = fn(body: &str) -> u64;

/// A running server; its threads end with the process.
#[derive(Debug)]
pub struct FaultyServer {
    pub addr: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    plan: Plan,
    due_ns: DueNs,
    state: Mutex<State>,
    later_more: Condvar,
}

#[derive(Debug, Default)]
struct State {
    connections: usize,
    members: Vec<Member>,
    /// Member numbers by room, of those who are in it.
    rooms: HashMap<String, Vec<usize>>,
    /// By publisher and room.
    numbers: HashMap<(usize, String), u64>,
    later: BinaryHeap<Later>,
    truth: Truth,
}

/// One stay of a connection in a room.
#[derive(Debug)]
struct Member {
    connection: usize,
    protocol: Protocol,
    room: String,
    /// `None` once it left or was cut.
    stream: Option<TcpStream>,
    overtaken: Vec<Delivery>,
    /// Messages of the room since it joined.
    heard: u64,
    record: MemberRecord,
}

/// A message on its way to one member.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Delivery {
    publisher: usize,
    number: u64,
    due_ns: u64,
    frame: Vec<u8>,
}

/// Ordered by time, earliest first.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Later(Reverse<Instant>, usize, Delivery);

/// One connection's own view.
struct Caller<'a> {
    connection: usize,
    protocol: Protocol,
    stream: &'a TcpStream,
}

impl FaultyServer {
    pub fn start(plan: Plan, due_ns: DueNs) -> FaultyServer {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            plan,
            due_ns,
            state: Mutex::default(),
            later_more: Condvar::new(),
        });
        let accepting = Arc::clone(&shared);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let shared = Arc::clone(&accepting);
                std::thread::spawn(move || shared.converse(stream));
            }
        });
        let delaying = Arc::clone(&shared);
        std::thread::spawn(move || delaying.write_later());
        FaultyServer { addr, shared }
    }

    /// The record so far. Messages that are still held back count as lost.
    pub fn truth(&self) -> Truth {
        let state = self.shared.state.lock().unwrap();
        let mut truth = state.truth.clone();
        for member in &state.members {
            truth.add_member(&member.record);
        }
        truth.latencies_ns.sort_unstable();
        truth
    }
}

impl Shared {
    fn converse(&self, stream: TcpStream) {
        let Ok(writer) = stream.try_clone() else {
            return;
        };
        let Some(head) = Head::read(&stream) else {
            return;
        };
        let Some(mut reader) = Reader::accept(stream, &head) else {
            return;
        };
        let protocol = Protocol::of_target(head.target());
        let connection = {
            let mut state = self.state.lock().unwrap();
            state.connections += 1;
            state.connections - 1
        };
        let caller = Caller {
            connection,
            protocol,
            stream: &writer,
        };
        if let Some(greeting) = protocol.greeting() {
            send(&writer, greeting);
        }
        // Centrifugo's clients put several commands into a frame, a line each; the other protocols
        // have no line breaks.
        while let Some(text) = reader.next() {
            text.split('\n').for_each(|line| self.answer(&caller, line));
        }
        self.state.lock().unwrap().leave(connection);
    }

    fn answer(&self, caller: &Caller<'_>, message: &str) {
        let Caller {
            connection,
            protocol,
            stream,
        } = *caller;
        let ack = |id, verb| send(stream, &protocol.ack(id, verb));
        match protocol.read(message) {
            Request::Hello { reply } => {
                send(stream, &reply);
            }
            Request::Join { room, id } => {
                // Under the lock, so that no message overtakes the answer.
                let mut state = self.state.lock().unwrap();
                state.truth.count_ack(ack(id, "subscribe"));
                state.join(caller, room);
            }
            Request::Leave { id } => {
                let mut state = self.state.lock().unwrap();
                state.leave(connection);
                state.truth.count_ack(ack(id, "unsubscribe"));
            }
            Request::Publish {
                event,
                room,
                id,
                body,
            } => self.publish(caller, &event, room, id, &body),
            Request::Nothing => {}
        }
    }

    fn publish(
        &self,
        caller: &Caller<'_>,
        event: &str,
        room: Option<String>,
        id: Option<u64>,
        body: &str,
    ) {
        let connection = caller.connection;
        let mut state = self.state.lock().unwrap();
        state.truth.published += 1;
        let count = state.truth.published;
        if let Some(id) = id {
            let given = !self.plan.drops_ack(connection, count)
                && send(caller.stream, &caller.protocol.ack(id, "publish"));
            state.truth.count_ack(given);
        }
        let Some(room) = room.or_else(|| state.room_of(connection)) else {
            return;
        };
        let number = state.number(connection, &room);
        let receivers = state.rooms.get(&room).cloned().unwrap_or_default();
        for at in receivers {
            let echoes = caller.protocol == Protocol::Centrifugo;
            if state.members[at].connection == connection && !echoes {
                continue;
            }
            let delivery = Delivery {
                publisher: connection,
                number,
                due_ns: (self.due_ns)(body),
                frame: state.members[at].protocol.event(event, &room, body),
            };
            self.deliver(&mut state, at, delivery);
        }
    }

    fn deliver(&self, state: &mut State, at: usize, delivery: Delivery) {
        let member = &mut state.members[at];
        member.record.expected += 1;
        member.heard += 1;
        if self.plan.cut == Some((at, member.heard)) {
            state.truth.cut += 1;
            state.cut(at);
            return;
        }
        // Numbers are counted by publisher: mixed in, so that publishers do not share their fate.
        let message = delivery.number << 20 | delivery.publisher as u64;
        match self.plan.fate(at, message) {
            Fate::Drop => {}
            Fate::Send => member.write(&delivery),
            Fate::Twice => {
                member.write(&delivery);
                member.write(&delivery);
            }
            Fate::Overtaken => member.overtaken.push(delivery),
            Fate::After(delay) => {
                let at_time = Reverse(Instant::now() + delay);
                state.later.push(Later(at_time, at, delivery));
                self.later_more.notify_one();
            }
        }
    }

    fn write_later(&self) {
        let mut state = self.state.lock().unwrap();
        loop {
            let wait = state
                .later
                .peek()
                .map(|next| next.0.0.saturating_duration_since(Instant::now()));
            match wait {
                Some(Duration::ZERO) => {
                    if let Some(Later(_, at, delivery)) = state.later.pop() {
                        state.members[at].write(&delivery);
                    }
                }
                Some(wait) => state = self.later_more.wait_timeout(state, wait).unwrap().0,
                None => state = self.later_more.wait(state).unwrap(),
            }
        }
    }
}

impl State {
    fn join(&mut self, caller: &Caller<'_>, room: String) {
        let number = self.members.len();
        self.rooms.entry(room.clone()).or_default().push(number);
        self.members.push(Member {
            connection: caller.connection,
            protocol: caller.protocol,
            room,
            stream: caller.stream.try_clone().ok(),
            overtaken: Vec::new(),
            heard: 0,
            record: MemberRecord::default(),
        });
    }

    fn leave(&mut self, connection: usize) {
        let own: Vec<usize> = (0..self.members.len())
            .filter(|&at| self.members[at].connection == connection)
            .collect();
        for at in own {
            self.members[at].stream = None;
            for members in self.rooms.values_mut() {
                members.retain(|&member| member != at);
            }
        }
    }

    /// Ends a member's connection for no reason (RFC 6455 §7.4.1: 1001, going away).
    fn cut(&mut self, at: usize) {
        if let Some(stream) = self.members[at].stream.take() {
            let end = CloseFrame {
                code: CloseCode::Away,
                reason: "".into(),
            };
            let _ = (&stream).write_all(&bytes(Frame::close(Some(end))));
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
        for members in self.rooms.values_mut() {
            members.retain(|&member| member != at);
        }
    }

    /// Where messages without a room go: the room its sender is in.
    fn room_of(&self, connection: usize) -> Option<String> {
        let mut stays = self.members.iter();
        let stay = stays.find(|one| one.connection == connection && one.stream.is_some())?;
        Some(stay.room.clone())
    }

    fn number(&mut self, publisher: usize, room: &str) -> u64 {
        let next = self
            .numbers
            .entry((publisher, room.to_owned()))
            .or_default();
        *next += 1;
        *next - 1
    }
}

impl Member {
    /// Writes and records; what was held back goes behind it.
    fn write(&mut self, delivery: &Delivery) {
        let Some(stream) = &self.stream else { return };
        let mut waiting = std::mem::take(&mut self.overtaken);
        waiting.insert(0, delivery.clone());
        for one in waiting {
            if send(stream, &one.frame) {
                self.record.written.push(Written {
                    publisher: one.publisher,
                    number: one.number,
                    latency_ns: now_ns().saturating_sub(one.due_ns),
                });
            }
        }
    }
}

/// The client may have hung up after its run: that is no error of the server.
fn send(mut stream: &TcpStream, message: &[u8]) -> bool {
    stream.write_all(&text(message)).is_ok()
}
