//! The page `docs/limits.md`: every limit with its default, what the peer sees, and the metric. Bounds come from their own
//! table; the rest are keys of other sections and what is fixed.

use super::bounds;
use super::keys::KEYS;
use super::units::format_size;
use control::identity::TOKEN_BYTES_MAX;
use control::{admin, flood, page};
use hub::limits::{
    DEPTH_MAX, HEAD_BYTES_MAX, HEADERS_MAX, HISTORY_BYTES_MAX, HISTORY_EVENTS_MAX,
    HISTORY_ROOMS_MAX, HISTORY_TOTAL_BYTES_MAX, PROXY_HEADER_BYTES_MAX, TARGET_BYTES_MAX,
};
use std::fmt::Write as _;
use std::time::Duration;

const INTRO: &str = "# Limits

Nothing that a peer sends makes the gateway use memory or time without bound. Here are the limits, each with its default (and that of the
profiles that have one of their own), what the peer sees that meets it, and the counter that shows it (`sockeye_limit_hits_total{limit=...}`
unless another name is given).
";

/// Limits that are keys of other sections: key, what it bounds, what the peer sees, metric.
const OTHERS: &[(&str, &str, &str, &str)] = &[
    (
        "socketio.max_http_buffer_size",
        "Bytes of a Socket.IO client's message, also after inflating.",
        "close 1009; 413 for a POST",
        "`payload`",
    ),
    (
        "plain.max_payload",
        "Bytes of a plain client's message, also after inflating.",
        "close 1009",
        "`payload`",
    ),
    (
        "socketio.connect_timeout",
        "Time until a session has joined a namespace.",
        "close 4003",
        "`connect_timeout`",
    ),
    (
        "socketio.upgrade_timeout",
        "Time for an upgrade from polling to WebSocket.",
        "the WebSocket is closed, the session goes on polling",
        "-",
    ),
    (
        "socketio.ping_timeout",
        "Time to answer a ping.",
        "close 4000 `ping timeout`",
        "`sockeye_closes_total{reason=\"ping_timeout\"}`",
    ),
    (
        "rates.session",
        "Messages of one session.",
        RATED,
        "`rate`, `sockeye_rate_limited_total{scope=\"session\"}`",
    ),
    (
        "rates.user",
        "Messages of one user over all connections and shards.",
        RATED,
        "`rate`, `sockeye_rate_limited_total{scope=\"user\"}`",
    ),
    (
        "rates.address",
        "Messages from one address over all connections and shards.",
        RATED,
        "`rate`, `sockeye_rate_limited_total{scope=\"address\"}`",
    ),
    (
        "rates.connects",
        "New sessions from one address.",
        "429 with Retry-After",
        "`rate`, `sockeye_rate_limited_total{scope=\"connects\"}`",
    ),
    (
        "namespaces.*.events.*.rate",
        "One event of one session in that namespace, also if it leaves and comes back.",
        RATED,
        "`rate`, `sockeye_rate_limited_total{scope=\"event\"}`",
    ),
    (
        "admission.turn_max",
        "Mean duration of a turn while newcomers are let in.",
        BUSY,
        "`admission_turn`",
    ),
    (
        "admission.ask_max",
        "Mean time to verify a token while newcomers are let in.",
        BUSY,
        "`admission_ask`",
    ),
    (
        "admission.memory_percent_max",
        "Memory in use while newcomers are let in.",
        BUSY,
        "`admission_memory`",
    ),
    (
        "admission.memory_percent_shed",
        "Memory in use beyond which the slowest readers go.",
        "close 1013",
        "`memory_shed`",
    ),
    (
        "auth.timeout",
        "Time to verify a token.",
        "refused: `Authentication unavailable`",
        "`ask_timeout`",
    ),
    (
        "pages.rate",
        "Pages that one address (IPv6: one /64) may ask for.",
        "429 with Retry-After",
        "`sockeye_http_refused_total{part=\"pages\"}`",
    ),
    (
        "admin.conns_max",
        "Connections of operators at once.",
        "the connection that was silent for longest is closed",
        "-",
    ),
];

const RATED: &str = "Socket.IO: event `error` `{\"message\":\"Rate limit exceeded: 10 messages/second\"}`; plain: \
                     `{\"error\":\"RATE_LIMIT_EXCEEDED\",\"retryAfter\":1}`; the message is dropped, its ack `{\"error\":…}`";
const BUSY: &str = "newcomers: 503 with Retry-After; sessions that exist go on";

