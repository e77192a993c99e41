//! Compressed messages: what goes in comes out, nothing breaks on noise, and nobody refers farther
//! back than was agreed on. The peer is flate2 itself with a window of the agreed size.

use flate2::{Decompress, FlushDecompress};
use proptest::collection::vec;
use proptest::prelude::*;
use wire::http::parse_head;
use wire::websocket::deflate::{Deflater, InflateError, Inflater};
use wire::websocket::extension::{Willing, negotiate};

/// Text with repetitions near and far, and some noise.
fn message() -> impl Strategy<Value = Vec<u8>> {
    let words = vec("[a-f]{1,9} |\"content\":|[0-9]{3}", 0..400)
        .prop_map(|words| words.concat().into_bytes());
    let far = (vec(any::<u8>(), 0..700), vec(any::<u8>(), 0..40_000))
        .prop_map(|(again, between)| [again.clone(), between, again].concat());
    prop_oneof![words, far, Just(vec![b'a'; 100_000])]
}

/// Reads one payload with a window of the given size, as a client of that size would.
fn read(decompress: &mut Decompress, payload: &[u8], bytes: usize) -> Vec<u8> {
    let mut input = payload.to_vec();
    input.extend([0, 0, 0xff, 0xff]);
    let mut out = Vec::with_capacity(bytes + 1);
    let before = decompress.total_in();
    decompress
        .decompress_vec(&input, &mut out, FlushDecompress::Sync)
        .expect("deflate data within its window");
    assert_eq!(decompress.total_in() - before, input.len() as u64);
    out
}

proptest! {
    #[test]
    fn messages_come_back_within_the_agreed_window(
        messages in vec(message(), 1..4), level in 1_u8..=9, bits in 9_u8..=15, takeover: bool,
    ) {
        let mut deflater = Deflater::new(level, bits);
        let mut client = Decompress::new_with_window_bits(false, bits);
        let (mut alone, mut following) = (Inflater::default(), Inflater::default());
        for message in &messages {
            let (mut payload, mut out) = (Vec::new(), Vec::new());
            if !deflater.deflate(message, &mut payload) {
                prop_assert!(payload.is_empty());
                continue;
            }
            prop_assert!(payload.len() < message.len());
            prop_assert_eq!(&read(&mut client, &payload, message.len()), message);
            let result = if takeover {
                following.inflate_next(&payload, message.len(), &mut out)
            } else {
                deflater.forget();
                alone.inflate(&payload, message.len(), &mut out)
            };
            prop_assert_eq!((result, &out), (Ok(()), message));
            if !takeover {
                out.clear();
                let over = alone.inflate(&payload, message.len() - 1, &mut out);
                prop_assert_eq!((over, out.len()), (Err(InflateError::TooBig), message.len()));
            }
        }
    }

    #[test]
    fn noise_stays_within_its_bounds_and_leaves_nothing_behind(
        noise in vec(any::<u8>(), 0..600), cut in any::<prop::sample::Index>(), bytes_max in 0_usize..5_000,
    ) {
        let text = b"hello hello hello hello".repeat(9);
        let mut good = Vec::new();
        prop_assert!(Deflater::new(6, 15).deflate(&text, &mut good));
        let mut torn = good.clone();
        torn.truncate(cut.index(good.len()));
        torn.extend(&noise);
        let mut inflater = Inflater::default();
        for payload in [&noise, &torn] {
            let mut out = Vec::new();
            let result = inflater.inflate(payload, bytes_max, &mut out);
            prop_assert!(out.len() <= bytes_max + 1 && out.capacity() <= bytes_max + 1);
            prop_assert_eq!(result == Err(InflateError::TooBig), out.len() > bytes_max);
            out.clear();
            prop_assert_eq!(inflater.inflate(&good, text.len(), &mut out), Ok(()));
            prop_assert_eq!(&out, &text);
            // A buffer that has room already is filled before it is looked at: only a fresh one shows the bound.
            let (mut kept, mut out) = (Inflater::default(), Vec::new());
            let result = kept.inflate_next(payload, bytes_max, &mut out);
            prop_assert!(out.len() <= bytes_max + 1);
            prop_assert_eq!(result == Err(InflateError::TooBig), out.len() > bytes_max);
        }
    }

    /// Pieces of offers in any order: an answer never says more than the client offered.
    #[test]
    fn offers_of_any_shape_are_judged(
        pieces in vec(prop_oneof![
            Just("permessage-deflate"), Just(";"), Just(","), Just("="), Just("\""), Just(" "), Just("\\"), Just("8"),
            Just("; server_max_window_bits=10"), Just("; client_max_window_bits"), Just("15"), Just("x"),
            Just("; server_no_context_takeover"), Just("; client_no_context_takeover"),
        ], 0..30),
        bits in 9_u8..=15,
    ) {
        let value = pieces.concat();
        let text = format!("GET / HTTP/1.1\r\nHost: a\r\nSec-WebSocket-Extensions: {value}\r\n\r\n");
        let Ok(Some(head)) = parse_head(text.as_bytes()) else { return Ok(()) };
        let willing = Willing {
            server_takeover: true,
            client_takeover: true,
            server_window_bits: bits,
            client_window_bits: bits,
        };
        if let Some(agreed) = negotiate(&head, &willing) {
            prop_assert!(value.contains("permessage-deflate"));
            prop_assert!(agreed.client_max_window_bits.is_none() || value.contains("client_max_window_bits"));
            prop_assert!(agreed.server_max_window_bits.is_none_or(|agreed| agreed <= bits.min(10)));
            prop_assert!(!agreed.server_no_context_takeover || value.contains("server_no_context_takeover"));
            let mut line = Vec::new();
            agreed.write_header(&mut line);
            prop_assert!(line.starts_with(b"Sec-WebSocket-Extensions: permessage-deflate") && line.ends_with(b"\r\n"));
        }
    }
}
