//! Nodes that share limits, over a board that is slow, away, or loses everything; nodes come, die and stand still. Each history is made
//! of a seed.
//!
//! Checked at every step: of no key more is in use than its shares, which add up to its budget as soon as all nodes know each other. Checked at the end of each: all of it can be used, from whichever
//! node, and what was used up by nodes that died is free.

use cluster::budget::{Change, GRACE_US, Key, Ledger, Limit, SHEET_US, Sheet, Source, Usage};
use cluster::frame::{Epoch, NodeId, Peer};
use std::collections::{BTreeMap, BTreeSet};

const MS: u64 = 1_000;
const STEP_US: u64 = 10 * MS;
const PERIOD_US: u64 = 100 * MS;
const ENDS_US: u64 = 40_000 * MS;
const BUDGET: u32 = 20;
const KEYS: u64 = 4;
/// So many messages in some time.
const RATE: u32 = 100;
const USER: Key = Key {
    kind: 1,
    holder: 77,
};

fn key(holder: u64) -> Key {
    Key { kind: 0, holder }
}

/// Shows a sheet and hands out all, in one step.
#[derive(Default)]
struct Board {
    sheets: BTreeMap<u16, (Vec<u8>, u64)>,
    away_until: u64,
}

impl Board {
    fn exchange(&mut self, sheet: &Sheet, now: u64) -> Option<Vec<Sheet>> {
        if now < self.away_until {
            return None;
        }
        self.sheets.retain(|_, (_, until)| *until > now);
        self.sheets
            .insert(sheet.of.node.0, (sheet.write(), now + SHEET_US));
        let sheets = self.sheets.values();
        Some(
            sheets
                .map(|(bytes, _)| Sheet::read(bytes).expect("a sheet"))
                .collect(),
        )
    }
}

/// The shards of a node.
#[derive(Default)]
struct Doors {
    rest: u32,
    shares: BTreeMap<Key, u32>,
    conns: BTreeMap<Key, u32>,
    refused: BTreeMap<Key, u32>,
    near: Vec<Key>,
    /// Of the rate: its share of a key that nobody names, and what has not come back.
    rest_of_rate: u32,
    level: f64,
}

impl Doors {
    /// A message of the one user there is.
    fn pass(&mut self) -> bool {
        let named = self.shares.get(&USER).copied();
        let share = f64::from(named.unwrap_or(self.rest_of_rate));
        let passes = self.level + 1.0 <= share;
        match (passes, named) {
            (true, _) => self.level += 1.0,
            (false, Some(_)) => *self.refused.entry(USER).or_default() += 1,
            (false, None) => {}
        }
        if named.is_none() && self.level * 2.0 > share {
            self.near.push(USER);
        }
        passes
    }

    fn drain(&mut self, per_us: u64) {
        let share = self.shares.get(&USER).unwrap_or(&self.rest_of_rate);
        let back = f64::from(*share) * STEP_US as f64 / per_us as f64;
        self.level = (self.level - back).max(0.0);
    }

    fn enter(&mut self, key: Key) -> bool {
        let count = self.conns.entry(key).or_default();
        let named = self.shares.get(&key).copied();
        let share = named.unwrap_or(self.rest);
        if named.is_none() && (*count + 1) * 2 > self.rest {
            self.near.push(key);
        }
        let admitted = *count < share;
        match admitted {
            true => *count += 1,
            false => *self.refused.entry(key).or_default() += 1,
        }
        admitted
    }

    fn leave(&mut self, key: Key) {
        if let Some(count) = self.conns.get_mut(&key) {
            *count = count.saturating_sub(1);
        }
    }

    fn change(&mut self, change: Change) {
        match change {
            Change::Share(key, share) => {
                self.shares.insert(key, share);
            }
            Change::Forget(key) => {
                self.shares.remove(&key);
            }
            Change::Rest(0, share) => self.rest = share,
            Change::Rest(1, share) => self.rest_of_rate = share,
            Change::Rest(..) => {}
        }
    }
}

