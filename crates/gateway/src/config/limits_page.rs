//! The values of `docs/limits.md`: the page is written by hand, and the second cell of each row that begins with the name of
//! a key or of something fixed is filled in from the code.

use super::docs::is_fresh;
use super::keys::KEYS;
use super::units::format_size;
use control::{admin, api, page};
use hub::bounds::{
    self, ATTACHMENTS_MAX, CHUNK_LINE_BYTES_MAX, CONTROL_PAYLOAD_MAX, DEFLATE_ENDS_MAX, DEPTH_MAX,
    HEAD_BYTES_MAX, HEADERS_MAX, HISTORY_BYTES_MAX, HISTORY_EVENTS_MAX, HISTORY_ROOMS_MAX,
    HISTORY_TOTAL_BYTES_MAX, OPENING_BYTES_MAX, POSITIONS_MAX, PROXY_HEADER_BYTES_MAX,
    TARGET_BYTES_MAX, TRAILERS_MAX,
};
use hub::metrics::Limit;
use identity::TOKEN_BYTES_MAX;
use nodes::ledger::WAITS_MAX;
use process::{files, flood};
use std::time::Duration;

const PAGE: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/limits.md"));

/// A row of the page: how it begins, and its value.
type Row = (&'static str, String);

/// The fixed limits, in the words of the code that enforces them.
fn fixed() -> [Row; 18] {
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
            "idempotency keys that are remembered, bytes of them, of their namespaces and answers, and how long",
            format!(
                "{}, {}, {} s",
                grouped(api::KEYS_MAX),
                size(api::KEPT_BYTES_MAX),
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
fn of_files() -> [Row; 2] {
    let seconds = [files::WRITER_MAX, files::SILENCE_MAX].map(|time| time.as_secs());
    [
        (
            "bytes of a configuration, and of a file with certificates or credentials that it names",
            format!(
                "{}, {}",
                size(files::CONFIGURATION_BYTES_MAX),
                size(files::BYTES_MAX)
            ),
        ),
        (
            "time until such a file that is a pipe has a writer, and between its words",
            format!("{} s, {} s", seconds[0], seconds[1]),
        ),
    ]
}

/// Those of messages of workers.
fn of_workers() -> [Row; 6] {
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

/// Those of parsers.
fn of_parsers() -> [Row; 5] {
    let lines = format!("{}, {TRAILERS_MAX}", size(CHUNK_LINE_BYTES_MAX));
    [
        (
            "bytes of a chunk-size line or a trailer line, and trailer lines, of a POST body",
            lines,
        ),
        (
            "bytes of the payload of a control frame",
            size(CONTROL_PAYLOAD_MAX),
        ),
        (
            "ends of a deflate stream in one message",
            DEFLATE_ENDS_MAX.to_string(),
        ),
        (
            "attachments of a plain client's message",
            ATTACHMENTS_MAX.to_string(),
        ),
        (
            "bytes of the packet that opens a stream of WebTransport",
            size(OPENING_BYTES_MAX),
        ),
    ]
}

/// Bounds of the memory that a shard has of clients.
fn of_clients() -> [Row; 6] {
    let tags = format!(
        "{}, {}",
        grouped(bounds::TAGS_MAX),
        size(bounds::TAG_BYTES_MAX)
    );
    let large = format!(
        "{}, {}",
        size(rules::bounds::LARGE_SOCKET_BYTES_MAX),
        size(rules::bounds::LARGE_SHARD_BYTES_MAX)
    );
    [
        (
            "programs of clients (`User-Agent`) or kinds of claims that a shard tells apart, and bytes of each",
            tags,
        ),
        (
            "ends of sessions that a shard remembers for operators",
            grouped(bounds::ENDS_MAX),
        ),
        (
            "namespaces that a session is remembered to have left",
            bounds::PARTED_MAX.to_string(),
        ),
        (
            "bytes of a member's public data, with presence",
            size(bounds::INFO_BYTES_MAX),
        ),
        (
            "clients of a shard that wait for a page of history",
            rules::bounds::READERS_MAX.to_string(),
        ),
        (
            "bytes that wait behind large events, of one socket and of a shard",
            large,
        ),
    ]
}

/// Bounds of what a shard keeps for clients that come, come back, or listen elsewhere.
fn of_rooms() -> [Row; 9] {
    let acks = format!(
        "{}, {}",
        grouped(bounds::PARKED_ACKS_MAX),
        size(bounds::PARKED_ACKS_BYTES_MAX)
    );
    let page = format!("{}, {}", bounds::PAGE_SOCKETS, size(bounds::PAGE_BYTES));
    [
        (
            "rooms and users of a shard, and sockets in them, of which other nodes are still to hear",
            format!("{} of each", grouped(bounds::OPEN_JOINS_MAX)),
        ),
        (
            "journals that a socket was in since its client got something",
            bounds::FORMERS_MAX.to_string(),
        ),
        (
            "rooms that a socket left and that are remembered (level `cluster`)",
            bounds::PAST_MEMBERSHIPS_MAX.to_string(),
        ),
        (
            "rooms of one `sockeye:gap`",
            bounds::GAP_ROOMS_MAX.to_string(),
        ),
        (
            "namespaces in which workers speak to each node by itself, and that are told apart",
            grouped(bounds::APART_NAMESPACES_MAX),
        ),
        (
            "bytes of events on their way from shards to history, to channels of programs",
            format!("{} each", size(bounds::COPIES_BYTES_MAX)),
        ),
        (
            "bytes of lines of a trace that wait for their reader",
            size(bounds::TRACE_BYTES_MAX),
        ),
        (
            "acks that wait until other nodes know what their client joined, or until a namespace's store has it",
            acks,
        ),
        ("sockets and bytes of a page of such a list", page),
    ]
}

/// Those of requests for sessions about which workers decide, and of CONNECTs.
fn of_openings() -> [Row; 5] {
    let shard = grouped(rules::bounds::OPENINGS_MAX);
    let joins = format!(
        "{} of each backend, {} of each shard",
        grouped(backend::JOINS_MAX),
        grouped(rules::bounds::NEWCOMERS_MAX)
    );
    [
        (
            "header lines and content that a worker's verdict adds to an answer",
            size(backend::VERDICT_BYTES_MAX),
        ),
        (
            "requests for sessions that wait for a worker's verdict",
            format!("half of `queue_max`, and {shard} of each shard"),
        ),
        (
            "bytes of header lines in verdicts on requests that wait for another backend's",
            format!("{} of each shard", size(rules::bounds::VERDICTS_BYTES_MAX)),
        ),
        (
            "clients that a worker let in and that have not joined",
            joins,
        ),
        (
            "bytes of the payload of a CONNECT to a backend",
            format!("{}, or `socket_max`", size(backend::AUTH_BYTES_MAX)),
        ),
    ]
}

/// Bounds of one client, of one turn, and of the chat profile.
fn of_turns() -> [Row; 5] {
    [
        (
            "timers, late acks, ended tokens, sockets of lists, announced rooms, sockets that a directory is told of, clients told of a shutdown and idle connections closed with it, in one turn",
            format!("{} of each", grouped(bounds::CHORES_PER_TURN)),
        ),
        (
            "bytes sent after the end of a connection",
            size(bounds::IGNORED_BYTES_MAX as usize),
        ),
        (
            "packets of one POST body before others have their turn",
            grouped(bounds::POST_PACKETS_PER_TURN),
        ),
        (
            "characters of a chat message",
            grouped(rules::bounds::CONTENT_UNITS_MAX),
        ),
        (
            "characters of a name in the chat profile",
            rules::bounds::NAME_CHARS_MAX.to_string(),
        ),
    ]
}

/// Bounds of a record for the next process.
fn of_upgrades() -> [Row; 3] {
    use handoff::bounds::{
        CALLED_NAMESPACE_BYTES_MAX, NAME_BYTES_MAX, OWED_MAX, ROOMS_MAX, SOCKETS_MAX,
    };
    let all = [SOCKETS_MAX, ROOMS_MAX, OWED_MAX, OWED_MAX].map(grouped);
    [
        (
            "namespaces of a session, rooms of a socket, answers that its client waits for, and those that it owes, in an upgrade",
            all.join(", "),
        ),
        (
            "bytes of the name of a namespace, room or user, in an upgrade",
            size(NAME_BYTES_MAX),
        ),
        (
            "bytes of the namespace of such a call, in an upgrade",
            size(CALLED_NAMESPACE_BYTES_MAX),
        ),
    ]
}

/// Bounds of what is kept of workers and for programs.
fn of_programs() -> [Row; 11] {
    let failures = format!(
        "{}, {}",
        grouped(backend::FAILURES_MAX),
        backend::FAILURES_WHEN_FULL
    );
    let roll = format!(
        "{}, {}",
        grouped(bounds::ROLL_GONE_MAX),
        grouped(bounds::ROLL_WORDS_MAX)
    );
    [
        (
            "workers of one backend on one node",
            grouped(backend::WORKERS_MAX),
        ),
        (
            "bytes of a worker's name (`hello.instance`)",
            size(backend::INSTANCE_BYTES_MAX),
        ),
        (
            "workers of a backend that were given up and are remembered",
            backend::PAST_MAX.to_string(),
        ),
        (
            "queries of one worker that wait for their answers",
            grouped(backend::QUERIES_MAX),
        ),
        (
            "questions of all workers of a backend to each other that wait for their answers",
            grouped(backend::ROUNDS_MAX),
        ),
        (
            "bytes of the answers to one query",
            size(backend::ANSWERS_BYTES_MAX),
        ),
        (
            "`Failed` that a worker has not handled, and while `queue_max` is used up",
            failures,
        ),
        (
            "bytes of the data that a worker gives a socket",
            size(backend::DATA_BYTES_MAX),
        ),
        (
            "ends of nodes that wait for a worker",
            backend::NODES_GONE_MAX.to_string(),
        ),
        (
            "rooms without members on a shard whose people programs ask for, within a minute",
            grouped(bounds::WATCHED_MAX),
        ),
        (
            "sockets of a shard that ended before a directory was told, and words that wait for it",
            roll,
        ),
    ]
}

/// Those of servers of Node in the cluster.
fn of_foreigners() -> [Row; 6] {
    let lists = format!(
        "{}, {}",
        grouped(compat::bounds::ROOMS_MAX),
        grouped(compat::bounds::SOCKETS_MAX)
    );
    [
        (
            "bytes of a message of a server of Node",
            size(compat::bounds::MESSAGE_BYTES_MAX),
        ),
        ("rooms in one list of it, and sockets in one answer", lists),
        (
            "questions of these servers that are open, and ours",
            format!("{} of each", grouped(compat::bounds::OPEN_MAX)),
        ),
        (
            "lists of the largest size that are gathered for them at once",
            compat::bounds::LISTS_MAX.to_string(),
        ),
        (
            "their servers of one namespace that are remembered by name",
            grouped(compat::bounds::SERVERS_MAX),
        ),
        (
            "bytes of the latest letters of a namespace, for a server that appears",
            format!("{} for each dialect", size(compat::bounds::TAIL_BYTES_MAX)),
        ),
    ]
}

/// All of these.
fn all_fixed() -> impl Iterator<Item = Row> {
    let of_clients = of_parsers().into_iter().chain(of_clients());
    let of_clients = of_clients.chain(of_rooms()).chain(of_turns());
    let of_others = of_workers().into_iter().chain(of_programs());
    let of_others = of_others.chain(of_openings()).chain(of_files());
    let of_others = of_others.chain(of_foreigners()).chain(of_upgrades());
    fixed().into_iter().chain(of_clients).chain(of_others)
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
    let found = all_fixed().find(|(name, _)| *name == label);
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
    for (name, _) in all_fixed() {
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
