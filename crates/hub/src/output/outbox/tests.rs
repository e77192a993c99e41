//! What a connection has yet to be sent, and what happens when it is too much.

use super::*;
use crate::books::config::SlowConsumer;
use crate::output::backlog::{Bound, Fate};
use crate::output::piece::Pool;
use crate::output::sink::{Submission, Writes};
use crate::tables::slot::SlotId;
use std::sync::Arc;
use wire::websocket::frame::{self, OpCode};

fn framed(texts: &[&str]) -> Vec<u8> {
    let mut out = Vec::new();
    for text in texts {
        frame::write_frame(&mut out, OpCode::Text, text.as_bytes());
    }
    out
}

/// Takes at most `room` bytes in all.
struct Pipe {
    taken: Vec<u8>,
    room: usize,
}

impl Sink for Pipe {
    fn write(&mut self, writes: Writes<'_>) {
        writes.one_by_one(|_, slices| {
            let mut n = 0;
            for slice in slices {
                let take = slice.len().min(self.room - n);
                self.taken.extend_from_slice(&slice[..take]);
                n += take;
            }
            self.room -= n;
            if n == 0 {
                Written::WouldBlock
            } else {
                Written::Bytes(n)
            }
        });
    }
}

/// Writes what a turn has for one connection.
fn flush(
    outbox: &mut Outbox,
    log: &mut TurnLog,
    sink: &mut dyn Sink,
    bytes_max: usize,
    tally: &mut Tally,
) -> Flushed {
    let bound = Bound::strict(bytes_max);
    let (mut submission, mut done) = (Submission::default(), None);
    match outbox.submit(conn()) {
        Some(job) => submission.push(job),
        None => done = Some(outbox.keep_rest(log, 0, bound, tally)),
    }
    while !submission.is_empty() {
        let reaped = submission.write(log, sink);
        submission = reaped.settle(|outcome| match outbox.settle(log, outcome, bound, tally) {
            Settled::More(job) => Some(job),
            Settled::Done(flushed) => {
                done = Some(flushed);
                None
            }
        });
    }
    done.expect("settled")
}

fn conn() -> ConnId {
    ConnId::at(0)
}

const FIXED: Fate = Fate::Fixed;
const OLDEST: Fate = Fate::Event {
    policy: SlowConsumer::DropOldest,
    key: 0,
};

fn append(log: &mut TurnLog, outbox: &mut Outbox, text: &str, shared: bool, fate: Fate) {
    let buf = log.bytes_mut(shared);
    let start = buf.len();
    frame::write_frame(buf, OpCode::Text, text.as_bytes());
    let range = log.close(shared, start, fate);
    outbox.push(log, range);
}

fn pipe(room: usize) -> Pipe {
    Pipe {
        taken: Vec::new(),
        room,
    }
}

#[test]
fn touching_ranges_become_one_and_order_is_kept() {
    let (mut log, mut outbox) = (TurnLog::default(), Outbox::default());
    for (text, shared) in [("42a", true), ("42b", true), ("43c", false), ("42d", true)] {
        append(&mut log, &mut outbox, text, shared, OLDEST);
    }
    assert_eq!(outbox.tail, 2, "three ranges");
    let mut pipe = pipe(1000);
    let flushed = flush(
        &mut outbox,
        &mut log,
        &mut pipe,
        1000,
        &mut Tally::default(),
    );
    assert_eq!(flushed, Flushed::Empty);
    assert_eq!(pipe.taken, framed(&["42a", "42b", "43c", "42d"]));
}

#[test]
fn whatever_the_kernel_takes_the_stream_is_the_same() {
    let texts = ["42one", "451-x", "42three", "43four", "431", "42five"];
    let whole = framed(&texts);
    for first in 0..=whole.len() {
        let (mut log, mut outbox) = (TurnLog::default(), Outbox::default());
        for (n, text) in texts.iter().enumerate() {
            let fate = if n < 3 { OLDEST } else { FIXED };
            append(&mut log, &mut outbox, text, n % 3 == 0, fate);
        }
        let mut pipe = pipe(first);
        flush(
            &mut outbox,
            &mut log,
            &mut pipe,
            1000,
            &mut Tally::default(),
        );
        for _ in 0..whole.len() {
            pipe.room = 3;
            outbox.flush_backlog(conn(), &mut pipe, &mut Tally::default());
        }
        assert_eq!(pipe.taken, whole, "first write of {first}");
        assert!(outbox.is_empty());
    }
}

#[test]
fn what_may_not_be_dropped_overflows() {
    for shared in [false, true] {
        let (mut log, mut outbox) = (TurnLog::default(), Outbox::default());
        for _ in 0..200 {
            append(&mut log, &mut outbox, "43[\"e\"]", shared, FIXED);
        }
        let flushed = flush(
            &mut outbox,
            &mut log,
            &mut pipe(3),
            600,
            &mut Tally::default(),
        );
        assert_eq!(flushed, Flushed::Overflow);
    }
}

#[test]
fn a_turn_larger_than_the_bound_is_not_kept_whole() {
    let (mut outbox, mut pipe) = (Outbox::default(), pipe(3));
    for _ in 0..3 {
        let mut log = TurnLog::default();
        (0..1_000).for_each(|_| append(&mut log, &mut outbox, "42[\"e\"]", true, OLDEST));
        flush(
            &mut outbox,
            &mut log,
            &mut pipe,
            1_000,
            &mut Tally::default(),
        );
    }
    let waiting = outbox.waiting_bytes();
    assert!((500..=1_000).contains(&waiting), "{waiting} bytes");
}

#[test]
fn slow_readers_of_one_event_share_one_copy_of_it() {
    let pool = Pool::new(Default::default());
    let mut log = TurnLog::new(Arc::clone(&pool));
    let mut outboxes: Vec<Outbox> = (0..300).map(|_| Outbox::default()).collect();
    let text = "x".repeat(16 * 1024);
    frame::write_frame(log.bytes_mut(true), OpCode::Text, text.as_bytes());
    let range = log.close(true, 0, OLDEST);
    for outbox in &mut outboxes {
        outbox.push(&mut log, range);
        flush(
            outbox,
            &mut log,
            &mut pipe(1),
            1 << 20,
            &mut Tally::default(),
        );
    }
    log.clear();
    let copies = pool.bytes() / text.len() as u64;
    assert_eq!(copies, 1, "{} bytes", pool.bytes());
    drop(outboxes);
    assert_eq!(pool.bytes(), 0);
}

#[test]
fn drop_oldest_keeps_the_started_frame_acks_and_the_newest() {
    let (mut log, mut outbox) = (TurnLog::default(), Outbox::default());
    append(&mut log, &mut outbox, "42[\"first\"]", true, OLDEST);
    append(&mut log, &mut outbox, "430[1]", true, FIXED);
    for n in 0..20 {
        append(&mut log, &mut outbox, &format!("42[{n:02}]"), true, OLDEST);
    }
    let (mut pipe, mut tally) = (pipe(4), Tally::default());
    let flushed = flush(&mut outbox, &mut log, &mut pipe, 600, &mut tally);
    assert_eq!(flushed, Flushed::Waiting);
    let dropped = tally.dropped[SlowConsumer::DropOldest as usize] as usize;
    assert!((1..20).contains(&dropped), "{dropped}");
    pipe.room = 1000;
    outbox.flush_backlog(conn(), &mut pipe, &mut tally);
    let mut expected = vec!["42[\"first\"]".to_owned(), "430[1]".to_owned()];
    expected.extend((dropped..20).map(|n| format!("42[{n:02}]")));
    let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
    assert_eq!(pipe.taken, framed(&expected));
}