impl Source for Doors {
    fn usage(&mut self, key: Key) -> Usage {
        let conns = self.conns.get(&key).copied().unwrap_or_default();
        Usage {
            used: if key == USER {
                self.level.ceil() as u32
            } else {
                conns
            },
            refused: self.refused.remove(&key).unwrap_or_default(),
        }
    }

    fn above(&mut self, _: u8, used: u32) -> Vec<Key> {
        let above = self.conns.iter().filter(|(_, count)| **count > used);
        above.map(|(key, _)| *key).collect()
    }
}

struct Node {
    me: Peer,
    ledger: Ledger,
    doors: Doors,
    due: u64,
    /// A sheet on its way to the board, and when it is there.
    out: Option<(Sheet, u64)>,
    /// An answer on its way back; `None`: it gives up waiting.
    back: Option<(Option<Vec<Sheet>>, u64)>,
}

impl Node {
    fn goes_on(&mut self, now: u64) {
        self.ledger = Ledger::new(self.me, limits()).behind(now);
        self.ledger.go_on_with_rest(0, self.doors.rest);
        self.ledger.go_on_with_rest(1, self.doors.rest_of_rate);
        for (key, share) in &self.doors.shares {
            self.ledger.go_on_with(*key, *share, now);
        }
        (self.back, self.due) = (None, now);
        self.apply();
    }

    fn apply(&mut self) {
        for change in self.ledger.changes() {
            self.doors.change(change);
        }
    }
}

fn limits() -> [Limit; 8] {
    let mut limits = [Limit::default(); 8];
    limits[0].budget = BUDGET;
    limits[1] = Limit {
        budget: RATE,
        flows: true,
    };
    limits
}

struct World {
    rng: fastrand::Rng,
    board: Board,
    nodes: BTreeMap<u16, Node>,
    now: u64,
    lives: u64,
    /// Pairs of nodes: the first has read a sheet of the second.
    met: BTreeSet<(Peer, Peer)>,
    /// Of each key, what its shares are beyond the budget.
    excess: [u32; KEYS as usize],
    died: BTreeMap<Peer, u64>,
}

impl World {
    fn new(seed: u64) -> World {
        let mut world = World {
            rng: fastrand::Rng::with_seed(seed),
            board: Board::default(),
            nodes: BTreeMap::new(),
            now: 1_000 * MS,
            lives: 0,
            met: BTreeSet::new(),
            excess: [0; KEYS as usize],
            died: BTreeMap::new(),
        };
        for _ in 0..world.rng.usize(1..5) {
            world.arrive();
        }
        world
    }

    fn arrive(&mut self) {
        self.lives += 1;
        let number = self.rng.u16(..30);
        if self.nodes.contains_key(&number) {
            return;
        }
        let me = Peer {
            node: NodeId(number),
            epoch: Epoch(self.lives),
        };
        let mut node = Node {
            me,
            ledger: Ledger::new(me, limits()),
            doors: Doors::default(),
            due: self.now,
            out: None,
            back: None,
        };
        node.apply();
        self.nodes.insert(number, node);
    }

    fn exchange(&mut self, number: u16) {
        let living: Vec<Peer> = self.nodes.values().map(|node| node.me).collect();
        let Some(node) = self.nodes.get_mut(&number) else {
            return;
        };
        let now = self.now;
        if let Some((answer, _)) = node.back.take_if(|(_, at)| *at <= now) {
            match answer {
                // Who dies is heard a little longer.
                Some(sheets) => {
                    self.met
                        .extend(sheets.iter().map(|sheet| (node.me, sheet.of)));
                    let dead = self.died.iter().filter(|(_, at)| now < *at + 4_000 * MS);
                    let heard: Vec<Peer> = living
                        .into_iter()
                        .chain(dead.map(|(peer, _)| *peer))
                        .filter(|peer| *peer != node.me)
                        .collect();
                    node.ledger.learn(now, sheets.into_iter(), &heard);
                }
                None => node.ledger.failed(),
            }
            node.apply();
            node.due = now + PERIOD_US;
        }
        if let Some((sheet, _)) = node.out.take_if(|(_, at)| *at <= now) {
            // The command may be carried out, and its answer lost.
            let answer = self.board.exchange(&sheet, now);
            let lost = self.rng.u8(..50) == 0;
            node.back = Some((answer.filter(|_| !lost), now + self.rng.u64(..60 * MS)));
        }
        if node.out.is_none() && node.back.is_none() && node.due <= now {
            for key in std::mem::take(&mut node.doors.near) {
                node.ledger.note(key, now);
            }
            node.apply();
            let sheet = node.ledger.propose(now, &mut node.doors);
            node.apply();
            node.out = Some((sheet, now + self.rng.u64(..60 * MS)));
        }
    }

