//! Nanoseconds per operation of the codecs on the hot path. Best of several short rounds, one
//! thread: `cargo run --release -p wire --example speed`.

use std::hint::black_box;
use std::time::{Duration, Instant};
use wire::websocket::frame::{self, OpCode};
use wire::websocket::message::{Assembler, Limits, Step};
use wire::{json, socketio};

/// One round lasts about this long.
const ROUND: Duration = Duration::from_millis(60);
const ROUNDS: usize = 7;
const MASK: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];
const CHAT: &str = concat!(
    r#"{"room":"general","user":{"id":4711,"name":"Ann"},"#,
    r#""text":"Shall we meet at the usual place, half past seven?","ts":1700000000123,"n":1}"#
);
const LIMITS: Limits = Limits {
    message_bytes_max: 1_000_000,
    fragments_max: 16_384,
    masked: true,
    deflate: false,
};

fn main() {
    frames();
    texts();
    packets();
}

fn frames() {
    let mut masked = Vec::new();
    frame::write_masked(&mut masked, true, OpCode::Binary, &[7; 128], MASK);
    let mut buf = masked.clone();
    report("frame: parse_header + unmask, 128 B", 128, || {
        let header = frame::parse_header(black_box(&buf)).ok().flatten();
        if let Some(header) = header {
            frame::unmask(&mut buf[header.len..], header.mask.unwrap_or_default());
        }
    });
    let mut text = Vec::new();
    frame::write_masked(&mut text, true, OpCode::Text, &[b'x'; 128], MASK);
    let mut buf = text.clone();
    report(
        "message: Assembler::step, 128 B text (+ copy in)",
        128,
        || {
            buf.copy_from_slice(black_box(&text));
            let step = Assembler::default()
                .step(&mut buf, &LIMITS)
                .map(|step| match step {
                    Step::Message { consumed, .. } => consumed,
                    _ => 0,
                });
            assert_eq!(black_box(step), Ok(text.len()));
        },
    );
    let payload = vec![7; 128];
    let mut out = Vec::with_capacity(256);
    report("frame: write_frame, 128 B", 128, || {
        out.clear();
        frame::write_frame(&mut out, OpCode::Text, black_box(&payload));
    });
}

fn texts() {
    let small = CHAT;
    let large = format!("[{}]", vec![CHAT; 250].join(","));
    report("json: validate, one chat message", small.len(), || {
        assert_eq!(json::validate(black_box(small.as_bytes())), Ok(()));
    });
    report("json: validate, 250 chat messages", large.len(), || {
        assert_eq!(json::validate(black_box(large.as_bytes())), Ok(()));
    });
    report(
        "json: serde_json RawValue, for comparison",
        small.len(),
        || {
            assert!(serde_json::from_str::<&serde_json::value::RawValue>(black_box(small)).is_ok());
        },
    );
}

fn packets() {
    let text = format!(r#"2/lab,17["chat-message",{CHAT}]"#);
    report("socketio: parse + event", text.len(), || {
        let packet = socketio::parse(black_box(&text));
        if let Ok(packet) = packet {
            black_box(socketio::event(packet.data));
        }
    });
    let binary = r#"51-/lab,17["upload",{"name":"a.png","body":{"_placeholder":true,"num":0}}]"#;
    report("socketio: parse with one attachment", binary.len(), || {
        assert!(black_box(socketio::parse(black_box(binary))).is_ok());
    });
    let packet = socketio::parse(&text).ok();
    let mut out = Vec::with_capacity(256);
    report("socketio: write", text.len(), || {
        out.clear();
        if let Some(packet) = black_box(&packet) {
            socketio::write(&mut out, packet);
        }
    });
}

/// Prints the best round's time per call and bytes per second.
fn report(name: &str, bytes: usize, mut call: impl FnMut()) {
    let mut best_ns = f64::INFINITY;
    for _ in 0..ROUNDS {
        let (start, mut calls) = (Instant::now(), 0_u32);
        let elapsed = loop {
            for _ in 0..256 {
                call();
            }
            calls += 256;
            let elapsed = start.elapsed();
            if elapsed > ROUND {
                break elapsed;
            }
        };
        best_ns = best_ns.min(elapsed.as_secs_f64() * 1e9 / f64::from(calls));
    }
    let rate = bytes as f64 / best_ns * 1000.0;
    println!("{name:<52} {bytes:>6} B {best_ns:>9.1} ns {rate:>8.0} MB/s");
}
