//! What a test client is to hear, and for how long.

use crate::api::http::Query;
use crate::api::problem::Problem;
use identity::keys::{Caller, Scope};
use std::time::Duration;

/// The operators' listener ends no answer before.
const SECONDS_MAX: u64 = 600;
const SECONDS: u64 = 300;
const REASON_CHARS_MAX: usize = 200;
const KNOWN: [&str; 4] = ["namespace", "room", "seconds", "reason"];

/// An order for a test client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Order {
    pub(super) namespace: String,
    /// `None`: it hears what everybody in the namespace does.
    pub(super) room: Option<String>,
    seconds: u64,
    reason: String,
}

impl Order {
    /// Reads the query of a caller, who may not hear everything.
    pub(super) fn read(caller: &Caller, query: Option<&str>) -> Result<Self, Problem> {
        let query = Query::read(query, &KNOWN)?;
        let text = |name: &str| query.get(name).unwrap_or_default().to_owned();
        let room = Some(text("room")).filter(|room| !room.is_empty());
        for scope in needed(room.is_some()) {
            if !caller.may(*scope) {
                return Err(Problem::without_scope(caller, *scope));
            }
        }
        let namespace = Some(text("namespace")).filter(|name| !name.is_empty());
        let namespace = namespace.unwrap_or_else(|| "/".to_owned());
        if !caller.may_in(&namespace) {
            let detail = format!("the key {:?} is not for this namespace", caller.name());
            return Err(Problem::field("namespace", detail));
        }
        let seconds = query.parsed("seconds", "a whole number")?;
        let seconds = seconds.unwrap_or(SECONDS);
        if !(1..=SECONDS_MAX).contains(&seconds) {
            let detail = format!("{seconds} is not between 1 and {SECONDS_MAX}");
            return Err(Problem::field("seconds", detail));
        }
        let reason = text("reason").trim().to_owned();
        if !(1..=REASON_CHARS_MAX).contains(&reason.chars().count()) {
            let detail = format!(
                "a test client hears what others say: give a reason in 1 to {REASON_CHARS_MAX} letters; the audit keeps it"
            );
            return Err(Problem::field("reason", detail));
        }
        Ok(Self {
            namespace,
            room,
            seconds,
            reason,
        })
    }

    /// Whether a caller may still hear what it asked for.
    pub(super) fn is_for(&self, caller: &Caller) -> bool {
        let scopes = needed(self.room.is_some());
        scopes.iter().all(|scope| caller.may(*scope)) && caller.may_in(&self.namespace)
    }

    pub(super) fn time(&self) -> Duration {
        Duration::from_secs(self.seconds)
    }

    /// For people: the audit and the log.
    pub(super) fn words(&self) -> String {
        let of = match &self.room {
            Some(room) => format!("room {room}"),
            None => "the namespace".to_owned(),
        };
        format!("{of}, because: {}", self.reason)
    }
}

/// It hears arguments as they are, and is put into the room by the caller.
fn needed(has_room: bool) -> &'static [Scope] {
    match has_room {
        true => &[Scope::Payload, Scope::Members],
        false => &[Scope::Payload],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::callers::{caller, limited};

    fn read(caller: &Caller, query: &str) -> Result<Order, String> {
        Order::read(caller, Some(query)).map_err(|problem| problem.message())
    }

    #[test]
    fn an_order_is_for_a_time_and_a_reason() {
        let ops = caller("ops");
        let order = read(&ops, "room=den&reason=case%207").expect("an order");
        assert_eq!(order.words(), "room den, because: case 7");
        assert_eq!((&*order.namespace, order.seconds), ("/", SECONDS));
        for (query, why) in [
            ("room=den", "reason: "),
            ("room=den&reason=%20", "reason: "),
            ("reason=x&seconds=601", "seconds: "),
            ("reason=x&seconds=0", "seconds: "),
            ("reason=x&user=ada", "user: "),
        ] {
            let refused = read(&ops, query).expect_err(query);
            assert!(refused.starts_with(why), "{query}: {refused}");
        }
    }

    #[test]
    fn who_may_not_see_payload_or_put_sockets_into_rooms_hears_nothing() {
        let (hears, joins) = (
            limited("hears", &["trace:payload", "/lab"]),
            limited("joins", &["trace:payload", "members", "/lab"]),
        );
        let everybody = read(&hears, "namespace=/lab&reason=x").expect("all hear that");
        assert!(everybody.is_for(&joins) && !everybody.is_for(&limited("x", &["read"])));
        for (caller, query, why) in [
            (&hears, "namespace=/lab&room=den&reason=x", "\"members\""),
            (&joins, "room=den&reason=x", "not for this namespace"),
            (&limited("reads", &["read"]), "reason=x", "trace:payload"),
        ] {
            let refused = read(caller, query).expect_err(query);
            assert!(refused.contains(why), "{query}: {refused}");
        }
        let order = read(&joins, "namespace=/lab&room=den&reason=x").expect("an order");
        assert!(order.is_for(&joins) && !order.is_for(&hears));
    }
}
