//! Owns the question: how many users do what, and the load that follows from it.

use super::sheet::{Sheet, Term, term};
use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use serde::Serialize;

const SECONDS_PER_MINUTE: f64 = 60.0;
/// Engine.IO's and the plain protocol's ping interval, as configured by default.
const PING_INTERVAL_S: f64 = 25.0;
/// IPv4 without options, TCP with timestamps: a segment's headers.
const TCP_IP_BYTES: f64 = 52.0;
/// RFC 8446 §5.2: record header, inner type, authentication tag.
const TLS_RECORD_BYTES: f64 = 22.0;
/// A ping of Engine.IO (`2`) or an empty one of RFC 6455 as a frame, rounded up to the larger.
const PING_FRAME_BYTES: f64 = 3.0;

/// What clients speak; decides the bytes around a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Speech {
    SocketIo,
    Ws,
}

#[derive(Clone, Debug, PartialEq, Args, Serialize)]
pub struct Workload {
    /// Users in a month.
    #[arg(long, default_value_t = 100_000.0, value_name = "N")]
    pub users: f64,
    /// Share of them connected at the peak.
    #[arg(long, default_value_t = 0.2, value_name = "SHARE")]
    pub connected: f64,
    /// Average load of a month against its peak.
    #[arg(long, default_value_t = 0.4, value_name = "SHARE")]
    pub load_factor: f64,
    /// Messages that a connected user sends in a minute.
    #[arg(long, default_value_t = 2.0, value_name = "N")]
    pub messages_per_minute: f64,
    /// Members that receive each message.
    #[arg(long, default_value_t = 10.0, value_name = "N")]
    pub room: f64,
    /// Bytes of a message's content.
    #[arg(long, default_value_t = 200.0, value_name = "BYTES")]
    pub payload: f64,
    /// Every message is acknowledged to its sender.
    #[arg(long)]
    pub ack: bool,
    /// Minutes that a connection lasts.
    #[arg(long, default_value_t = 20.0, value_name = "MINUTES")]
    pub session_minutes: f64,
    /// What clients speak.
    #[arg(long, value_enum, default_value = "socket-io")]
    pub protocol: Speech,
    /// Nodes end TLS themselves.
    #[arg(long)]
    pub tls: bool,
}

/// The load at the peak.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Load {
    pub connections: f64,
    pub messages_per_s: f64,
    pub deliveries_per_s: f64,
    pub acks_per_s: f64,
    pub connects_per_s: f64,
    pub pings_per_s: f64,
    /// Towards clients, headers of every layer included.
    pub bytes_out_per_s: f64,
}

impl Workload {
    pub fn check(&self) -> Result<()> {
        let shares = [
            ("--connected", self.connected),
            ("--load-factor", self.load_factor),
        ];
        for (flag, share) in shares {
            if !(share > 0.0 && share <= 1.0) {
                bail!("cannot plan with {flag} {share}: it is a share, above 0 and at most 1");
            }
        }
        let least = [
            ("--users", self.users, 1.0),
            ("--messages-per-minute", self.messages_per_minute, 0.0),
            ("--room", self.room, 0.0),
            ("--payload", self.payload, 0.0),
            ("--session-minutes", self.session_minutes, 0.001),
        ];
        for (flag, value, least) in least {
            if !(value >= least && value.is_finite()) {
                bail!("cannot plan with {flag} {value}: it must be at least {least}");
            }
        }
        Ok(())
    }

    pub fn load(&self, sheet: &mut Sheet) -> Load {
        sheet.section("Load at the peak");
        let users = term(self.users, "users") * term(self.connected, "connected");
        let connections = sheet.reckon("connections", "", users);
        let connected = || term(connections, "connections");
        let a_minute =
            term(self.messages_per_minute, "/min") * term(1.0 / SECONDS_PER_MINUTE, "min/s");
        let messages_per_s = sheet.reckon("messages", "/s", connected() * a_minute);
        let deliveries = term(messages_per_s, "messages/s") * term(self.room, "members");
        let deliveries_per_s = sheet.reckon("deliveries", "/s", deliveries);
        let acks_per_s = if self.ack { messages_per_s } else { 0.0 };
        let session = term(self.session_minutes * SECONDS_PER_MINUTE, "s of a session");
        let connects_per_s = sheet.reckon("connects", "/s", connected() / session);
        let interval = term(PING_INTERVAL_S, "s");
        let pings_per_s = sheet.reckon("heartbeats", "/s", connected() / interval);
        let mut load = Load {
            connections,
            messages_per_s,
            deliveries_per_s,
            acks_per_s,
            connects_per_s,
            pings_per_s,
            bytes_out_per_s: 0.0,
        };
        load.bytes_out_per_s = self.bytes_out(&load, sheet);
        load
    }

