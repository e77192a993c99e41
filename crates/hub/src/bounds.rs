//! All bounds of a hub that no setting changes. Those that one changes are [`Limits`](crate::limits::Limits).

use std::time::Duration;
// Those of parsers stand with the parsers.
pub use wire::engineio::webtransport::OPENING_BYTES_MAX;
pub use wire::http::{
    CHUNK_LINE_BYTES_MAX, HEAD_BYTES_MAX, HEADERS_MAX, TARGET_BYTES_MAX, TRAILERS_MAX,
};
pub use wire::json::DEPTH_MAX;
pub use wire::proxy::PROXY_HEADER_BYTES_MAX;
pub use wire::socketio::ATTACHMENTS_MAX;
pub use wire::websocket::deflate::DEFLATE_ENDS_MAX;
pub use wire::websocket::frame::CONTROL_PAYLOAD_MAX;

// ---- ids --------------------------------------------------------------------------------------------------------------------

/// Shards that a process may have: an id names its shard in eight bits.
pub const SHARDS_MAX: usize = 1 << 8;
/// Nodes of a cluster: an id names its node in ten bits.
pub const NODES_MAX: usize = 1 << 10;
/// Ids count milliseconds from here: 2024-01-01T00:00:00Z, since 1970.
pub(crate) const EPOCH_MS: u64 = 1_704_067_200_000;
/// A name that holds a time so far ahead is no id of ours.
pub(crate) const CLOCK_DRIFT_MS: u64 = 3_600_000;

// ---- one turn ---------------------------------------------------------------------------------------------------------------

/// Simulations of known faults have turns that a few events fill.
const SMALL_SHARES: bool = cfg!(feature = "faults");

/// Peers are spared for at most this long while input is left unread.
pub(crate) const BEHIND_MAX_MS: u64 = 10_000;
/// A peer is spared so long after a turn that could not read everything.
pub(crate) const BEHIND_GRACE_MS: u64 = 500;
/// Bytes of encoded output after which a turn flushes: a processor's cache holds about as much.
pub const LOG_BYTES_PER_TURN: usize = match SMALL_SHARES {
    true => 4 * 1024,
    false => 2 * 1024 * 1024,
};
/// A turn that reached its deliveries goes on until it had so many broadcasts: in huge rooms each call of the flush brings more.
pub(crate) const BROADCASTS_PER_TURN_MIN: u64 = 32;
/// Messages to other shards after which a turn ends: a mailbox is never filled in one turn.
pub const LETTERS_PER_TURN: usize = match SMALL_SHARES {
    true => 16,
    false => 16 * 1024,
};
/// Bytes of these messages.
pub(crate) const LETTER_BYTES_PER_TURN: usize = 4 * 1024 * 1024;
/// Bytes of lists of sockets that a turn makes or takes in: some 2,000 sockets, each of which costs a few allocations.
pub const LIST_BYTES_PER_TURN: usize = match SMALL_SHARES {
    true => 512,
    false => 256 * 1024,
};
/// Sockets of one page of a list: what is said to clients waits for no more than a few pages.
pub const PAGE_SOCKETS: usize = 256;
/// Bytes after which a page ends.
pub const PAGE_BYTES: usize = 64 * 1024;
/// A page that found no room on its way is tried again after this time.
pub(crate) const PAGE_HOLD_MS: u64 = 5;
/// What a turn does of each kind of work that no input asks for: timers of a table, acks that are late, ends of tokens, sockets
/// that lists describe, rooms that are announced, clients that are told of a shutdown, changes that a directory is told of. The rest follows
/// in the next turns, which begin at once.
pub const CHORES_PER_TURN: usize = 1024;
/// Messages of other shards that are worked on in one turn.
pub(crate) const MAILS_PER_TURN: usize = 4096;
/// Connections that may use up their rejections in one turn before other flooding connections wait for the next.
pub(crate) const FLOODS_PER_TURN: u32 = 4;
/// Packets of one POST body that are taken in before others have their turn.
pub const POST_PACKETS_PER_TURN: usize = 1_024;

// One turn fills no mailbox, its log is far from the end of 32-bit positions, and a page is a small part of it.
const _: () = assert!(LETTERS_PER_TURN * 4 <= MAILBOX_MESSAGES_MAX);
const _: () = assert!(LETTER_BYTES_PER_TURN * 4 <= MAILBOX_BYTES_MAX);
const _: () = assert!(LOG_BYTES_PER_TURN < u32::MAX as usize / 16);
const _: () = assert!(
    SMALL_SHARES || PAGE_SOCKETS * 4 <= CHORES_PER_TURN && PAGE_BYTES * 4 <= LIST_BYTES_PER_TURN
);

