//! Node numbers: a lease in the engine for each, held by one life of one node at a time. Who gets a number is decided by
//! [`cluster::numbers`].

use super::card::Card;
use super::engine::{Engine, Holder, Lease, Name, Taken, Trouble};
use super::seal::Seal;
use cluster::frame::{Epoch, NodeId, Peer};
use cluster::numbers::{Claim, KEY_US, NUMBERS};
use std::sync::Arc;
use std::time::Duration;

// Ids of sockets name nodes by these numbers.
const _: () = assert!(NUMBERS as usize == hub::bounds::NODES_MAX);

/// A lease that is not renewed ends so late.
const TIME: Duration = Duration::from_micros(KEY_US);
/// How often it is renewed.
pub(super) const RENEWAL: Duration = Duration::from_secs(5);

/// The lease of a node's number.
#[derive(Clone, Debug)]
pub(super) struct Number {
    pub(super) node: NodeId,
    pub(super) lease: Lease,
}

fn key(prefix: &str, number: u16) -> Name {
    // One tag, so that all of them can be read at once from a cluster of Redis.
    format!("{prefix}{{nodes}}:{number}").into_bytes().into()
}

/// Where the leases of all numbers are.
#[derive(Clone, Debug)]
pub(super) struct Register {
    keys: Arc<[Name]>,
    seal: Seal,
}

/// What stands under one number.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) claim: Claim,
    /// Of a life of a node.
    pub(super) card: Option<Card>,
    /// As it stands there.
    pub(super) holder: Option<Holder>,
}

impl Entry {
    /// A card stands there, and no code before it, where codes are asked for: no node of this build writes that.
    pub(super) fn is_bare(&self) -> bool {
        let payload = self.holder.as_ref().map(|holder| holder.payload.as_str());
        self.claim == Claim::Foreign && payload.is_some_and(|payload| payload.starts_with('{'))
    }
}

impl Register {
    pub(super) fn new(prefix: &str, seal: &Seal) -> Self {
        Self {
            keys: (0..NUMBERS).map(|number| key(prefix, number)).collect(),
            seal: seal.clone(),
        }
    }

    /// All numbers, from 0.
    pub(super) async fn read(&self, engine: &Engine) -> Result<Vec<Entry>, Trouble> {
        let holders = engine.holders(&self.keys).await?;
        let entries = self.keys.iter().zip(holders);
        Ok(entries
            .map(|(key, holder)| self.entry(key, holder))
            .collect())
    }

    fn entry(&self, key: &[u8], holder: Option<Holder>) -> Entry {
        let card = holder.as_ref().and_then(|holder| {
            let card = self.seal.open_card(key, holder.epoch, &holder.payload)?;
            (holder.epoch > 0).then(|| Card::read(card))
        });
        let claim = match (&holder, &card) {
            (None, _) => Claim::Free,
            (Some(holder), Some(_)) => Claim::Held(Epoch(holder.epoch)),
            (Some(_), None) => Claim::Foreign,
        };
        Entry {
            claim,
            card,
            holder,
        }
    }
}

fn lease(prefix: &str, node: NodeId, epoch: u64, card: &Card) -> Lease {
    let counter = format!("{prefix}{{nodes}}:epoch");
    Lease {
        key: key(prefix, node.0),
        counter: counter.into_bytes().into(),
        epoch,
        payload: card.text(),
        over: None,
        time: TIME,
    }
}

impl Number {
    /// Takes a number that was free; `None`: somebody was faster. `clock` is a time: epochs rise also when the engine has lost the
    /// last one.
    pub(super) async fn take(
        engine: &Engine,
        prefix: &str,
        (node, entry): (NodeId, &Entry),
        (clock, card): (u64, &Card),
        seal: &Seal,
    ) -> Result<Option<Self>, Trouble> {
        let mut number = Self::untaken(prefix, node, (clock, card), seal);
        number.lease.over = entry.holder.as_ref().map(|holder| holder.value.clone());
        match engine.take(&number.lease).await? {
            Taken::Other(_) => return Ok(None),
            Taken::Mine(epoch) => number.lease.epoch = epoch,
        }
        // Now that the epoch is known, the code of this life can be made.
        number.describe(card, seal);
        number.lease.over = None;
        engine.hold(&number.lease).await?;
        Ok(Some(number))
    }

