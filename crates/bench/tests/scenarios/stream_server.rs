//! Owns a small real server of one room: `/sse` is an event stream (WHATWG HTML), chunked or not,
//! `/ws` the plain protocol over WebSocket, `/silent` is never answered. What comes in by `/ws` goes to everyone; `last` ends the
//! event streams with its own bytes, `slow` is answered after a while, `never` not at all, `twice` two times; `pieces` goes
//! out in fragments, with a ping between them, `copied` two times.

use super::websocket::{self, Data, Frame, Head, OpCode, Reader, bytes};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

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
    let Some(head) = Head::read(&stream) else {
        return Ok(());
    };
    let target = head.target();
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    if path == "/ws" {
        let writer = stream.try_clone()?;
        let Some(mut reader) = Reader::accept(stream, &head) else {
            return Ok(());
        };
        while let Some(text) = reader.next() {
            message(&writer, &text, room)?;
        }
        return Ok(());
    }
    if path == "/silent" {
        // Ends when the client hangs up.
        return stream.read_to_end(&mut Vec::new()).map(drop);
    }
    assert_eq!(head.header("accept"), Some("text/event-stream"));
    let number: u32 = query.strip_prefix("n=").unwrap().parse().unwrap();
    let (kind, coding) = match number % 2 {
        0 => (Kind::Events, ""),
        _ => (Kind::ChunkedEvents, "Transfer-Encoding: chunked\r\n"),
    };
    let answer = format!("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n{coding}\r\n");
    // In one step with the membership: what is sent from now on must arrive.
    let mut room = room.lock().unwrap();
    stream.write_all(answer.as_bytes())?;
    room.members.push((kind, stream));
    Ok(())
}

fn message(stream: &TcpStream, text: &str, room: &Mutex<Room>) -> std::io::Result<()> {
    let value: serde_json::Value = serde_json::from_str(text).unwrap();
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
                    member.write_all(&websocket::text(event.to_string().as_bytes()).repeat(copies))
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
        (&*stream).write_all(&websocket::text(answer.as_bytes()).repeat(answers))?;
    }
    Ok(())
}

/// Three fragments, the first of them empty, and a ping before the last (RFC 6455 §5.4).
fn pieces(text: &str) -> Vec<u8> {
    let (front, back) = text.split_at(text.len() / 2);
    let next = OpCode::Data(Data::Continue);
    let pieces = [
        Frame::message("", OpCode::Data(Data::Text), false),
        Frame::message(front.to_owned(), next, false),
        Frame::ping("still there?"),
        Frame::message(back.to_owned(), next, true),
    ];
    pieces.map(bytes).concat()
}
