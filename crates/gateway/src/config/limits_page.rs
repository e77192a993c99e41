//! The page `docs/limits.md`: every limit with its default, what the peer sees, and the metric. Bounds come from their own
//! table; the rest are keys of other sections and what is fixed.

use super::bounds;
use super::keys::{KEYS, Profile};
use super::units::format_size;
use hub::limits::{HEAD_BYTES_MAX, HEADERS_MAX, TARGET_BYTES_MAX};
use std::fmt::Write as _;

const INTRO: &str = "# Limits

Nothing that a peer sends makes the gateway use memory or time without bound. Every limit is here, with its default, what the peer sees that
meets it, and the counter that shows it (`sockeye_limit_hits_total{limit=...}` unless another name is given).
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
        "socketio.ping_timeout",
        "Time to answer a ping.",
        "close 4000 `ping timeout`",
        "`sockeye_closes_total{reason=\"ping_timeout\"}`",
    ),
    (
        "rates.session",
        "Messages of one session.",
        RATED,
        "`sockeye_rate_limited_total{scope=\"session\"}`",
    ),
    (
        "rates.user",
        "Messages of one user over all connections and shards.",
        RATED,
        "`sockeye_rate_limited_total{scope=\"user\"}`",
    ),
    (
        "rates.address",
        "Messages from one address over all connections and shards.",
        RATED,
        "`sockeye_rate_limited_total{scope=\"address\"}`",
    ),
    (
        "rates.connects",
        "New sessions from one address.",
        "429 with Retry-After",
        "`sockeye_rate_limited_total{scope=\"connects\"}`",
    ),
    (
        "namespaces.*.events.*.rate",
        "One event of one session in that namespace, also if it leaves and comes back.",
        RATED,
        "`sockeye_rate_limited_total{scope=\"event\"}`",
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
            "| `{}` | `{}` | {} | {} | {metric} |",
            bound.name,
            bound.default.to_toml().trim_matches('"'),
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
    for (limit, value, peer, metric) in FIXED {
        let _ = writeln!(page, "| {limit} | {value} | {peer} | {metric} |");
    }
    page
}

/// The default, and what profile `public` has instead.
fn default(path: &str) -> String {
    let Some(key) = KEYS.iter().find(|key| key.path == path) else {
        return String::new();
    };
    let text = |profile| {
        let value = key.default_on(profile);
        value.map_or("none".to_owned(), |value| {
            format!("`{}`", value.to_toml().trim_matches('"'))
        })
    };
    let (usual, public) = (text(Profile::SocketIo), text(Profile::Public));
    if usual == public {
        usual
    } else {
        format!("{usual}, public {public}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hub::metrics::Limit;

    #[test]
    fn every_counter_of_a_limit_is_explained() {
        let page = markdown();
        for name in Limit::NAMES {
            let known = page.contains(&format!("`{name}`")) || name == "rate";
            assert!(
                known || name == "ask_timeout",
                "{name} is not in docs/limits.md"
            );
        }
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
