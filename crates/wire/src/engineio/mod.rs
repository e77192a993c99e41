//! Engine.IO protocol 4: packets, the open packet, request errors. Polling payloads are in
//! [`payload`], requests in `request`. Where protocol 3 differs is in [`payload3`] and [`jsonp`], frames of WebTransport are in [`webtransport`]. Sessions, heartbeats and
//! upgrades are not a codec's business.

pub mod jsonp;
pub mod payload;
pub mod payload3;
mod request;
pub mod webtransport;

pub use request::{Query, RequestError, Revision, Transport};

use crate::json;

/// First character of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum PacketType {
    /// Handshake data, server to client.
    Open = b'0',
    /// The session ends.
    Close = b'1',
    /// Heartbeat, server to client.
    Ping = b'2',
    /// Answer to a ping.
    Pong = b'3',
    /// Data for the layer above.
    Message = b'4',
    /// The client moves to the new transport.
    Upgrade = b'5',
    /// Ends a poll without data.
    Noop = b'6',
}

impl PacketType {
    /// The type whose digit `b` is.
    #[inline]
    pub fn from_byte(b: u8) -> Option<Self> {
        Some(match b {
            b'0' => Self::Open,
            b'1' => Self::Close,
            b'2' => Self::Ping,
            b'3' => Self::Pong,
            b'4' => Self::Message,
            b'5' => Self::Upgrade,
            b'6' => Self::Noop,
            _ => return None,
        })
    }
}

/// Splits the text of one packet into its type and the rest. `None` is a parse error: unknown digit
/// or empty packet. HOT PATH: allocates nothing.
#[inline]
pub fn parse_text(text: &str) -> Option<(PacketType, &str)> {
    let kind = PacketType::from_byte(*text.as_bytes().first()?)?;
    Some((kind, text.get(1..)?))
}

/// What the server tells a new client.
#[derive(Clone, Copy, Debug)]
pub struct Open<'a> {
    /// Session id.
    pub sid: &'a str,
    /// Transports worth upgrading to.
    pub upgrades: &'a [&'a str],
    /// Milliseconds from a pong to the next ping.
    pub ping_interval_ms: u64,
    /// Milliseconds the pong may take.
    pub ping_timeout_ms: u64,
    /// Bytes of the longest message or POST body.
    pub max_payload: u64,
}

impl Open<'_> {
    /// Appends the packet, type digit included, keys in the order of the reference server.
    pub fn write(&self, out: &mut Vec<u8>) {
        let mut digits = itoa::Buffer::new();
        out.extend_from_slice(b"0{\"sid\":");
        json::quote(out, self.sid);
        out.extend_from_slice(b",\"upgrades\":[");
        for (index, name) in self.upgrades.iter().enumerate() {
            if index > 0 {
                out.push(b',');
            }
            json::quote(out, name);
        }
        out.push(b']');
        for (key, value) in [
            ("pingInterval", self.ping_interval_ms),
            ("pingTimeout", self.ping_timeout_ms),
            ("maxPayload", self.max_payload),
        ] {
            out.push(b',');
            json::quote(out, key);
            out.push(b':');
            out.extend_from_slice(digits.format(value).as_bytes());
        }
        out.push(b'}');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_a_digit_and_the_rest() {
        let cases = [
            ("2probe", Some((PacketType::Ping, "probe"))),
            ("3", Some((PacketType::Pong, ""))),
            ("4ü", Some((PacketType::Message, "ü"))),
            ("0{}", Some((PacketType::Open, "{}"))),
            ("1", Some((PacketType::Close, ""))),
            ("5", Some((PacketType::Upgrade, ""))),
            ("6", Some((PacketType::Noop, ""))),
            ("7", None),
            ("b", None),
            ("ü", None),
            ("", None),
        ];
        for (text, expected) in cases {
            assert_eq!(parse_text(text), expected, "{text}");
        }
        for byte in 0..=u8::MAX {
            let expected = (b'0'..=b'6').contains(&byte).then_some(byte);
            assert_eq!(PacketType::from_byte(byte).map(|kind| kind as u8), expected);
        }
    }

    #[test]
    fn the_open_packet_is_that_of_the_reference_server() {
        let mut open = Open {
            sid: "n2tYsQdc0rQqRtH-AABg",
            upgrades: &["websocket"],
            ping_interval_ms: 300,
            ping_timeout_ms: 200,
            max_payload: 1_000_000,
        };
        let mut out = Vec::new();
        open.write(&mut out);
        assert_eq!(
            String::from_utf8_lossy(&out),
            concat!(
                r#"0{"sid":"n2tYsQdc0rQqRtH-AABg","upgrades":["websocket"],"#,
                r#""pingInterval":300,"pingTimeout":200,"maxPayload":1000000}"#
            )
        );
        open.upgrades = &[];
        out.clear();
        open.write(&mut out);
        assert!(String::from_utf8_lossy(&out).contains(r#""upgrades":[],"pingInterval""#));
    }
}
