//! Polling payloads of protocol 3: each packet takes bytes, and one that is written again is read as it was.
use wire::engineio::payload::{self, SEPARATOR};
use wire::engineio::payload3::{self, Packet};
use wire::engineio::{PacketType, jsonp};

pub fn run(body: &[u8]) {
    let (mut rest, mut count) = (body, 0_usize);
    while let Some((packet, used)) = payload3::first(rest) {
        assert!(used > 0);
        let (_, behind) = rest.split_at(used);
        check(&packet);
        (rest, count) = (behind, count + 1);
    }
    assert!(payload3::exceeds(body, count.saturating_sub(1)) == (count > 0) || !rest.is_empty());
    if rest.is_empty() {
        assert!(!payload3::exceeds(body, count));
    }
    if let Some(payload) = jsonp::read_form(body) {
        // Bytes that are no UTF-8 become U+FFFD, which is as long as the `%xx` of one of them.
        assert!(payload.len() <= body.len());
    }
}

fn check(packet: &Packet<'_>) {
    let mut packets = Vec::new();
    match *packet {
        Packet::Empty => return,
        Packet::Text(_, text) if text.as_bytes().contains(&SEPARATOR) => return,
        Packet::Text(kind, text) => {
            packets.push(kind as u8);
            packets.extend_from_slice(text.as_bytes());
        }
        Packet::Binary(bytes) => payload::write_binary(&mut packets, bytes),
        Packet::Base64(text) => {
            let mut bytes = Vec::new();
            if payload::decode_base64(text, &mut bytes).is_err() {
                return;
            }
            payload::write_binary(&mut packets, &bytes);
        }
    }
    let behind = [PacketType::Noop as u8];
    packets.extend([SEPARATOR, behind[0]]);
    for takes_binary in [false, true] {
        let mut written = Vec::new();
        payload3::write(&mut written, &packets, takes_binary);
        let (again, used) = payload3::first(&written).expect("it was written here");
        assert_eq!(message(&again), message(packet));
        let last = payload3::first(&written[used..]);
        let last = last.map(|(packet, _)| message(&packet));
        assert_eq!(last, Some((Some(PacketType::Noop), Vec::new())));
    }
}

/// Type of a text packet, and the content.
fn message(packet: &Packet<'_>) -> (Option<PacketType>, Vec<u8>) {
    let mut bytes = Vec::new();
    match *packet {
        Packet::Empty => {}
        Packet::Text(kind, text) => return (Some(kind), text.into()),
        Packet::Binary(content) => bytes.extend_from_slice(content),
        Packet::Base64(text) => assert_eq!(payload::decode_base64(text, &mut bytes), Ok(())),
    }
    (None, bytes)
}
