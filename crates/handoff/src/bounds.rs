//! What is bounded of a handoff.

/// Descriptors of one message: the kernel takes no more (`SCM_MAX_FD`).
pub const DESCRIPTORS_MAX: usize = 253;
/// Sessions of one batch. Each batch is taken before the next one is sent, so that no more descriptors than these are under way.
pub const BATCH_SESSIONS: usize = 250;
/// A batch that has so many bytes is sent.
pub const BATCH_BYTES: usize = 1024 * 1024;
/// What a record costs in a batch beside its own bytes, at most.
pub const FRAME_BYTES: usize = 8;
/// One record. A session with more that waits to be written or read stays where it is.
pub const RECORD_BYTES_MAX: usize = 16 * 1024 * 1024;
/// One message between the processes.
pub const MESSAGE_BYTES_MAX: usize = BATCH_BYTES + RECORD_BYTES_MAX + 1024;
/// Sessions of one shard.
pub const SESSIONS_MAX: usize = 10_000_000;
/// Sockets of one session.
pub const SOCKETS_MAX: usize = 4_096;
/// Rooms of one socket.
pub const ROOMS_MAX: usize = 65_536;
/// Names of namespaces, rooms and users.
pub const NAME_BYTES_MAX: usize = 65_536;
/// Attachments of a packet whose rest is still to come.
pub const ATTACHMENTS_MAX: usize = 4_096;
/// Namespaces that a session has left, and others still speak of.
pub const PARTED_MAX: usize = 64;
/// Listening sockets.
pub const LISTENERS_MAX: usize = 16_384;
/// The record of one backend.
pub const BACKEND_BYTES_MAX: usize = 1024 * 1024 * 1024;
/// The record of a place in a cluster: what is kept for other nodes is most of it.
pub const PLACE_BYTES_MAX: usize = 1024 * 1024 * 1024;
/// Backends of a process.
pub const BACKENDS_MAX: usize = 1_024;
/// Sockets that stay, in one message.
pub const STAYS: usize = 1_000;
/// Answers that a client of one socket waits for.
pub const OWED_MAX: usize = 65_536;
/// Numbers in a row that a shard remembers in one piece.
pub const MARKS_OF_PAGE: usize = 1_024;
/// Numbers that a handler has of one socket, and the largest of them.
pub const NUMBERS_MAX: usize = 8;
/// See [`NUMBERS_MAX`].
pub const NUMBER_MAX: u64 = 1 << 60;
/// Limiters of a handler with one session.
pub const RATES_MAX: usize = 65_536;
/// States of the table of limiters in one piece, and pieces of a table.
pub const STATES_OF_PAGE: usize = 4_096;
/// See [`STATES_OF_PAGE`].
pub const TABLE_PAGES_MAX: u32 = 64;
/// The largest state of a limiter.
pub const STATE_US_MAX: u64 = 1 << 60;
/// Users and addresses with a share of limits that nodes share.
pub const SHARES_MAX: usize = 16_384;
/// Counters of metrics, each value of a label for itself.
pub const COUNTERS_MAX: usize = 16_384;
/// Counters in one message.
pub const COUNTERS: usize = 1_000;
/// The name of a counter, and a value of its label.
pub const COUNTER_NAME_BYTES_MAX: usize = 256;
/// What a histogram has counted.
pub const COUNT_MAX: u64 = 1 << 60;
/// Bounds of a histogram.
pub const BUCKETS_MAX: usize = 64;
/// Calls of the server API under Idempotency-Keys, and callers with a rate.
pub const CALLS_MAX: usize = 100_000;
/// See [`CALLS_MAX`].
pub const CALLERS_MAX: usize = 65_536;
/// The namespace of such a call: that name may fill the whole call.
pub const CALLED_NAMESPACE_BYTES_MAX: usize = 1024 * 1024;
/// An Idempotency-Key, and the digest of what was called for under it.
pub const KEY_BYTES_MAX: usize = 255;
/// See [`KEY_BYTES_MAX`].
pub const DIGEST_BYTES: usize = 32;
/// The answer to a call.
pub const ANSWER_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Events that one room keeps.
pub const EVENTS_OF_ROOM_MAX: usize = 1_024;
/// Numbers that a process counts on from stay below.
pub const NUMBER_LIMIT: u64 = 1 << 60;
/// Names and places of a journal stay below.
pub const PLACE_LIMIT: u64 = 1 << 48;
/// Journals that a socket was in before the one that it is in.
pub const FORMERS_MAX: usize = 8;
/// Lives of shards of which a journal knows how far it has seen them: four of each.
pub const ORIGINS_MAX: usize = 4 * 262_144;
/// Namespaces that are told apart by what was said there to each node.
pub const APART_MAX: usize = 1_000;
/// Claims of a shard that the next process gives back. Others end with their time.
pub const OPEN_MAX: usize = 1_024;
/// Nodes that one of them asked.
pub const NODES_MAX: usize = 65_536;
/// What a shard keeps goes in pieces of so many bytes, and one thing more.
pub const PIECE_BYTES: usize = BATCH_BYTES / 4;
/// Such a thing. It fits into a message with a batch and a piece before it.
pub const THING_BYTES_MAX: usize = RECORD_BYTES_MAX - 2 * PIECE_BYTES;
/// Protocols have the numbers 1 to this.
pub(crate) const PROTOCOL_MAX: u32 = 7;
/// Fates of what waits to be written have the numbers 0 to this.
pub(crate) const FATE_MAX: u32 = 3;
/// How far a reader of a room was told of it: 0 to this.
pub(crate) const TOLD_MAX: u32 = 2;
/// How a connection compresses what is written: 0 (not at all) to this.
pub(crate) const DEFLATE_MAX: u32 = 2;
