//! What a backend has for each shard: small things go in one letter, in their order with all else.

use super::ToShards;
use backend::Down;
use rules::Line;
use std::sync::Arc;

/// A shard does all of one letter in one go: its clients wait for no more than that.
const BAG: usize = 64;

pub(super) struct Bags {
    shards: Arc<dyn ToShards>,
    /// The sender of all letters.
    line: Arc<dyn Line>,
    bags: Vec<Vec<Down>>,
}

impl Bags {
    pub(super) fn new(shards: Arc<dyn ToShards>, line: Arc<dyn Line>) -> Self {
        let bags = (0..shards.shards()).map(|_| Vec::new()).collect();
        Self { shards, line, bags }
    }

    /// For one shard; it may wait for `send_all`.
    pub(super) fn put(&mut self, shard: u16, down: Down) {
        if !down.goes_with_others() {
            return self.send(shard, down, false);
        }
        // A socket of a shard that there is not is nobody's.
        let Some(bag) = self.bags.get_mut(usize::from(shard)) else {
            return;
        };
        bag.push(down);
        if bag.len() >= BAG {
            self.empty(shard);
        }
    }

    /// At once, behind what waits for the same shard. `leads`: it tells other nodes, too.
    pub(super) fn send(&mut self, shard: u16, down: Down, leads: bool) {
        self.empty(shard);
        self.shards.send(shard, &self.line, vec![down], leads);
    }

    pub(super) fn send_all(&mut self) {
        (0..self.shards.shards()).for_each(|shard| self.empty(shard));
    }

    fn empty(&mut self, shard: u16) {
        let bag = self.bags.get_mut(usize::from(shard));
        if let Some(bag) = bag.filter(|bag| !bag.is_empty()) {
            let downs = std::mem::take(bag);
            self.shards.send(shard, &self.line, downs, false);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use backend::{Ack, Name, Up, Why};
    use prost::bytes::Bytes;
    use std::sync::Mutex;
    use std::time::Duration;

    #[derive(Default)]
    struct Sent(Mutex<Vec<(u16, Vec<Down>)>>);

    impl ToShards for Sent {
        fn shards(&self) -> u16 {
            2
        }

        fn send(&self, shard: u16, _: &Arc<dyn Line>, downs: Vec<Down>, _: bool) {
            self.0.lock().unwrap().push((shard, downs));
        }

        fn shard_of(&self, _: &str) -> Option<u16> {
            None
        }

        fn are_behind(&self) -> bool {
            false
        }
    }

    struct Silent;

    impl Line for Silent {
        fn decides_openings(&self) -> bool {
            false
        }

        fn up(&self, _: Up) -> bool {
            true
        }

        fn connect_timeout(&self) -> Duration {
            Duration::ZERO
        }
    }

    fn ack(number: u64) -> Down {
        Down::Ack(Ack {
            socket: Name::parse("abcdefghijklmnopqrst").unwrap(),
            ack: number,
            args: Bytes::new(),
            attachments: Vec::new(),
        })
    }

    fn number(down: &Down) -> u64 {
        match down {
            Down::Ack(ack) => ack.ack,
            Down::Refuse { ack, .. } => *ack,
            _ => 0,
        }
    }

    #[test]
    fn what_waits_in_a_bag_goes_before_what_does_not_wait() {
        let sent = Arc::<Sent>::default();
        let shards = Arc::clone(&sent) as Arc<dyn ToShards>;
        let mut bags = Bags::new(shards, Arc::new(Silent));
        for number in 1..=70 {
            bags.put(1, ack(number));
        }
        let socket = Name::parse("abcdefghijklmnopqrst").unwrap();
        let why = Why::Busy;
        bags.put(
            1,
            Down::Refuse {
                socket,
                ack: 71,
                why,
            },
        );
        bags.put(0, ack(1));
        bags.put(1, ack(72));
        bags.send_all();
        let sent = sent.0.lock().unwrap();
        let of = |shard| {
            let letters = sent.iter().filter(move |letter| letter.0 == shard);
            letters.flat_map(|letter| &letter.1).map(number)
        };
        assert!(of(1).eq(1..=72), "in their order");
        assert!(of(0).eq([1]));
        let sizes: Vec<usize> = sent.iter().map(|letter| letter.1.len()).collect();
        assert_eq!(sizes, [64, 6, 1, 1, 1]);
    }
}
