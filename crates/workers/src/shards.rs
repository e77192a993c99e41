//! What a backend knows of the process that it is in.

use super::lodger::Lodger;
use backend::Scope;
use backend::proto::{Manners, Namespaces};
use hub::Keeping;
use hub::config::Recovery;
use rules::Word;
use std::sync::Arc;

/// Names of more bytes are not told: workers' libraries bound what they take.
const NAMES_BYTES_MAX: usize = 256 * 1024;

/// Facts of the gateway, for what each worker is told.
#[derive(Clone, Debug)]
pub struct Served {
    /// Number of the node.
    pub node: u16,
    pub manners: Manners,
    /// Namespaces whose clients come back.
    pub recovery: Recovery,
}

impl Served {
    /// What workers of a backend with these namespaces are told.
    pub(super) fn of(mut self, scope: &Scope) -> Self {
        let mut recovering = self.recovery.namespaces.iter();
        let recovers = recovering.any(|(name, recover)| recover.is_some() && scope.has(name));
        let (names, all_but) = match scope {
            Scope::All => (Vec::new(), true),
            Scope::Only(names) => (names.clone(), false),
            Scope::Except(names) => (names.clone(), true),
        };
        let bytes: usize = names.iter().map(String::len).sum();
        self.manners.namespaces = (bytes <= NAMES_BYTES_MAX).then_some(Namespaces {
            names,
            all_but,
            recovers,
        });
        self
    }
}

/// The way to the handlers of the shards.
pub trait ToShards: Send + Sync + 'static {
    fn shards(&self) -> u16;
    /// In order with all that goes by the same shard: another than the word's own passes it on.
    fn send(&self, by: u16, word: Word);
    /// What is kept of the events of which namespaces.
    fn keeping(&self) -> Arc<Keeping>;
    /// Which shard has the socket with this id.
    fn shard_of(&self, socket: &str) -> Option<u16>;
    /// Some shard has more to do than it should: workers can wait.
    fn are_behind(&self) -> bool;
    /// The shard serves the link's connection from now on.
    fn lodge(&self, shard: u16, lodger: Lodger) {
        let _ = shard;
        lodger.leave();
    }
    /// The links that the shard serves are to look for what is new.
    fn call_lodgers(&self, shard: u16) {
        let _ = shard;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hub::config::{Offsets, Recover};
    use std::time::Duration;

    /// What workers are told where `/a` recovers and `/b` does not.
    fn told(scope: &Scope) -> Option<Namespaces> {
        let recover = Recover {
            window: Duration::from_secs(1),
            offsets: Offsets::All,
            goes_abroad: false,
            chronicle: false,
            replicas: 0,
        };
        let namespaces = [("/a".to_owned(), Some(recover)), ("/b".to_owned(), None)];
        let served = Served {
            node: 1,
            manners: Manners::default(),
            recovery: Recovery {
                namespaces: namespaces.into(),
            },
        };
        served.of(scope).manners.namespaces
    }

    #[test]
    fn a_worker_hears_of_the_namespaces_of_its_own_backend() {
        let names = |name: &str| vec![name.to_owned()];
        for (scope, own, all_but, recovers) in [
            (Scope::All, Vec::new(), true, true),
            (Scope::Only(names("/a")), names("/a"), false, true),
            (Scope::Only(names("/b")), names("/b"), false, false),
            (Scope::Except(names("/a")), names("/a"), true, false),
            (Scope::Except(names("/b")), names("/b"), true, true),
        ] {
            let wanted = Namespaces {
                names: own,
                all_but,
                recovers,
            };
            assert_eq!(told(&scope), Some(wanted), "{scope:?}");
        }
        let many = Scope::Only((0..30_000).map(|n| format!("/room-{n:05}")).collect());
        assert_eq!(told(&many), None);
    }
}
