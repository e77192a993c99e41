//! The nodes of the cluster as this one knows them: by their leases, which it reads every few seconds, and by their heartbeats.

use super::card::Card;
use super::number;
use cluster::frame::{Epoch, NodeId, Peer};
use cluster::node::reports::Hearing;
use cluster::numbers::Claim;
use hub::Uplink;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// The nodes that are there. The driver writes it, relays and operators read it.
#[derive(Debug)]
pub struct Roster {
    nodes: Mutex<BTreeMap<u16, Entry>>,
    /// Readings of the leases.
    reads: AtomicU64,
    uplink: Arc<Uplink>,
    /// This node relays requests.
    relays: bool,
    /// When a node was there last that takes no part in returns.
    unable: Mutex<Option<Instant>>,
    /// What is between the nodes, and how well this one hears the others through it.
    way: Mutex<Option<(Instant, Way)>>,
}

/// The way to the other nodes, as operators see it.
#[derive(Clone, Debug, Default)]
pub struct Way {
    pub engine: &'static str,
    pub hearing: Hearing,
    /// Nothing goes through the engine, whatever that is like: the node has left the cluster, or stands still.
    pub is_lost: bool,
}

/// Nobody noted the way for so long: its driver has ended or stands still.
const STALE: Duration = Duration::from_secs(2);

impl Way {
    /// The same, so much later.
    fn aged(mut self, age: Duration) -> Self {
        for peer in &mut self.hearing.peers {
            peer.silent_us += age.as_micros() as u64;
        }
        if age > STALE {
            self.hearing.round_trip_us = None;
        }
        self.is_lost |= age > STALE;
        self
    }
}

/// So long after a node came, its card is read twice a second while that says that it starts.
const COMING: Duration = Duration::from_secs(15);

/// What a node published that knows no stamps is not on its way any more.
const SETTLED: Duration = Duration::from_secs(10);

/// One life of a node.
#[derive(Debug)]
struct Entry {
    epoch: u64,
    /// Its heartbeats come.
    heard: bool,
    /// Since then, or its lease since then.
    came: Instant,
    card: Option<Card>,
    /// Dropped when this life ends.
    life: watch::Sender<()>,
}

impl Entry {
    fn new(epoch: u64, heard: bool) -> Self {
        Self {
            epoch,
            heard,
            came: Instant::now(),
            card: None,
            life: watch::Sender::new(()),
        }
    }

    fn relay(&self) -> Option<SocketAddr> {
        self.card.as_ref()?.relay.filter(|_| self.heard)
    }

    /// It was not ready when its card was read, and will be soon.
    fn is_coming(&self, now: Instant) -> bool {
        let starts = |card: &Card| card.state == "starting";
        let young = now.saturating_duration_since(self.came) < COMING;
        self.heard && young && self.card.as_ref().is_none_or(starts)
    }
}

/// The way to a node: its address, and what ends with it.
#[derive(Debug)]
pub struct Route {
    pub address: SocketAddr,
    life: watch::Receiver<()>,
}

impl Route {
    /// Waits until the node is given up.
    pub async fn ends(&mut self) {
        while self.life.changed().await.is_ok() {}
    }
}

/// One line of the roster.
#[derive(Clone, Debug)]
pub struct Row {
    pub number: u16,
    pub card: Card,
    /// Its heartbeats come.
    pub heard: bool,
}

impl Roster {
    pub(super) fn new(uplink: Arc<Uplink>, relays: bool) -> Self {
        Self {
            nodes: Mutex::default(),
            reads: AtomicU64::new(0),
            uplink,
            relays,
            unable: Mutex::default(),
            way: Mutex::default(),
        }
    }

    /// Hubs are told of the nodes that are there, before they hear anything of a newcomer: all of them take part when a socket goes from one
    /// to another, or none goes.
    fn tell_returns(&self, nodes: &BTreeMap<u16, Entry>) {
        let heard = nodes.values().filter(|entry| entry.heard);
        let cards: Vec<Option<&Card>> = heard.map(|entry| entry.card.as_ref()).collect();
        let reads_spots = |card: &Option<&Card>| card.is_some_and(|card| card.spots);
        self.uplink.reads_spots(cards.iter().all(reads_spots));
        let cards = cards.iter().map(|card| card.map(|card| card.returns));
        let cards: Vec<Option<bool>> = cards.collect();
        // A card that was not read yet says nothing. The leases are read before a node is heard, or a moment after this one's start.
        let able = cards.iter().all(|card| *card == Some(true));
        let mut unable = self.unable.lock().unwrap_or_else(PoisonError::into_inner);
        if cards.contains(&Some(false)) {
            *unable = Some(Instant::now());
        }
        let settled = unable.is_none_or(|at| at.elapsed() >= SETTLED);
        self.uplink.recovers(able, able && settled);
    }

