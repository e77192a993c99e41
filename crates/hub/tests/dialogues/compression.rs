//! Compression as clients see it: what is agreed on, what is compressed for whom, and what is not.

use crate::rig::{self, Rig};
use client::{Frame, OpCode, conn};
use flate2::{Compress, Compression as Level, Decompress, FlushCompress, FlushDecompress};
use hub::Written;
use hub::config::{Compression, Config, SlowConsumer};
use hub::limits::Limits;
use hub::metrics::Cells;
use std::sync::atomic::{AtomicU64, Ordering};

const OFFER: &str = "permessage-deflate; client_max_window_bits";
const SMALL_OFFER: &str = "permessage-deflate; server_max_window_bits=10";

/// Most bytes that any message here has.
const MESSAGE_MAX: usize = 10_000_000;
/// RFC 7692 §7.2.1: ends each message and is not sent.
const TAIL: [u8; 4] = [0, 0, 0xff, 0xff];

/// A frame as it came, and what its message says.
#[derive(Debug, PartialEq)]
pub(crate) struct Got {
    frame: Frame,
    pub(crate) text: String,
}

fn compressing() -> Config {
    Config {
        compression: Compression {
            websocket: true,
            ..Compression::default()
        },
        ..Config::default()
    }
}

fn with(change: impl FnOnce(&mut Config)) -> Rig {
    let mut config = compressing();
    change(&mut config);
    Rig::lab(config, 1)
}

/// Opens a WebSocket; the answer's extensions, if any.
pub(crate) fn upgrade(rig: &mut Rig, target: &str, offer: &str) -> (usize, Option<String>) {
    let name = rig.open();
    let extensions = match offer {
        "" => String::new(),
        offer => format!("Sec-WebSocket-Extensions: {offer}\r\n"),
    };
    let request = format!(
        "GET {target} HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         {extensions}Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    );
    rig.send(name, request.as_bytes());
    let answer = rig.take(name);
    let end = answer
        .windows(4)
        .position(|four| four == b"\r\n\r\n")
        .expect("a whole head");
    let head = String::from_utf8_lossy(&answer[..end]).into_owned();
    assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
    let extensions = head
        .lines()
        .find_map(|line| line.strip_prefix("Sec-WebSocket-Extensions: "));
    (name, extensions.map(str::to_owned))
}

/// A member of the main namespace.
fn member(rig: &mut Rig, offer: &str) -> usize {
    let (name, _) = upgrade(rig, "/socket.io/?EIO=4&transport=websocket", offer);
    rig.send(name, &masked(b"40", false));
    rig.take(name);
    name
}

fn masked(text: &[u8], compressed: bool) -> Vec<u8> {
    let mut bytes = rig::masked(text);
    bytes[0] |= u8::from(compressed) << 6;
    bytes
}

/// A message as one compressor sends it behind those before.
fn deflated_by(sender: &mut Compress, text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len() + 1_000);
    sender
        .compress_vec(text, &mut out, FlushCompress::Sync)
        .expect("room for all of it");
    assert!(out.len() < text.len(), "{} bytes do not shrink", text.len());
    out.strip_suffix(&TAIL)
        .expect("the end of a message")
        .to_vec()
}

fn deflated(text: &[u8]) -> Vec<u8> {
    deflated_by(&mut Compress::new(Level::new(6), false), text)
}

fn inflated_by(receiver: &mut Decompress, payload: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(MESSAGE_MAX);
    let payload = [payload, &TAIL].concat();
    let inflated = receiver.decompress_vec(&payload, &mut text, FlushDecompress::Sync);
    inflated.expect("deflate data");
    text
}

