//! Frames that leave, when, and which are sent again.

use super::queue::PAUSE_US;
use super::repairs::CROSSING_US;
use super::*;
use crate::frame::{Epoch, Frame};

fn peer(node: u16) -> Peer {
    Peer {
        node: NodeId(node),
        epoch: Epoch(1),
    }
}

fn outlet(limits: Limits) -> Outlet {
    let mut outlet = Outlet::new(peer(0), limits);
    (1..4).for_each(|node| outlet.add(peer(node), 0));
    outlet
}

fn take(outlet: &mut Outlet, now_us: u64) -> Vec<Publish> {
    let mut batch = Vec::new();
    outlet.take(&mut batch, now_us);
    batch
}

/// Channel, position of the first letter and number of letters.
fn shapes(batch: &[Publish]) -> Vec<(Channel, u64, u16)> {
    let shape = |publish: &Publish| match frame::read(&publish.frame) {
        Ok((_, Frame::Letters(letters))) => (publish.channel, letters.first, letters.count),
        other => panic!("{other:?}"),
    };
    batch.iter().map(shape).collect()
}

#[test]
fn an_idle_outlet_sends_at_once_and_a_busy_one_gathers() {
    let mut outlet = outlet(Limits::default());
    let inbox = Channel::Inbox(NodeId(1));
    outlet.send(&[NodeId(1)], b"a", 0);
    let first = take(&mut outlet, 0);
    assert_eq!(shapes(&first), [(inbox, 1, 1)]);
    for _ in 0..3 {
        outlet.send(&[NodeId(1)], b"b", 10);
    }
    assert!(take(&mut outlet, 20).is_empty());
    assert_eq!(outlet.due_us(20), Some(510));
    outlet.ended(first, |_| true, 20);
    assert_eq!(shapes(&take(&mut outlet, 30)), [(inbox, 2, 3)]);
}

#[test]
fn a_letter_waits_no_longer_than_it_may() {
    let mut outlet = outlet(Limits::default());
    outlet.send(&[NodeId(1)], b"a", 0);
    take(&mut outlet, 0);
    outlet.flood(b"b", 100);
    assert!(take(&mut outlet, 599).is_empty());
    assert_eq!(shapes(&take(&mut outlet, 600)), [(Channel::Flood, 1, 1)]);
}

/// A letter every `every_us` for a tenth of a second, to an engine that answers at once. How many batches left, and how many
/// microseconds the letters waited in all.
fn stream(outlet: &mut Outlet, every_us: u64) -> (u64, u64) {
    let (mut batches, mut waited_us, mut waiting) = (0, 0, Vec::new());
    for now_us in (0..100_000).step_by(10) {
        if now_us % every_us == 0 {
            outlet.send(&[NodeId(1)], b"a", now_us);
            waiting.push(now_us);
        }
        let batch = take(outlet, now_us);
        if !batch.is_empty() {
            outlet.ended(batch, |_| true, now_us);
            batches += 1;
            waited_us += waiting.drain(..).map(|since| now_us - since).sum::<u64>();
        }
    }
    (batches, waited_us)
}

#[test]
fn under_load_batches_leave_twice_a_millisecond() {
    let mut outlet = outlet(Limits::default());
    let (batches, waited_us) = stream(&mut outlet, 10);
    assert!((195..=210).contains(&batches), "{batches}");
    // On average half of the time between batches.
    assert!(waited_us <= 10_000 * 260, "{waited_us}");
    let [idle, waited, full, order] = outlet.sent().frames;
    assert_eq!((idle + waited, full, order), (batches, 0, 0));
}

#[test]
fn letters_that_come_slower_than_batches_may_leave_do_not_wait() {
    let mut outlet = outlet(Limits::default());
    assert_eq!(stream(&mut outlet, 600), (167, 0));
    // Nor does a burst after a quiet time.
    for now_us in 110_000..110_008 {
        outlet.send(&[NodeId(1)], b"a", now_us);
        let batch = take(&mut outlet, now_us);
        assert_eq!(batch.len(), 1, "{now_us}");
        outlet.ended(batch, |_| true, now_us);
    }
}