    /// Its card has a code of epoch 0, which no life has: others see a stranger's lease until the epoch is known, and no node without a code.
    /// The same code stands there when taking is tried again.
    fn untaken(prefix: &str, node: NodeId, (clock, card): (u64, &Card), seal: &Seal) -> Self {
        let mut lease = lease(prefix, node, clock, card);
        lease.payload = seal.close_card(&lease.key, 0, &lease.payload);
        Self { node, lease }
    }

    /// The number of this life, which another process took.
    pub(super) fn go_on(prefix: &str, life: Peer, (card, seal): (&Card, &Seal)) -> Self {
        let mut number = Self {
            node: life.node,
            lease: lease(prefix, life.node, life.epoch.0, card),
        };
        number.describe(card, seal);
        number
    }

    /// Tells this life of the node from all before.
    pub(super) fn epoch(&self) -> Epoch {
        Epoch(self.lease.epoch)
    }

    /// What others are to read of this node.
    pub(super) fn describe(&mut self, card: &Card, seal: &Seal) {
        let (key, epoch) = (&self.lease.key, self.lease.epoch);
        self.lease.payload = seal.close_card(key, epoch, &card.text());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Broker;

    const PREFIX: &str = "test:";

    fn card() -> Card {
        Card {
            name: "a/1".to_owned(),
            life: 3,
            ..Card::default()
        }
    }

    /// A node wrote its card, and the code a moment later: nodes that started with it warned of a lease without a code.
    #[tokio::test]
    async fn a_lease_that_was_just_taken_had_no_code() {
        let (engine, _feed) = Broker::default().open();
        let seal = Seal::new(Some("secret"));
        let register = Register::new(PREFIX, &seal);
        let number = Number::untaken(PREFIX, NodeId(7), (5, &card()), &seal);
        assert_eq!(engine.take(&number.lease).await, Ok(Taken::Mine(5)));
        let entries = register.read(&engine).await.expect("leases");
        assert_eq!(entries[7].claim, Claim::Foreign);
        assert!(!entries[7].is_bare(), "{:?}", entries[7]);
        // The answer was lost, and it is taken again, later.
        let again = Number::untaken(PREFIX, NodeId(7), (9, &card()), &seal);
        assert_eq!(engine.take(&again.lease).await, Ok(Taken::Mine(5)));
        let newer = card();
        let taken = Number::take(
            &engine,
            PREFIX,
            (NodeId(7), &entries[7]),
            (11, &newer),
            &seal,
        );
        let taken = taken.await.expect("an answer").expect("taken");
        let entries = register.read(&engine).await.expect("leases");
        assert_eq!(entries[7].claim, Claim::Held(taken.epoch()));
        assert_eq!(entries[7].card, Some(card()));
    }

    #[tokio::test]
    async fn a_card_without_a_code_is_bare_where_codes_are_asked_for() {
        let (engine, _feed) = Broker::default().open();
        let none = Seal::new(None);
        let number = Number::untaken(PREFIX, NodeId(7), (5, &card()), &none);
        assert_eq!(engine.take(&number.lease).await, Ok(Taken::Mine(5)));
        let read = async |seal: &Seal| {
            let register = Register::new(PREFIX, seal);
            let mut entries = register.read(&engine).await.expect("leases");
            entries.swap_remove(7)
        };
        let entry = read(&Seal::new(Some("secret"))).await;
        assert!(entry.is_bare(), "{entry:?}");
        // Without a secret it is the card at once.
        let entry = read(&none).await;
        assert_eq!((entry.is_bare(), entry.card), (false, Some(card())));
    }
}
