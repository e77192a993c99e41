//! The way of errands to the shards.

use control::api::ToShards;
use hub::Process;
use rules::Errand;
use shard::{Shards, ToHandlers};

/// Brings errands to the shards.
pub struct Errands(ToHandlers, Process);

impl Errands {
    pub fn of(shards: &Shards) -> Box<Self> {
        Box::new(Self(shards.to_handlers(), shards.process().clone()))
    }
}

impl ToShards for Errands {
    /// To the home of the namespace, if it has one: the events of calls have then the order of their answers.
    fn send(&self, errand: Errand) {
        let (bytes, namespace) = (errand.bytes(), &errand.of.namespace);
        let keeping = self.1.keeping.get();
        let home = keeping.and_then(|keeping| keeping.home_of(namespace, self.0.shards()));
        self.0.send(home.unwrap_or(0), Box::new(errand), bytes);
    }
}
