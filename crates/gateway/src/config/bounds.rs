//! The `[limits]` section: one key for each bound of `hub::limits::Limits`, with the hub's own
//! default, so that the two can not drift apart.

use super::key::{Key, Profile};
use super::layer::Layer;
use super::typed::Section;
use super::value::{Kind, Value};
use hub::bounds::ATTACHMENTS_MAX;
use hub::limits::Limits;
use std::time::Duration;

/// Thirty days: beyond it a "limit" is a slip of the keyboard.
pub const TIME_MAX: Duration = Duration::from_secs(30 * 86_400);

/// How a bound is written.
#[derive(Clone, Copy, Debug)]
enum Unit {
    Time,
    Bytes,
    /// 0 = no bound.
    BytesOrNone,
    Count,
    /// 0 = no bound.
    CountOrNone,
    /// Parsers have room for so many in one packet.
    Attachments,
}

/// One bound as a key of the configuration.
#[derive(Debug)]
pub struct Bound {
    pub name: &'static str,
    pub kind: Kind,
    pub default: Value,
    pub doc: &'static str,
}

/// A field of `Limits` as a plain number: milliseconds, bytes or a count.
trait Number: Sized {
    const MAX: u64;
    fn number(&self) -> u64;
    fn from_number(number: u64) -> Option<Self>;
}

impl Number for Duration {
    const MAX: u64 = TIME_MAX.as_millis() as u64;
    fn number(&self) -> u64 {
        u64::try_from(self.as_millis()).unwrap_or(u64::MAX)
    }
    fn from_number(number: u64) -> Option<Self> {
        Some(Self::from_millis(number))
    }
}

macro_rules! integers {
    ($($integer:ty: $max:expr;)*) => {$(
        impl Number for $integer {
            const MAX: u64 = $max;
            fn number(&self) -> u64 {
                u64::try_from(*self).unwrap_or(u64::MAX)
            }
            fn from_number(number: u64) -> Option<Self> {
                Self::try_from(number).ok()
            }
        }
    )*};
}

integers! {
    u8: 255;
    u16: 65_535;
    u32: 4_294_967_295;
    usize: 1 << 40;
}

/// Names every field: a bound that is added to the hub and not here does not compile.
macro_rules! bounds {
    ($($name:ident: $unit:ident, $doc:literal;)*) => {
        /// Every bound, in the order of the hub's table.
        pub fn all() -> Vec<Bound> {
            let Limits { $($name),* } = Limits::default();
            vec![$(bound(stringify!($name), Unit::$unit, &$name, $doc)),*]
        }

        impl Section for Limits {
            fn keys() -> Vec<Key> {
                all().into_iter().map(Bound::into_key).collect()
            }

            fn read(layer: &Layer) -> Limits {
                let defaults = Limits::default();
                Limits { $($name: read(layer, stringify!($name)).unwrap_or(defaults.$name)),* }
            }
        }
    };
}

bounds! {
    handshake_timeout: Time, "A request head must be complete by then, else the connection is closed.";
    message_timeout: Time, "A WebSocket message or POST body that was begun must be complete by then.";
    close_timeout: Time, "A peer that does not answer our close frame is cut after this.";
    fragments_max: Count, "Fragments of one WebSocket message.";
    outbox_bytes_max: Bytes, "Unsent bytes per connection, beside one message that is larger; above it `slow_consumer` decides.";
    waiting_bytes_max: BytesOrNone, "Unsent bytes of the whole process, each event counted once per shard however many clients wait for it; 0 = any number. Above it, what may wait for one connection shrinks to 16 KiB.";
    attachments_max: Attachments, "Binary attachments of one Socket.IO packet.";
    poll_packets_max: Count, "Packets in one long-polling answer to a client that is not JavaScript's, by its User-Agent (python-engineio refuses more than 16).";
    post_packets_max: Count, "Packets in one POST body of a polling client.";
    rooms_per_socket_max: Count, "Rooms that one socket may be in.";
    room_name_bytes_max: Bytes, "Length of a room name.";
    namespace_refusals_max: Count, "Refused namespaces before the session is closed.";
    sockets_per_session_max: Count, "Namespaces that one session may be connected to.";
    acks_outstanding_max: Count, "Acknowledgements the server waits for, per shard.";
    asks_outstanding_max: Count, "Tokens being verified at a time, per shard; a client beyond it is refused.";
    ask_bytes_max: Bytes, "Bytes kept for all clients whose token is being verified, or about whom a handler has not decided, per shard.";
    gate_bytes_max: Bytes, "Bytes that one client may send to a namespace before its CONNECT is decided.";
    conns_per_address_max: CountOrNone, "Connections from one address (IPv6: one /64); 0 = any number. A newcomer more is closed with 1008; sessions that exist and health checks go on.";
    flood_rejections_max: Count, "Messages over a rate, less those accepted since, after which the session is closed with 1008.";
    conns_max: Count, "Connections of the process; above it newcomers get 503 with Retry-After. 48 more are kept for sessions that exist and for health checks.";
    mailbox_messages_max: Count, "Messages that may wait in the mailbox of one shard.";
    mailbox_bytes_max: Bytes, "Bytes of the messages that may wait in the mailbox of one shard.";
    journal_bytes_max: Bytes, "Bytes of events that the process keeps for clients that may come back (`recovery`); beyond it the oldest go, and who missed them is a new socket. As much again may be taken by sockets without a connection.";
    parked_sockets_max: Count, "Sockets without a connection that the process keeps for their clients; beyond it those that would end first make way.";
    takeover_contexts_max: Count, "WebSocket connections per shard that may keep a compression window (see `compression`); further ones compress each message on its own.";
    deliveries_per_turn: Count, "Deliveries a shard makes before it flushes and other connections have their turn.";
    rejections_per_turn: Count, "Rejected messages of one connection before other connections have their turn.";
    keep_alive_timeout: Time, "An HTTP connection without a request is closed after this; keep it longer than a heartbeat.";
    read_bytes_per_turn: Bytes, "Bytes read from one connection before the others have their turn.";
    tls_handshakes_per_turn: Count, "Steps of TLS handshakes after each turn; they also get no more time than the turn took, or one step.";
}

