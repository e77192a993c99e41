//! Holes: when they are asked for, and what happens to what waits.

use super::*;
use crate::frame::{self, Epoch, Frame, NodeId};
use crate::outlet::{Outlet, Publish};

const TICK_US: u64 = 100_000;

fn peer(node: u16) -> Peer {
    let epoch = Epoch(1);
    let node = NodeId(node);
    Peer { node, epoch }
}

fn arrive(inlet: &mut Inlet, publish: &Publish, out: &mut Vec<Output>) {
    let message = Arc::new(publish.frame.to_vec());
    if let Ok((_, Frame::Letters(letters))) = frame::read(&message) {
        inlet.letters(&letters, &message, out);
    }
}

/// Repairs of one sequence took longer than the patience, and those of the other one, which waited behind them, were given up.
#[test]
fn a_long_repair_of_one_sequence_gave_the_other_one_up() {
    let (mut outlet, mut inlet) = (
        Outlet::new(peer(0), Default::default()),
        Inlet::new(peer(0), Limits::default()),
    );
    outlet.add(peer(1), 0);
    let mut frames = Vec::new();
    for now_us in 0..60 {
        outlet.send(&[NodeId(1)], b"near", now_us);
        outlet.flood(b"wide", now_us);
        outlet.take(&mut frames, now_us + 1_000);
    }
    outlet.take(&mut frames, 1_000_000);
    let (flood, inbox): (Vec<&Publish>, Vec<&Publish>) = frames
        .iter()
        .partition(|publish| publish.channel == crate::outlet::Channel::Flood);
    assert!(flood.len() >= 60 && inbox.len() >= 60);
    let (known, mut out) = (outlet.lanes().known().next().expect("a lane"), Vec::new());
    inlet.heartbeat(outlet.lanes().flood_position(), Some(known), &mut out);
    let mut now_us = 0;
    // One frame comes at each tick: first all of one sequence, which takes six seconds, then all of the other.
    for publish in inbox.into_iter().chain(flood) {
        now_us += TICK_US;
        inlet.tick(now_us, TICK_US, true, &mut out);
        arrive(&mut inlet, publish, &mut out);
    }
    inlet.tick(now_us + TICK_US, TICK_US, true, &mut out);
    assert_eq!((inlet.received().lost, out.len()), (0, 120));
    // What nobody repairs is given up after all.
    inlet.heartbeat(outlet.lanes().flood_position() + 1, Some(known), &mut out);
    for _ in 0..Limits::default().patience_us / TICK_US + 5 {
        now_us += TICK_US;
        inlet.tick(now_us, TICK_US, true, &mut out);
    }
    assert_eq!(inlet.received().lost, 1);
}

/// Frames of so many letters of so many bytes, one every so many microseconds, and the publisher's outlet.
fn frames(count: u64, bytes: usize, every_us: u64) -> (Outlet, Vec<Publish>) {
    let mut outlet = Outlet::new(peer(0), Default::default());
    outlet.add(peer(1), 0);
    let mut frames = Vec::new();
    for at in 1..=count {
        outlet.send(&[NodeId(1)], &vec![0; bytes], at * every_us);
        outlet.take(&mut frames, at * every_us + 1_000);
    }
    assert_eq!(frames.len() as u64, count);
    (outlet, frames)
}

/// On a healthy Redis Cluster channels of different masters overtake each other. Each time the letters on their way were asked for.
#[test]
fn letters_that_were_overtaken_were_asked_for() {
    let (outlet, frames) = frames(3, 10, 1_000_000);
    let (mut inlet, mut out) = (Inlet::new(peer(0), Limits::default()), Vec::new());
    let known = outlet.lanes().known().next().expect("a lane");
    let first = Known { sent: 1, ..known };
    inlet.heartbeat(0, Some(first), &mut out);
    let mut asks = Vec::new();
    let mut pass = |inlet: &mut Inlet, from_us: u64, to_us: u64| {
        let mut asked_us = None;
        for now_us in (from_us..to_us).step_by(500) {
            let asked = inlet.tick(now_us, 500, true, &mut Vec::new());
            if !asked.is_empty() && asked_us.is_none() {
                asked_us = Some(now_us);
                asks.extend(asked);
            }
        }
        asked_us
    };
    assert_eq!(pass(&mut inlet, 1_000_000, 1_049_000), None);
    arrive(&mut inlet, &frames[0], &mut out);
    assert_eq!(inlet.due_us(), None);
    // The second one is lost, which the third one shows.
    arrive(&mut inlet, &frames[2], &mut out);
    let asked_us = pass(&mut inlet, 1_100_000, 1_200_000).expect("a question");
    assert!((1_150_000..=1_152_000).contains(&asked_us), "{asked_us}");
    let ask = Ask {
        stream: Stream::Inbox,
        from: 2,
        to: 2,
    };
    assert_eq!((asks, inlet.received().gaps), (vec![ask], 1));
    arrive(&mut inlet, &frames[1], &mut out);
    assert_eq!(out.len(), 3);
}

