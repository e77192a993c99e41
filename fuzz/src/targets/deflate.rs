//! Compressed messages and their negotiation: noise stays within its bound and leaves nothing behind for the next message,
//! messages come back, and an answer says nothing that was not offered.
//! Input: level, window, bound, length of a header value, the value, then a message or a payload.
use wire::http::parse_head;
use wire::websocket::deflate::{Deflater, InflateError, Inflater};
use wire::websocket::extension::{Willing, negotiate};

const GOOD: &[u8] = b"a message of somebody else, somebody else, somebody else";

pub fn run(input: &[u8]) {
    let Some((&[level, bits, bound, offer], rest)) = input.split_first_chunk::<4>() else {
        return;
    };
    let (value, payload) = rest.split_at(rest.len().min(usize::from(offer)));
    judge(value);
    read(payload, usize::from(bound) * 64);
    come_back(payload, level, bits);
}

fn judge(value: &[u8]) {
    let mut text = b"GET / HTTP/1.1\r\nHost: a\r\nSec-WebSocket-Extensions: ".to_vec();
    text.extend(value);
    text.extend(b"\r\n\r\n");
    let Ok(Some(head)) = parse_head(&text) else {
        return;
    };
    let willing = Willing {
        server_takeover: true,
        client_takeover: true,
        server_window_bits: 12,
        client_window_bits: 11,
    };
    let Some(agreed) = negotiate(&head, &willing) else {
        return;
    };
    let value = String::from_utf8_lossy(&text);
    assert!(value.contains("permessage-deflate"));
    for (said, name) in [
        (
            agreed.server_no_context_takeover,
            "server_no_context_takeover",
        ),
        (
            agreed.client_no_context_takeover,
            "client_no_context_takeover",
        ),
        (
            agreed.server_max_window_bits.is_some(),
            "server_max_window_bits",
        ),
        (
            agreed.client_max_window_bits.is_some(),
            "client_max_window_bits",
        ),
    ] {
        assert!(!said || value.contains(name), "{name}");
    }
    assert!(
        agreed
            .server_max_window_bits
            .is_none_or(|bits| (9..=12).contains(&bits))
    );
    assert!(
        agreed
            .client_max_window_bits
            .is_none_or(|bits| (8..=11).contains(&bits))
    );
}

fn read(payload: &[u8], bytes_max: usize) {
    let (mut inflater, mut out) = (Inflater::default(), Vec::new());
    let result = inflater.inflate(payload, bytes_max, &mut out);
    assert!(out.len() <= bytes_max + 1);
    assert_eq!(result == Err(InflateError::TooBig), out.len() > bytes_max);
    let mut good = Vec::new();
    assert!(Deflater::new(6, 15).deflate(GOOD, &mut good));
    out.clear();
    assert_eq!(inflater.inflate(&good, GOOD.len(), &mut out), Ok(()));
    assert_eq!(out, GOOD);
    let mut kept = Inflater::default();
    for _ in 0..2 {
        out.clear();
        let result = kept.inflate_next(payload, bytes_max, &mut out);
        assert_eq!(result == Err(InflateError::TooBig), out.len() > bytes_max);
        if result.is_err() {
            break;
        }
    }
}

fn come_back(message: &[u8], level: u8, bits: u8) {
    let mut deflater = Deflater::new(level, bits);
    let mut inflater = Inflater::default();
    for piece in message.chunks(3_000).chain([message]) {
        let (mut payload, mut out) = (Vec::new(), Vec::new());
        if deflater.deflate(piece, &mut payload) {
            assert!(payload.len() < piece.len());
            assert_eq!(
                inflater.inflate_next(&payload, piece.len(), &mut out),
                Ok(())
            );
            assert_eq!(out, piece);
        }
    }
}
