//! What a backend has for the shards, in its order: small things for one shard go in one word, and where a shard gives the events of the
//! backend's namespaces their order, everything goes by that one.

use crate::line::{Line, Spread, Word};
use backend::proto::command::What;
use backend::{Down, Out, To};
use hub::Keeping;
use std::fmt;
use std::sync::Arc;
use std::vec::Drain;

/// A shard does all of one word in one go: its clients wait for no more than that.
const BAG: usize = 64;

/// The outputs of a backend on their way to the shards.
pub struct Bags {
    /// The name of the backend.
    backend: String,
    /// Answers go there.
    line: Arc<dyn Line>,
    /// What waits for others of the same shard.
    bags: Vec<Vec<Down>>,
    /// The shard by which everything goes, if one orders the events of the backend's namespaces.
    home: Option<u16>,
    /// What leaves now, each word with the shard by which it goes.
    words: Vec<(u16, Word)>,
}

impl fmt::Debug for Bags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bags")
            .field("backend", &self.backend)
            .field("bags", &self.bags)
            .field("home", &self.home)
            .field("words", &self.words)
            .finish_non_exhaustive()
    }
}

impl Bags {
    /// Empty ones of this backend, whose answers go to `line`.
    pub fn new(backend: impl Into<String>, line: Arc<dyn Line>, shards: u16) -> Self {
        Self {
            backend: backend.into(),
            line,
            bags: (0..shards).map(|_| Vec::new()).collect(),
            home: None,
            words: Vec::new(),
        }
    }

    /// Takes in what the backend says. `shard_of`: which shard has a socket, by its id. Some of it may wait for [`Self::send_all`].
    pub fn take(
        &mut self,
        said: impl IntoIterator<Item = Out>,
        keeping: &Keeping,
        shard_of: impl Fn(&str) -> Option<u16>,
    ) {
        let shards = self.shards();
        self.go_by(keeping.home_of_key(&self.backend, shards));
        let home_of = |namespace: &str| keeping.home_of(namespace, shards);
        for Out { to, down } in said {
            match to {
                To::Socket(name) => {
                    if let Some(shard) = shard_of(name.as_str()) {
                        self.put(shard, down);
                    }
                }
                To::All => match published_in(&down).and_then(home_of) {
                    Some(home) => self.publish(home, down),
                    None => self.send_to_all(&down),
                },
                To::Shard(shard) => self.send(shard, down, Spread::Alone),
                To::One => self.send(0, down, Spread::Alone),
            }
        }
    }

    /// Nothing waits any more.
    pub fn send_all(&mut self) {
        (0..self.shards()).for_each(|shard| self.empty(shard));
    }

    /// What leaves now, in its order: each word, and the shard by which it goes. Another than the word's own passes it on.
    pub fn words(&mut self) -> Drain<'_, (u16, Word)> {
        self.words.drain(..)
    }

    fn shards(&self) -> u16 {
        self.bags.len() as u16
    }

    /// About one socket, for the shard that has it; it may wait.
    fn put(&mut self, shard: u16, down: Down) {
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
    fn send(&mut self, shard: u16, down: Down, spread: Spread) {
        self.empty(shard);
        self.hand_over(shard, vec![down], spread);
    }

    /// To all shards, one of which tells other nodes, too.
    fn send_to_all(&mut self, down: &Down) {
        let leads = self.home.unwrap_or(0);
        for shard in 0..self.shards() {
            let spread = match shard == leads {
                true => Spread::Leads,
                false => Spread::Follows,
            };
            self.send(shard, down.clone(), spread);
        }
    }

    /// From now on everything goes by this shard: it gives the events of the backend's namespaces their order. What is said before
    /// an event is so before it on all shards, and what is said later behind it.
    fn go_by(&mut self, home: Option<u16>) {
        if self.home != home {
            self.send_all();
            self.home = home;
        }
    }

    /// An event of a namespace that keeps some: its home sends it to all others.
    fn publish(&mut self, home: u16, down: Down) {
        self.send_all();
        self.hand_over(home, vec![down], Spread::Leads);
    }

    fn hand_over(&mut self, shard: u16, downs: Vec<Down>, spread: Spread) {
        let word = Word::new(shard, Arc::clone(&self.line), downs, spread);
        self.words.push((self.home.unwrap_or(shard), word));
    }

    fn empty(&mut self, shard: u16) {
        let bag = self.bags.get_mut(usize::from(shard));
        if let Some(bag) = bag.filter(|bag| !bag.is_empty()) {
            let downs = std::mem::take(bag);
            self.hand_over(shard, downs, Spread::Alone);
        }
    }
}

/// The namespace of an event for many.
fn published_in(down: &Down) -> Option<&str> {
    match down {
        Down::Do(What::Emit(emit)) => Some(&emit.to.as_ref()?.namespace),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use backend::{Ack, Name, Up, Why};
    use bytes::Bytes;
    use std::time::Duration;

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
        let mut bags = Bags::new("kitchen", Arc::new(Silent), 2);
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
        let sent: Vec<(u16, Word)> = bags.words().collect();
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
        let mut bags = Bags::new("kitchen", Arc::new(Silent), 2);
        bags.put(0, ack(1));
        bags.go_by(Some(1));
        bags.put(0, ack(2));
        bags.publish(1, ack(3));
        bags.put(0, ack(4));
        bags.send_to_all(&ack(5));
        let sent: Vec<(u16, Word)> = bags.words().collect();
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
