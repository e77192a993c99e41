//! Mistakes that were made once, one test each.

use crate::identity::{frame, received, websocket};
use crate::rig::{Rig, handler, lab_rules};
use hub::config::Config;
use hub::{ConnectRequest, Context, Decision, Emit, Event, Handler, SocketKey, Written};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A session by polling; its id.
fn opened(rig: &mut Rig, name: usize) -> String {
    rig.send(
        name,
        b"GET /socket.io/?EIO=4&transport=polling HTTP/1.1\r\nHost: x\r\n\r\n",
    );
    let answer = String::from_utf8(rig.take(name)).expect("text");
    let at = answer.find("\"sid\":\"").expect("an open packet") + 7;
    answer[at..at + 20].to_owned()
}

fn post(sid: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!(
        "POST /socket.io/?EIO=4&transport=polling&sid={sid} HTTP/1.1\r\nHost: x\r\n\
         Content-Length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}

fn lab() -> Rig {
    Rig::new(Config::default(), handler(&lab_rules()), 1)
}

/// The kernel takes the rest of an earlier answer in the very turn that ends the connection: what the turn adds must still
/// go out before the end of the stream.
#[test]
fn last_words_are_not_lost_behind_a_backlog() {
    let mut rig = lab();
    let [client, poll] = [rig.open(), rig.open()];
    let sid = opened(&mut rig, client);
    rig.wires.kernel = Box::new(|_, _| Written::WouldBlock);
    rig.send(poll, b"GET /socket.io/?EIO=4 HTTP/1.1\r\nHost: x\r\n\r\n");
    let get = format!(
        "GET /socket.io/?EIO=4&transport=polling&sid={sid} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    );
    rig.send(poll, get.as_bytes());
    rig.wires.kernel = Box::new(|_, n| Written::Bytes(n));
    rig.bytes(client, &post(&sid, "1"));
    rig.writable(poll);
    rig.finish_turn();
    let answers = String::from_utf8(rig.take(poll)).expect("text");
    assert!(answers.starts_with("HTTP/1.1 400"), "{answers}");
    assert!(
        answers.ends_with("\r\n\r\n6"),
        "the waiting poll is answered: {answers}"
    );
    assert!(rig.wires.links[poll].ended);
}

/// A POST that is still on its way when its session ends must not be taken for a POST of the session that gets the slot next.
#[test]
fn half_a_post_does_not_reach_the_next_session() {
    let mut rig = lab();
    let [victim, half, client] = [rig.open(), rig.open(), rig.open()];
    let sid = opened(&mut rig, client);
    let whole = post(&sid, "42[\"shout\",\"forged\"]");
    let (first, second) = whole.split_at(whole.len() - 5);
    rig.send(half, first);
    // A second POST at once ends the session, and the slot is free.
    rig.send(client, &post(&sid, "3"));
    let get =
        format!("GET /socket.io/?EIO=4&transport=polling&sid={sid} HTTP/1.1\r\nHost: x\r\n\r\n");
    let next = opened(&mut rig, victim);
    rig.send(victim, &post(&next, "40"));
    rig.take(victim);
    rig.send(half, second);
    let get = get.replace(&sid, &next);
    rig.send(victim, get.as_bytes());
    let answer = String::from_utf8(rig.take(victim)).expect("text");
    assert!(
        !answer.contains("forged") && answer.contains("40{\"sid\""),
        "{answer}"
    );
}

/// A POST may bring more than one turn's work: others are served in between, and nothing is lost, repeated or reordered.
#[test]
fn a_post_larger_than_a_turn_is_taken_in_parts() {
    let mut config = Config::default();
    config.limits.deliveries_per_turn = 1;
    let mut rig = Rig::new(config, handler(&lab_rules()), 1);
    let [client, poll] = [rig.open(), rig.open()];
    let sid = opened(&mut rig, client);
    rig.send(client, &post(&sid, "40"));
    rig.take(client);
    let shouts: Vec<String> = (0..200).map(|n| format!("42[\"shout\",{n}]")).collect();
    rig.bytes(client, &post(&sid, &shouts.join("\u{1e}")));
    assert!(rig.hub.has_stalled(), "the turn is full before the body is");
    rig.finish_turn();
    assert!(rig.take(client).ends_with(b"\r\n\r\nok"));
    let get =
        format!("GET /socket.io/?EIO=4&transport=polling&sid={sid} HTTP/1.1\r\nHost: x\r\n\r\n");
    let mut heard = Vec::new();
    while heard.len() < 201 {
        rig.send(poll, get.as_bytes());
        let answer = String::from_utf8(rig.take(poll)).expect("text");
        let (_, body) = answer.split_once("\r\n\r\n").expect("an answer");
        heard.extend(body.split('\u{1e}').map(str::to_owned));
    }
    assert_eq!(heard[1..], shouts);
}

/// Proxies end idle connections by a reset: an answer that the kernel took whole counts as delivered. One that it took in part is
/// lost, and the session ends rather than going on without those packets.
#[test]
fn a_reset_after_a_whole_answer_ended_the_session() {
    type Deed = fn(&mut Rig, usize);
    let deeds: [(usize, Deed, bool); 3] = [
        (usize::MAX, |rig, poll| rig.break_off(poll), true),
        (usize::MAX, |rig, poll| rig.end(poll), true),
        (7, |rig, poll| rig.break_off(poll), false),
    ];
    for (number, (taken, deed, lives)) in deeds.into_iter().enumerate() {
        let mut rig = lab();
        let [client, poll] = [rig.open(), rig.open()];
        let sid = opened(&mut rig, client);
        rig.send(client, &post(&sid, "40"));
        rig.take(client);
        rig.wires.kernel = Box::new(move |_, n| match n.min(taken) {
            0 => Written::WouldBlock,
            n => Written::Bytes(n),
        });
        rig.send(poll, get(&sid, "").as_bytes());
        rig.wires.kernel = Box::new(|_, n| Written::Bytes(n));
        let waits = rig.open();
        rig.send(waits, get(&sid, "").as_bytes());
        deed(&mut rig, poll);
        let answer = String::from_utf8(rig.take(waits)).expect("text");
        assert_eq!(
            answer.ends_with("\r\n\r\n1"),
            !lives,
            "deed {number}: {answer:?}"
        );
        rig.send(client, &post(&sid, "42[\"void\"]"));
        let answer = rig.take(client);
        assert_eq!(answer.ends_with(b"\r\n\r\nok"), lives, "deed {number}");
    }
}

/// The kernel refuses the answer to a poll: its packets exist nowhere any more.
#[test]
fn an_answer_that_could_not_be_written_ends_the_session() {
    let mut rig = lab();
    let [client, poll] = [rig.open(), rig.open()];
    let sid = opened(&mut rig, client);
    rig.send(client, &post(&sid, "40"));
    rig.take(client);
    rig.wires.kernel = Box::new(|_, _| Written::Gone);
    rig.send(poll, get(&sid, "").as_bytes());
    rig.wires.kernel = Box::new(|_, n| Written::Bytes(n));
    rig.send(client, get(&sid, "").as_bytes());
    assert!(rig.take(client).starts_with(b"HTTP/1.1 400"));
}

/// A proxy lost the answer to a poll and asks again: the session ends aloud, for the packets in it are lost. A client whose polls
/// have no `t`, or always the same, is left alone.
#[test]
fn a_poll_that_a_proxy_repeats_went_on_behind_lost_packets() {
    for (words, lives) in [
        (["&t=Pk1a", "&t=Pk1a"], false),
        (["&t=Pk1a", "&t=Pk1b"], true),
        (["", ""], true),
        (["&t=1732412345", "&t=1732412345"], true),
    ] {
        let mut rig = lab();
        let [client, poll] = [rig.open(), rig.open()];
        let sid = opened(&mut rig, client);
        rig.send(client, &post(&sid, "40"));
        rig.take(client);
        rig.send(poll, get(&sid, words[0]).as_bytes());
        assert!(rig.take(poll).ends_with(b"}"), "the packet is answered");
        rig.break_off(poll);
        let again = rig.open();
        rig.send(again, get(&sid, words[1]).as_bytes());
        let answer = String::from_utf8(rig.take(again)).expect("text");
        assert_eq!(answer.is_empty(), lives, "{words:?}: {answer}");
        let ended = answer.ends_with(r#"{"code":1,"message":"Session ID unknown"}"#);
        assert_eq!(ended, !lives, "{words:?}: {answer}");
        let said = rig.log.iter().any(|line| line.contains("answer_lost"));
        assert_eq!(said, !lives, "{words:?}: {:?}", rig.log);
    }
}

fn get(sid: &str, more: &str) -> String {
    format!("GET /socket.io/?EIO=4&transport=polling&sid={sid}{more} HTTP/1.1\r\nHost: x\r\n\r\n")
}

/// A client that gets an answer and then asks for metrics finds its cause counted.
#[test]
fn what_led_to_an_answer_is_counted_before_it_is_written() {
    let mut rig = Rig::lab(Config::default(), 1);
    let client = websocket(&mut rig, "/socket.io/?EIO=4&transport=websocket", "");
    rig.send(client, &frame("40"));
    let cells = Arc::clone(&rig.cells);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&seen);
    rig.wires.kernel = Box::new(move |_, n| {
        let count = |cell: &AtomicU64| cell.load(Ordering::Relaxed);
        let counts = (count(&cells.messages_in), count(&cells.sockets));
        told.lock().expect("one thread").push(counts);
        Written::Bytes(n)
    });
    for n in 0..3 {
        rig.send(client, &frame(&format!("42{n}[\"echo\"]")));
    }
    let seen = seen.lock().expect("one thread").clone();
    assert_eq!(seen.len(), 3, "an answer each");
    assert!(
        seen.iter()
            .zip(1..)
            .all(|((messages, sockets), sent)| *messages >= sent && *sockets == 1),
        "{seen:?}"
    );
}

/// Emits what only the libraries may emit, in every way there is.
struct Careless;

impl Handler for Careless {
    fn connecting(&mut self, _: &mut Context<'_>, _: &ConnectRequest<'_>) -> Decision {
        Decision::Admit
    }

    fn event(&mut self, cx: &mut Context<'_>, socket: SocketKey, _: Event<'_>) {
        let named = |name| Emit::new(name, "");
        let wait = Duration::from_secs(1);
        cx.socket(socket).emit(&named("connect"));
        cx.of("/").emit(&named("disconnect"));
        cx.of("/").apart(true).emit(&named("disconnecting"));
        let asked = cx.socket(socket).ask(&named("connect_error"), wait, 1);
        assert!(!asked);
        cx.of("/").collect(&named("newListener"), wait, 2);
        cx.socket(socket).emit(&named("fine"));
    }

    fn collected(&mut self, cx: &mut Context<'_>, token: u64, collected: hub::Collected) {
        assert_eq!((token, collected), (2, hub::Collected::default()));
        cx.of("/").emit(&Emit::new("collected", ""));
    }
}

/// Stock clients end their session over an event with a name of their own library's. A handler's mistake is not sent.
#[test]
fn reserved_events_of_a_handler_are_not_sent() {
    let mut rig = Rig::new(Config::default(), Box::new(Careless), 1);
    let client = websocket(&mut rig, "/socket.io/?EIO=4&transport=websocket", "");
    rig.send(client, &frame("40"));
    received(&mut rig, client);
    rig.send(client, &frame("42[\"x\"]"));
    assert_eq!(
        received(&mut rig, client),
        ["42[\"fine\"]", "42[\"collected\"]"]
    );
}

/// Nor are those of a plain client, who is told.
#[test]
fn reserved_events_of_a_plain_client_are_not_sent() {
    let mut rig = lab();
    let client = websocket(&mut rig, "/socket.io/?EIO=4&transport=websocket", "");
    rig.send(client, &frame("40"));
    let plain = websocket(&mut rig, "/ws", "");
    received(&mut rig, client);
    received(&mut rig, plain);
    for name in ["connect", "disconnect"] {
        let message = format!("{{\"type\":\"{name}\",\"room\":\"hall\",\"payload\":1}}");
        rig.send(plain, &frame(&message));
        let answers = received(&mut rig, plain);
        assert!(
            answers.len() == 1 && answers[0].contains("INVALID_MESSAGE_FORMAT"),
            "{answers:?}"
        );
    }
    rig.send(plain, &frame("{\"type\":\"shout\",\"payload\":1}"));
    assert_eq!(received(&mut rig, client), ["42[\"shout\",1]"]);
}

/// Clients such as curl wait a second for leave to send a body, unless they get it.
#[test]
fn bodies_are_asked_for_where_clients_wait_for_that() {
    let mut rig = lab();
    let client = rig.open();
    let sid = opened(&mut rig, client);
    let head = |version: &str, more: &str| {
        let target = format!("/socket.io/?EIO=4&transport=polling&sid={sid}");
        format!("POST {target} HTTP/{version}\r\nHost: x\r\n{more}\r\n\r\n")
    };
    let mut answer = |request: &str| {
        rig.send(client, request.as_bytes());
        String::from_utf8(rig.take(client)).expect("text")
    };
    let expecting = head("1.1", "Expect: 100-continue\r\nContent-Length: 1");
    assert_eq!(answer(&expecting), "HTTP/1.1 100 Continue\r\n\r\n");
    assert!(answer("3").starts_with("HTTP/1.1 200"));
    let chunked = head("1.1", "Expect: 100-Continue\r\nTransfer-Encoding: chunked");
    assert_eq!(answer(&chunked), "HTTP/1.1 100 Continue\r\n\r\n");
    assert!(answer("1\r\n3\r\n0\r\n\r\n").starts_with("HTTP/1.1 200"));
    // What is there need not be asked for, nor is what nobody would read.
    assert!(answer(&format!("{expecting}3")).starts_with("HTTP/1.1 200"));
    let old = head(
        "1.0",
        "Expect: 100-continue\r\nConnection: keep-alive\r\nContent-Length: 1",
    );
    assert_eq!(answer(&old), "");
    assert!(answer("3").starts_with("HTTP/1.1 200"));
    let unknown = head("1.1", "Expect: tea\r\nContent-Length: 1");
    assert!(answer(&unknown).starts_with("HTTP/1.1 417 Expectation Failed\r\n"));
    let other = rig.open();
    let large = expecting.replace("Length: 1", "Length: 9000000");
    rig.send(other, large.as_bytes());
    assert!(rig.take(other).starts_with(b"HTTP/1.1 413"));
}

/// After a broken Engine.IO request the session is gone at once, for POST and GET. After a broken Socket.IO packet, which shows when
/// its POST was taken, a poll fetches the end.
#[test]
fn a_session_that_broke_the_protocol_answered_polls_for_thirty_seconds() {
    const UNKNOWN: &[u8] = br#"{"code":1,"message":"Session ID unknown"}"#;
    type Violation = fn(&str) -> Vec<u8>;
    let violations: [(Violation, &[u8]); 4] = [
        (|sid| post(sid, "hello"), b"HTTP/1.1 400"),
        (|sid| post(sid, "42[\"x\""), b"HTTP/1.1 200"),
        (
            |sid| {
                let text = String::from_utf8(post(sid, "3")).expect("text");
                let typed = "\r\nContent-Type: application/octet-stream\r\n\r\n";
                text.replacen("\r\n\r\n", typed, 1).into_bytes()
            },
            b"HTTP/1.1 400",
        ),
        (
            |sid| {
                let text = String::from_utf8(post(sid, "x\r\n")).expect("text");
                text.replace("Content-Length: 3", "Transfer-Encoding: chunked")
                    .into_bytes()
            },
            b"HTTP/1.1 400",
        ),
    ];
    for (violation, status) in violations {
        let mut rig = lab();
        let [client, bad, poll] = [rig.open(), rig.open(), rig.open()];
        let sid = opened(&mut rig, client);
        rig.send(bad, &violation(&sid));
        assert!(rig.take(bad).starts_with(status));
        rig.send(client, &post(&sid, "40"));
        assert!(rig.take(client).ends_with(UNKNOWN));
        let get = format!(
            "GET /socket.io/?EIO=4&transport=polling&sid={sid} HTTP/1.1\r\nHost: x\r\n\r\n"
        );
        rig.send(poll, get.as_bytes());
        let was_taken = status.ends_with(b"200");
        let end: &[u8] = if was_taken {
            b"\r\n\r\n6\x1e1"
        } else {
            UNKNOWN
        };
        assert!(rig.take(poll).ends_with(end));
    }
}

/// Of a polling session that was ended nothing is left but its last poll. What it posts meanwhile is not heard: a socket made then
/// would outlive it, in rooms whose events the next session of that slot gets.
#[test]
fn a_session_that_was_ended_joins_nothing() {
    let refused: Vec<String> = (0..33).map(|n| format!("40/no-{n},")).collect();
    let flood = format!("40{}", "\x1e42[\"few\"]".repeat(100));
    for (end, reason) in [(refused.join("\x1e"), "limit"), (flood, "flood")] {
        let mut config = Config::default();
        config.limits.flood_rejections_max = 50;
        let mut rig = Rig::lab(config, 1);
        let [client, poll] = [rig.open(), rig.open()];
        let sid = opened(&mut rig, client);
        rig.send(client, &post(&sid, &end));
        rig.take(client);
        for body in ["40", "42[\"shout\",1]", "41", "40/lab,"] {
            rig.send(client, &post(&sid, body));
            let answer = String::from_utf8(rig.take(client)).expect("text");
            assert!(answer.ends_with("ok"), "{reason}: {body}: {answer}");
            assert_eq!(rig.hub.census().sockets, 0, "{reason}: {body}");
        }
        let get = format!(
            "GET /socket.io/?EIO=4&transport=polling&sid={sid} HTTP/1.1\r\nHost: x\r\n\r\n"
        );
        // Its last polls bring what had been said to it, and the end.
        let polled = |_| {
            rig.send(poll, get.as_bytes());
            String::from_utf8(rig.take(poll)).expect("text")
        };
        let last = (0..10).map(polled).find(|answer| answer.ends_with('1'));
        assert!(last.is_some(), "{reason}");
        assert_eq!(rig.hub.census().sessions, 0, "{reason}");
    }
}

/// The same where the body had been announced before a second POST ended the session.
#[test]
fn a_body_behind_the_end_of_its_session_joins_nothing() {
    let mut rig = lab();
    let [client, other] = [rig.open(), rig.open()];
    let sid = opened(&mut rig, client);
    let (head, body) = (post(&sid, "40"), b"40");
    rig.send(client, &head[..head.len() - body.len()]);
    rig.send(other, &post(&sid, "40"));
    assert!(rig.take(other).starts_with(b"HTTP/1.1 400"));
    rig.send(client, body);
    assert_eq!(rig.hub.census().sockets, 0);
}

/// A handler that ends a session while it is asked whether that session may join somewhere else.
#[test]
fn a_session_that_its_handler_ends_while_asked_joins_nothing() {
    struct Ending(Arc<Mutex<Option<SocketKey>>>);
    impl Handler for Ending {
        fn connecting(&mut self, cx: &mut Context<'_>, _: &ConnectRequest<'_>) -> Decision {
            if let Some(socket) = self.0.lock().expect("no panic").take() {
                cx.socket(socket).drop_transport();
            }
            Decision::Admit
        }

        fn connected(&mut self, _: &mut Context<'_>, socket: SocketKey, _: &str) {
            *self.0.lock().expect("no panic") = Some(socket);
        }

        fn event(&mut self, _: &mut Context<'_>, _: SocketKey, _: Event<'_>) {}
    }
    let mut rig = Rig::new(Config::default(), Box::new(Ending(Arc::default())), 1);
    let polling = rig.open();
    let sid = opened(&mut rig, polling);
    rig.send(polling, &post(&sid, "40\x1e40/other,"));
    assert_eq!(rig.hub.census().sockets, 0);
    let client = websocket(&mut rig, "/socket.io/?EIO=4&transport=websocket", "");
    rig.send(client, &frame("40"));
    rig.send(client, &frame("40/other,"));
    assert_eq!(
        (rig.hub.census().sessions, rig.hub.census().sockets),
        (1, 0)
    );
}

/// JSONP is not spoken: who asks for it is told so, rather than given what a script element cannot read.
#[test]
fn jsonp_is_refused() {
    let mut rig = lab();
    let client = rig.open();
    let request = b"GET /socket.io/?EIO=4&transport=polling&j=0 HTTP/1.1\r\nHost: x\r\n\r\n";
    rig.send(client, request);
    let answer = String::from_utf8(rig.take(client)).expect("text");
    assert!(
        answer.ends_with(r#"{"code":0,"message":"Transport unknown"}"#),
        "{answer}"
    );
}
