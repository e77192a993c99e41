//! Owns a small real server of one room: `/sse` is an event stream (WHATWG HTML), chunked or not,
//! `/ws` the plain protocol over WebSocket, `/silent` is never answered. What comes in by `/ws` goes to everyone; `last` ends the
//! event streams with its own bytes, `slow` is answered after a while, `never` not at all, `twice` two times; `pieces` goes
//! out in fragments, with a ping between them, `copied` two times.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use wire::websocket::frame::{OpCode, parse_header, unmask, write_frame};

/// When `slow` is answered.
const SLOW: Duration = Duration::from_millis(600);

pub struct StreamServer {
    pub url: String,
}

#[derive(Default)]
struct Room {
    members: Vec<(Kind, TcpStream)>,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    WebSocket,
    Events,
    ChunkedEvents,
}

impl StreamServer {
    pub fn start() -> StreamServer {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let room = Arc::new(Mutex::new(Room::default()));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let room = Arc::clone(&room);
                // A client hangs up when its run is over.
                std::thread::spawn(move || serve(stream.unwrap(), &room).ok());
            }
        });
        StreamServer { url }
    }
}

fn serve(mut stream: TcpStream, room: &Mutex<Room>) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut buf = Vec::new();
    let mut chunk = [0; 4096];
    loop {
        let count = stream.read(&mut chunk)?;
        buf.extend_from_slice(&chunk[..count]);
        let Some(head) = wire::http::parse_head(&buf).unwrap() else {
            continue;
        };
        if head.path == "/ws" {
            let accept = wire::websocket::handshake::accept(&head).unwrap();
            let mut answer = Vec::new();
            wire::websocket::handshake::write_accept(&mut answer, &accept, None, b"");
            stream.write_all(&answer)?;
            let rest = buf.split_off(head.len);
            return websocket(stream, rest, room);
        }
        if head.path == "/silent" {
            // Ends when the client hangs up.
            return stream.read_to_end(&mut buf).map(drop);
        }
        assert_eq!(head.header("accept"), Some(&b"text/event-stream"[..]));
        let number = head
            .query
            .strip_prefix("n=")
            .unwrap()
            .parse::<u32>()
            .unwrap();
        let (kind, coding) = match number % 2 {
            0 => (Kind::Events, ""),
            _ => (Kind::ChunkedEvents, "Transfer-Encoding: chunked\r\n"),
        };
        let answer = format!("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n{coding}\r\n");
        // In one step with the membership: what is sent from now on must arrive.
        let mut room = room.lock().unwrap();
        stream.write_all(answer.as_bytes())?;
        room.members.push((kind, stream));
        return Ok(());
    }
}

fn websocket(mut stream: TcpStream, mut buf: Vec<u8>, room: &Mutex<Room>) -> std::io::Result<()> {
    let mut chunk = [0; 4096];
    loop {
        while let Some(header) = parse_header(&buf).unwrap() {
            let end = header.len + header.payload_len as usize;
            if buf.len() < end {
                break;
            }
            let rest = buf.split_off(end);
            let mut payload = std::mem::replace(&mut buf, rest).split_off(header.len);
            unmask(&mut payload, header.mask.unwrap());
            if header.opcode == OpCode::Text {
                message(&stream, &payload, room)?;
            }
        }
        let count = stream.read(&mut chunk)?;
        if count == 0 {
            return Ok(());
        }
        buf.extend_from_slice(&chunk[..count]);
    }
}

fn message(stream: &TcpStream, text: &[u8], room: &Mutex<Room>) -> std::io::Result<()> {
    let value: serde_json::Value = serde_json::from_slice(text).unwrap();
    let mut room = room.lock().unwrap();
    if value["type"] == "join" {
        room.members.push((Kind::WebSocket, stream.try_clone()?));
    } else if value["type"] != "leave" {
        let mut event = value.clone();
        event.as_object_mut().unwrap().remove("id");
        let (name, payload) = (
            value["type"].as_str().unwrap(),
            value["payload"].to_string(),
        );
        for (kind, member) in &mut room.members {
            // Others may have hung up.
            let _ = match kind {
                Kind::WebSocket if name == "pieces" => {
                    member.write_all(&pieces(&event.to_string()))
                }
                Kind::WebSocket => {
                    let copies = if name == "copied" { 2 } else { 1 };
                    member.write_all(&frame(&event.to_string()).repeat(copies))
                }
                Kind::Events => {
                    member.write_all(format!("event: {name}\ndata: {payload}\n\n").as_bytes())
                }
                Kind::ChunkedEvents => {
                    let text = format!("event: {name}\ndata: {payload}\n\n");
                    member.write_all(format!("{:x}\r\n{text}\r\n", text.len()).as_bytes())
                }
            };
        }
    }
    if value["type"] == "last" {
        room.members.retain(|(kind, _)| *kind == Kind::WebSocket);
    }
    drop(room);
    if value["type"] == "slow" {
        std::thread::sleep(SLOW);
    }
    let answers = match value["type"].as_str() {
        Some("never") => 0,
        Some("twice") => 2,
        _ => 1,
    };
    if let Some(id) = value.get("id") {
        let answer = format!("{{\"type\":\"ack\",\"id\":{id},\"payload\":null}}");
        (&*stream).write_all(&frame(&answer).repeat(answers))?;
    }
    Ok(())
}

/// Three fragments, the first of them empty, and a ping before the last (RFC 6455 §5.4).
fn pieces(text: &str) -> Vec<u8> {
    const FIN: u8 = 0x80;
    let (front, back) = text.split_at(text.len() / 2);
    let mut out = Vec::new();
    for (opcode, payload, is_last) in [
        (OpCode::Text, "", false),
        (OpCode::Continuation, front, false),
        (OpCode::Ping, "still there?", true),
        (OpCode::Continuation, back, true),
    ] {
        let at = out.len();
        write_frame(&mut out, opcode, payload.as_bytes());
        out[at] &= if is_last { !0 } else { !FIN };
    }
    out
}

fn frame(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    write_frame(&mut out, OpCode::Text, text.as_bytes());
    out
}
