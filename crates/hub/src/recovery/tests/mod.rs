//! Seeded histories of several shards and their clients: publish, join, leave, disconnect, cut, park, come back, give up, expire, in any
//! order, with messages between shards that wait for any time. A client that is told that it is recovered has missed nothing, got nothing
//! twice, nothing out of order, and nothing that was not for it.
//!
//! Commands are given by one shard. So for its events it is exact who was meant; for those of others it is exact while no command is
//! under way, and either is right otherwise.

mod clients;
mod course;
mod letters;
mod nodes;
mod rare;
mod truth;
mod upgrades;

use crate::dialect::speech::Emit;
use crate::recovery::circle::Sender;
use crate::recovery::exchange::{Bounds, Comer, Recovery, Verdict};
use crate::recovery::headings::{Heading, Kind, Membership};
use crate::recovery::journal::{self, Action, Moment};
use crate::recovery::members::{Aim, Members};
use crate::recovery::messages::{Message, NotRecovered};
use crate::recovery::parked;
use crate::recovery::pid::Pid;
use crate::recovery::record::{Life, Record};
use crate::recovery::said::Said;
use crate::recovery::stamp::Stamp;
use crate::recovery::taking::Back;
use crate::tables::id::{Identity, Ids, Place};
use crate::tables::position::Position;
use fastrand::Rng;
use seeds::Script;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;
use std::sync::Arc;

const NAMESPACE: &str = "/chat";
const ROOMS: [&str; 3] = ["a", "b", "c"];
const USERS: [&str; 2] = ["ann", "bob"];
const CLIENTS: usize = 5;

/// The events of a history.
#[derive(Clone, Copy, Debug)]
struct Setting {
    shards: u16,
    bounds: Bounds,
    window_ms: u64,
    /// Of a hundred messages about claims, so many are lost; with several nodes, of those between them.
    lost: u32,
    steps: usize,
    /// Each has so many shards.
    nodes: u16,
    /// Nodes are killed, and come back with nothing.
    kills: bool,
    /// Processes take over from each other.
    upgrades: bool,
}

/// The receivers of something, as they go from shard to shard.
#[derive(Clone, Debug, Default)]
struct To {
    rooms: Vec<String>,
    users: Vec<String>,
    except: Vec<String>,
}

impl To {
    fn with<R>(&self, use_it: impl FnOnce(&Aim<'_>) -> R) -> R {
        let lists = [&self.rooms, &self.users, &self.except];
        let [rooms, users, except] = lists.map(|names| borrowed(names));
        use_it(&Aim {
            namespace: NAMESPACE,
            rooms: &rooms,
            users: &users,
            except: &except,
        })
    }
}

fn borrowed(names: &[String]) -> Vec<&str> {
    names.iter().map(String::as_str).collect()
}

#[derive(Debug)]
enum Mail {
    Event {
        number: usize,
        to: Rc<To>,
        stamp: Stamp,
    },
    Command {
        number: usize,
        to: Rc<To>,
        action: Rc<Action>,
        stamp: Stamp,
    },
    Word(Step),
    /// From another node, at the home.
    Publish {
        number: usize,
        to: Rc<To>,
        stamp: Stamp,
    },
    /// From another node, to these shards by way of the home.
    ByHome(Vec<usize>, Rc<Mail>),
    /// From the node's way to others.
    Confirmed(u64),
    Down(u16),
}

/// A message about a claim.
#[derive(Clone, Debug)]
struct Step {
    from: Place,
    namespace: Option<Arc<str>>,
    message: Message,
}

/// A socket with a transport; the client may be at the other end no more.
#[derive(Debug)]
struct Live {
    client: usize,
    transport: u64,
    record: Record,
}

struct Shard {
    ids: Ids,
    recovery: Recovery,
    live: Vec<Live>,
    /// The headings that its records want, as it was told.
    wanted: BTreeSet<Membership>,
    /// Clients that wait for a verdict.
    waiting: BTreeMap<u64, (usize, u64)>,
}

/// The knowledge of a client.
#[derive(Debug, Default)]
struct Client {
    shard: usize,
    /// That had its socket last.
    shard_of_life: usize,
    /// Of its transport; each has another.
    transport: u64,
    connected: bool,
    pid: Option<Pid>,
    offset: Option<Position>,
    /// On its way to it.
    wire: VecDeque<(Position, usize)>,
    /// Events of this life, as they came.
    got: Vec<usize>,
    life: usize,
}

/// A life of a client: from a new socket to the next.
#[derive(Debug)]
struct LifeTruth {
    born: usize,
    members: Members,
    /// Events since then, by whether they were for it when they were published; `None`: its publisher did not know of it yet.
    events: Vec<(usize, Option<bool>)>,
    ended: bool,
    /// Nodes that knew of its memberships at some time.
    known: BTreeSet<(usize, Membership)>,
}

#[derive(Debug)]
struct EventTruth {
    from: usize,
    /// Copies under way.
    copies: usize,
    settled: Option<usize>,
    /// No command was under way at the same time.
    clean: bool,
}

struct World<'a> {
    script: &'a Script,
    setting: Setting,
    rng: Rng,
    now_ms: u64,
    step: usize,
    shards: Vec<Shard>,
    mail: Vec<Vec<VecDeque<Mail>>>,
    /// Shards by what they are listed for.
    cards: BTreeMap<Membership, BTreeSet<usize>>,
    nodes: nodes::Nodes,
    clients: Vec<Client>,
    lives: Vec<LifeTruth>,
    events: Vec<EventTruth>,
    /// Copies of each command under way, and the rooms that it lets sockets join.
    commands: Vec<(usize, Vec<Box<str>>)>,
    /// Claims that were open when a command was given, and still are.
    tainted: BTreeSet<(usize, u64)>,
    transports: u64,
    counts: Counts,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    recovered: usize,
    elsewhere: usize,
    abroad: usize,
    upgrades: usize,
    replayed: usize,
    refused: Refused,
}

