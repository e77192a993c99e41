//! What holds for every dialogue, however the network tears it: input in any pieces gives the same output, a kernel that takes
//! output in any pieces gets the same bytes, and who is cut off at any byte leaves nothing behind.

use crate::memory::{Deed, Recording, expect_nothing_left};
use crate::rig::{Kernel, Rig, dice, frames, masked};
use client::Frame;
use hub::config::{Config, SlowConsumer};
use hub::{Entropy, Written};
use proptest::prelude::*;
use std::sync::OnceLock;

fn recordings() -> &'static [Recording] {
    static ALL: OnceLock<Vec<Recording>> = OnceLock::new();
    ALL.get_or_init(Recording::all)
}

/// A number below `bound` from seeded dice.
fn roll(dice: &mut Entropy, bound: usize) -> usize {
    let mut bytes = [0; 4];
    dice(&mut bytes);
    u32::from_le_bytes(bytes) as usize % bound.max(1)
}

/// Cuts bytes into pieces: often single ones, sometimes many.
fn pieces(bytes: &[u8], dice: &mut Entropy) -> Vec<Vec<u8>> {
    let mut rest = bytes;
    let mut pieces = Vec::new();
    while !rest.is_empty() {
        let longest = if roll(dice, 2) == 0 { 2 } else { 40 };
        let (piece, more) = rest.split_at((1 + roll(dice, longest)).min(rest.len()));
        pieces.push(piece.to_vec());
        rest = more;
    }
    pieces
}

fn received(rig: &mut Rig) -> Vec<Vec<u8>> {
    (0..rig.wires.links.len())
        .map(|name| rig.take(name))
        .collect()
}