#[test]
fn frames_of_both_sequences_do_not_overlap() {
    let mut outlet = outlet(Limits::default());
    for _ in 0..2 {
        outlet.send(&[NodeId(1)], b"inbox", 0);
        outlet.send(&[NodeId(2)], b"inbox", 0);
        outlet.flood(b"flood", 0);
    }
    let batch = take(&mut outlet, 0);
    let links: Vec<_> = batch
        .iter()
        .map(|publish| match frame::read(&publish.frame) {
            Ok((_, Frame::Letters(letters))) => match letters.stream {
                Stream::Inbox => ("inbox", letters.flood_before),
                Stream::Flood => ("flood", letters.inbox_before(2)),
            },
            other => panic!("{other:?}"),
        })
        .collect();
    let expected = [
        ("inbox", 0),
        ("inbox", 0),
        ("flood", 1),
        ("inbox", 1),
        ("inbox", 1),
        ("flood", 2),
    ];
    assert_eq!(links, expected);
}

#[test]
fn a_ring_that_is_too_short_says_what_is_gone() {
    let mut outlet = outlet(Limits {
        ring_bytes: 200,
        ..Limits::default()
    });
    for n in 0..10 {
        let now_us = u64::from(n) * 1_000;
        outlet.send(&[NodeId(1)], &[n; 10], now_us);
        let batch = take(&mut outlet, now_us);
        outlet.ended(batch, |_| true, now_us);
    }
    let kept = (1..=10).filter_map(|n| outlet.lanes.find(NodeId(1), Stream::Inbox, n, n));
    assert!(kept.map(|(_, frame)| frame.len()).sum::<usize>() <= 200);
    outlet.nack(NodeId(1), Stream::Inbox, 1, (2, 10), 20_000);
    let batch = take(&mut outlet, 20_000);
    let gone = batch
        .iter()
        .find_map(|publish| match frame::read(&publish.frame) {
            Ok((_, Frame::Gone { upto, .. })) => Some(upto),
            _ => None,
        });
    let again = batch
        .iter()
        .filter_map(|publish| match frame::read(&publish.frame) {
            Ok((_, Frame::Letters(letters))) => Some(letters.first),
            _ => None,
        });
    let again: Vec<_> = again.collect();
    let gone = gone.expect("an answer");
    assert_eq!(again, (gone + 1..=10).collect::<Vec<_>>());
    assert!(again.len() > 1 && gone >= 2, "{gone} {again:?}");
}

#[test]
fn an_engine_that_is_away_fills_a_bounded_queue() {
    let mut outlet = outlet(Limits {
        queue_bytes: 1_000,
        frame_letters: 1,
        ..Limits::default()
    });
    let taken = (0..100).take_while(|_| {
        let has_room = outlet.queue.has_room(50);
        outlet.flood(&[0; 50], 0);
        has_room
    });
    assert!((5..20).contains(&taken.count()));
    let batch = take(&mut outlet, 0);
    let count = batch.len();
    outlet.ended(batch, |_| false, 0);
    assert!(take(&mut outlet, 1).is_empty());
    assert_eq!(outlet.due_us(1), Some(PAUSE_US));
    let batch = take(&mut outlet, PAUSE_US);
    assert_eq!(batch.len(), count);
    outlet.ended(batch, |_| true, PAUSE_US);
    assert_eq!(outlet.queue.bytes(), 0);
    assert!(outlet.queue.has_room(50));
}

