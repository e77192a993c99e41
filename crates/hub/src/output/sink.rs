//! The seam to what writes: a sink is handed the writes of many connections at once and says of each how it went.
//!
//! The two halves are in one call. A sink may write each as it comes, or submit all of them first and reap the results after that,
//! in any order. The bytes are borrowed until the call returns, so they cannot move or be freed under a kernel that still reads
//! them. Only [`Reaped`], which the call returns, lets an outbox go on.
//!
//! HOT PATH: no allocation (once warm), no lock; one dyn call per batch.

use crate::output::backlog::Backlog;
use crate::output::log::{NONE, TurnLog};
use crate::tables::slot::ConnId;
use std::io::IoSlice;

/// Slices per write (well below UIO_MAXIOV; beyond it the gain is nil).
pub(crate) const SLICES: usize = 64;

/// Room for the slices of one write.
pub type Slices<'b> = [IoSlice<'b>; SLICES];

/// How a write went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// So many bytes were taken. If these are not all, no more are taken for now.
    Bytes(usize),
    /// So many bytes were taken, perhaps all, and some of them wait in the sink: no more are taken for now.
    Held(usize),
    /// No bytes are taken for now.
    WouldBlock,
    /// The connection is broken.
    Gone,
}

/// Where bytes go: the shard's sockets, or a test's buffers.
pub trait Sink {
    /// Takes as many bytes of each write as it can now, and says how each went before it returns.
    fn write(&mut self, writes: Writes<'_>);
}

/// Writes to different connections. Their order does not matter.
#[derive(Debug)]
pub struct Writes<'b> {
    bytes: Bytes<'b>,
    jobs: std::slice::IterMut<'b, Job>,
}

/// What one connection wants written.
#[derive(Debug)]
#[must_use = "a write that is not answered breaks its connection"]
pub struct Write<'b> {
    bytes: Bytes<'b>,
    job: &'b mut Job,
}

#[derive(Clone, Copy, Debug)]
enum Bytes<'b> {
    Turn(&'b TurnLog),
    Backlog(&'b Backlog),
}

/// A write that an outbox wants, and then its result.
#[derive(Debug)]
pub(crate) struct Job {
    conn: ConnId,
    /// The first of its ranges of the turn's log.
    head: u32,
    written: Written,
}

impl Job {
    /// Until a sink says otherwise the connection is broken: nobody knows what of an unanswered write is out.
    pub(crate) fn new(conn: ConnId, head: u32) -> Self {
        Self {
            conn,
            head,
            written: Written::Gone,
        }
    }
}

impl<'b> Writes<'b> {
    /// Writes one after the other, for a sink that learns at once how a write went.
    #[inline]
    pub fn one_by_one(self, mut write: impl FnMut(ConnId, &[IoSlice<'_>]) -> Written) {
        let mut room: Option<Slices<'b>> = None;
        for one in self {
            let single;
            let slices = match one.single() {
                Some(bytes) => {
                    single = [IoSlice::new(bytes)];
                    &single[..]
                }
                None => one.slices(room.get_or_insert_with(|| [IoSlice::new(&[]); SLICES])),
            };
            let written = write(one.conn(), slices);
            one.done(written);
        }
    }
}

impl<'b> Iterator for Writes<'b> {
    type Item = Write<'b>;

    #[inline]
    fn next(&mut self) -> Option<Write<'b>> {
        let (bytes, job) = (self.bytes, self.jobs.next()?);
        Some(Write { bytes, job })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.jobs.size_hint()
    }
}

impl<'b> Write<'b> {
    /// The connection that these bytes are for.
    #[inline]
    pub fn conn(&self) -> ConnId {
        self.job.conn
    }

    /// The bytes, at least one. They stay where they are until the sink returns from the call that it got them by.
    #[inline]
    pub fn slices<'r>(&self, room: &'r mut Slices<'b>) -> &'r [IoSlice<'b>] {
        let count = match self.bytes {
            Bytes::Turn(log) => log.gather(self.job.head, room),
            Bytes::Backlog(backlog) => backlog.gather(room),
        };
        &room[..count]
    }

    /// All the bytes, if they are one slice. Most often they are, and making room for 64 would cost more than the rest of a write.
    #[inline]
    fn single(&self) -> Option<&'b [u8]> {
        match self.bytes {
            Bytes::Turn(log) => log.single(self.job.head),
            Bytes::Backlog(_) => None,
        }
    }

    /// The result.
    #[inline]
    pub fn done(self, written: Written) {
        self.job.written = written;
    }
}

/// Writes that no sink has seen yet, at most one of a connection.
#[derive(Debug, Default)]
pub(crate) struct Submission(Vec<Job>);

/// Writes that a sink has answered.
#[derive(Debug)]
#[must_use = "each outbox must learn how its write went"]
pub(crate) struct Reaped(Vec<Job>);

/// How the write of one connection went.
#[derive(Debug)]
pub(crate) struct Outcome {
    conn: ConnId,
    written: Written,
}

impl Submission {
    #[inline]
    pub(crate) fn push(&mut self, job: Job) {
        debug_assert_ne!(job.head, NONE, "a write of nothing");
        self.0.push(job);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.0.capacity() * size_of::<Job>()
    }

    /// Submits all and reaps all.
    pub(crate) fn write(mut self, log: &TurnLog, sink: &mut dyn Sink) -> Reaped {
        sink.write(Writes {
            bytes: Bytes::Turn(log),
            jobs: self.0.iter_mut(),
        });
        Reaped(self.0)
    }
}

impl Reaped {
    /// Tells each outbox, in the order of submission. What `settle` returns is the next submission, in the same memory.
    pub(crate) fn settle(mut self, mut settle: impl FnMut(Outcome) -> Option<Job>) -> Submission {
        self.0.retain_mut(|job| {
            let (conn, written) = (job.conn, job.written);
            let more = settle(Outcome { conn, written });
            let stays = more.is_some();
            if let Some(more) = more {
                *job = more;
            }
            stays
        });
        Submission(self.0)
    }
}

impl Outcome {
    pub(crate) fn conn(&self) -> ConnId {
        self.conn
    }

    pub(crate) fn written(self) -> Written {
        self.written
    }
}

/// Writes what an earlier turn left for one connection: the kernel said that it takes bytes again.
pub(crate) fn write_backlog(conn: ConnId, backlog: &Backlog, sink: &mut dyn Sink) -> Written {
    let mut job = Job::new(conn, NONE);
    sink.write(Writes {
        bytes: Bytes::Backlog(backlog),
        jobs: std::slice::from_mut(&mut job).iter_mut(),
    });
    job.written
}

#[cfg(test)]
mod tests;
