//! Owns a small Socket.IO server that misbehaves on purpose and keeps an exact record of it.
//! Blocking threads and one lock: slow, and simple enough to be believed.

use bench::clock::now_ns;
use bench::stamp::Stamp;
use std::collections::{BinaryHeap, HashMap};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};
use wire::websocket::frame::{OpCode, parse_header, unmask, write_frame};

/// What happens to one delivery (or one answer).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    None,
    Drop,
    Duplicate,
    /// Sent after the member's next message, which must itself be `None`.
    Overtaken,
    Delay(Duration),
    /// The connection is closed with 1001 instead.
    Cut,
}

/// Member number (in order of joining) and sequence number decide.
pub type Plan = fn(member: usize, sequence: u64) -> Fault;

/// What was really done.
#[derive(Clone, Debug, Default)]
pub struct Truth {
    pub published: u64,
    /// Messages that reached a member, each once.
    pub delivered: u64,
    pub dropped: u64,
    pub duplicated: u64,
    pub reordered: u64,
    pub cut: u64,
    pub acks_dropped: u64,
    pub pongs: u64,
    /// From due time until written, nanoseconds.
    pub latencies: Vec<u64>,
}

#[derive(Debug)]
struct Shared {
    plan: Plan,
    room: Mutex<Room>,
    truth: Mutex<Truth>,
    delayed: Mutex<BinaryHeap<Delayed>>,
    delayed_more: Condvar,
    connections: AtomicU64,
}

#[derive(Debug, Default)]
struct Room {
    members: Vec<Member>,
    by_connection: HashMap<u64, usize>,
}

#[derive(Debug)]
struct Member {
    stream: Option<TcpStream>,
    overtaken: Option<Vec<u8>>,
}

/// Ordered by due time, earliest first.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Delayed(std::cmp::Reverse<Instant>, usize, Vec<u8>);

/// A running server; its threads end with the process.
#[derive(Debug)]
pub struct FaultyServer {
    pub addr: SocketAddr,
    shared: Arc<Shared>,
}

impl FaultyServer {
    pub fn start(plan: Plan) -> FaultyServer {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            plan,
            room: Mutex::default(),
            truth: Mutex::default(),
            delayed: Mutex::default(),
            delayed_more: Condvar::new(),
            connections: AtomicU64::new(0),
        });
        let accepting = Arc::clone(&shared);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let shared = Arc::clone(&accepting);
                std::thread::spawn(move || shared.converse(stream));
            }
        });
        let delaying = Arc::clone(&shared);
        std::thread::spawn(move || delaying.send_delayed());
        FaultyServer { addr, shared }
    }

    /// The record so far. Messages still held back count as dropped.
    pub fn truth(&self) -> Truth {
        let mut truth = self.shared.truth.lock().unwrap().clone();
        let room = self.shared.room.lock().unwrap();
        truth.dropped += room
            .members
            .iter()
            .filter(|member| member.overtaken.is_some())
            .count() as u64;
        truth
    }

    /// Engine.IO ping to every member.
    pub fn ping_all(&self) {
        let mut frame = Vec::new();
        write_frame(&mut frame, OpCode::Text, b"2");
        for member in &self.shared.room.lock().unwrap().members {
            member.stream.as_ref().unwrap().write_all(&frame).unwrap();
        }
    }
}

impl Shared {
    fn converse(&self, mut stream: TcpStream) {
        let connection = self.connections.fetch_add(1, Ordering::Relaxed);
        stream.set_nodelay(true).unwrap();
        let mut buf = read_upgrade(&mut stream);
        send(
            &stream,
            br#"0{"sid":"s","upgrades":[],"pingInterval":25000,"pingTimeout":20000}"#,
        );
        let mut chunk = [0u8; 64 * 1024];
        loop {
            while let Ok(Some(header)) = parse_header(&buf) {
                let end = header.len + header.payload_len as usize;
                if buf.len() < end {
                    break;
                }
                unmask(&mut buf[header.len..end], header.mask.unwrap());
                let message = String::from_utf8(buf[header.len..end].to_vec()).unwrap();
                buf.drain(..end);
                self.on_message(connection, &stream, &message);
            }
            match stream.read(&mut chunk) {
                Ok(count) if count > 0 => buf.extend_from_slice(&chunk[..count]),
                _ => return,
            }
        }
    }