/// A batch failed as a whole when one server of several did not take its part, and everything waited for that server.
#[test]
fn a_channel_whose_server_is_away_held_up_the_others() {
    let mut outlet = outlet(Limits::default());
    let (away, there) = (NodeId(1), NodeId(2));
    outlet.send(&[away, there], b"a", 0);
    let batch = take(&mut outlet, 0);
    let is_there: Vec<bool> = batch
        .iter()
        .map(|one| one.channel == Channel::Inbox(there))
        .collect();
    outlet.ended(batch, |at| is_there[at], 1_000);
    outlet.send(&[away, there], b"b", 2_000);
    let batch = take(&mut outlet, 2_000);
    assert_eq!(shapes(&batch), [(Channel::Inbox(there), 2, 1)]);
    outlet.ended(batch, |_| true, 3_000);
    let again = 1_000 + PAUSE_US;
    assert_eq!(outlet.due_us(3_000), Some(again));
    let batch = take(&mut outlet, again);
    assert_eq!(
        shapes(&batch),
        [(Channel::Inbox(away), 1, 1), (Channel::Inbox(away), 2, 1)]
    );
    outlet.ended(batch, |_| true, again);
    assert_eq!(outlet.queue.bytes(), 0);
}

/// A question that was on its way when its answer left was answered again: each frame came more than twice.
#[test]
fn a_question_that_crossed_its_answer_was_answered_again() {
    let mut outlet = outlet(Limits::default());
    for now_us in 0..5 {
        outlet.send(&[NodeId(1)], b"a", now_us);
        let batch = take(&mut outlet, now_us);
        outlet.ended(batch, |_| true, now_us);
    }
    let ask = |outlet: &mut Outlet, to: u64, now_us: u64| {
        outlet.nack(NodeId(1), Stream::Inbox, 1, (2, to), now_us);
        let batch = take(outlet, now_us);
        let firsts: Vec<u64> = shapes(&batch).iter().map(|(_, first, _)| *first).collect();
        if !batch.is_empty() {
            outlet.ended(batch, |_| true, now_us);
        }
        firsts
    };
    assert_eq!(ask(&mut outlet, 3, 10), [2, 3]);
    assert_eq!(ask(&mut outlet, 3, 20), []);
    assert_eq!(ask(&mut outlet, 4, 30), [4], "what was not asked for yet");
    // The answer may be lost as well.
    assert_eq!(ask(&mut outlet, 4, 30 + CROSSING_US), [2, 3, 4]);
}

/// While a server stood still, each batch for the others brought more repairs for it: they filled the queue, and publishers were
/// refused.
#[test]
fn repairs_for_a_server_that_stands_still_filled_the_queue() {
    let mut outlet = outlet(Limits::default());
    let (frozen, awake) = (NodeId(1), NodeId(2));
    for now_us in (0..400_000).step_by(1_000) {
        outlet.send(&[frozen], &[0; 16 * 1024], now_us);
        let batch = take(&mut outlet, now_us);
        outlet.ended(batch, |_| true, now_us);
    }
    outlet.nack(frozen, Stream::Inbox, 1, (1, 400), 400_000);
    let mut stuck = Vec::new();
    for now_us in (401_000..800_000).step_by(1_000) {
        outlet.send(&[awake], b"a", now_us);
        let batch = take(&mut outlet, now_us);
        match batch
            .iter()
            .any(|one| one.channel == Channel::Inbox(frozen))
        {
            true => stuck.push(batch),
            false if batch.is_empty() => {}
            false => outlet.ended(batch, |_| true, now_us),
        }
    }
    let waiting = outlet.queue.bytes();
    assert!(waiting < 2 * 1024 * 1024, "{waiting} bytes wait");
    // It goes on, and gets the rest.
    for batch in stuck {
        outlet.ended(batch, |_| true, 900_000);
    }
    while outlet.due_us(900_000) == Some(900_000) {
        let batch = take(&mut outlet, 900_000);
        outlet.ended(batch, |_| true, 900_000);
    }
    assert_eq!((outlet.sent().repairs, outlet.queue.bytes()), (400, 0));
}