/// Default of `mailbox_messages_max`.
pub(crate) const MAILBOX_MESSAGES_MAX: usize = 65_536;
/// Default of `mailbox_bytes_max`.
pub(crate) const MAILBOX_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Entries that wait for their time and whose owners are gone (deadlines of acks, ends of tokens), beside as many as there are live ones.
pub(crate) const STALE_MAX: usize = 1024;

// ---- connections ------------------------------------------------------------------------------------------------------------

/// A connection from the reserve must show within this time why it is served.
pub(crate) const RESERVE_TIMEOUT: Duration = Duration::from_secs(2);
/// Connections beyond twice the bound and this many are dropped unheard: being told is for people, not for floods.
pub(crate) const CROWD_SLACK: u32 = 16;
/// Trusted hops that are followed back; a longer chain is a loop.
pub(crate) const HOPS_MAX: usize = 64;
/// Bytes that are read and dropped after the end of a connection.
pub const IGNORED_BYTES_MAX: u32 = 256 * 1024;
/// Bytes that may wait for one connection while too much waits in the whole process.
pub(crate) const SQUEEZED_BYTES_MAX: usize = 16 * 1024;
/// Bytes of a message to the echo service of the conformance application; the suite sends 16 MiB.
pub(crate) const ECHO_BYTES_MAX: usize = 64 * 1024 * 1024;
/// The slowest readers are looked for this often while memory is short.
pub(crate) const SHED_INTERVAL_MS: u64 = 250;
/// So many of them go at a time.
pub(crate) const SHED_CONNS: usize = 16;
/// A client with less output waiting than this is not shed.
pub(crate) const SHED_BACKLOG_MIN: usize = 64 * 1024;
/// Without a drain a client of an event stream comes back after so long.
pub(crate) const STREAM_RETRY_MS: u64 = 1_000;
/// And up to so much later: clients of one node not all at once.
pub(crate) const STREAM_RETRY_SPREAD_MS: u64 = 2_000;
/// Texts of one kind that clients bring and that a shard keeps once for all of them. A client that brings one more has none.
pub const TAGS_MAX: usize = 1_024;
/// Bytes of such a text. What is longer is cut.
pub const TAG_BYTES_MAX: usize = 512;

// ---- tokens and rates -------------------------------------------------------------------------------------------------------

/// Bytes of a token. A longer one is refused before anybody is asked about it.
pub const TOKEN_BYTES_MAX: usize = 8 * 1024;
const _: () = assert!(TOKEN_BYTES_MAX <= wire::http::HEAD_BYTES_MAX);
/// Times that a session may show a new token in a minute, or once for each of its namespaces if they can be more: looking at a
/// token costs more than taking a message.
pub(crate) const REFRESHES: u32 = 30;
/// That minute.
pub(crate) const REFRESHES_PER: Duration = Duration::from_secs(60);
/// Events that a session takes at a time from a rate of its user or address: their shares are exact but for these.
pub(crate) const LOT_MAX: u32 = 16;

// ---- sessions ---------------------------------------------------------------------------------------------------------------

/// Namespaces that a session is remembered to have left. A client may join and leave any number of them; the bytes that wait in
/// its sockets name few.
pub const PARTED_MAX: usize = 32;
const _: () = assert!(PARTED_MAX <= handoff::bounds::PARTED_MAX);
/// Ends that a shard remembers for operators. The newest one takes the place of the oldest.
pub const ENDS_MAX: usize = 1_000;
/// Characters of the name of a user there. A longer one is cut.
pub(crate) const ENDED_USER_CHARS_MAX: usize = 128;

// ---- sessions that are to leave ---------------------------------------------------------------------------------------------

/// The time of more sessions comes in steps of this length.
pub(crate) const LEAVE_STEP_MS: u64 = 20;
/// Sessions whose time has come are looked at this often.
pub(crate) const LEAVE_LOOK_MS: u64 = 2;
/// So many of them are looked at in one turn.
pub(crate) const LEAVE_LOOKS_MAX: usize = 4_096;
/// A client that said something so long ago, and nothing since, has begun a pause. Its next word is as far away as it can be.
pub(crate) const QUIET_MS: u64 = 4;
/// Later in a pause its next word may be on the way.
pub(crate) const PAUSE_MS: u64 = 12;
/// A client that is silent for longer speaks so rarely that any moment is a good one.
pub(crate) const IDLE_MS_MAX: u64 = 1_000;
/// Clients of one process do not all come back within the same second, however short the window.
pub(crate) const SPREAD_MIN_MS: u64 = 1_000;

