//! What a node keeps of the keys of another one.

#![expect(
    unsafe_code,
    reason = "an allocator that counts is unsafe by its trait"
)]

mod common;

use cluster::frame::{Epoch, NodeId, Peer};
use cluster::node::{Limits, Node};
use common::run;
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

const KEYS: u64 = 200_000;

static HELD: AtomicUsize = AtomicUsize::new(0);

/// Counts the bytes that are held.
struct Counting;

// SAFETY: passes everything on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        HELD.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

fn node(number: u16) -> Node {
    let me = Peer {
        node: NodeId(number),
        epoch: Epoch(1),
    };
    let mut limits = Limits::default();
    // Repairs are not what is measured.
    limits.outlet.ring_bytes = 1;
    Node::new(me, limits)
}

#[test]
fn a_key_of_another_node_takes_little_memory() {
    let (mut here, mut there, mut now_us) = (node(1), node(2), 0);
    run(&mut [&mut there], &mut now_us, 1_000_000);
    for key in 0..KEYS {
        there.hold(key.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        if key % 1_000 == 0 {
            run(&mut [&mut there], &mut now_us, 10_000);
        }
    }
    run(&mut [&mut there], &mut now_us, 1_000_000);
    let before = HELD.load(Ordering::Relaxed);
    run(&mut [&mut here, &mut there], &mut now_us, 3_000_000);
    let all = here.send(&[0], b"letter");
    assert_eq!(all, [NodeId(2)], "it knows the other's keys");
    let each = (HELD.load(Ordering::Relaxed) - before) as f64 / KEYS as f64;
    println!("{each:.1} bytes for each key");
    assert!(each < 130.0, "{each}");
}