/// By reason.
#[derive(Clone, Copy, Debug, Default)]
struct Refused {
    unknown: usize,
    claimed: usize,
    trimmed: usize,
    disconnected: usize,
    late: usize,
    nodes: usize,
}

fn place(shard: usize) -> Place {
    Place {
        node: 1,
        shard: shard as u16,
    }
}

/// A message between the shards of one node.
fn sender(place: Place) -> Sender<'static> {
    Sender {
        place,
        parts: 2,
        namespace: None,
        home: 0,
    }
}

fn is_listed(live: &[Live], heading: Heading<'_>) -> bool {
    heading.namespace == NAMESPACE
        && live
            .iter()
            .any(|live| live.record.members.has(heading.kind, heading.name))
}

impl Shard {
    fn new(setting: Setting, at: usize, rng: &mut Rng) -> Self {
        let (at, shards) = (at as u16, setting.shards);
        let me = Identity {
            node: 1 + at / shards,
            shard: at % shards,
            shards,
        };
        let mut dice = Rng::with_seed(rng.u64(..));
        let mut ids = Ids::new(me, Box::new(move |bytes| dice.fill(bytes)));
        let recovery = Recovery::new(&mut ids, setting.bounds);
        Self {
            ids,
            recovery,
            live: Vec::new(),
            wanted: BTreeSet::new(),
            waiting: BTreeMap::new(),
        }
    }
}

impl<'a> World<'a> {
    fn new(setting: Setting, script: &'a Script) -> Self {
        let mut rng = script.opening();
        let count = usize::from(setting.shards * setting.nodes);
        let shards = (0..count).map(|shard| Shard::new(setting, shard, &mut rng));
        let shards: Vec<Shard> = shards.collect();
        let lane = || (0..count).map(|_| VecDeque::new()).collect();
        // Shards, and the ways of nodes to others.
        let senders = count + usize::from(setting.nodes);
        let mut world = Self {
            script,
            setting,
            rng,
            now_ms: 1,
            step: 0,
            mail: (0..senders).map(|_| lane()).collect(),
            shards,
            cards: BTreeMap::new(),
            nodes: nodes::Nodes::new(usize::from(setting.nodes)),
            clients: (0..CLIENTS).map(|_| Client::default()).collect(),
            lives: Vec::new(),
            events: Vec::new(),
            commands: Vec::new(),
            tainted: BTreeSet::new(),
            transports: 0,
            counts: Counts::default(),
        };
        world.meet();
        (0..CLIENTS).for_each(|client| world.connect(client));
        world
    }

    /// Gives all commands.
    fn commander(&self) -> usize {
        self.home(0)
    }

    /// Says what happens in a history that is repeated.
    fn trace(&self, what: impl FnOnce() -> String) {
        let (step, now_ms) = (self.step, self.now_ms);
        self.script
            .tell(|| format!("{step:4} {now_ms:5} ms: {}", what()));
    }
}

fn large() -> Bounds {
    Bounds {
        journal: journal::Bounds {
            window_ms: 1_000_000,
            bytes_max: 1 << 24,
        },
        parked: parked::Bounds {
            records_max: 1_000,
            bytes_max: 1 << 24,
            rooms_max: 100,
            claim_ms: 1_000,
        },
        takings_max: 1_000,
        handover_bytes_max: 1 << 20,
    }
}

fn setting(shards: u16) -> Setting {
    Setting {
        shards,
        bounds: large(),
        window_ms: 1_000_000,
        lost: 0,
        steps: 400,
        nodes: 1,
        kills: false,
        upgrades: false,
    }
}

