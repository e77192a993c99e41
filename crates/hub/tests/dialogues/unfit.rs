//! Events and answers that a client's transport has no frame for, and notices that a client takes along to another transport.

use crate::identity::{frame, received, websocket};
use crate::rig::{Rig, masked};
use ::client::OpCode;
use hub::config::{Config, Offsets, Recover, Recovery, SlowConsumer, SlowEvents};
use hub::{
    ConnectRequest, Context, Decision, Emit, Event, Handler, Keeping, Keeps, Moved, SocketKey,
};
use std::sync::Arc;
use std::time::Duration;

const CARRIED: &str = "/socket.io/?EIO=4&transport=webtransport";
const SIO: &str = "/socket.io/?EIO=4&transport=websocket";

/// Says what clients say, with its attachments, to the room `den`; answers `fetch` with an empty one.
struct Hall;

impl Handler for Hall {
    fn connecting(&mut self, _: &mut Context<'_>, _: &ConnectRequest<'_>) -> Decision {
        Decision::Admit
    }

    fn keeping(&self) -> Arc<Keeping> {
        Arc::new(Keeping::new([("/".to_owned(), Some(Keeps::default()))]))
    }

    fn event(&mut self, cx: &mut Context<'_>, socket: SocketKey, event: Event<'_>) {
        match (event.name, event.ack) {
            ("join", _) => cx.socket(socket).join("den").expect("a good name"),
            ("fetch", Some(ack)) => {
                let placeholder = "{\"_placeholder\":true,\"num\":0}";
                cx.ack(ack, placeholder, &[Vec::new()]);
            }
            (name, _) => {
                let said = Emit {
                    attachments: event.attachments,
                    ..Emit::new(name, event.args)
                };
                let _ = cx.of("/").to(&["den"]).emit(&said);
            }
        }
    }
}

fn rig() -> Rig {
    let recover = Recover {
        window: Duration::from_secs(60),
        offsets: Offsets::All,
        goes_abroad: false,
        chronicle: false,
        replicas: 0,
    };
    let mut config = Config {
        recovery: Recovery {
            namespaces: [("/".to_owned(), Some(recover))].into(),
        },
        ..Config::default()
    };
    config.transports.webtransport = true;
    config.limits.outbox_bytes_max = 64 * 1024;
    let slow = SlowEvents {
        policy: SlowConsumer::DropOldest,
        key: None,
    };
    config.slow_consumers.insert("/".to_owned(), slow);
    Rig::new(config, Box::new(Hall), 3)
}

/// A stream of WebTransport, as its carrier brings it.
fn carried(rig: &mut Rig, target: &str) -> usize {
    let head = format!(
        "GET {target} HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
    );
    let moved = Moved {
        peer: [127, 0, 0, 1].into(),
        beyond: None,
        relayed: false,
        carried: true,
        new: true,
        secure: true,
        read: &mut head.into_bytes(),
        ended: false,
    };
    rig.open_moved(moved)
}

fn member(rig: &mut Rig, name: usize) {
    rig.send(name, &frame("40"));
    rig.send(name, &frame("42[\"join\"]"));
    received(rig, name);
}

fn speaker(rig: &mut Rig) -> usize {
    let name = websocket(rig, SIO, "");
    rig.send(name, &frame("40"));
    name
}

/// Says something with an attachment of these bytes.
fn says(rig: &mut Rig, name: usize, word: &str, attachment: &[u8]) {
    let event = format!("451-[\"{word}\",{{\"_placeholder\":true,\"num\":0}}]");
    rig.send(name, &frame(&event));
    let attachment = ::client::conn::masked(true, OpCode::Binary, attachment);
    rig.send(name, &attachment);
}

fn has(texts: &[String], words: &str) -> bool {
    texts.iter().any(|text| text.contains(words))
}

const GAP: &str = "[\"sockeye:gap\",{\"rooms\":[\"den\"]}";

