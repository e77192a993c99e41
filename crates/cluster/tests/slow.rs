//! An engine that takes everything, and needs seconds for it.

use cluster::frame::{Epoch, NodeId, Peer};
use cluster::node::{Event, Limits, Node};
use std::collections::VecDeque;
use std::sync::Arc;

const MS: u64 = 1_000;
const DELAY_US: u64 = 5_000 * MS;

/// Two nodes, and messages of both on their way, in the order in which they were sent.
struct World {
    nodes: [Node; 2],
    now_us: u64,
    delay_us: u64,
    under_way: VecDeque<(u64, Arc<[u8]>)>,
    /// Messages that arrive now reach nobody.
    forgets: bool,
    came: Vec<u8>,
}

impl World {
    fn pass(&mut self, for_us: u64) {
        let until_us = self.now_us + for_us;
        while self.now_us < until_us {
            self.now_us += 5 * MS;
            self.step();
        }
    }

    fn step(&mut self) {
        let now_us = self.now_us;
        self.nodes.iter_mut().for_each(|node| node.begin(now_us));
        while let Some((_, frame)) = self.under_way.pop_front_if(|(due_us, _)| *due_us <= now_us) {
            if !self.forgets {
                self.nodes
                    .iter_mut()
                    .for_each(|node| node.arrived(frame.to_vec()));
            }
        }
        for node in &mut self.nodes {
            let mut batch = Vec::new();
            node.take(&mut batch);
            let frames = batch.iter().map(|one| Arc::clone(&one.frame));
            self.under_way
                .extend(frames.map(|frame| (now_us + self.delay_us, frame)));
            if !batch.is_empty() {
                node.ended(batch, |_| true);
            }
            for event in node.events() {
                match event {
                    Event::Letter { letter, .. } => self.came.extend(letter.iter()),
                    Event::Lost { letters, .. } => panic!("{letters:?} letters are lost"),
                    _ => {}
                }
            }
        }
    }
}

/// A question and its answer took ten seconds while Redis was overloaded. After two the asker gave up what the publisher still had.
#[test]
fn what_a_slow_engine_brought_late_was_given_up() {
    let node = |number: u16| {
        let (node, epoch) = (NodeId(number), Epoch(1));
        Node::new(Peer { node, epoch }, Limits::default())
    };
    let mut world = World {
        nodes: [node(1), node(2)],
        now_us: 0,
        delay_us: 0,
        under_way: VecDeque::new(),
        forgets: false,
        came: Vec::new(),
    };
    world.nodes[1].hold(7);
    world.pass(1_000 * MS);
    world.delay_us = DELAY_US;
    for n in 0..200 {
        world.nodes[0].send(&[7], &[n]);
        world.pass(10 * MS);
    }
    world.pass(DELAY_US - 1_500 * MS);
    world.forgets = true;
    world.pass(500 * MS);
    world.forgets = false;
    world.pass(60_000 * MS);
    assert_eq!(world.came, (0..200).collect::<Vec<u8>>());
}
