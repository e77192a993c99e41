//! What clients may do, and how much of it: tokens, origins, proxies, addresses, rates, admission.

use crate::access::held::Held;
use crate::clients::conn::Conn;
use crate::cluster::shared::{Distrusted, Process};
use crate::config::Config;
use crate::tables::slot::{ConnId, ConnKey, SessionId};
use addresses::Addresses;
use admission::Admission;
use budgets::Budgets;
use drain::{Drain, Leaving};
use meters::Meters;
use reserve::Reserve;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

pub mod addresses;
pub mod admission;
pub mod budgets;
pub(crate) mod cells;
pub(crate) mod drain;
pub(crate) mod gcra;
pub(crate) mod held;
pub(crate) mod meters;
pub mod origin;
pub(crate) mod rates;
pub(crate) mod reserve;
pub(crate) mod tokens;
pub mod trust;

pub(crate) struct Access {
    addresses: Arc<Addresses>,
    /// Limits that nodes share.
    budgets: Option<Arc<Budgets>>,
    pub(crate) meters: Meters,
    pub(crate) admission: Admission,
    /// Opening requests that wait for a handler.
    pub(crate) held: Held,
    pub(crate) reserve: Reserve,
    /// The proxy of each connection that has a client of the proxy as its peer, while more requests may come on it.
    via: HashMap<ConnId, IpAddr>,
    distrusted: Arc<Distrusted>,
    pub(crate) drain: Drain,
    /// A drained hub waits until then for nodes that take its parked sockets.
    pub(crate) takers_until_ms: u64,
    /// Connections that had no session when all had been told to go; they are closed a few at a time.
    pub(crate) idle: Vec<ConnKey>,
    /// Sessions that are asked to go elsewhere, while others come.
    pub(crate) thinning: Option<Leaving>,
}

impl Access {
    pub(crate) fn new(config: &Config, process: &Process) -> Self {
        Self {
            addresses: Arc::clone(&process.addresses),
            budgets: process.budgets.clone(),
            meters: Meters::new(&config.rates, Arc::clone(&process.meters))
                .sharing(process.budgets.clone()),
            admission: Admission::new(Arc::clone(&process.pressure)),
            held: Held::default(),
            reserve: Reserve::default(),
            via: HashMap::new(),
            distrusted: Arc::clone(&process.distrusted),
            drain: Drain::default(),
            takers_until_ms: 0,
            idle: Vec::new(),
            thinning: None,
        }
    }

    /// Clients are sent away: when they pause matters.
    #[inline]
    pub(crate) fn sends_away(&self) -> bool {
        self.drain.is_on() || self.thinning.is_some()
    }

    /// A client said something.
    pub(crate) fn note_spoke(&mut self, session: SessionId, now_ms: u64) {
        let leaving = [self.drain.leaving(), self.thinning.as_mut()];
        for leaving in leaving.into_iter().flatten() {
            leaving.spoke(session, now_ms);
        }
    }

    /// When sessions that are to leave are looked at next.
    pub(crate) fn next_look(&self, now_ms: u64) -> Option<u64> {
        let thinning = self.thinning.as_ref();
        let thinning = thinning.map(|leaving| leaving.next_due(now_ms));
        let idle = (!self.idle.is_empty()).then_some(now_ms);
        [self.drain.next_due(now_ms), thinning, idle]
            .into_iter()
            .flatten()
            .min()
    }

    /// Counts a connection with an address; how many that makes, or 0 if nobody counts them.
    pub(crate) fn count(&mut self, config: &Config, slot: &mut Conn, peer: IpAddr) -> u32 {
        // A proxy is many clients: each of its connections counts for one of them as soon as that one is known.
        let counts = config.limits.conns_per_address_max > 0;
        let counts = counts && !config.proxies.trusts(peer);
        if let Some(before) = slot.origin.assign(peer, counts) {
            self.addresses.leave(before);
        }
        match counts {
            true => self.addresses.enter(peer),
            false => 0,
        }
    }

    /// The number of connections that an address may have here, which has this many.
    pub(crate) fn conns_max(&self, config: &Config, address: IpAddr, count: u32) -> u32 {
        // An address that nobody counts has no share.
        let shared = self.budgets.as_ref().filter(|_| count > 0);
        let share = shared.and_then(|budgets| budgets.conns_of(address, count));
        share.unwrap_or(config.limits.conns_per_address_max)
    }

    /// A connection is gone.
    pub(crate) fn forget(&mut self, conn: ConnId, slot: &Conn) {
        if let Some(address) = slot.origin.counted_with() {
            self.addresses.leave(address);
        }
        self.held.forget(conn);
        self.forget_proxy(conn);
    }

    /// The proxy that made a connection, if that is not its peer.
    pub(crate) fn proxy_of(&self, conn: ConnId) -> Option<IpAddr> {
        self.via.get(&conn).copied()
    }

    /// A proxy made the connection, for a client that is its peer now.
    pub(crate) fn note_proxy(&mut self, conn: ConnId, proxy: IpAddr) {
        self.via.insert(conn, proxy);
    }

    /// No further request will come on a connection. Returns the proxy that made it, if its peer is another one.
    pub(crate) fn forget_proxy(&mut self, conn: ConnId) -> Option<IpAddr> {
        if self.via.is_empty() {
            return None;
        }
        self.via.remove(&conn)
    }

    /// Whether operators were told that such an address is no trusted proxy.
    pub(crate) fn distrusted(&self, peer: IpAddr) -> &AtomicBool {
        self.distrusted.of(peer)
    }

    /// For checks: connections that a proxy made.
    pub(crate) fn proxied(&self) -> impl Iterator<Item = ConnId> {
        self.via.keys().copied()
    }
}
