//! The values of `docs/limits.md`: the page is written by hand, and the second cell of each row that begins with the name of
//! a key or of something fixed is filled in from the code.

use super::docs::is_fresh;
use super::keys::KEYS;
use super::units::format_size;
use control::{admin, api, page};
use hub::limits::{
    DEPTH_MAX, HEAD_BYTES_MAX, HEADERS_MAX, HISTORY_BYTES_MAX, HISTORY_EVENTS_MAX,
    HISTORY_ROOMS_MAX, HISTORY_TOTAL_BYTES_MAX, POSITIONS_MAX, PROXY_HEADER_BYTES_MAX,
    TARGET_BYTES_MAX,
};
use hub::metrics::Limit;
use identity::TOKEN_BYTES_MAX;
use nodes::ledger::WAITS_MAX;
use process::{files, flood};
use std::time::Duration;

const PAGE: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/limits.md"));

/// The fixed limits, in the words of the code that enforces them.
fn fixed() -> [(&'static str, String); 18] {
    let both = |head: Duration, all: Duration| format!("{} s, {} s", head.as_secs(), all.as_secs());
    let of_room = format!("{HISTORY_EVENTS_MAX}, {}", size(HISTORY_BYTES_MAX));
    let of_shard = format!(
        "{}, {}",
        grouped(HISTORY_ROOMS_MAX),
        size(HISTORY_TOTAL_BYTES_MAX)
    );
    let lines = format!("{}/{}s", flood::LINES, flood::FLOOD_WINDOW.as_secs());
    let pages = both(page::HEAD_TIMEOUT, page::CONN_TIMEOUT);
    let operators = both(admin::HEAD_TIMEOUT, admin::AGE_MAX);
    [
        ("bytes of a request head", size(HEAD_BYTES_MAX)),
        ("bytes of its target", size(TARGET_BYTES_MAX)),
        ("its header lines", HEADERS_MAX.to_string()),
        (
            "bytes of a PROXY protocol header",
            size(PROXY_HEADER_BYTES_MAX),
        ),
        ("levels of JSON or MessagePack", DEPTH_MAX.to_string()),
        ("events and bytes of a room's history", of_room),
        ("rooms and bytes of a shard's history", of_shard),
        ("rooms in the ids of a stream", POSITIONS_MAX.to_string()),
        ("bytes of a token", size(TOKEN_BYTES_MAX)),
        (
            "connections that ask for pages at once",
            grouped(page::CONNS_MAX),
        ),
        (
            "time for the head of their request, and for all of it",
            pages,
        ),
        (
            "time for the head of an operator's request, and age of the connection",
            operators,
        ),
        (
            "bytes of a call of the server API",
            size(api::BODY_BYTES_MAX),
        ),
        (
            "names in one list of such a call",
            grouped(types::NAMES_MAX),
        ),
        (
            "sockets or rooms on a page of its lists",
            grouped(api::PAGE_MAX),
        ),
        (
            "idempotency keys that are remembered, and how long",
            format!(
                "{}, {} s",
                grouped(api::KEYS_MAX),
                api::REMEMBERED.as_secs()
            ),
        ),
        (
            "calls under such a key that wait for other nodes",
            WAITS_MAX.to_string(),
        ),
        (
            "lines of the log of one kind that strangers can cause",
            lines,
        ),
    ]
}

/// Those of what operators name.
fn of_files() -> [(&'static str, String); 1] {
    [(
        "bytes of a configuration, and of a file with certificates or credentials that it names",
        format!(
            "{}, {}",
            size(files::CONFIGURATION_BYTES_MAX),
            size(files::BYTES_MAX)
        ),
    )]
}

/// Those of messages of workers.
fn of_workers() -> [(&'static str, String); 6] {
    [
        (
            "bytes of a worker's message",
            size(workers::MESSAGE_BYTES_MAX),
        ),
        (
            "bytes of workers' messages that are read or wait for their turn, those below 64 KiB aside",
            size(workers::ROOM_BYTES),
        ),
        (
            "commands in a worker's message",
            grouped(backend::COMMANDS_MAX),
        ),
        (
            "members of all lists of such a command (rooms, users, sockets, exceptions, attachments, header lines, nodes)",
            grouped(backend::NAMES_MAX),
        ),
        (
            "memory that the commands of such a message take beside its bytes",
            size(backend::GROWTH_MAX),
        ),
        (
            "the same of all messages that wait for their turn, those with less than 64 KiB aside",
            size(workers::GROWTH_BYTES),
        ),
    ]
}

fn size(bytes: usize) -> String {
    format_size(bytes as u64)
}

fn grouped(number: usize) -> String {
    units::grouped(number as u64)
}

/// The default of a key, and what profiles have instead.
fn default(path: &str) -> Option<String> {
    let key = KEYS.iter().find(|key| key.path == path)?;
    Some(key.default_cell(|value| value.to_toml().trim_matches('"').to_owned()))
}

/// The second cell of a row that begins so.
fn value(label: &str) -> Option<String> {
    if let Some(name) = label
        .strip_prefix('`')
        .and_then(|rest| rest.strip_suffix('`'))
    {
        return default(name).or_else(|| default(&format!("limits.{name}")));
    }
    let found = fixed()
        .into_iter()
        .chain(of_workers())
        .chain(of_files())
        .find(|(name, _)| *name == label);
    found.map(|(_, value)| value)
}

fn filled(page: &str) -> String {
    let row = |line: &str| {
        let mut cells: Vec<_> = line.split(" | ").map(str::to_owned).collect();
        let label = cells[0].strip_prefix("| ")?;
        *cells.get_mut(1)? = value(label)?;
        Some(cells.join(" | "))
    };
    let lines = page
        .lines()
        .map(|line| row(line).unwrap_or(line.to_owned()));
    lines.map(|line| line + "\n").collect()
}

/// Keys that shape what the gateway itself does, and refuse nobody.
const NO_BOUNDS: [&str; 4] = [
    "admission.memory_max",
    "backends.*.batch_max",
    "backends.*.calls_max",
    "backends.*.retry_max",
];

fn labels() -> Vec<&'static str> {
    let rows = PAGE.lines().filter_map(|line| line.strip_prefix("| "));
    rows.filter_map(|row| row.split(" | ").next()).collect()
}

#[test]
fn the_page_has_the_values_of_the_code() {
    is_fresh("docs/limits.md", &filled(PAGE));
}

#[test]
fn the_page_has_a_row_for_every_bound_and_for_all_that_is_fixed() {
    let labels = labels();
    let bounds = KEYS
        .iter()
        .filter_map(|key| key.path.strip_prefix("limits."));
    let is_bound = |name: &&str| *name != "slow_consumer" && !name.ends_with("_scope");
    for name in bounds.filter(is_bound) {
        assert!(labels.contains(&format!("`{name}`").as_str()), "{name}");
    }
    let elsewhere = KEYS.iter().filter(|key| key.path.ends_with("_max"));
    for path in elsewhere.map(|key| key.path.as_str()) {
        let shapes = NO_BOUNDS.contains(&path) || path.starts_with("limits.");
        let has_row = labels.contains(&format!("`{path}`").as_str());
        assert!(shapes || has_row, "{path}");
    }
    let all = fixed().into_iter().chain(of_workers()).chain(of_files());
    for (name, _) in all {
        assert!(labels.contains(&name), "{name}");
    }
    for label in labels.iter().filter(|label| label.starts_with('`')) {
        assert!(value(label).is_some(), "{label} is no key");
        let rows = labels.iter().filter(|other| *other == label);
        assert_eq!(rows.count(), 1, "{label}");
    }
}

#[test]
fn every_counter_of_a_limit_has_a_row() {
    let metrics: Vec<&str> = PAGE
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

/// Its values are those of a start under that profile.
#[test]
fn defaults_are_those_of_each_profile() {
    for (path, cell) in [
        ("socketio.ping_timeout", "`20s`; chat: `10s`"),
        ("limits.conns_per_address_max", "`0`; public: `10`"),
        ("socketio.max_http_buffer_size", "`1MB`; plain: `64KiB`"),
        ("rates.session", "–; public: `100/m`"),
    ] {
        assert_eq!(default(path).as_deref(), Some(cell));
    }
}