/// Plays histories; what came of them, if they are many.
fn play(setting: Setting, usual: u64) -> Option<Counts> {
    let name = format!("{setting:?}");
    let all = seeds::play(&name, usual, setting.steps, |script| {
        let mut world = World::new(setting, script);
        for step in 0..setting.steps {
            if let Some(dice) = script.dice(step) {
                world.rng = dice;
                world.act();
            }
        }
        world.finish();
        world.counts
    });
    let is_many = all.len() as u64 >= usual;
    let mut total = Counts::default();
    for counts in all {
        total.recovered += counts.recovered;
        total.elsewhere += counts.elsewhere;
        total.abroad += counts.abroad;
        total.upgrades += counts.upgrades;
        total.replayed += counts.replayed;
        let (all, one) = (&mut total.refused, counts.refused);
        all.unknown += one.unknown;
        all.claimed += one.claimed;
        all.trimmed += one.trimmed;
        all.disconnected += one.disconnected;
        all.late += one.late;
        all.nodes += one.nodes;
    }
    is_many.then_some(total)
}

#[test]
fn who_comes_back_has_missed_nothing() {
    for shards in 1..=4 {
        let Some(counts) = play(setting(shards), 150) else {
            continue;
        };
        assert!(counts.recovered > 300, "{shards} shards: {counts:?}");
        assert!(counts.replayed > 5_000, "{shards} shards: {counts:?}");
        assert!(shards == 1 || counts.elsewhere > 300, "{counts:?}");
        let refused = counts.refused;
        assert_eq!((refused.trimmed, refused.late), (0, 0), "{counts:?}");
    }
}

/// In doubt a client gets a new socket. It is never told that it has missed nothing when it has.
#[test]
fn windows_and_journals_that_are_too_small_are_said() {
    let mut tight = setting(3);
    tight.window_ms = 250;
    tight.bounds.journal.bytes_max = 6_000;
    tight.bounds.journal.window_ms = 400;
    tight.bounds.parked.records_max = 3;
    let Some(counts) = play(tight, 300) else {
        return;
    };
    assert!(
        counts.recovered > 500 && counts.elsewhere > 100,
        "{counts:?}"
    );
    let refused = counts.refused;
    assert!(refused.unknown > 50 && refused.trimmed > 5, "{counts:?}");
}

/// Three nodes of two shards: what one publishes gets to the others by the home of the namespace, over links that take any time.
#[test]
fn who_comes_back_to_another_node_has_missed_nothing() {
    let between = Setting {
        nodes: 3,
        steps: 900,
        ..setting(2)
    };
    let Some(counts) = play(between, 100) else {
        return;
    };
    assert!(counts.recovered > 300, "{counts:?}");
    assert!(counts.abroad > 150, "{counts:?}");
}

/// A node dies at any time, before it confirms or after it offered; another has its number later.
#[test]
fn a_node_that_dies_leaves_no_second_socket_and_no_false_promise() {
    let mut deadly = Setting {
        nodes: 3,
        steps: 900,
        kills: true,
        ..setting(2)
    };
    deadly.bounds.parked.claim_ms = 300;
    let Some(counts) = play(deadly, 100) else {
        return;
    };
    assert!(counts.abroad > 60, "{counts:?}");
    assert!(
        counts.refused.nodes + counts.refused.late > 20,
        "{counts:?}"
    );
}

/// Put back: a node's next life counts from the beginning, as if it were the life before. The first histories find it.
#[cfg(feature = "faults")]
#[test]
fn known_faults_of_lives_are_found() {
    use crate::books::faults::{Fault, put_back};
    use std::panic::{AssertUnwindSafe, catch_unwind};
    let mut deadly = Setting {
        nodes: 3,
        steps: 900,
        kills: true,
        ..setting(2)
    };
    deadly.bounds.parked.claim_ms = 300;
    put_back(Some(Fault::LivesAlike));
    let played = catch_unwind(AssertUnwindSafe(|| {
        for seed in 0..300 {
            let script = Script::whole(seed);
            let mut world = World::new(deadly, &script);
            (0..deadly.steps).for_each(|step| {
                world.rng = script.dice(step).expect("all steps are played");
                world.act();
            });
            world.finish();
        }
    }));
    put_back(None);
    let panic = played.expect_err("LivesAlike was not found");
    let words = panic.downcast_ref::<String>().cloned();
    println!("LivesAlike: {}", words.unwrap_or_default());
}

/// In doubt it is a new socket.
#[test]
fn a_lost_message_between_nodes_makes_no_second_socket() {
    let mut lossy = Setting {
        nodes: 3,
        steps: 900,
        lost: 8,
        kills: true,
        ..setting(2)
    };
    lossy.bounds.parked.claim_ms = 100;
    let Some(counts) = play(lossy, 100) else {
        return;
    };
    assert!(counts.abroad > 10, "{counts:?}");
    assert!(counts.refused.late > 20, "{counts:?}");
}

/// Messages about claims may be lost; events are repaired.
#[test]
fn a_lost_message_makes_no_second_socket() {
    let mut lossy = setting(3);
    lossy.lost = 15;
    lossy.bounds.parked.claim_ms = 100;
    let Some(counts) = play(lossy, 300) else {
        return;
    };
    assert!(
        counts.recovered > 500 && counts.elsewhere > 100,
        "{counts:?}"
    );
    assert!(counts.refused.late > 50, "{counts:?}");
}