/// Frames and what they say; with `takeover` messages build on those before.
pub(crate) fn frames(bytes: &[u8], receiver: &mut Decompress, takeover: bool) -> Vec<Got> {
    let told = |frame: Frame| {
        if !takeover {
            receiver.reset(false);
        }
        let text = match frame.compressed {
            true => inflated_by(receiver, &frame.payload),
            false => frame.payload.clone(),
        };
        let text = String::from_utf8_lossy(&text).into_owned();
        Got { frame, text }
    };
    rig::frames(bytes, true).into_iter().map(told).collect()
}

/// The one frame a client got.
#[track_caller]
fn got(rig: &mut Rig, name: usize) -> Got {
    let mut all = frames(&rig.take(name), &mut Decompress::new(false), false);
    assert_eq!(all.len(), 1, "{all:?}");
    all.remove(0)
}

#[track_caller]
fn close_code(rig: &mut Rig, name: usize) -> u16 {
    let got = got(rig, name);
    let code = got.frame.close_code();
    code.unwrap_or_else(|| panic!("no close frame: {got:?}"))
}

fn count(rig: &Rig, cell: impl Fn(&Cells) -> &AtomicU64) -> u64 {
    cell(&rig.cells).load(Ordering::Relaxed)
}

/// An event of about this many bytes that compresses well.
fn event(name: &str, bytes: usize) -> String {
    let text = "the quick brown fox jumps over the lazy dog; ".repeat(bytes / 45 + 1);
    format!("42[\"{name}\",{{\"content\":\"{}\"}}]", &text[..bytes])
}

#[test]
fn nothing_is_agreed_on_unless_configured_and_possible() {
    let mut off = Rig::lab(Config::default(), 1);
    for target in ["/socket.io/?EIO=4&transport=websocket", "/ws"] {
        assert_eq!(upgrade(&mut off, target, OFFER).1, None);
        let mut on = with(|_| ());
        assert_eq!(upgrade(&mut on, target, "").1, None);
        assert_eq!(
            upgrade(
                &mut on,
                target,
                "permessage-deflate; server_max_window_bits=16"
            )
            .1,
            None
        );
        assert_eq!(
            upgrade(&mut on, target, OFFER).1.as_deref(),
            Some("permessage-deflate; server_no_context_takeover; client_no_context_takeover")
        );
    }
}

#[test]
fn a_broadcast_is_compressed_once_for_each_window() {
    let mut rig = with(|_| ());
    let members = [OFFER, OFFER, "", SMALL_OFFER, SMALL_OFFER].map(|offer| member(&mut rig, offer));
    let event = event("shout", 3_000);
    rig.send(members[2], &masked(event.as_bytes(), false));
    rig.finish_turn();
    let got: Vec<Got> = members.iter().map(|name| got(&mut rig, *name)).collect();
    assert!(got.iter().all(|got| got.text == event));
    assert_eq!(
        got.iter()
            .map(|got| got.frame.compressed)
            .collect::<Vec<_>>(),
        [true, true, false, true, true]
    );
    assert_eq!((&got[0], &got[3]), (&got[1], &got[4]));
    assert!(
        got[0].frame.payload.len() < event.len() / 5,
        "{}",
        got[0].frame.payload.len()
    );
    assert_eq!(count(&rig, |cells| &cells.deflated_messages), 2);
    assert_eq!(count(&rig, |cells| &cells.deflate_websockets), 4);
    assert_eq!(
        count(&rig, |cells| &cells.deflated_bytes_before),
        2 * event.len() as u64
    );
    let memory = rig.hub.memory();
    let (_, bytes) = memory
        .iter()
        .find(|(part, _)| *part == "deflate")
        .expect("the part");
    assert!(
        (200_000..1_000_000).contains(bytes),
        "two compressors: {bytes}"
    );
}

