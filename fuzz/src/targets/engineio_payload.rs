//! Polling payloads: as many packets as separators say, up to the first fault; base64 goes both
//! ways.
use wire::engineio::payload::{self, Packet, SEPARATOR};

pub fn run(body: &[u8]) {
    let Some(packets) = payload::split(body) else {
        assert!(std::str::from_utf8(body).is_err());
        return;
    };
    let (mut count, mut faults) = (0, 0);
    for packet in packets {
        count += 1;
        match packet {
            Ok(Packet::Text(..)) => {}
            Ok(Packet::Base64(text)) => check_base64(text),
            Err(()) => faults += 1,
        }
    }
    let parts = body.split(|byte| *byte == SEPARATOR).count();
    assert!(if faults == 0 {
        count == parts
    } else {
        faults == 1 && count <= parts
    });
}

fn check_base64(text: &str) {
    let mut bytes = Vec::new();
    if payload::decode_base64(text, &mut bytes).is_err() {
        assert!(bytes.is_empty());
        return;
    }
    let (mut again, mut written) = (Vec::new(), Vec::new());
    payload::write_binary(&mut written, &bytes);
    let written = std::str::from_utf8(&written[1..]).expect("base64 is ASCII");
    assert_eq!(payload::decode_base64(written, &mut again), Ok(()));
    assert_eq!(again, bytes);
}
