//! Events by which the gateway itself speaks to clients. Clients must be able to trust them, so built-in rules relay no event
//! of these names from one client to others.

/// The process stops. The event says when to come back.
pub const SHUTDOWN: &str = "SERVER_SHUTDOWN";
/// The token ends soon.
pub const EXPIRING: &str = "token-expiring";
/// A client shows a new token by this event, and is answered by it.
pub const REFRESH: &str = "token-refresh";
/// A message of the client was not carried out, or its session ends.
pub const ERROR: &str = "error";
/// How many are in a room.
pub const PRESENCE: &str = "presence";
/// Members that came into a room and left it. A client asks by this event who is there.
pub const WHO: &str = "sockeye:presence";
/// A client that may come back misses messages, although it stayed connected.
pub const GAP: &str = "sockeye:gap";
/// What was said in a room before the client joined it.
pub const HISTORY: &str = "history";

/// The body of an event is elsewhere, because it is large: its argument says where.
pub const LARGE: &str = "large_message";

/// Whether clients take an event of that name for the gateway's own word.
pub fn is_notice(event: &str) -> bool {
    matches!(
        event,
        SHUTDOWN | EXPIRING | REFRESH | ERROR | PRESENCE | WHO | GAP | HISTORY | LARGE
    )
}

/// Whether an event has a token or the signed address of a body: anybody who has such a one may use it, so it is shown to nobody.
pub fn has_secret(event: &str, args: &str) -> bool {
    event == REFRESH || event == LARGE || args.contains(LARGE)
}