    /// Hubs give away no connection that nobody could pass on.
    fn tell_hubs(&self, node: u16, known: Option<&Entry>) {
        let can = self.relays && known.and_then(Entry::relay).is_some();
        self.uplink.relays_to(node, can);
    }

    fn nodes(&self) -> MutexGuard<'_, BTreeMap<u16, Entry>> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A life of a node speaks.
    pub(super) fn up(&self, node: u16, epoch: u64) {
        let mut nodes = self.nodes();
        let known = nodes.entry(node).or_insert_with(|| Entry::new(epoch, true));
        if known.epoch != epoch {
            *known = Entry::new(epoch, true);
        }
        if !std::mem::replace(&mut known.heard, true) {
            known.came = Instant::now();
        }
        self.tell_hubs(node, Some(known));
        self.tell_returns(&nodes);
        self.uplink.is_here(node, true);
    }

    /// It left or died.
    pub(super) fn down(&self, node: u16) {
        let mut nodes = self.nodes();
        nodes.remove(&node);
        self.tell_hubs(node, None);
        self.uplink.is_here(node, false);
        self.tell_returns(&nodes);
    }

    /// What stands under each number, from 0, but this node's own.
    pub(super) fn leases(&self, me: u16, leases: &[number::Entry]) {
        let mut nodes = self.nodes();
        for (number, lease) in (0_u16..).zip(leases).filter(|(number, _)| *number != me) {
            let Claim::Held(Epoch(epoch)) = lease.claim else {
                nodes.retain(|node, entry| *node != number || entry.heard);
                continue;
            };
            let known = nodes
                .entry(number)
                .or_insert_with(|| Entry::new(epoch, false));
            if known.epoch != epoch {
                if known.heard {
                    // The next life has not spoken yet.
                    continue;
                }
                *known = Entry::new(epoch, false);
            }
            known.card.clone_from(&lease.card);
            self.tell_hubs(number, Some(known));
        }
        self.tell_returns(&nodes);
        self.reads.fetch_add(1, Ordering::Relaxed);
    }

    /// Somebody came lately whose card does not say yet that it is ready.
    pub(super) fn has_newcomers(&self, now: Instant) -> bool {
        self.nodes().values().any(|entry| entry.is_coming(now))
    }

    /// Whether every node that has a number was heard.
    pub(super) fn is_whole(&self) -> bool {
        self.reads() > 0 && self.nodes().values().all(|entry| entry.heard)
    }

    /// The lives whose heartbeats come.
    pub(super) fn heard(&self) -> Vec<Peer> {
        self.lives(true)
    }

    /// The lives that have a number and were not heard.
    pub(super) fn silent(&self) -> Vec<Peer> {
        self.lives(false)
    }

    fn lives(&self, heard: bool) -> Vec<Peer> {
        let nodes = self.nodes();
        let lives = nodes.iter().filter(|(_, entry)| entry.heard == heard);
        let life = |(number, entry): (&u16, &Entry)| Peer {
            node: NodeId(*number),
            epoch: Epoch(entry.epoch),
        };
        lives.map(life).collect()
    }

    /// Readings of the leases so far.
    pub(super) fn reads(&self) -> u64 {
        self.reads.load(Ordering::Relaxed)
    }

    /// Where requests for a node's sessions go.
    pub fn route(&self, node: u16) -> Option<Route> {
        let nodes = self.nodes();
        let known = nodes.get(&node)?;
        Some(Route {
            address: known.relay()?,
            life: known.life.subscribe(),
        })
    }

    pub(super) fn note_way(&self, way: Way) {
        let noted = Some((Instant::now(), way));
        *self.way.lock().unwrap_or_else(PoisonError::into_inner) = noted;
    }

    /// As it was noted half a second ago, and longer if nobody does so any more; `None` before the first time.
    pub fn way(&self) -> Option<Way> {
        let way = self.way.lock().unwrap_or_else(PoisonError::into_inner);
        let (at, way) = way.as_ref()?;
        Some(way.clone().aged(at.elapsed()))
    }

