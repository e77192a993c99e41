//! What a backend has for each shard: small things go in one letter, in their order with all else.

use super::shards::ToShards;
use backend::Down;
use rules::{Line, Spread, Word};
use std::sync::Arc;

/// A shard does all of one letter in one go: its clients wait for no more than that.
const BAG: usize = 64;

pub(super) struct Bags {
    shards: Arc<dyn ToShards>,
    /// The sender of all letters.
    line: Arc<dyn Line>,
    bags: Vec<Vec<Down>>,
    /// The shard by which everything goes, if one orders the events of the backend's namespaces.
    home: Option<u16>,
}

impl Bags {
    pub(super) fn new(shards: Arc<dyn ToShards>, line: Arc<dyn Line>) -> Self {
        let bags = (0..shards.shards()).map(|_| Vec::new()).collect();
        Self {
            shards,
            line,
            bags,
            home: None,
        }
    }

    /// About one socket, for the shard that has it; it may wait for `send_all`.
    pub(super) fn put(&mut self, shard: u16, down: Down) {
        if !down.goes_with_others() {
            return self.send(shard, down, Spread::Alone);
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

    /// At once, behind what waits for the same shard.
    pub(super) fn send(&mut self, shard: u16, down: Down, spread: Spread) {
        self.empty(shard);
        self.hand_over(shard, vec![down], spread);
    }

    /// To all shards, one of which tells other nodes, too.
    pub(super) fn send_to_all(&mut self, down: &Down) {
        let leads = self.home.unwrap_or(0);
        for shard in 0..self.shards.shards() {
            let spread = match shard == leads {
                true => Spread::Leads,
                false => Spread::Follows,
            };
            self.send(shard, down.clone(), spread);
        }
    }

    /// From now on everything goes by this shard: it gives the events of the backend's namespaces their order. What is said before
    /// an event is so before it on all shards, and what is said later behind it.
    pub(super) fn go_by(&mut self, home: Option<u16>) {
        if self.home != home {
            self.send_all();
            self.home = home;
        }
    }

    /// An event of a namespace that keeps some: its home sends it to all others.
    pub(super) fn publish(&mut self, home: u16, down: Down) {
        self.send_all();
        self.hand_over(home, vec![down], Spread::Leads);
    }

    fn hand_over(&self, shard: u16, downs: Vec<Down>, spread: Spread) {
        let word = Word::new(shard, Arc::clone(&self.line), downs, spread);
        self.shards.send(self.home.unwrap_or(shard), word);
    }

    pub(super) fn send_all(&mut self) {
        (0..self.shards.shards()).for_each(|shard| self.empty(shard));
    }

    fn empty(&mut self, shard: u16) {
        let bag = self.bags.get_mut(usize::from(shard));
        if let Some(bag) = bag.filter(|bag| !bag.is_empty()) {
            let downs = std::mem::take(bag);
            self.hand_over(shard, downs, Spread::Alone);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use backend::{Ack, Name, Up, Why};
    use hub::Keeping;
    use prost::bytes::Bytes;
    use std::sync::Mutex;
    use std::time::Duration;

    #[derive(Default)]
    struct Sent(Mutex<Vec<(u16, Word)>>);

    impl ToShards for Sent {
        fn shards(&self) -> u16 {
            2
        }

        fn send(&self, by: u16, word: Word) {
            self.0.lock().unwrap().push((by, word));
        }

        fn keeping(&self) -> Arc<Keeping> {
            Arc::default()
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
            letters.flat_map(|letter| letter.1.downs()).map(number)
        };
        assert!(of(1).eq(1..=72), "in their order");
        assert!(of(0).eq([1]));
        let sizes: Vec<usize> = sent.iter().map(|letter| letter.1.downs().len()).collect();
        assert_eq!(sizes, [64, 6, 1, 1, 1]);
    }
    /// An event went straight to each shard, and was in no order with what its home had for them.
    #[test]
    fn with_a_home_everything_goes_by_it_in_the_order_in_which_it_was_said() {
        let sent = Arc::<Sent>::default();
        let shards = Arc::clone(&sent) as Arc<dyn ToShards>;
        let mut bags = Bags::new(shards, Arc::new(Silent));
        bags.put(0, ack(1));
        bags.go_by(Some(1));
        bags.put(0, ack(2));
        bags.publish(1, ack(3));
        bags.put(0, ack(4));
        bags.send_to_all(&ack(5));
        let sent = sent.0.lock().unwrap();
        let way =
            |(by, word): &(u16, Word)| (*by, word.shard(), number(&word.downs()[0]), word.spread());
        let ways: Vec<_> = sent.iter().map(way).collect();
        let expected = [
            (0, 0, 1, Spread::Alone),
            (1, 0, 2, Spread::Alone),
            (1, 1, 3, Spread::Leads),
            (1, 0, 4, Spread::Alone),
            (1, 0, 5, Spread::Follows),
            (1, 1, 5, Spread::Leads),
        ];
        assert_eq!(ways, expected);
    }
}