    fn clients(&mut self, busy: &[u16]) {
        for number in busy {
            let Some(node) = self.nodes.get_mut(number) else {
                continue;
            };
            for _ in 0..self.rng.u8(..4) {
                let key = key(self.rng.u64(..KEYS));
                match self.rng.u8(..10) {
                    0..5 => _ = node.doors.enter(key),
                    _ => node.doors.leave(key),
                }
            }
        }
    }

    fn trouble(&mut self) {
        if self.rng.u64(..3_000 * MS) >= STEP_US {
            return;
        }
        let some = self.rng.usize(..self.nodes.len().max(1));
        let number = self.nodes.keys().nth(some).copied();
        match self.rng.u8(..7) {
            0 if self.nodes.len() < 6 => self.arrive(),
            1 if self.nodes.len() > 1 => {
                if let Some(node) = number.and_then(|number| self.nodes.remove(&number)) {
                    self.died.insert(node.me, self.now);
                }
            }
            2 => self.board.sheets.clear(),
            3 => self.board.away_until = self.now + self.rng.u64(..8_000 * MS),
            // A restart without its keys: nobody has shown a sheet for longer than they stand.
            4 => {
                self.board.away_until = self.now + self.rng.u64(..8_000 * MS);
                self.board.sheets.clear();
            }
            // Another process goes on as this node. A command of the one before may be carried out still.
            5 => {
                if let Some(node) = number.and_then(|number| self.nodes.get_mut(&number)) {
                    node.goes_on(self.now);
                }
            }
            _ => {
                if let Some(node) = number.and_then(|number| self.nodes.get_mut(&number)) {
                    node.due = self.now + self.rng.u64(..2_500 * MS);
                }
            }
        }
    }

    fn used(&self, key: Key) -> u32 {
        let nodes = self.nodes.values();
        nodes
            .map(|node| node.doors.conns.get(&key).copied().unwrap_or_default())
            .sum()
    }

    /// Shares add up to the budget. What a newcomer has beside the others' is more than that, and becomes less as they learn of each other.
    fn check(&mut self) -> Result<(), String> {
        let living: Vec<Peer> = self.nodes.values().map(|node| node.me).collect();
        let know = |one: &Peer| {
            let mut others = living.iter().filter(|other| *other != one);
            others.all(|other| self.met.contains(&(*one, *other)))
        };
        let all_know = living.iter().all(know);
        for holder in 0..KEYS {
            let share = |node: &Node| {
                *node
                    .doors
                    .shares
                    .get(&key(holder))
                    .unwrap_or(&node.doors.rest)
            };
            let shares: u32 = self.nodes.values().map(share).sum();
            let (excess, used) = (shares.saturating_sub(BUDGET), self.used(key(holder)));
            // A newcomer has its first share, also if it finds an emptied board.
            let strangers = self.nodes.len().saturating_sub(1) as u32;
            let may = match all_know {
                true => self.excess[holder as usize],
                false => strangers * BUDGET.div_ceil(4),
            };
            if excess > may || used > BUDGET + excess {
                let each: Vec<_> = self
                    .nodes
                    .iter()
                    .map(|(n, node)| (n, share(node)))
                    .collect();
                return Err(format!(
                    "{used} in use of key {holder} at {}, {excess} shared beyond the budget where {may} were before: {each:?}",
                    self.now
                ));
            }
            self.excess[holder as usize] = excess;
        }
        Ok(())
    }