    /// All other nodes, by number.
    pub fn rows(&self) -> Vec<Row> {
        let nodes = self.nodes();
        let row = |(number, entry): (&u16, &Entry)| Row {
            number: *number,
            card: entry.card.clone().unwrap_or_default(),
            heard: entry.heard,
        };
        nodes.iter().map(row).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cluster::inlet::Received;
    use cluster::node::reports::Heard;

    fn holder(epoch: u64, relay: &str) -> number::Entry {
        number::Entry {
            claim: Claim::Held(Epoch(epoch)),
            card: Some(Card {
                relay: relay.parse().ok(),
                ..Card::default()
            }),
            holder: None,
        }
    }

    fn free() -> number::Entry {
        number::Entry {
            claim: Claim::Free,
            card: None,
            holder: None,
        }
    }

    /// A node of the version before is sent events as it knows them, and asked for nothing.
    #[test]
    fn sockets_go_from_node_to_node_when_all_take_part() {
        let uplink = Arc::new(Uplink::new(1, Duration::ZERO));
        let roster = Roster::new(Arc::clone(&uplink), true);
        let able = |epoch| {
            let mut holder = holder(epoch, "10.0.0.1:7");
            holder.card.iter_mut().for_each(|card| card.returns = true);
            holder
        };
        roster.leases(0, &[free(), able(5)]);
        roster.up(1, 5);
        assert_eq!(uplink.recovery(), (true, true));
        roster.leases(0, &[free(), able(5), holder(6, "10.0.0.2:7")]);
        assert_eq!(uplink.recovery(), (true, true), "it was not heard");
        roster.up(2, 6);
        assert_eq!(uplink.recovery(), (false, false));
        roster.down(2);
        // What it was sent, and sent, may be on its way for a while.
        assert_eq!(uplink.recovery(), (true, false));
    }

    #[test]
    fn a_way_that_nobody_notes_any_more_grows_old() {
        let heard = Heard {
            node: NodeId(3),
            silent_us: 100_000,
            received: Received::default(),
        };
        let way = Way {
            engine: "Redis",
            hearing: Hearing {
                round_trip_us: Some(400),
                peers: vec![heard],
            },
            is_lost: false,
        };
        let told = |age_ms| {
            let way = way.clone().aged(Duration::from_millis(age_ms));
            let Hearing {
                round_trip_us,
                peers,
            } = way.hearing;
            (peers[0].silent_us, round_trip_us, way.is_lost)
        };
        assert_eq!(told(500), (600_000, Some(400), false));
        assert_eq!(told(60_000), (60_100_000, None, true));
    }

    /// Whoever says for ever that it starts costs the others no reading for ever.
    #[test]
    fn a_newcomer_is_looked_at_until_it_is_ready_or_no_newcomer_any_more() {
        let roster = Roster::new(Arc::new(Uplink::new(1, Duration::ZERO)), true);
        let stands = |state: &str| {
            let mut holder = holder(5, "10.0.0.1:7");
            holder
                .card
                .iter_mut()
                .for_each(|card| card.state = state.to_owned());
            [free(), holder]
        };
        let now = Instant::now();
        roster.leases(0, &stands("starting"));
        assert!(!roster.has_newcomers(now), "it was not heard");
        roster.up(1, 5);
        assert!(roster.has_newcomers(now));
        assert!(!roster.has_newcomers(now + COMING + Duration::from_secs(60)));
        roster.leases(0, &stands("ready"));
        assert!(!roster.has_newcomers(now));
        roster.leases(0, &stands("drained"));
        assert!(!roster.has_newcomers(now));
        // It was heard before its card was read.
        roster.up(2, 6);
        assert!(roster.has_newcomers(now));
    }

    #[tokio::test]
    async fn a_route_leads_to_a_life_that_speaks_and_ends_with_it() {
        let roster = Roster::new(Arc::new(Uplink::new(1, Duration::ZERO)), true);
        roster.leases(0, &[free(), holder(5, "10.0.0.1:7")]);
        assert!(roster.route(1).is_none(), "it was not heard");
        roster.up(1, 5);
        let mut route = roster.route(1).expect("a route");
        assert_eq!(route.address.to_string(), "10.0.0.1:7");
        // The number's next life stands in the lease, and has not spoken.
        roster.leases(0, &[free(), holder(6, "10.0.0.2:7")]);
        assert_eq!(roster.route(1).expect("a route").address, route.address);
        roster.up(1, 6);
        route.ends().await;
        assert!(roster.route(1).is_none(), "its card was not read yet");
        roster.leases(0, &[free(), holder(6, "10.0.0.2:7")]);
        assert!(roster.route(1).is_some());
        roster.down(1);
        assert!(roster.route(1).is_none());
        roster.leases(0, &[free(), free()]);
        assert!(roster.rows().is_empty());
    }
}