/// How exact the rates of users and addresses are.
const LOTS: &str = "
`rates.user` and `rates.address` are counted in one table for all shards. Below 512 events each message is booked there before it passes. For
larger rates a session books several at a time while more than half of the rate is left: between two bookings up to one part in 256 of the
smaller of both rates passes, 15 messages at most and never more than the session has paid for so far. Below half every message is booked, and after a refusal each
is checked until one passes. So a single session meets the rate to the message; many sessions together may pass it by those up to 15 messages of
each that was connected while more than half was left. They are charged at the session's next booking, when it leaves its namespace, or when
it ends; what is owed is one more window at most. A message that one of these rates refuses costs none of them anything; one that is over its
event's own rate, or that a rule refuses, has cost them. A CONNECT over one of them is answered by CONNECT_ERROR with the same message.
";

/// What else is fixed: limit, value, what the peer sees, metric.
const FIXED: &[(&str, &str, &str, &str)] = &[
    (
        "bytes sent after the end of a connection",
        "256 KiB",
        "no longer read",
        "`ignored`",
    ),
    (
        "packets of one POST body before others have their turn",
        "1,024",
        "nothing: the rest is taken in later",
        "-",
    ),
    (
        "token refreshes of one session",
        "30/60s, or as many as `sockets_per_session_max`",
        "`Invalid token`",
        "-",
    ),
    (
        "replays of history to one session, in each namespace; all rooms it is put into by joining that count as one",
        "20/s",
        "it joins without history",
        "-",
    ),
    (
        "characters of a chat message",
        "1,000",
        "event `error` `{\"message\":\"Invalid message payload\"}`",
        "-",
    ),
];

/// What is fixed in a request's head, in the codec's own words.
fn head_rows() -> [(&'static str, String, &'static str); 3] {
    [
        (
            "bytes of a request head",
            format_size(HEAD_BYTES_MAX as u64),
            "431",
        ),
        (
            "bytes of its target",
            format_size(TARGET_BYTES_MAX as u64),
            "414",
        ),
        ("its header lines", HEADERS_MAX.to_string(), "431"),
    ]
}