/// Each member by WebTransport ended its session with what a stranger had said.
#[test]
fn an_empty_attachment_ended_all_who_came_by_webtransport() {
    let mut rig = rig();
    let (one, other) = (carried(&mut rig, CARRIED), websocket(&mut rig, SIO, ""));
    member(&mut rig, one);
    member(&mut rig, other);
    let speaker = speaker(&mut rig);
    says(&mut rig, speaker, "full", b"x");
    assert!(has(&received(&mut rig, one), "full"));
    says(&mut rig, speaker, "void", b"");
    let told = received(&mut rig, one);
    assert!(has(&told, GAP) && !has(&told, "void"), "{told:?}");
    assert!(has(&received(&mut rig, other), "void"));
    rig.send(speaker, &frame("42[\"plain\"]"));
    let told = received(&mut rig, one);
    assert!(has(&told, "plain") && !has(&told, GAP), "{told:?}");
}

#[test]
fn an_answer_that_has_no_frame_is_an_error() {
    let mut rig = rig();
    let one = carried(&mut rig, CARRIED);
    member(&mut rig, one);
    rig.send(one, &frame("427[\"fetch\"]"));
    let told = received(&mut rig, one);
    assert!(has(&told, "437[{\"error\":"), "{told:?}");
    let other = websocket(&mut rig, SIO, "");
    member(&mut rig, other);
    rig.send(other, &frame("427[\"fetch\"]"));
    assert!(has(&received(&mut rig, other), "461-7["));
}

fn request(line: &str, body: &str) -> Vec<u8> {
    let len = body.len();
    format!("{line} HTTP/1.1\r\nHost: x\r\nContent-Length: {len}\r\n\r\n{body}").into_bytes()
}

/// A member that polls and has fetched what it was told; its id.
fn poller(rig: &mut Rig) -> (usize, String) {
    let name = rig.open();
    let polling = "/socket.io/?EIO=4&transport=polling";
    rig.send(name, &request(&format!("GET {polling}"), ""));
    let answer = String::from_utf8(rig.take(name)).expect("text");
    let at = answer.find("\"sid\":\"").expect("an open packet") + 7;
    let sid = answer[at..at + 20].to_owned();
    let own = format!("{polling}&sid={sid}");
    let post = request(&format!("POST {own}"), "40\u{1e}42[\"join\"]");
    rig.send(name, &post);
    rig.send(name, &request(&format!("GET {own}"), ""));
    assert!(String::from_utf8_lossy(&rig.take(name)).contains("40{"));
    (name, sid)
}

/// What waited for polls comes by the new transport.
fn goes_over(rig: &mut Rig, to: usize) -> Vec<String> {
    rig.send(to, &frame("2probe"));
    rig.send(to, &frame("5"));
    received(rig, to)
}

#[test]
fn a_poller_on_its_way_up_leaves_out_what_has_no_frame_there() {
    let mut rig = rig();
    let (_, sid) = poller(&mut rig);
    let speaker = speaker(&mut rig);
    says(&mut rig, speaker, "void", b"");
    rig.send(speaker, &frame("42[\"plain\"]"));
    let to = carried(&mut rig, &format!("{CARRIED}&sid={sid}"));
    let told = goes_over(&mut rig, to);
    assert!(has(&told, "plain") && !has(&told, "void"), "{told:?}");
    assert!(has(&told, GAP), "{told:?}");
}

/// What a poller was not told yet, nobody told it when it had another transport.
#[test]
fn a_gap_was_forgotten_with_the_polls() {
    let mut rig = rig();
    let (_, sid) = poller(&mut rig);
    let speaker = speaker(&mut rig);
    // The first notice is dropped from no queue; what is lost behind it is told later.
    let text = "x".repeat(3_000);
    for n in 0..60 {
        let event = format!("42[\"shout\",\"{n} {text}\"]");
        rig.send(speaker, &masked(event.as_bytes()));
    }
    let to = websocket(&mut rig, &format!("{SIO}&sid={sid}"), "");
    let told = goes_over(&mut rig, to);
    let gaps = told.iter().filter(|text| text.contains(GAP));
    assert_eq!(gaps.count(), 2, "{told:?}");
}