    fn step(&mut self) {
        self.now += STEP_US;
        let numbers: Vec<u16> = self.nodes.keys().copied().collect();
        numbers.into_iter().for_each(|number| self.exchange(number));
    }

    fn play(seed: u64) -> Result<(), String> {
        let mut world = World::new(seed);
        let mut busy: Vec<u16> = Vec::new();
        while world.now < ENDS_US {
            if world.rng.u8(..100) == 0 || busy.is_empty() {
                // Now here, now there.
                let numbers: Vec<u16> = world.nodes.keys().copied().collect();
                busy = numbers.into_iter().filter(|_| world.rng.bool()).collect();
            }
            world.trouble();
            world.step();
            world.clients(&busy.clone());
            world.check()?;
        }
        world.end()
    }

    /// Everything is well again. A single node can use all, and then another one.
    fn end(&mut self) -> Result<(), String> {
        self.board.away_until = 0;
        let settled = self.now + SHEET_US + GRACE_US + 5_000 * MS;
        while self.now < settled {
            self.step();
            self.check()?;
        }
        let numbers: Vec<u16> = self.nodes.keys().copied().collect();
        for number in numbers {
            for node in self.nodes.values_mut() {
                node.doors.conns.clear();
            }
            // Longer than those who were refused elsewhere are remembered.
            for _ in 0..400 {
                self.step();
                if let Some(node) = self.nodes.get_mut(&number) {
                    (0..KEYS).for_each(|holder| _ = node.doors.enter(key(holder)));
                }
                self.check()?;
            }
            for holder in 0..KEYS {
                let used = self.used(key(holder));
                if used != BUDGET {
                    return Err(format!("{used} of key {holder} at node {number}"));
                }
            }
        }
        // Nobody comes any more, and nothing is named for long.
        for node in self.nodes.values_mut() {
            node.doors.conns.clear();
        }
        (0..800).for_each(|_| self.step());
        let named: usize = self.nodes.values().map(|node| node.ledger.named()).sum();
        match named {
            0 => Ok(()),
            named => Err(format!("{named} keys are still named")),
        }
    }
}

/// A user sends to one node, to some or to all, each second otherwise. Its rate comes back in `per_us`. Returns what passed, in parts of
/// what may.
fn passed(seed: u64, nodes: u16, per_us: u64) -> f64 {
    let mut world = World::new(seed);
    world.nodes.clear();
    while world.nodes.len() < usize::from(nodes) {
        world.arrive();
    }
    (0..200).for_each(|_| world.step());
    let (mut passed, mut busy, began) = (0, Vec::new(), world.now);
    while world.now < began + 30_000 * MS {
        if world.now % (1_000 * MS) < STEP_US {
            let numbers: Vec<u16> = world.nodes.keys().copied().collect();
            busy = numbers;
            world.rng.shuffle(&mut busy);
            busy.truncate(world.rng.usize(1..=usize::from(nodes)));
        }
        world.step();
        for node in world.nodes.values_mut() {
            node.doors.drain(per_us);
        }
        for number in &busy {
            if let Some(node) = world.nodes.get_mut(number) {
                passed += (0..3).filter(|_| node.doors.pass()).count();
            }
        }
    }
    let windows = (world.now - began) as f64 / per_us as f64;
    passed as f64 / (f64::from(RATE) * (1.0 + windows))
}

#[test]
fn a_rate_holds_over_all_nodes_and_moves_with_its_user() {
    for seed in 0..60 {
        for nodes in [1, 2, 3, 7] {
            for (per_s, most) in [(5, 1.05), (60, 1.1), (600, 1.1)] {
                let passed = passed(seed, nodes, per_s * 1_000 * MS);
                assert!(
                    (0.85..most).contains(&passed),
                    "seed {seed}, {nodes} nodes, 100 in {per_s} s: {passed}"
                );
            }
        }
    }
}

#[test]
fn a_budget_holds_over_all_nodes_and_all_of_it_can_be_used() {
    for seed in seeds::seeds(150) {
        if let Err(what) = World::play(seed) {
            panic!("SIM_SEED={seed}: {what}");
        }
    }
}