/// After a node had stood still for eight seconds, all that it had missed reached its members at once.
#[test]
fn what_was_repaired_came_all_at_once() {
    // A second as usual, eight that are missed, and some that come while those are repaired.
    let (count, bytes, every_us) = (3_600, 3_000, 3_333);
    let (outlet, frames) = frames(count, bytes, every_us);
    let (mut inlet, mut out) = (Inlet::new(peer(0), Limits::default()), Vec::new());
    let known = outlet.lanes().known().next().expect("a lane");
    inlet.heartbeat(0, Some(Known { sent: 0, ..known }), &mut out);
    let (mut now_us, mut at) = (0, 0);
    let mut most = (0, 0);
    let mut window = Vec::new();
    while out.len() < frames.len() {
        now_us += 2_000;
        assert!(now_us < 25_000_000, "{} came", out.len());
        let before = out.len();
        let passed = if now_us == 11_000_000 {
            8_000_000
        } else {
            2_000
        };
        inlet.tick(now_us, passed, true, &mut out);
        let due = (now_us / every_us).min(count) as usize;
        if (3_000_000..11_000_000).contains(&now_us) {
            // It stands still.
        } else if now_us == 11_000_000 {
            inlet.slow_down(now_us);
            frames[due - 1..due]
                .iter()
                .for_each(|frame| arrive(&mut inlet, frame, &mut out));
        } else if now_us == 11_100_000 {
            // All repairs at once.
            frames[at..due]
                .iter()
                .for_each(|frame| arrive(&mut inlet, frame, &mut out));
            at = due;
        } else if !(3_000_000..=11_100_000).contains(&now_us) {
            frames[at..due]
                .iter()
                .for_each(|frame| arrive(&mut inlet, frame, &mut out));
            at = at.max(due);
        }
        window.push(out.len() - before);
        let tenth: usize = window.iter().rev().take(50).sum();
        if out.len() < frames.len() {
            most = most.max((tenth * bytes, now_us));
        }
    }
    assert!(
        most.0 < 2_500_000,
        "{most:?}: bytes in a tenth of a second, and when"
    );
    assert!(now_us < 16_000_000, "{now_us}");
    assert_eq!(inlet.received().lost, 0);
}

/// Letters of a byte that waited were charged less than they took: each is a place in a message, and the message stays until all have left.
#[test]
fn what_waits_is_charged_with_its_message() {
    let mut outlet = Outlet::new(peer(0), Default::default());
    outlet.add(peer(1), 0);
    let mut frames = Vec::new();
    outlet.send(&[NodeId(1)], b"first", 0);
    outlet.take(&mut frames, 1_000);
    (0..100).for_each(|_| outlet.send(&[NodeId(1)], b"x", 2_000));
    outlet.take(&mut frames, 4_000);
    let (mut inlet, mut out) = (Inlet::new(peer(0), Limits::default()), Vec::new());
    let known = outlet.lanes().known().next().expect("a lane");
    inlet.heartbeat(0, Some(known), &mut out);
    let late = &frames[1..];
    late.iter()
        .for_each(|publish| arrive(&mut inlet, publish, &mut out));
    let messages: usize = late.iter().map(|publish| publish.frame.len()).sum();
    assert_eq!(inlet.held_bytes, messages + 100 * size_of::<Part>());
    // The next process keeps them in one piece, without the frame around them.
    let [inbox, flood] = inlet.tracks_record().map(Some);
    let record = handoff::cluster::Peer {
        lane: inlet.lane,
        inbox,
        flood,
        ..Default::default()
    };
    let mut heir = Inlet::restored(peer(0), Limits::default(), &record).expect("a record");
    assert_eq!(heir.held_bytes, 100 + 100 * size_of::<Part>());
    arrive(&mut heir, &frames[0], &mut out);
    assert_eq!((out.len(), heir.held_bytes), (101, 0));
}