// ---- rooms ------------------------------------------------------------------------------------------------------------------

/// Room counts are told to handlers and other shards this often.
pub(crate) const ANNOUNCE_MS: u64 = 250;
/// The busiest rooms are counted in windows of this length: the last whole one is shown with the one that fills, which ends with the first
/// event after this time.
pub(crate) const BUSY_WINDOW_MS: u64 = 15_000;

/// Events kept per room.
pub const HISTORY_EVENTS_MAX: usize = 50;
const _: () = assert!(HISTORY_EVENTS_MAX <= handoff::bounds::EVENTS_OF_ROOM_MAX);
/// Bytes kept per room.
pub const HISTORY_BYTES_MAX: usize = 64 * 1024;
/// Rooms with history per shard; the one least recently written makes way.
pub const HISTORY_ROOMS_MAX: usize = 10_000;
/// Bytes kept per shard: many full rooms are fewer rooms, and no room takes the place of many others.
pub const HISTORY_TOTAL_BYTES_MAX: usize = 1_024 * HISTORY_BYTES_MAX;
/// Rooms of an event stream that have a place in its ids: these stay within 4 KiB.
pub const POSITIONS_MAX: usize = 120;

// ---- who is there -----------------------------------------------------------------------------------------------------------

/// Bytes of the public data of a member. With more it has none.
pub const INFO_BYTES_MAX: usize = 1024;
/// Bytes that one step says of people.
pub(crate) const WORDS_BYTES_MAX: usize = 256 * 1024;
/// The first word of a shard waits for so long, so that most others know of this shard before it asks them.
pub(crate) const FIRST_WORD_MS: u64 = 250;
/// So long after it others hear from this shard again. Where both of two newcomers are known by now, and were not when they spoke first,
/// they learn of each other: this word does not follow what they heard.
pub(crate) const SECOND_WORD_MS: u64 = 1_000;
/// So long after the first word others have answered it.
pub(crate) const ANSWERED_MS: u64 = 250;
/// The people of a node that went, or of which something was missed, stay for so long. By then those of a node that is dead have come
/// back to another, and one that is not has said all it has.
pub(crate) const DOUBT_MS: u64 = 3_000;
/// A room that a program asked for is heard of for so long.
pub(crate) const WATCH_MS: u64 = 60_000;
/// So is one whose last member here left: where that member comes again, no other shard sends a list.
pub(crate) const LEFT_MS: u64 = 10_000;
/// Rooms without members here that are heard of; those that were left are half of them at most.
pub const WATCHED_MAX: usize = 1_000;

// ---- questions to many, and acks that wait ----------------------------------------------------------------------------------

/// Bytes of the answers and lists that all open rounds of a shard keep, and of the lists that it makes for others. All that is above
/// it is left out, and the result says that it is not complete.
pub const ROUND_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Acks that wait on one way: until other nodes know what their clients joined, or until a namespace's store has it.
pub const PARKED_ACKS_MAX: usize = 65_536;
/// Bytes of these acks.
pub const PARKED_ACKS_BYTES_MAX: usize = 16 * 1024 * 1024;
/// What waits for a store for longer never leaves: its session ends.
pub(crate) const SAVE_WAIT_MS: u64 = 5_000;
/// Keys that wait for other nodes, and sockets that wait for such a key; while nodes cannot be reached, more are taken for known.
pub const OPEN_JOINS_MAX: usize = 65_536;

// ---- sockets that come back -------------------------------------------------------------------------------------------------

