//! Many writes at once, answered late, in another order, or not at all.

use super::*;
use crate::output::backlog::{Bound, Fate};
use crate::output::outbox::{Flushed, Outbox, Settled, Tally};
use crate::tables::slot::SlotId;

const BYTES_MAX: usize = 1 << 20;

/// Outboxes with so many ranges each; no two ranges touch.
fn outboxes(log: &mut TurnLog, count: usize, ranges: usize) -> (Vec<Outbox>, Vec<Vec<u8>>) {
    let mut outboxes: Vec<Outbox> = (0..count).map(|_| Outbox::default()).collect();
    let mut streams = vec![Vec::new(); count];
    for range in 0..ranges {
        for (number, outbox) in outboxes.iter_mut().enumerate() {
            let shared = range % 2 == 0;
            let (bytes, text) = (log.bytes_mut(shared), format!("<{number}:{range}>"));
            let start = bytes.len();
            bytes.extend_from_slice(text.as_bytes());
            streams[number].extend_from_slice(text.as_bytes());
            let range = log.close(shared, start, Fate::Fixed);
            outbox.push(log, range);
        }
    }
    (outboxes, streams)
}

/// One submission after the other, until nobody wants more.
fn flush(log: &mut TurnLog, outboxes: &mut [Outbox], sink: &mut dyn Sink) -> Vec<Flushed> {
    let mut flushed = vec![Flushed::Waiting; outboxes.len()];
    let mut submission = Submission::default();
    for (number, outbox) in outboxes.iter().enumerate() {
        let job = outbox.submit(ConnId::at(number as u32));
        submission.push(job.expect("it has output"));
    }
    while !submission.is_empty() {
        submission = submission.write(log, sink).settle(|outcome| {
            let at = outcome.conn().index();
            match outboxes[at].settle(
                log,
                outcome,
                Bound::strict(BYTES_MAX),
                &mut Tally::default(),
            ) {
                Settled::More(job) => Some(job),
                Settled::Done(how) => {
                    flushed[at] = how;
                    None
                }
            }
        });
    }
    flushed
}

/// Submits all, then takes so many bytes of each as its number says, the last first.
struct Ring {
    taken: Vec<Vec<u8>>,
    room: fn(usize) -> usize,
    /// How many writes each call brought.
    calls: Vec<usize>,
}

impl Sink for Ring {
    fn write(&mut self, writes: Writes<'_>) {
        let mut room: Slices<'_> = [IoSlice::new(&[]); SLICES];
        let submitted: Vec<_> = writes
            .map(|write| (write.slices(&mut room).to_vec(), write))
            .collect();
        self.calls.push(submitted.len());
        for (slices, write) in submitted.into_iter().rev() {
            let at = write.conn().index();
            let bytes: Vec<u8> = slices.iter().flat_map(|slice| slice.to_vec()).collect();
            let taken = bytes.len().min((self.room)(at));
            self.taken[at].extend_from_slice(&bytes[..taken]);
            write.done(match taken {
                0 => Written::WouldBlock,
                taken => Written::Bytes(taken),
            });
        }
    }
}

fn ring(count: usize, room: fn(usize) -> usize) -> Ring {
    Ring {
        taken: vec![Vec::new(); count],
        room,
        calls: Vec::new(),
    }
}

#[test]
fn a_result_reaches_the_outbox_that_it_is_of_in_whatever_order_results_come() {
    let mut log = TurnLog::default();
    let (mut outboxes, streams) = outboxes(&mut log, 40, 5);
    let mut ring = ring(40, |number| number);
    let flushed = flush(&mut log, &mut outboxes, &mut ring);
    assert_eq!(ring.calls, [40]);
    for (number, taken) in ring.taken.iter().enumerate() {
        let whole = taken.len() == streams[number].len();
        assert_eq!(taken[..], streams[number][..number.min(taken.len())]);
        assert_eq!(flushed[number] == Flushed::Empty, whole, "{number}");
    }
    log.clear();
    ring.room = |_| usize::MAX;
    for (number, outbox) in outboxes.iter_mut().enumerate() {
        outbox.flush_backlog(ConnId::at(number as u32), &mut ring, &mut Tally::default());
    }
    assert_eq!(ring.taken, streams);
}

#[test]
fn only_connections_with_more_than_a_write_can_carry_are_submitted_again() {
    let mut log = TurnLog::default();
    let (mut long, long_streams) = outboxes(&mut log, 3, 2 * SLICES + 1);
    let (short, short_streams) = outboxes(&mut log, 2, SLICES);
    long.extend(short);
    let mut ring = ring(5, |number| match number {
        1 => 10,
        _ => usize::MAX,
    });
    let flushed = flush(&mut log, &mut long, &mut ring);
    assert_eq!(ring.calls, [5, 2, 2]);
    let mut expected = [Flushed::Empty; 5];
    expected[1] = Flushed::Waiting;
    assert_eq!(flushed, expected);
    ring.taken[1] = long_streams[1].clone();
    assert_eq!(ring.taken, [long_streams, short_streams].concat());
}

/// A sink that drops what it was handed.
struct Forgetful;

impl Sink for Forgetful {
    fn write(&mut self, mut writes: Writes<'_>) {
        let first = writes.next().expect("three writes");
        first.done(Written::WouldBlock);
        let _second = writes.next();
    }
}

#[test]
fn a_write_that_nobody_answers_breaks_its_connection() {
    let mut log = TurnLog::default();
    let (mut outboxes, _) = outboxes(&mut log, 3, 1);
    let flushed = flush(&mut log, &mut outboxes, &mut Forgetful);
    assert_eq!(flushed, [Flushed::Waiting, Flushed::Gone, Flushed::Gone]);
}