#[test]
fn short_messages_and_noise_go_out_as_they_are() {
    let mut rig = with(|_| ());
    let client = member(&mut rig, OFFER);
    let short = event("echo", 900);
    rig.send(client, &masked(short.as_bytes(), false));
    assert!(!got(&mut rig, client).frame.compressed);
    let mut dice = crate::rig::dice(7);
    let mut noise = vec![0; 1_500];
    dice(&mut noise);
    // Two characters of forty for each byte: dense enough that deflate's own marks are not earned back.
    let noise: String = noise
        .iter()
        .map(|byte| char::from_u32(0x4e00 + u32::from(*byte) * 61).unwrap_or('x'))
        .collect();
    let noise = format!("42[\"echo\",\"{noise}\"]");
    rig.send(client, &masked(noise.as_bytes(), false));
    assert_eq!(got(&mut rig, client).text, noise);
    let long = event("echo", 2_000);
    rig.send(client, &masked(long.as_bytes(), false));
    let echo = got(&mut rig, client);
    assert!(echo.frame.compressed && echo.text == long, "{echo:?}");
}

#[test]
fn private_answers_and_plain_clients_are_compressed_too() {
    let mut rig = with(|_| ());
    let client = member(&mut rig, OFFER);
    let text = event("echo", 2_000);
    rig.send(
        client,
        &masked(text.replacen("42", "427", 1).as_bytes(), false),
    );
    let ack = got(&mut rig, client);
    assert!(
        ack.frame.compressed && ack.text.starts_with("437[{\"content\""),
        "{ack:?}"
    );
    let (plain, _) = upgrade(&mut rig, "/ws", OFFER);
    rig.take(plain);
    let payload = "x".repeat(2_000);
    let text = format!(r#"{{"type":"echo","payload":"{payload}"}}"#);
    rig.send(plain, &masked(&deflated(text.as_bytes()), true));
    let echo = got(&mut rig, plain);
    assert!(
        echo.frame.compressed && echo.text.contains(&payload),
        "{echo:?}"
    );
}

#[test]
fn compressed_messages_are_read_whole_and_in_fragments() {
    let mut rig = with(|_| ());
    let client = member(&mut rig, OFFER);
    let text = event("echo", 700);
    let payload = deflated(text.as_bytes());
    rig.send(client, &masked(&payload, true));
    assert_eq!(got(&mut rig, client).text, text);
    let mut pieces: Vec<u8> = Vec::new();
    let chunks: Vec<&[u8]> = payload.chunks(9).collect();
    for (n, chunk) in chunks.iter().enumerate() {
        let opcode = if n == 0 {
            OpCode::Text
        } else {
            OpCode::Continuation
        };
        let at = pieces.len();
        pieces.extend(conn::masked(n + 1 == chunks.len(), opcode, chunk));
        pieces[at] |= if n == 0 { 0x40 } else { 0 };
        pieces.extend(conn::masked(true, OpCode::Ping, b"between"));
    }
    for byte in pieces {
        rig.send(client, &[byte]);
    }
    let all = frames(&rig.take(client), &mut Decompress::new(false), false);
    assert_eq!(all.len(), chunks.len() + 1);
    let texts: Vec<&Got> = all
        .iter()
        .filter(|got| got.frame.opcode == OpCode::Text)
        .collect();
    assert_eq!(texts[0].text, text);
}

#[test]
fn exactly_the_limit_is_read_and_one_byte_more_is_not() {
    for (bytes, fine) in [(100_000, true), (100_001, false)] {
        let mut rig = with(|config| config.max_payload = 100_000);
        let client = member(&mut rig, OFFER);
        let text = event("echo", bytes - event("echo", 0).len());
        assert_eq!(text.len(), bytes);
        rig.send(client, &masked(&deflated(text.as_bytes()), true));
        if fine {
            assert_eq!(got(&mut rig, client).text, text);
        } else {
            assert_eq!(close_code(&mut rig, client), 1009);
        }
    }
}

#[test]
fn bad_compressed_messages_close_with_their_code() {
    let not_utf8 = deflated(&[b"42[\"echo\",\"".as_slice(), &[0xff; 90], b"\"]"].concat());
    let cases: [(&str, Vec<u8>, u16); 6] = [
        (OFFER, masked(&[0xff; 40], true), 1007),
        (OFFER, masked(b"", true), 1007),
        (OFFER, masked(&not_utf8, true), 1007),
        ("", masked(&deflated(&[b'a'; 99]), true), 1002),
        (OFFER, vec![0xc0, 0x80, 1, 2, 3, 4], 1002),
        (OFFER, masked(&deflated(&vec![b'a'; 5_000_000]), true), 1009),
    ];
    for (offer, bytes, code) in cases {
        let mut rig = with(|_| ());
        let client = member(&mut rig, offer);
        rig.send(client, &bytes);
        rig.finish_turn();
        assert_eq!(
            close_code(&mut rig, client),
            code,
            "{:02x?}",
            &bytes[..bytes.len().min(9)]
        );
        let inflated = bytes[0] & 0x4f == 0x41 && offer == OFFER;
        let error = u64::from(
            inflated && code != 1007
                || code == 1007 && bytes.len() != masked(&not_utf8, true).len(),
        );
        assert_eq!(count(&rig, |cells| &cells.inflate_errors), error, "{code}");
    }
}

#[test]
fn a_kept_window_makes_repetition_cheap_and_is_given_back() {
    let mut rig = with(|config| {
        config.compression.server_takeover = true;
        config.compression.client_takeover = true;
        config.limits.takeover_contexts_max = 2;
    });
    let target = "/socket.io/?EIO=4&transport=websocket";
    let (first, agreed) = upgrade(&mut rig, target, OFFER);
    assert_eq!(agreed.as_deref(), Some("permessage-deflate"));
    let (second, _) = upgrade(
        &mut rig,
        target,
        "permessage-deflate; server_no_context_takeover",
    );
    let none = "permessage-deflate; server_no_context_takeover; client_no_context_takeover";
    let (third, agreed) = upgrade(&mut rig, target, OFFER);
    assert_eq!(
        agreed.as_deref(),
        Some(none),
        "two windows are all there are"
    );
    for name in [first, second, third] {
        rig.send(name, &masked(b"40", false));
        rig.take(name);
    }
    let text = event("shout", 2_000);
    let (mut sizes, mut inflater) = (Vec::new(), Decompress::new(false));
    let mut sender = Compress::new(Level::new(6), false);
    for _ in 0..2 {
        let payload = deflated_by(&mut sender, text.as_bytes());
        rig.send(first, &masked(&payload, true));
        let kept = frames(&rig.take(first), &mut inflater, true).remove(0);
        assert_eq!(kept.text, text);
        assert_eq!(got(&mut rig, second), got(&mut rig, third));
        sizes.push((payload.len(), kept.frame.payload.len()));
    }
    assert!(
        sizes[1].0 < sizes[0].0 / 2 && sizes[1].1 < sizes[0].1 / 2,
        "{sizes:?}"
    );
    rig.finish_turn();
    assert_eq!(count(&rig, |cells| &cells.takeover_contexts), 2);
    let before = rig.hub.memory();
    rig.end(first);
    rig.break_off(second);
    rig.finish_turn();
    assert_eq!(count(&rig, |cells| &cells.takeover_contexts), 0);
    assert_eq!(count(&rig, |cells| &cells.deflate_websockets), 1);
    assert_ne!(rig.hub.memory(), before);
    assert_eq!(
        upgrade(&mut rig, target, OFFER).1.as_deref(),
        Some("permessage-deflate")
    );
}

#[test]
fn what_is_marked_is_never_compressed() {
    let mut rig = with(|config| {
        let exempt = &mut config.compression.exempt;
        exempt.rooms.insert("/".into(), ["hall".to_owned()].into());
        exempt.namespaces.insert("/lab".into());
    });
    let client = member(&mut rig, OFFER);
    rig.send(client, &masked(event("shout", 2_000).as_bytes(), false));
    assert!(!got(&mut rig, client).frame.compressed, "a marked room");
    rig.send(client, &masked(event("echo", 2_000).as_bytes(), false));
    assert!(
        got(&mut rig, client).frame.compressed,
        "its namespace is not marked"
    );
    rig.send(client, &masked(b"40/lab,", false));
    rig.take(client);
    for text in [
        event("echo", 2_000),
        event("echo", 2_000).replacen("42", "427", 1),
    ] {
        let text = text.replacen("42", "42/lab,", 1);
        rig.send(client, &masked(text.as_bytes(), false));
        assert!(
            !got(&mut rig, client).frame.compressed,
            "a marked namespace: {}",
            &text[..20]
        );
    }
}

/// Opens a session by polling and joins the main namespace; its id.
fn polling(rig: &mut Rig, name: usize) -> String {
    rig.send(
        name,
        b"GET /socket.io/?EIO=4&transport=polling HTTP/1.1\r\nHost: x\r\n\r\n",
    );
    let answer = String::from_utf8(rig.take(name)).expect("text");
    let at = answer.find("\"sid\":\"").expect("an open packet") + 7;
    let sid = answer[at..at + 20].to_owned();
    post(rig, name, &sid, "40");
    poll(rig, name, &sid, "");
    rig.take(name);
    sid
}

fn post(rig: &mut Rig, name: usize, sid: &str, body: &str) {
    let length = body.len();
    let request = format!(
        "POST /socket.io/?EIO=4&transport=polling&sid={sid} HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n{body}"
    );
    rig.send(name, request.as_bytes());
    rig.take(name);
}

fn poll(rig: &mut Rig, name: usize, sid: &str, headers: &str) {
    let request = format!(
        "GET /socket.io/?EIO=4&transport=polling&sid={sid} HTTP/1.1\r\nHost: x\r\n{headers}\r\n"
    );
    rig.send(name, request.as_bytes());
}

/// Content-Encoding and body of a poll that brings an event of this size and name.
fn polled(config: Config, headers: &str, name: &str, bytes: usize) -> (String, Vec<u8>) {
    let mut rig = Rig::lab(config, 1);
    let client = rig.open();
    let sid = polling(&mut rig, client);
    post(&mut rig, client, &sid, &event(name, bytes));
    poll(&mut rig, client, &sid, headers);
    let answer = rig.take(client);
    let end = answer
        .windows(4)
        .position(|four| four == b"\r\n\r\n")
        .expect("a whole head");
    let head = String::from_utf8_lossy(&answer[..end]).into_owned();
    let length = format!("Content-Length: {}", answer.len() - end - 4);
    assert!(head.contains(&length), "{head}");
    let encoding = head
        .lines()
        .find_map(|line| line.strip_prefix("Content-Encoding: "));
    (
        encoding.unwrap_or_default().to_owned(),
        answer[end + 4..].to_vec(),
    )
}

#[test]
fn polls_are_compressed_as_their_client_accepts() {
    let (encoding, body) = polled(
        Config::default(),
        "Accept-Encoding: gzip, deflate, br\r\n",
        "echo",
        3_000,
    );
    assert_eq!(encoding, "gzip");
    assert!(
        body.starts_with(&[0x1f, 0x8b]) && body.len() < 500,
        "{}",
        body.len()
    );
    let deflate = "Accept-Encoding: deflate\r\n";
    let (encoding, body) = polled(Config::default(), deflate, "echo", 3_000);
    assert_eq!(encoding, "deflate");
    let mut text = Vec::with_capacity(10_000);
    let mut receiver = Decompress::new(true);
    let ended = receiver.decompress_vec(&body, &mut text, FlushDecompress::Finish);
    assert_eq!(ended.expect("a whole stream"), flate2::Status::StreamEnd);
    assert_eq!(String::from_utf8_lossy(&text), event("echo", 3_000));
    let gzip = "Accept-Encoding: gzip\r\n";
    for (headers, bytes) in [("", 3_000), ("Accept-Encoding: br\r\n", 3_000), (gzip, 500)] {
        let (encoding, body) = polled(Config::default(), headers, "echo", bytes);
        assert_eq!(
            (encoding.as_str(), body),
            ("", event("echo", bytes).into_bytes()),
            "{headers}"
        );
    }
    let mut off = Config::default();
    off.compression.polling = false;
    assert_eq!(polled(off, gzip, "echo", 3_000).0, "");
    let mut marked = Config::default();
    marked
        .compression
        .exempt
        .rooms
        .insert("/".into(), ["hall".to_owned()].into());
    assert_eq!(polled(marked.clone(), gzip, "shout", 3_000).0, "");
    assert_eq!(polled(marked, gzip, "echo", 3_000).0, "gzip");
}

#[test]
fn an_upgrade_negotiates_and_carries_the_queue_over_compressed() {
    let mut rig = with(|_| ());
    let client = rig.open();
    let sid = polling(&mut rig, client);
    let target = format!("/socket.io/?EIO=4&transport=websocket&sid={sid}");
    let (probe, agreed) = upgrade(&mut rig, &target, OFFER);
    assert!(agreed.is_some());
    rig.send(probe, &masked(b"2probe", false));
    assert_eq!(got(&mut rig, probe).text, "3probe");
    let text = event("echo", 2_000);
    post(&mut rig, client, &sid, &text);
    rig.send(probe, &masked(b"5", false));
    let carried = got(&mut rig, probe);
    assert!(
        carried.frame.compressed && carried.text == text,
        "{carried:?}"
    );
    rig.send(probe, &masked(event("shout", 2_000).as_bytes(), false));
    assert!(
        got(&mut rig, probe).frame.compressed,
        "and what comes later"
    );
}

#[test]
fn a_slow_consumer_loses_compressed_events_but_no_answers() {
    let mut rig = with(|config| {
        config.slow_consumer = SlowConsumer::DropOldest;
        config.compression.server_takeover = true;
        config.limits = Limits {
            outbox_bytes_max: 1_000,
            ..Limits::default()
        };
    });
    let target = "/socket.io/?EIO=4&transport=websocket";
    let (client, agreed) = upgrade(&mut rig, target, OFFER);
    assert!(
        agreed
            .expect("an answer")
            .contains("server_no_context_takeover")
    );
    rig.send(client, &masked(b"40", false));
    rig.take(client);
    rig.wires.kernel = Box::new(|_, _| Written::WouldBlock);
    let ack = event("echo", 2_000).replacen("42", "421", 1);
    rig.send(client, &masked(ack.as_bytes(), false));
    for n in 0..30 {
        let text = event("echo", 2_000 + n);
        rig.send(client, &masked(text.as_bytes(), false));
    }
    rig.wires.kernel = Box::new(|_, n| Written::Bytes(n));
    rig.writable(client);
    let all = frames(&rig.take(client), &mut Decompress::new(false), false);
    assert!(all.iter().all(|got| got.frame.compressed));
    assert!(all[0].text.starts_with("431["), "the answer is still there");
    assert!((2..29).contains(&all.len()), "{} frames", all.len());
    assert_eq!(
        all.last().map(|got| got.text.clone()),
        Some(event("echo", 2_029))
    );
}

#[test]
fn one_clients_inflated_messages_are_shared_out_over_turns() {
    let mut rig = with(|_| ());
    let client = member(&mut rig, OFFER);
    let payload = masked(&deflated(event("void", 900_000).as_bytes()), true);
    let conn = rig.conn(client).expect("open");
    rig.turn(|turn| turn.bytes(conn, &mut payload.repeat(5)));
    assert!(rig.hub.has_stalled(), "four more wait for their turn");
    rig.finish_turn();
    assert_eq!(count(&rig, |cells| &cells.inflated_messages), 5);
}
