//! All bounds of a backend that no setting changes.

// ---- commands of workers ----------------------------------------------------------------------------------------------------

/// Commands in one message.
pub const COMMANDS_MAX: usize = 16_384;
/// Members of all lists of one command: names of rooms, attachments, header lines, nodes. One list of a target may be all of them.
pub const NAMES_MAX: usize = types::NAMES_MAX;
/// Bytes that the commands of one message may take beside its own.
pub const GROWTH_MAX: usize = 16 << 20;
/// Numbers in `FromWorker.beside`, and bytes that they may have.
pub(crate) const BESIDE_MAX: usize = 16_384;
pub(crate) const BESIDE_BYTES_MAX: u64 = 10 * BESIDE_MAX as u64;
/// Bytes of the data that a worker gives a socket.
pub const DATA_BYTES_MAX: usize = 16 << 10;
/// Commands of one worker that failed, and that it has not handled as items.
pub const FAILURES_MAX: usize = 16_384;
/// The same once more waits for all workers than may: many workers could fill the memory otherwise.
pub const FAILURES_WHEN_FULL: usize = 64;

// ---- questions --------------------------------------------------------------------------------------------------------------

/// Queries of one worker that wait for their answers.
pub const QUERIES_MAX: usize = 65_536;
/// Answers to one query may take so much. Those beyond it are missing.
pub const ANSWERS_BYTES_MAX: usize = 16 << 20;
/// Questions of servers to each other that wait for their answers.
pub const ROUNDS_MAX: usize = 65_536;
/// Another server waits so long for the workers here.
pub(crate) const FOREIGN_MS: u64 = 5_000;

// ---- workers ----------------------------------------------------------------------------------------------------------------

/// Workers of one backend on one node.
pub const WORKERS_MAX: usize = 1_024;
/// Bytes of the name of a worker.
pub const INSTANCE_BYTES_MAX: usize = 64;
/// Workers of the process before this one come by links of their own within this, beside `rehome_after`.
pub(crate) const BACK_MS: u64 = 2_000;
/// Workers that were given up and are remembered.
pub const PAST_MAX: usize = 256;
/// So many commands are taken in before the worker is told of it by a message of its own, which would wake it.
pub(crate) const CONFIRMED_EACH: u64 = 64;
/// It is told no later than this, with what has come meanwhile.
pub(crate) const CONFIRMED_MS: u64 = 20;
/// Bytes of items in one message.
pub(crate) const BATCH_BYTES: usize = 64 << 10;
/// Places in a worker's queue that are kept while it is empty.
pub(crate) const QUEUE_KEPT: usize = 1_024;
/// Newcomers are let to a slow backend one in so long: one that is handled shows that it is well again.
pub(crate) const PROBE_MS: u64 = 1_000;
/// Without a tick for so long, the process was stopped, or its shards had too much to do.
pub(crate) const STILL_MS: u64 = 1_000;
/// So many sockets are between two workers, and one more for each [`SHARE`] that a leaving one still has.
pub(crate) const MOVING: usize = 64;
pub(crate) const SHARE: usize = 64;
/// A leaving worker that has nothing left but questions waits so long for the answers.
pub(crate) const QUESTIONS_MS: u64 = 5_000;

// ---- items that may end workers ---------------------------------------------------------------------------------------------

/// Ends of workers that an item met before it goes out alone.
pub(crate) const MET_ALONE: u8 = 2;
/// Ends that are its own: it goes to no other worker.
pub(crate) const OWN_DEATHS_MAX: u8 = 2;
/// Ends that it met before it goes to no other worker in any case: nothing ends workers for ever.
pub(crate) const MET_MAX: u8 = 16;
/// An item that is sent alone keeps the others waiting for so long at most: then it has begun, and only waits for something itself.
pub(crate) const ALONE_MS: u64 = 5_000;
/// Items go out alone for so long at most, in a row: then all that waits goes out as ever.
pub(crate) const CAREFUL_MS: u64 = 30_000;
/// Of the items that go to no other worker, so many are told at once; all are counted.
pub(crate) const DEADLY_TOLD: usize = 64;

// ---- sockets ----------------------------------------------------------------------------------------------------------------

/// Payload of a CONNECT, which is kept for as long as its socket lives.
pub const AUTH_BYTES_MAX: usize = 64 << 10;
/// Places for answers that are kept while nobody waits: most clients wait for one at a time, and many for none for long.
pub(crate) const OPEN_KEPT: usize = 4;
/// The end of a socket waits so long for a worker that is told of it.
pub(crate) const END_KEPT_MS: u64 = 3_600_000;
/// Ends of nodes that are kept for the next worker; the oldest are given up.
pub const NODES_GONE_MAX: usize = 64;
/// Places for outputs that are kept while there are none, at most.
pub(crate) const OUT_KEPT: usize = 1_024;

// ---- requests for sessions --------------------------------------------------------------------------------------------------

/// A client that was let in joins by then, or nobody keeps in mind which worker knows it.
pub(crate) const JOIN_MS: u64 = 60_000;
/// Clients that were let in and have not joined. Of one more, the oldest is forgotten: any worker may get its socket then.
pub const JOINS_MAX: usize = 65_536;
/// A request that so many workers had when they ended goes to no other: it may have ended them.
pub(crate) const REQUEST_DEATHS_MAX: u8 = 3;
/// Of what a verdict adds to an answer: names and values of its lines, and its content.
pub const VERDICT_BYTES_MAX: usize = 64 << 10;

// ---- endpoints --------------------------------------------------------------------------------------------------------------

/// Failures in a row that open the circuit.
pub(crate) const CIRCUIT_FAILURES: u32 = 5;
/// Bytes of items in one call. A single item may be larger.
pub(crate) const CALL_BYTES: usize = 256 << 10;
/// Interval of the look at those that wait for an endpoint.
pub(crate) const LOOK_MS: u64 = 250;
/// Figures of how fast items are handled: the last whole window is shown with the one that fills.
pub(crate) const PACE_WINDOW_MS: u64 = 10_000;

// ---- from one process to the next -------------------------------------------------------------------------------------------

/// Numbers that a process may go on from: JavaScript has 53 bits.
pub(crate) const NUMBER_MAX: u64 = 1 << 53;
