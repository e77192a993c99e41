//! One life of a node: its hubs, and its way to the others.

use super::bridge::Bridge;
use super::due::Due;
use super::office::{Office, Queue};
use super::station::Station;
use super::wires::Mail;
use super::worker;
use crate::handler::{Diary, Witness};
use cluster::frame::Peer;
use cluster::node::Limits;
use fastrand::Rng;
use hub::config::Config;
use hub::mailbox::{Receiver, Sender, mailbox, waker};
use hub::metrics::Cells;
use hub::{ConnId, HandlerFactory, Hub, Identity, Inbox, Naming, Process, Uplink};
use rules::{Line, Rules, RulesFactory};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Longer than a history: only other nodes end the waiting of a client.
const JOIN_WAIT: Duration = Duration::from_secs(1_000_000);

/// A hub, and what is around it.
pub(crate) struct Seat {
    pub(crate) hub: Hub,
    pub(crate) conns: BTreeMap<ConnId, usize>,
    pub(crate) cells: Arc<Cells>,
    pub(crate) sender: Sender<Mail>,
    pub(crate) receiver: Receiver<Mail>,
    /// A turn is noted that takes in the mail.
    pub(crate) is_called: bool,
    /// Whether each letter in its mailbox comes from another hub.
    pub(crate) from_hubs: VecDeque<bool>,
    /// Mail that is on its way to it. Of a process it is in the mailbox at once.
    pub(crate) coming: usize,
    /// Its turns so far.
    pub(crate) turns: usize,
    /// It does nothing until then; what needs a turn of it waits.
    pub(crate) still_until: u64,
    pub(crate) held: Vec<Due>,
}

/// What all lives are made with.
pub(crate) struct Make<'a> {
    pub(crate) config: &'a Arc<Config>,
    pub(crate) rules: &'a Rules,
    pub(crate) hubs: usize,
    pub(crate) limits: Limits,
    pub(crate) lists: usize,
    /// Bytes that may wait for other nodes.
    pub(crate) queue_bytes: usize,
}

pub(crate) struct Life {
    pub(crate) me: Peer,
    pub(crate) is_dead: bool,
    /// It does nothing until then; what comes meanwhile waits.
    pub(crate) frozen_until: u64,
    pub(crate) held: Vec<Due>,
    /// Messages from outside that wait until no mailbox is long.
    pub(crate) feed: VecDeque<Due>,
    /// Input of clients that nobody reads while a mailbox is overfull.
    pub(crate) unread: VecDeque<Due>,
    pub(crate) hubs: Vec<Seat>,
    pub(crate) bridge: Bridge,
    pub(crate) office: Office,
    pub(crate) station: Station,
    /// When its station is to be called, if that is noted.
    pub(crate) called_us: u64,
    pub(crate) uplink: Arc<Uplink>,
    pub(crate) process: Process,
    pub(crate) diary: Arc<Mutex<Diary>>,
    /// When the last thing comes from one of its parts to another: from which to which.
    pub(crate) ways: BTreeMap<(usize, usize), u64>,
}

impl Life {
    pub(crate) fn new(make: &Make<'_>, me: Peer, awaited: Vec<Peer>, dice: &mut Rng) -> Self {
        let (number, epoch) = (me.node.0, me.epoch.0);
        let namespaces = vec!["/".to_owned(), worker::NAMESPACE.to_owned()];
        let uplink = Uplink::new(make.queue_bytes, JOIN_WAIT);
        let uplink = Arc::new(uplink.naming(Naming::Nothing).serving(namespaces));
        // All nodes are of one kind.
        uplink.recovers(true, true);
        let mut process = Process::new(&make.config.rates);
        process.uplink = Some(Arc::clone(&uplink));
        let diary = Arc::<Mutex<Diary>>::default();
        let shards = make.hubs as u16;
        let queue = Arc::<Queue>::default();
        let line = Arc::clone(&queue) as Arc<dyn Line>;
        let lines = [(worker::BACKEND.to_owned(), line)].into();
        let rules =
            RulesFactory::with_backends(make.rules, &|_| Err("no schemas".to_owned()), &lines);
        let rules = rules.expect("rules without schemas");
        let hubs = (0..shards).map(|shard| {
            let me = Identity {
                node: number,
                shard,
                shards,
            };
            seat(make.config, &rules, me, (&process, &diary), dice)
        });
        let hubs = hubs.collect();
        let inbox = Inbox::new(&process, number, shards);
        let ways = (inbox, Arc::clone(&uplink));
        Self {
            me,
            is_dead: false,
            frozen_until: 0,
            held: Vec::new(),
            feed: VecDeque::new(),
            unread: VecDeque::new(),
            hubs,
            bridge: Bridge::new(number, epoch),
            office: Office::new(queue, &process, shards, make.lists),
            station: Station::new(me, make.limits, ways, shards, awaited),
            called_us: u64::MAX,
            uplink,
            process,
            diary,
            ways: BTreeMap::new(),
        }
    }

    pub(crate) fn number(&self) -> u16 {
        self.me.node.0
    }

    /// Clients find it.
    pub(crate) fn is_open(&self) -> bool {
        !self.is_dead && self.station.is_met()
    }

    /// Some hub has more mail than it should: what comes from outside waits.
    pub(crate) fn is_behind(&self, config: &Config) -> bool {
        let mut shards = 0..self.hubs.len() as u16;
        shards.any(|shard| self.process.loads.is_long(shard, &config.limits))
    }

    /// A mailbox is so full that no hub reads its clients.
    pub(crate) fn is_congested(&self, config: &Config) -> bool {
        let (loads, limits) = (&self.process.loads, &config.limits);
        let is_overfull = |(shard, seat): (u16, &Seat)| {
            let waiting = loads.messages(shard) + seat.coming;
            loads.is_overfull(shard, limits) || waiting / 2 > limits.mailbox_messages_max
        };
        self.hubs.len() > 1 && (0..).zip(&self.hubs).any(is_overfull)
    }

    /// When something arrives that leaves now and takes so long: not before what left earlier the same way.
    pub(crate) fn arrival(&mut self, way: (usize, usize), at_us: u64) -> u64 {
        let last = self.ways.entry(way).or_default();
        *last = at_us.max(*last);
        *last
    }
}

fn seat(
    config: &Arc<Config>,
    rules: &RulesFactory,
    me: Identity,
    (process, diary): (&Process, &Arc<Mutex<Diary>>),
    dice: &mut Rng,
) -> Seat {
    let mut entropy = Rng::with_seed(dice.u64(..));
    let entropy = Box::new(move |bytes: &mut [u8]| entropy.fill(bytes));
    let witness = Box::new(Witness {
        shard: me.shard,
        rules: rules.build(me.shard),
        names_users: true,
        diary: Arc::clone(diary),
        streams: BTreeSet::new(),
    });
    let cells = Arc::new(Cells::default());
    let (settings, published) = (Arc::clone(config), Arc::clone(&cells));
    let hub = Hub::in_process(settings, me, witness, published, entropy, process);
    let loads = Arc::clone(&process.loads);
    let (sender, receiver) = mailbox(waker(|| {}), loads, me.shard);
    Seat {
        hub,
        conns: BTreeMap::new(),
        cells,
        sender,
        receiver,
        is_called: false,
        turns: 0,
        from_hubs: VecDeque::new(),
        coming: 0,
        still_until: 0,
        held: Vec::new(),
    }
}