type Row = (&'static str, String, &'static str, &'static str);

/// What is fixed in the data plane, in the words of those who enforce it: limit, value, what the peer sees, metric.
fn hub_rows() -> [Row; 4] {
    let of_room = format!("{HISTORY_EVENTS_MAX}, {}", size(HISTORY_BYTES_MAX));
    let (rooms, bytes) = (HISTORY_ROOMS_MAX, size(HISTORY_TOTAL_BYTES_MAX));
    let of_shard = format!("{}, {bytes}", grouped(rooms));
    [
        (
            "bytes of a PROXY protocol header",
            size(PROXY_HEADER_BYTES_MAX),
            "the connection is closed",
            "-",
        ),
        (
            "levels of JSON or MessagePack",
            DEPTH_MAX.to_string(),
            "Socket.IO: close 4500 parse error; plain: `INVALID_MESSAGE_FORMAT`",
            "`sockeye_closes_total{reason=\"parse_error\"}`",
        ),
        (
            "events and bytes of a room's history",
            of_room,
            "the oldest go",
            "-",
        ),
        (
            "rooms and bytes of a shard's history",
            of_shard,
            "the room written least recently goes",
            "-",
        ),
    ]
}

/// The same in the control plane.
fn control_rows() -> [Row; 6] {
    let both = |head: Duration, all: Duration| format!("{} s, {} s", head.as_secs(), all.as_secs());
    [
        (
            "bytes of a token",
            size(TOKEN_BYTES_MAX),
            "`Invalid token`",
            "`sockeye_auth_tokens_total{result=\"too_long\"}`",
        ),
        (
            "connections that ask for pages at once",
            grouped(page::CONNS_MAX),
            "503 with Retry-After",
            "-",
        ),
        (
            "time for the head of their request, and for all of it",
            both(page::HEAD_TIMEOUT, page::CONN_TIMEOUT),
            "the connection is closed",
            "-",
        ),
        (
            "time for the head of an operator's request, and age of the connection",
            both(admin::HEAD_TIMEOUT, admin::AGE_MAX),
            "the connection is closed",
            "-",
        ),
        (
            "bytes of an operator's order",
            size(admin::BODY_BYTES_MAX),
            "413",
            "-",
        ),
        (
            "lines of the log of one kind that strangers can cause",
            format!("{}/{}s", flood::LINES, flood::FLOOD_WINDOW.as_secs()),
            "nothing",
            "`sockeye_log_lines_suppressed_total`",
        ),
    ]
}

fn size(bytes: usize) -> String {
    format_size(bytes as u64)
}

/// `1,024`.
fn grouped(number: usize) -> String {
    match number / 1_000 {
        0 => number.to_string(),
        thousands => format!("{},{:03}", grouped(thousands), number % 1_000),
    }
}

pub fn markdown() -> String {
    let mut page =
        String::from("<!-- Made by `cargo xtask gen` from crates/gateway/src/config. -->\n");
    page.push_str(INTRO);
    page.push_str("\n## Section `[limits]`\n\n| key | default | bounds | what the peer sees | metric |\n|---|---|---|---|---|\n");
    for bound in bounds::all() {
        let metric = match bound.metric {
            "-" => "-".to_owned(),
            label => format!("`{label}`"),
        };
        let _ = writeln!(
            page,
            "| `{}` | {} | {} | {} | {metric} |",
            bound.name,
            default(&format!("limits.{}", bound.name)),
            bound.doc,
            bound.peer,
        );
    }
    page.push_str("\n## Other sections\n\n| key | default | bounds | what the peer sees | metric |\n|---|---|---|---|---|\n");
    for (path, bounds, peer, metric) in OTHERS {
        let _ = writeln!(
            page,
            "| `{path}` | {} | {bounds} | {peer} | {metric} |",
            default(path)
        );
    }
    page.push_str(LOTS);
    page.push_str(
        "\n## Fixed\n\n| limit | value | what the peer sees | metric |\n|---|---|---|---|\n",
    );
    for (limit, value, peer) in head_rows() {
        let _ = writeln!(page, "| {limit} | {value} | {peer} | `head_bytes` |");
    }
    for (limit, value, peer, metric) in hub_rows().into_iter().chain(control_rows()) {
        let _ = writeln!(page, "| {limit} | {value} | {peer} | {metric} |");
    }
    for (limit, value, peer, metric) in FIXED {
        let _ = writeln!(page, "| {limit} | {value} | {peer} | {metric} |");
    }
    page
}

/// The default, and what profiles have instead.
fn default(path: &str) -> String {
    let key = KEYS.iter().find(|key| key.path == path);
    key.map(|key| key.default_cell(|value| value.to_toml().trim_matches('"').to_owned()))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use hub::metrics::Limit;

    #[test]
    fn every_counter_of_a_limit_has_a_row() {
        let page = markdown();
        let metrics: Vec<&str> = page
            .lines()
            .filter_map(|row| row.strip_suffix(" |")?.rsplit(" | ").next())
            .collect();
        for name in Limit::NAMES {
            let label = format!("`{name}`");
            let known = metrics.iter().any(|cell| cell.contains(&label));
            assert!(known, "{name} is not in docs/limits.md");
        }
    }

    /// A label that nothing counts would promise an operator what never comes.
    #[test]
    fn every_counter_of_a_limit_counts_somewhere() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../hub/src");
        let wings = std::fs::read_dir(folder).expect("the hub's source");
        let sources = wings
            .map(|wing| wing.expect("a wing").path())
            .flat_map(|wing| match std::fs::read_dir(&wing) {
                Ok(files) => files.map(|file| file.expect("a file").path()).collect(),
                Err(_) => vec![wing],
            })
            .filter(|path| path.extension().is_some_and(|ext| ext == "rs"))
            .filter(|path| !path.ends_with("metrics.rs"))
            .map(|path| std::fs::read_to_string(path).expect("text"));
        let source: String = sources
            .map(|text| text.split("#[cfg(test)]").next().unwrap_or("").to_owned())
            .collect();
        for name in Limit::NAMES {
            let variant: String = name
                .split('_')
                .map(|word| word[..1].to_uppercase() + &word[1..])
                .collect();
            let word = format!("Limit::{variant}");
            let mut used = source.match_indices(&word);
            let whole = |(at, word): (usize, &str)| {
                !source[at + word.len()..].starts_with(|c: char| c.is_alphanumeric())
            };
            assert!(used.any(whole), "nothing counts {name}");
        }
    }

    /// What stands there is what a start under that profile takes.
    #[test]
    fn defaults_are_those_of_each_profile() {
        assert_eq!(default("socketio.ping_timeout"), "`20s`; chat: `10s`");
        assert_eq!(default("limits.conns_per_address_max"), "`0`; public: `10`");
        assert_eq!(
            default("socketio.max_http_buffer_size"),
            "`1MB`; plain: `64KiB`"
        );
        assert_eq!(default("rates.session"), "–; public: `100/m`");
    }

    #[test]
    fn other_limits_are_keys_that_exist() {
        for (path, ..) in OTHERS {
            assert!(KEYS.iter().any(|key| key.path == *path), "{path}");
        }
    }

    #[test]
    fn the_page_in_the_repository_is_the_generated_one() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/limits.md");
        let text = std::fs::read_to_string(file).unwrap_or_default();
        assert!(
            text == markdown(),
            "docs/limits.md is stale: run `cargo xtask gen`"
        );
    }
}