/// Compares byte by byte, and shows text.
fn assert_same(got: &[Vec<u8>], wanted: &[Vec<u8>], context: &str) {
    assert_eq!(got.len(), wanted.len(), "{context}: connections");
    for (name, (got, wanted)) in got.iter().zip(wanted).enumerate() {
        let show = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(
            got == wanted,
            "{context}, connection {name}:\n{}\nnot\n{}",
            show(got),
            show(wanted)
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    /// Within a turn, input may come in any pieces.
    #[test]
    fn any_chunking_gives_the_same_output(which in 0..recordings().len(), seed: u64) {
        let recording = &recordings()[which];
        let (mut rig, mut dice) = (recording.rig(), dice(seed));
        for deed in &recording.deeds {
            if let Deed::Bytes(name, bytes) = deed {
                pieces(bytes, &mut dice).iter().for_each(|piece| rig.bytes(*name, piece));
                rig.finish_turn();
            } else {
                recording.redo(&mut rig, deed);
            }
        }
        assert_same(&received(&mut rig), &recording.got, "in pieces");
    }

    /// Pieces may also come in turns of their own.
    #[test]
    fn any_turns_give_the_same_output(which in 0..recordings().len(), seed: u64) {
        let recording = &recordings()[which];
        let (mut rig, mut dice) = (recording.rig(), dice(seed));
        for deed in &recording.deeds {
            if let Deed::Bytes(name, bytes) = deed {
                pieces(bytes, &mut dice).iter().for_each(|piece| rig.send(*name, piece));
            } else {
                recording.redo(&mut rig, deed);
            }
        }
        assert_same(&received(&mut rig), &recording.got, "in turns");
    }

    /// A kernel that takes a few bytes at a time, or none now, gets every byte once and in order.
    #[test]
    fn any_kernel_gets_the_same_output(which in 0..recordings().len(), seed: u64) {
        let recording = &recordings()[which];
        let mut rig = recording.rig();
        rig.wires.kernel = reluctant(seed);
        for deed in &recording.deeds {
            recording.redo(&mut rig, deed);
            unblock(&mut rig);
        }
        assert_same(&received(&mut rig), &recording.got, "by a reluctant kernel");
    }

    /// Cut off at any byte, politely or not: when the timers are over, no connection, session, socket or room is left.
    #[test]
    fn cut_off_anywhere_nothing_is_left(which in 0..recordings().len(), at: prop::sample::Index, seed: u64) {
        let recording = &recordings()[which];
        let (mut rig, mut dice) = (recording.rig(), dice(seed));
        let mut left = at.index(recording.len() + 1);
        for deed in &recording.deeds {
            match deed {
                Deed::Bytes(name, bytes) if bytes.len() >= left => {
                    rig.send(*name, &bytes[..left]);
                    break;
                }
                Deed::Bytes(_, bytes) => left -= bytes.len(),
                _ => {}
            }
            recording.redo(&mut rig, deed);
        }
        let names = rig.wires.links.len();
        for name in 0..names {
            match roll(&mut dice, 3) {
                0 => rig.end(name),
                1 => rig.break_off(name),
                // It stays silent: the deadlines must find it.
                _ => {}
            }
        }
        expect_nothing_left_but_heartbeats(&mut rig, names);
    }

    /// Bytes of one dialogue with others' mixed in, wrong ones too: nothing panics, all tables agree.
    #[test]
    fn noise_leaves_the_tables_whole(which in 0..recordings().len(), seed: u64) {
        let recording = &recordings()[which];
        let (mut rig, mut dice) = (recording.rig(), dice(seed));
        for deed in &recording.deeds {
            match deed {
                Deed::Bytes(name, bytes) => {
                    let mut bytes = bytes.clone();
                    if roll(&mut dice, 3) == 0 {
                        let at = roll(&mut dice, bytes.len());
                        dice(&mut bytes[at..at + 1]);
                    }
                    let links = rig.wires.links.len();
                    let name = if roll(&mut dice, 8) == 0 { roll(&mut dice, links) } else { *name };
                    rig.send(name, &bytes);
                }
                deed => recording.redo(&mut rig, deed),
            }
        }
        let names = rig.wires.links.len();
        (0..names).for_each(|name| rig.break_off(name));
        expect_nothing_left(&mut rig);
    }

    /// A client that reads nothing costs no more than its bound, whatever the policy; the others miss nothing.
    #[test]
    fn who_does_not_read_costs_its_bound(drops: bool, sizes in prop::collection::vec(1usize..3_000, 20..120)) {
        let mut config = Config::default();
        config.limits.outbox_bytes_max = 20_000;
        config.slow_consumer = if drops { SlowConsumer::DropOldest } else { SlowConsumer::Disconnect };
        let bound = config.limits.outbox_bytes_max;
        let mut rig = Rig::lab(config, 1);
        let [sender, slow, fast] = [(); 3].map(|()| joined(&mut rig));
        rig.wires.kernel = Box::new(move |name, n| if name == slow { Written::WouldBlock } else { Written::Bytes(n) });
        let mut wanted = Vec::new();
        for (n, size) in sizes.iter().enumerate() {
            let event = format!("42[\"shout\",{n},\"{}\"]", "x".repeat(*size));
            rig.send(sender, &masked(event.as_bytes()));
            wanted.push(event);
            let memory = rig.hub.memory();
            let outboxes = memory.iter().find(|(part, _)| *part == "outboxes").map_or(0, |(_, bytes)| *bytes);
            prop_assert!(outboxes <= 2 * (bound + 3_100) + 100, "{outboxes} bytes for {bound}");
        }
        prop_assert_eq!(&texts(&rig.take(fast)), &wanted);
        rig.wires.kernel = Box::new(|_, n| Written::Bytes(n));
        unblock(&mut rig);
        let late = texts(&rig.take(slow));
        // Each event has a frame's header and an entry in the list.
        let over: usize = wanted.iter().map(|event| event.len() + 4 + 48).sum();
        prop_assert_eq!(late == wanted, over <= bound || late.len() == wanted.len());
        if drops {
            // Whole events are missing from the front or middle; what came is in order and came once.
            let mut rest = wanted.iter();
            prop_assert!(late.iter().all(|text| rest.any(|event| event == text)));
            prop_assert_eq!(late.last(), wanted.last());
            prop_assert_eq!(rig.hub.census().sockets, 3);
        } else if over > bound + 4 * wanted.len() {
            prop_assert_eq!(late, vec!["close 4001".to_owned()]);
            prop_assert_eq!(rig.hub.census().sockets, 2);
        }
    }
}

/// Takes some, or nothing, or all.
fn reluctant(seed: u64) -> Kernel {
    let mut dice = dice(seed);
    Box::new(move |_, n| match roll(&mut dice, 6) {
        0 => Written::WouldBlock,
        1 => Written::Bytes(n),
        2 => Written::Held(n),
        3 => Written::Held(1 + roll(&mut dice, n.min(30))),
        _ => Written::Bytes(1 + roll(&mut dice, n.min(30))),
    })
}

/// Tells the hub that sockets are writable until none is blocked.
fn unblock(rig: &mut Rig) {
    while let Some(name) = rig.wires.links.iter().position(|link| link.blocked) {
        rig.wires.links[name].blocked = false;
        rig.writable(name);
        rig.finish_turn();
    }
}

/// Silent clients are found by heartbeats; polling ones whose connection idles, by that timeout.
fn expect_nothing_left_but_heartbeats(rig: &mut Rig, names: usize) {
    for _ in 0..4 {
        rig.pass(std::time::Duration::from_secs(60));
    }
    (0..names).for_each(|name| rig.end(name));
    expect_nothing_left(rig);
}

const HELLO: &str = "GET /socket.io/?EIO=4&transport=websocket HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\n\
    Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

/// A client in the main namespace that has read everything so far.
fn joined(rig: &mut Rig) -> usize {
    let name = rig.open();
    rig.send(name, HELLO.as_bytes());
    rig.send(name, &masked(b"40"));
    assert!(String::from_utf8_lossy(&rig.take(name)).contains("40{\"sid\":"));
    name
}

/// The texts of whole frames; a close frame shows its code.
fn texts(bytes: &[u8]) -> Vec<String> {
    let text = |frame: &Frame| match frame.close_code() {
        Some(code) => format!("close {code}"),
        None => String::from_utf8_lossy(&frame.payload).into_owned(),
    };
    frames(bytes, false).iter().map(text).collect()
}
