//! Owns the question: how many users do what, and the load that follows from it.

use super::range::{AtLeast0, Positive, Share};
use super::sheet::{Figure, Sheet, Term, figure};
use clap::{Args, ValueEnum};
use serde::Serialize;

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

#[derive(Clone, Debug, Args, Serialize)]
pub struct Workload {
    /// Users in a month.
    #[arg(long, default_value = "100000", value_name = "N")]
    pub users: Positive,
    /// Share of them connected at the peak.
    #[arg(long, default_value = "0.2", value_name = "SHARE")]
    pub connected: Share,
    /// Average load of a month against its peak.
    #[arg(long, default_value = "0.4", value_name = "SHARE")]
    pub load_factor: Share,
    /// Messages that a connected user sends in a minute.
    #[arg(long, default_value = "2", value_name = "N")]
    pub messages_per_minute: AtLeast0,
    /// Members that receive each message.
    #[arg(long, default_value = "10", value_name = "N")]
    pub room: AtLeast0,
    /// Bytes of a message's content.
    #[arg(long, default_value = "200", value_name = "BYTES")]
    pub payload: AtLeast0,
    /// Every message is acknowledged to its sender.
    #[arg(long)]
    pub ack: bool,
    /// Minutes that a connection lasts.
    #[arg(long, default_value = "20", value_name = "MINUTES")]
    pub session_minutes: Positive,
    /// What clients speak.
    #[arg(long, value_enum, default_value = "socket-io")]
    pub protocol: Speech,
    /// Nodes end TLS themselves.
    #[arg(long)]
    pub tls: bool,
}

/// The load at the peak.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Load {
    pub connections: Figure,
    pub messages_per_s: Figure,
    pub deliveries_per_s: Figure,
    pub acks_per_s: Figure,
    pub connects_per_s: Figure,
    pub pings_per_s: Figure,
    /// Towards clients, headers of every layer included.
    pub bytes_out_per_s: Figure,
}

impl Workload {
    pub fn load(&self, sheet: &mut Sheet) -> Load {
        sheet.section("Load at the peak");
        let users = figure(*self.users, "users") * figure(*self.connected, "connected");
        let connections = sheet.derive("connections", "connections", users);
        let rate = figure(*self.messages_per_minute, "/min") / figure(60.0, "s/min");
        let messages_per_s = sheet.derive("messages", "messages/s", connections * rate);
        let deliveries = messages_per_s * figure(*self.room, "members");
        let deliveries_per_s = sheet.derive("deliveries", "deliveries/s", deliveries);
        let session = figure(*self.session_minutes * 60.0, "s of a session");
        let connects_per_s = sheet.derive("connects", "connects/s", connections / session);
        let interval = figure(PING_INTERVAL_S, "s");
        let pings_per_s = sheet.derive("heartbeats", "heartbeats/s", connections / interval);
        let acks = messages_per_s.value * f64::from(u8::from(self.ack));
        let mut load = Load {
            connections,
            messages_per_s,
            deliveries_per_s,
            acks_per_s: figure(acks, "acks/s"),
            connects_per_s,
            pings_per_s,
            bytes_out_per_s: figure(0.0, "B/s"),
        };
        load.bytes_out_per_s = self.bytes_out(&load, sheet);
        load
    }

    fn bytes_out(&self, load: &Load, sheet: &mut Sheet) -> Figure {
        sheet.section("Bandwidth towards clients at the peak (one segment a frame: no coalescing)");
        let envelope = self.envelope();
        let header = frame_header_bytes(*self.payload + envelope.value);
        let tls = self.tls.then(|| figure(TLS_RECORD_BYTES, "B TLS"));
        let tcp_ip = figure(TCP_IP_BYTES, "B TCP/IP");
        let mut small = vec![figure(PING_FRAME_BYTES, "B frame"), tcp_ip];
        let mut whole = vec![
            figure(*self.payload, "B payload"),
            envelope,
            figure(header, "B frame header"),
            tcp_ip,
        ];
        small.extend(tls);
        whole.extend(tls);
        let whole = sheet.derive("a delivery", "B", Term::sum(whole));
        let small = sheet.derive("a heartbeat or an acknowledgement", "B", Term::sum(small));
        let answers = load.pings_per_s + load.acks_per_s;
        let answers = sheet.derive("heartbeats and acknowledgements", "/s", answers);
        let heard = load.messages_per_s + load.pings_per_s;
        let heard = sheet.derive("messages and heartbeats of clients", "/s", heard);
        let kinds = [
            ("for deliveries", load.deliveries_per_s, whole),
            ("for heartbeats and acknowledgements", answers, small),
            ("for TCP's acknowledgements", heard, tcp_ip),
        ];
        let kinds = kinds.map(|(what, rate, each)| sheet.derive(what, "B/s", rate * each));
        let bytes = sheet.derive("together", "B/s", Term::sum(kinds));
        sheet.derive("that is", "Mbit/s", bytes * figure(8e-6, "Mbit/B"));
        bytes
    }

    /// Bytes around a payload.
    fn envelope(&self) -> Figure {
        let (shape, name) = match self.protocol {
            Speech::SocketIo => (r#"42["message",]"#, "B Socket.IO envelope"),
            Speech::Ws => (r#"{"type":"message","payload":}"#, "B plain envelope"),
        };
        figure(shape.len() as f64, name)
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