    fn bytes_out(&self, load: &Load, sheet: &mut Sheet) -> f64 {
        sheet.section("Bandwidth towards clients at the peak (one segment a frame: no coalescing)");
        let (envelope, shape) = self.envelope();
        let header = frame_header_bytes(self.payload + envelope);
        let parts = [
            term(self.payload, "B payload"),
            term(envelope, shape),
            term(header, "B frame header"),
            term(TCP_IP_BYTES, "B TCP/IP"),
        ];
        let tls = self.tls.then(|| term(TLS_RECORD_BYTES, "B TLS"));
        let tls_bytes = tls.as_ref().map_or(0.0, |tls| tls.value);
        let delivery_bytes =
            sheet.reckon("a delivery", "B", Term::sum(parts.into_iter().chain(tls)));
        let small_bytes = PING_FRAME_BYTES + TCP_IP_BYTES + tls_bytes;
        let (pings, messages) = (load.pings_per_s, load.messages_per_s);
        let kinds = [
            ("deliveries", load.deliveries_per_s, delivery_bytes),
            (
                "heartbeats and acknowledgements",
                pings + load.acks_per_s,
                small_bytes,
            ),
            (
                "TCP's own acknowledgements of what clients send",
                messages + pings,
                TCP_IP_BYTES,
            ),
        ];
        let kinds = kinds.map(|(what, per_second, bytes)| {
            let bytes = term(per_second, "/s") * term(bytes, "B");
            term(sheet.reckon(what, "B/s", bytes), "B/s")
        });
        let bytes = sheet.reckon("together", "B/s", Term::sum(kinds));
        let megabits = term(bytes, "B/s") * term(8e-6, "Mbit/B");
        sheet.reckon("that is", "Mbit/s", megabits);
        bytes
    }

    /// Bytes around a payload, and how a line names them.
    fn envelope(&self) -> (f64, &'static str) {
        match self.protocol {
            Speech::SocketIo => (r#"42["message",]"#.len() as f64, "B Socket.IO envelope"),
            Speech::Ws => (
                r#"{"type":"message","payload":}"#.len() as f64,
                "B plain envelope",
            ),
        }
    }
}

/// RFC 6455 §5.2: of an unmasked frame.
fn frame_header_bytes(payload_bytes: f64) -> f64 {
    match payload_bytes {
        len if len < 126.0 => 2.0,
        len if len < 65_536.0 => 4.0,
        _ => 10.0,
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// 10,000 connections, 1,000 messages/s, 10,000 deliveries/s.
    pub fn round() -> Workload {
        Workload {
            users: 100_000.0,
            connected: 0.1,
            load_factor: 0.5,
            messages_per_minute: 6.0,
            room: 10.0,
            payload: 100.0,
            ack: false,
            session_minutes: 10.0,
            protocol: Speech::SocketIo,
            tls: false,
        }
    }

    #[test]
    fn a_round_load_is_as_reckoned_by_hand() {
        let load = round().load(&mut Sheet::default());
        assert_eq!(load.connections, 10_000.0);
        assert!((load.messages_per_s - 1_000.0).abs() < 1e-9);
        assert!((load.deliveries_per_s - 10_000.0).abs() < 1e-9);
        // 10,000 / 600 s, 10,000 / 25 s
        assert!((load.connects_per_s - 16.666_666).abs() < 1e-5);
        assert_eq!(load.pings_per_s, 400.0);
        // 100 + 14 + 2 + 52 = 168 B a delivery; 400 × 55 B pings; 1,400 × 52 B TCP acks
        let by_hand = 10_000.0 * 168.0 + 400.0 * 55.0 + 1_400.0 * 52.0;
        assert!((load.bytes_out_per_s - by_hand).abs() < 1e-6);
    }

    #[test]
    fn tls_and_acks_add_their_bytes() {
        let plain = round().load(&mut Sheet::default());
        let workload = Workload {
            ack: true,
            tls: true,
            ..round()
        };
        let more = workload.load(&mut Sheet::default());
        let acks = 1_000.0 * 77.0;
        let tls = 22.0 * (10_000.0 + 400.0);
        let difference = more.bytes_out_per_s - plain.bytes_out_per_s;
        assert!((difference - acks - tls).abs() < 1e-6, "{difference}");
    }

    #[test]
    fn frames_have_the_headers_of_their_size() {
        let headers = [125.0, 126.0, 65_535.0, 65_536.0].map(frame_header_bytes);
        assert_eq!(headers, [2.0, 4.0, 4.0, 10.0]);
    }

    #[test]
    fn what_cannot_be_is_refused_by_its_flag() {
        type Change = fn(&mut Workload);
        let cases: [(Change, &str); 3] = [
            (|workload| workload.connected = 1.5, "--connected 1.5"),
            (|workload| workload.users = 0.0, "--users 0"),
            (|workload| workload.payload = f64::NAN, "--payload NaN"),
        ];
        for (change, told) in cases {
            let mut workload = round();
            change(&mut workload);
            let error = workload.check().unwrap_err().to_string();
            assert!(error.contains(told), "{error}");
        }
        assert!(round().check().is_ok());
    }
}
