//! What the hubs of one process share. Everything else belongs to one hub alone. Handshakes touch what is shared. Where a rate per user or
//! address is set, each message does so by one compare of a number.

use crate::access::addresses::Addresses;
use crate::access::admission::Pressure;
use crate::access::budgets::Budgets;
use crate::access::cells::Shared;
use crate::books::config::{Config, Rates};
use crate::clients::roll::RollCall;
use crate::clients::whereabouts::Whereabouts;
use crate::cluster::away::Uplink;
use crate::cluster::mailbox::Loads;
use crate::output::piece::Waiting;
use crate::recovery::chronicle::Chronicle;
use crate::rooms::directory::Directory;
use crate::rooms::history::HistoryTap;
use crate::rooms::keeping::Keeping;
use crate::rooms::tap::Tap;
use std::net::IpAddr;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

/// What the hubs of one process share.
#[derive(Clone, Debug, Default)]
pub struct Process {
    /// Sockets that are on another shard than their ids say.
    pub whereabouts: Arc<Whereabouts>,
    /// Connections by address.
    pub addresses: Arc<Addresses>,
    /// How full the mailboxes of the shards are.
    pub loads: Arc<Loads>,
    /// The places of the members of rooms.
    pub(crate) directory: Arc<Directory>,
    /// What is kept of which events, since the first hub is there.
    pub keeping: Arc<OnceLock<Arc<Keeping>>>,
    /// How full the process is.
    pub pressure: Arc<Pressure>,
    /// What waits in all outboxes.
    pub waiting: Arc<Waiting>,
    /// Limiter states of users and addresses.
    pub meters: Arc<Shared>,
    /// This node's shares of limits that hold for all nodes together, if there are any.
    pub budgets: Option<Arc<Budgets>>,
    /// The way to other nodes, if there are any.
    pub uplink: Option<Arc<Uplink>>,
    /// The outlets to programs outside.
    pub outlets: Outlets,
    /// What the log was told of proxies that nobody trusts.
    pub distrusted: Arc<Distrusted>,
}

/// The outlets to programs outside, if they want to know.
#[derive(Clone, Debug, Default)]
pub struct Outlets {
    /// The sockets of the process, for a directory.
    pub roll: Option<Arc<RollCall>>,
    /// Copies of events.
    pub tap: Option<Arc<Tap>>,
    /// Events for a store of history.
    pub history: Option<Arc<HistoryTap>>,
    /// What is said where all nodes read one stream.
    pub chronicle: Option<Arc<Chronicle>>,
}

impl Process {
    /// What hubs share under these rates.
    pub fn new(rates: &Rates) -> Self {
        Self {
            meters: Arc::new(Shared::new(rates)),
            ..Self::default()
        }
    }

    /// The same in a process that goes on with the limiters of another one.
    pub fn seeded(rates: &Rates, seed: [u64; 2]) -> Self {
        Self {
            meters: Arc::new(Shared::seeded(rates, seed)),
            ..Self::default()
        }
    }

    /// What users and addresses have used of rates, for a process that goes on. The clock is that of the limiters.
    pub fn limiters(&self, now_us: u64) -> Vec<handoff::Limiters> {
        self.meters.pages(now_us)
    }

    /// This node's shares of limits that nodes share, as far as they have names.
    pub fn shares(&self) -> Vec<handoff::Share> {
        let named = self
            .budgets
            .iter()
            .flat_map(|budgets| budgets.named_shares());
        let named = named.map(|((kind, holder), share, state_us)| handoff::Share {
            kind: kind.into(),
            holder,
            share,
            state_us,
        });
        named.collect()
    }

    /// What is left of each limit that nodes share for holders without a share of their own.
    pub fn rests(&self) -> Vec<handoff::Rest> {
        let rests = self.budgets.iter().flat_map(|budgets| budgets.rests());
        let rests = rests.map(|(kind, share)| handoff::Rest {
            kind: kind.into(),
            share,
        });
        rests.collect()
    }

    /// Goes on with the rest of a limit.
    pub fn take_rest(&self, rest: &handoff::Rest) {
        let kind = u8::try_from(rest.kind).unwrap_or(u8::MAX);
        if let Some(budgets) = &self.budgets {
            budgets.go_on_with_rest(kind, rest.share);
        }
    }

    /// Goes on with a share of a limit.
    pub fn take_share(&self, share: &handoff::Share, now_us: u64) {
        let kind = u8::try_from(share.kind).unwrap_or(u8::MAX);
        if let Some(budgets) = &self.budgets {
            budgets.go_on_with((kind, share.holder), share.share, share.state_us, now_us);
        }
    }

    /// Goes on with a page of limiter states.
    pub fn take_limiters(&self, page: &handoff::Limiters, now_us: u64) {
        self.meters.take(page, now_us);
    }

    /// The same, with the limits that nodes share by this configuration.
    #[must_use]
    pub fn sharing(mut self, config: &Config) -> Self {
        let budgets = Budgets::new(config, &self.addresses, &self.meters);
        self.budgets = budgets.map(Arc::new);
        self
    }
}

/// Whether the log was told of a proxy that nobody trusts. Addresses of this machine and of private networks, where proxies are, count
/// apart from all others, which may be clients that pretend.
#[derive(Debug, Default)]
pub struct Distrusted {
    near: AtomicBool,
    far: AtomicBool,
}

impl Distrusted {
    /// Whether one of this address' kind was told.
    pub(crate) fn of(&self, peer: IpAddr) -> &AtomicBool {
        if is_near(peer) { &self.near } else { &self.far }
    }
}

/// Loopback, RFC 1918, link-local, RFC 4193.
fn is_near(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.is_loopback() || v4.is_private() || v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_loopback() || v6.is_unique_local() || v6.is_unicast_link_local(),
    }
}