/// A shard that others claim from must answer within this time, and so must the store behind it.
pub(crate) const CLAIM_MS: u64 = 5_000;
/// A client that comes back waits for so long: first its socket is looked for in all shards, then in the store.
pub(crate) const RETURN_MS: u64 = 2 * CLAIM_MS;
/// Shards that a vector can hold, of all nodes.
pub(crate) const ORIGINS_MAX: usize = NODES_MAX * SHARDS_MAX;
/// Lives of one shard that a vector remembers.
pub(crate) const LIVES_MAX: usize = 4;
const _: () = assert!(ORIGINS_MAX * LIVES_MAX <= handoff::bounds::ORIGINS_MAX);
/// Journals that a client may go through without getting anything. Then nobody knows what it has.
pub const FORMERS_MAX: usize = handoff::bounds::FORMERS_MAX;
/// Namespaces that are told apart by what was said there to each node. With more, sockets of all of them stay.
pub const APART_NAMESPACES_MAX: usize = handoff::bounds::APART_MAX;
/// For so long after the last such event sockets stay where they are: its other parts may still be on their way to other nodes.
pub(crate) const APART_MS: u64 = 600_000;
/// Between two notes of it.
pub(crate) const APART_NOTE_MS: u64 = 1_000;
/// Marks of one stream. They come once a second, and an answer to a ping takes less.
pub(crate) const STREAM_MARKS_MAX: usize = 128;
/// Memberships that ended and are remembered. What was said before the end of an older one cannot be told from what was said after it.
pub const PAST_MEMBERSHIPS_MAX: usize = 64;
/// A gap in more rooms than this is told as one in all of them.
pub const GAP_ROOMS_MAX: usize = 64;
/// A record that nothing was told of for a window and this is stored anew. It lives longer than two windows and twice this.
pub const UNTOLD_MS: u64 = 60_000;
/// Sockets that a shard stores anew in one turn.
pub(crate) const RENEWED_PER_TURN_MAX: usize = 128;
/// So long behind some sockets that are stored anew, the next are.
pub(crate) const RENEW_PAUSE_MS: u64 = 5;

// ---- repeats of commands and words ------------------------------------------------------------------------------------------

/// Shards that write into streams and that are known.
pub const AUTHORS_MAX: usize = 4_096;
/// Places of the last words of one of them that are known.
pub const AUTHOR_PLACES_MAX: usize = 512;
/// Pages of numbers in a row that all sources of commands have together.
pub const REPEAT_PAGES_MAX: usize = 2_048;
/// A group of readers knows within this time that one of them is gone, and others read on from where it was. Whoever asks for old commands
/// again after it means it.
pub(crate) const REPEATS_KEPT_MS: u64 = 10 * 60 * 1_000;
/// A page that got nothing for so long makes room for others first.
pub(crate) const PAGE_BUSY_MS: u64 = 60_000;

// ---- directories ------------------------------------------------------------------------------------------------------------

/// A hub tells a directory this often what changed.
pub(crate) const ROLL_TELL_MS: u64 = 500;
/// Words that may wait for their reader. Above it hubs keep what they have.
pub const ROLL_WORDS_MAX: usize = 65_536;
/// Sockets that ended and were not told. Above it a hub forgets them, and calls its whole roll anew.
pub const ROLL_GONE_MAX: usize = 65_536;

// ---- what operators and programs are shown ----------------------------------------------------------------------------------

/// Bytes of copies (of what rooms or channels hear) that may wait for their reader, if nothing else is said. Above it they are dropped.
pub const COPIES_BYTES_MAX: usize = 8 << 20;
/// Bytes of lines of a trace that wait for their reader.
pub const TRACE_BYTES_MAX: usize = 1 << 20;
/// Traces of one shard. Those who begin them bound themselves below it.
pub(crate) const TRACES_MAX: usize = 64;
/// Bytes of a name in a line: clients choose it. A longer one is cut.
pub(crate) const TRACE_NAME_BYTES_MAX: usize = 128;
/// Bytes of arguments in a line, where they are shown at all. Longer ones are cut.
pub(crate) const TRACE_ARGS_BYTES_MAX: usize = 4_096;
/// Arguments whose shape is told.
pub(crate) const TRACE_SHAPES_MAX: usize = 8;
/// Rooms of one line.
pub(crate) const TRACE_ROOMS_MAX: usize = 8;
/// Events whose answers are waited for. The newest takes the place of the oldest.
pub(crate) const TRACED_ACKS_MAX: usize = 1_024;
/// Rooms that one event may be noted for.
pub(crate) const TRACED_ROOMS_MAX: usize = 32;
/// Lines that wait for the line of the event that caused them.
pub(crate) const TRACED_LINES_MAX: usize = 256;
/// Sockets of one user that one event is told of.
pub(crate) const FOLLOWED_MAX: usize = 32;
/// Sockets of sessions that chance has chosen. A session beyond it is not followed, and counts as a line that was dropped.
pub(crate) const CHOSEN_MAX: usize = 1_024;
/// The slowest rooms that are told apart at the end. Twice as many while a walk is under way: then those with less are left out, and what
/// waited for them is no longer known.
pub(crate) const SLOW_ROOMS_MAX: usize = 4_096;
