//! The `[limits]` section: one key for each bound of `hub::limits::Limits`, with the hub's own
//! default, so that the two can not drift apart.

use super::value::{Kind, Value};
use hub::limits::Limits;
use std::time::Duration;

/// How a bound is written.
#[derive(Clone, Copy, Debug)]
enum Unit {
    Time,
    Bytes,
    Count,
    /// 0 = no bound.
    CountOrNone,
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
    /// Thirty days: beyond it a "limit" is a slip of the keyboard.
    const MAX: u64 = 30 * 86_400_000;
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

        /// The hub's limits from the configured values.
        pub fn build(value_of: impl Fn(&'static str) -> Value) -> Limits {
            let defaults = Limits::default();
            Limits { $($name: read(&value_of(stringify!($name))).unwrap_or(defaults.$name)),* }
        }
    };
}

bounds! {
    handshake_timeout: Time, "A request head must be complete by then, else the connection is closed.";
    message_timeout: Time, "A WebSocket message or POST body that was begun must be complete by then.";
    close_timeout: Time, "A peer that does not answer our close frame is cut after this.";
    fragments_max: Count, "Fragments of one WebSocket message.";
    outbox_bytes_max: Bytes, "Unsent bytes per connection; above it `slow_consumer` decides.";
    attachments_max: Count, "Binary attachments of one Socket.IO packet.";
    poll_packets_max: Count, "Packets in one long-polling answer (python-engineio refuses more than 16).";
    post_packets_max: Count, "Packets in one POST body of a polling client.";
    rooms_per_socket_max: Count, "Rooms that one socket may be in.";
    room_name_bytes_max: Bytes, "Length of a room name.";
    namespace_refusals_max: Count, "Refused namespaces before the session is closed.";
    sockets_per_session_max: Count, "Namespaces that one session may be connected to.";
    acks_outstanding_max: Count, "Acknowledgements the server waits for, per shard.";
    asks_outstanding_max: Count, "Tokens being verified at a time, per shard; a client beyond it is refused.";
    conns_per_address_max: CountOrNone, "Connections from one address (IPv6: one /64); 0 = any number. One more is closed with 1008.";
    flood_rejections_max: Count, "Messages over a rate, less those accepted since, after which the session is closed with 1008.";
    conns_max: Count, "Connections of the process; above it new ones get 503 with Retry-After.";
    mailbox_messages_max: Count, "Messages that may wait in the mailbox of one shard.";
    takeover_contexts_max: Count, "WebSocket connections per shard that may keep a compression window (see `compression`); further ones compress each message on its own.";
    deliveries_per_turn: Count, "Deliveries a shard makes before it flushes and other connections have their turn.";
    keep_alive_timeout: Time, "An HTTP connection without a request is closed after this; keep it longer than a heartbeat.";
    read_bytes_per_turn: Bytes, "Bytes read from one connection before the others have their turn.";
}

fn bound<T: Number>(name: &'static str, unit: Unit, default: &T, doc: &'static str) -> Bound {
    let number = default.number();
    let (kind, default) = match unit {
        Unit::Time => (
            Kind::Duration,
            Value::Duration(Duration::from_millis(number)),
        ),
        Unit::Bytes => (Kind::Size, Value::Size(number)),
        Unit::Count | Unit::CountOrNone => (
            Kind::Integer {
                min: u64::from(matches!(unit, Unit::Count)),
                max: T::MAX,
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

fn read<T: Number>(value: &Value) -> Option<T> {
    match value {
        Value::Duration(duration) => T::from_number(duration.number().min(T::MAX)),
        Value::Size(number) | Value::Integer(number) => T::from_number(*number),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_rebuild_the_hubs_own_limits() {
        let bounds = all();
        let limits = build(|name| {
            let bound = bounds.iter().find(|bound| bound.name == name).expect(name);
            bound.default.clone()
        });
        assert_eq!(limits, Limits::default());
    }

    #[test]
    fn a_changed_value_arrives_in_its_field() {
        let limits = build(|name| match name {
            "conns_max" => Value::Integer(7),
            "close_timeout" => Value::Duration(Duration::from_millis(250)),
            other => {
                all()
                    .into_iter()
                    .find(|bound| bound.name == other)
                    .expect(other)
                    .default
            }
        });
        assert_eq!(limits.conns_max, 7);
        assert_eq!(limits.close_timeout, Duration::from_millis(250));
        assert_eq!(limits.fragments_max, Limits::default().fragments_max);
    }
}