/// Keys whose time is longer than that.
pub fn too_long(layer: &Layer) -> Vec<String> {
    let keys = all()
        .into_iter()
        .map(|bound| format!("limits.{}", bound.name));
    let is_long =
        |key: &String| matches!(layer.value(key), Some(Value::Duration(time)) if *time > TIME_MAX);
    keys.filter(is_long).collect()
}

fn bound<T: Number>(name: &'static str, unit: Unit, default: &T, doc: &'static str) -> Bound {
    let number = default.number();
    let (kind, default) = match unit {
        Unit::Time => (
            Kind::Duration,
            Value::Duration(Duration::from_millis(number)),
        ),
        Unit::Bytes | Unit::BytesOrNone => (Kind::Size, Value::Size(number)),
        Unit::Count | Unit::CountOrNone => (
            Kind::Integer {
                min: u64::from(matches!(unit, Unit::Count)),
                max: T::MAX,
            },
            Value::Integer(number),
        ),
        Unit::Attachments => (
            Kind::Integer {
                min: 1,
                max: ATTACHMENTS_MAX as u64,
            },
            Value::Integer(number),
        ),
    };
    Bound {
        name,
        kind,
        default,
        doc,
    }
}

impl Bound {
    fn into_key(self) -> Key {
        let path = format!("limits.{}", self.name);
        let key = Key::with(path, self.kind, Some(self.default), self.doc);
        match self.name {
            "conns_per_address_max" => key.on(Profile::Public, "10"),
            _ => key,
        }
    }
}

fn read<T: Number>(layer: &Layer, name: &str) -> Option<T> {
    match layer.value(&format!("limits.{name}"))? {
        Value::Duration(duration) => T::from_number(duration.number()),
        Value::Size(number) | Value::Integer(number) => T::from_number(*number),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::layers::{Inputs, merge};

    #[test]
    fn defaults_rebuild_the_hubs_own_limits() {
        let (layer, _) = merge(&Inputs::default());
        assert_eq!(Limits::read(&layer), Limits::default());
    }

    #[test]
    fn a_changed_value_arrives_in_its_field() {
        let text = "[limits]\nconns_max = 7\nclose_timeout = \"250ms\"\n";
        let inputs = Inputs {
            file: Some(("s.toml".to_owned(), text.to_owned())),
            ..Inputs::default()
        };
        let limits = Limits::read(&merge(&inputs).0);
        assert_eq!(limits.conns_max, 7);
        assert_eq!(limits.close_timeout, Duration::from_millis(250));
        assert_eq!(limits.fragments_max, Limits::default().fragments_max);
    }

    /// Parsers refuse an eleventh attachment whatever is configured.
    #[test]
    fn more_attachments_than_parsers_take_were_configured() {
        let mut bounds = all().into_iter();
        let bound = bounds.find(|bound| bound.name == "attachments_max");
        let kind = bound.expect("a bound").kind;
        assert_eq!(kind.read_bare("10"), Ok(Value::Integer(10)));
        assert_eq!(
            kind.read_bare("11"),
            Err("a whole number from 1 to 10 is needed, not \"11\"".to_owned())
        );
    }
}