    fn on_message(&self, connection: u64, stream: &TcpStream, message: &str) {
        if message == "40" {
            return send(stream, br#"40{"sid":"x"}"#);
        }
        if message == "3" {
            self.truth.lock().unwrap().pongs += 1;
            return;
        }
        let event = message.strip_prefix("42").unwrap();
        let (id, data) = event.split_at(event.find('[').unwrap());
        match data.split('"').nth(1).unwrap() {
            "join" => self.join(connection, stream, id),
            "echo" => self.echo(connection, stream, id, data),
            "pub" => self.publish(message.as_bytes()),
            other => panic!("unknown event {other}"),
        }
    }

    fn join(&self, connection: u64, stream: &TcpStream, id: &str) {
        let mut room = self.room.lock().unwrap();
        let number = room.members.len();
        room.by_connection.insert(connection, number);
        let stream = stream.try_clone().unwrap();
        send(&stream, format!("43{id}[]").as_bytes());
        room.members.push(Member {
            stream: Some(stream),
            overtaken: None,
        });
    }

    fn echo(&self, connection: u64, stream: &TcpStream, id: &str, data: &str) {
        let sequence = Stamp::find(data.as_bytes()).unwrap().sequence;
        let answer = format!("43{id}[{}", data.split_once(',').unwrap().1);
        let mut truth = self.truth.lock().unwrap();
        match (self.plan)(connection as usize, sequence) {
            Fault::Drop => truth.acks_dropped += 1,
            Fault::Duplicate => {
                truth.duplicated += 1;
                send(stream, answer.as_bytes());
                send(stream, answer.as_bytes());
            }
            _ => send(stream, answer.as_bytes()),
        }
    }

    fn publish(&self, message: &[u8]) {
        let stamp = Stamp::find(message).unwrap();
        let mut room = self.room.lock().unwrap();
        let mut truth = self.truth.lock().unwrap();
        truth.published += 1;
        for (number, member) in room.members.iter_mut().enumerate() {
            match (self.plan)(number, stamp.sequence) {
                _ if member.stream.is_none() => truth.dropped += 1,
                Fault::Drop => truth.dropped += 1,
                Fault::Overtaken => member.overtaken = Some(message.to_vec()),
                Fault::Cut => {
                    truth.dropped += 1;
                    truth.cut += 1;
                    member.cut();
                }
                Fault::Delay(delay) => {
                    let at = std::cmp::Reverse(Instant::now() + delay);
                    let delayed = Delayed(at, number, message.to_vec());
                    self.delayed.lock().unwrap().push(delayed);
                    self.delayed_more.notify_one();
                }
                fault => member.deliver(message, fault, &mut truth),
            }
        }
    }

    fn send_delayed(&self) {
        let mut delayed = self.delayed.lock().unwrap();
        loop {
            let wait = delayed
                .peek()
                .map(|next| next.0.0.saturating_duration_since(Instant::now()));
            match wait {
                Some(Duration::ZERO) => {
                    let Delayed(_, number, message) = delayed.pop().unwrap();
                    drop(delayed);
                    let mut room = self.room.lock().unwrap();
                    let mut truth = self.truth.lock().unwrap();
                    room.members[number].deliver(&message, Fault::None, &mut truth);
                    let due_ns = Stamp::find(&message).unwrap().due_ns;
                    truth.latencies.push(now_ns() - due_ns);
                    drop((room, truth));
                    delayed = self.delayed.lock().unwrap();
                }
                Some(wait) => delayed = self.delayed_more.wait_timeout(delayed, wait).unwrap().0,
                None => delayed = self.delayed_more.wait(delayed).unwrap(),
            }
        }
    }
}

impl Member {
    fn deliver(&mut self, message: &[u8], fault: Fault, truth: &mut Truth) {
        let stream = self.stream.as_ref().unwrap();
        send(stream, message);
        truth.delivered += 1;
        if fault == Fault::Duplicate {
            send(stream, message);
            truth.duplicated += 1;
        }
        if let Some(overtaken) = self.overtaken.take() {
            send(stream, &overtaken);
            truth.delivered += 1;
            truth.reordered += 1;
        }
    }

    fn cut(&mut self) {
        let stream = self.stream.take().unwrap();
        let mut frame = Vec::new();
        write_frame(&mut frame, OpCode::Close, &1001u16.to_be_bytes());
        (&stream).write_all(&frame).unwrap();
    }
}

fn send(mut stream: &TcpStream, message: &[u8]) {
    let mut frame = Vec::new();
    write_frame(&mut frame, OpCode::Text, message);
    // The generator may have hung up after its run.
    let _ = stream.write_all(&frame);
}

/// Answers the upgrade request; returns what came behind it.
fn read_upgrade(stream: &mut TcpStream) -> Vec<u8> {
    let mut buf = Vec::new();
    let mut chunk = [0u8; 4096];
    loop {
        let count = stream.read(&mut chunk).unwrap();
        buf.extend_from_slice(&chunk[..count]);
        let Some(head) = wire::http::parse_head(&buf).unwrap() else {
            continue;
        };
        let accept = wire::websocket::handshake::accept(&head).unwrap();
        let mut response = Vec::new();
        wire::websocket::handshake::write_accept(&mut response, &accept, None, b"");
        stream.write_all(&response).unwrap();
        return buf[head.len..].to_vec();
    }
}
