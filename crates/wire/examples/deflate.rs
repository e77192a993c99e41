//! What compression saves and costs per message: chat messages of three sizes, two levels, with a window kept from message to
//! message and without. Prints a Markdown table; one thread, best of several rounds.
//! `cargo run --release -p wire --example deflate`

use std::hint::black_box;
use std::time::Instant;
use wire::websocket::deflate::{Deflater, Inflater};

const MESSAGES: usize = 200;
const ROUNDS: usize = 7;
const WORDS: &str = "the of and to in is you that it he was for on are as with his they at be this have from or one had by \
    word but not what all were we when your can said there use an each which she do how their if will up other about out \
    many then them these so some her would make like him into time has look two more write go see number no way could \
    people my than first water been call who oil its now find long down day did get come made may part";

fn main() {
    println!("| message | level | window | bytes after | saved | compress, us | inflate, us |");
    println!("|---:|---:|---|---:|---:|---:|---:|");
    for bytes in [100, 1_024, 10_240] {
        let messages: Vec<Vec<u8>> = (0..MESSAGES).map(|n| chat(n, bytes)).collect();
        for level in [1, 6] {
            for takeover in [false, true] {
                report(bytes, &messages, level, takeover);
            }
        }
    }
}

/// A chat message as a Socket.IO packet of about this many bytes; each has another text, sender, id and time.
fn chat(n: usize, bytes: usize) -> Vec<u8> {
    let words: Vec<&str> = WORDS.split_whitespace().collect();
    let mut state = n as u64 + 1;
    let mut roll = |bound: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % bound as u64) as usize
    };
    let (user, id) = (roll(50), 7_398_221_000_000_u64 + n as u64 * 4_099);
    let head = format!(
        "42[\"chat-message\",{{\"messageId\":\"{id}\",\"userId\":\"user-{user}\",\"content\":\""
    );
    let tail = format!(
        "\",\"timestamp\":{}}}]",
        1_750_000_000_000_u64 + n as u64 * 731
    );
    let mut text = head;
    while text.len() + tail.len() < bytes {
        text.push_str(words[roll(words.len())]);
        text.push(' ');
    }
    text.truncate(
        bytes
            .saturating_sub(tail.len())
            .max(text.find("content").unwrap_or(0) + 10),
    );
    text.push_str(&tail);
    text.into_bytes()
}

fn report(bytes: usize, messages: &[Vec<u8>], level: u8, takeover: bool) {
    let mut deflater = Deflater::new(level, 15);
    let mut payloads = vec![Vec::with_capacity(bytes * 2); messages.len()];
    let compress_us = best(|| {
        deflater.forget();
        for (message, payload) in messages.iter().zip(&mut payloads) {
            payload.clear();
            // What would not shrink goes out as it is.
            if !deflater.deflate(black_box(message), payload) {
                payload.extend_from_slice(message);
            }
            if !takeover {
                deflater.forget();
            }
        }
    });
    let mut out = Vec::with_capacity(bytes * 2);
    let compressed = |(payload, message): &(&Vec<u8>, &Vec<u8>)| payload.len() < message.len();
    let inflate_us = best(|| {
        let mut inflater = Inflater::default();
        for (payload, message) in payloads.iter().zip(messages).filter(compressed) {
            out.clear();
            let result = if takeover {
                inflater.inflate_next(black_box(payload), bytes * 2, &mut out)
            } else {
                inflater.inflate(black_box(payload), bytes * 2, &mut out)
            };
            assert!(result.is_ok() && out == *message);
        }
    });
    let before: usize = messages.iter().map(Vec::len).sum();
    let after: usize = payloads.iter().map(Vec::len).sum();
    println!(
        "| {} B | {level} | {} | {} | {:.0} % | {compress_us:.1} | {inflate_us:.1} |",
        before / messages.len(),
        if takeover { "kept" } else { "none" },
        after / messages.len(),
        100.0 - after as f64 * 100.0 / before as f64,
    );
}

/// Microseconds per message of the fastest round.
fn best(mut round: impl FnMut()) -> f64 {
    let rounds = (0..ROUNDS).map(|_| {
        let started = Instant::now();
        round();
        started.elapsed().as_secs_f64() * 1e6 / MESSAGES as f64
    });
    rounds.fold(f64::INFINITY, f64::min)
}
