//! Newcomers and holders over an engine that loses its keys. Each history is made of a seed.
//!
//! Checked of each: of two lives of one number one ends, and no holder ends that did not stand still.

use cluster::frame::{Epoch, NodeId, Peer};
use cluster::numbers::{
    Choice, Claim, Guests, KEY_US, LISTEN_US, NUMBERS, Newcomer, Verdict, judge,
};
use std::collections::BTreeMap;

const MS: u64 = 1_000;
const SECOND: u64 = 1_000 * MS;
const STEP_US: u64 = 50 * MS;
const HEARTBEAT_US: u64 = 250 * MS;
const RENEWAL_US: u64 = 5 * SECOND;
/// A holder is back so long after the engine is, at most.
const PAUSE_MAX_US: u64 = SECOND + 100 * MS;
/// A holder that stands still no longer is heard by every newcomer.
const STANDSTILL_MAX_US: u64 = LISTEN_US - PAUSE_MAX_US - HEARTBEAT_US - 2 * STEP_US;
const ENDS_US: u64 = 90 * SECOND;

/// Keys and subscribers.
#[derive(Default)]
struct Engine {
    keys: BTreeMap<u16, (Epoch, u64)>,
    counter: u64,
    away_until: u64,
    lost_at: u64,
}

impl Engine {
    fn lose(&mut self, now: u64) {
        self.keys.clear();
        self.lost_at = now;
    }

    fn claim(&self, number: u16, now: u64) -> Claim {
        match self.keys.get(&number) {
            Some((epoch, until)) if *until > now => Claim::Held(*epoch),
            _ => Claim::Free,
        }
    }

    fn claims(&self, now: u64) -> Vec<Claim> {
        (0..NUMBERS).map(|number| self.claim(number, now)).collect()
    }
}

enum State {
    New(Newcomer),
    /// Since when it has its number, and when it set its key last.
    Holder {
        peer: Peer,
        renewed: u64,
    },
    Ended,
}

struct Process {
    state: State,
    /// It is not connected before.
    back_at: u64,
    frozen_until: u64,
    spoke: u64,
    /// A newcomer could not hear it, perhaps while its key was lost.
    overslept: bool,
}

struct World {
    rng: fastrand::Rng,
    engine: Engine,
    processes: Vec<Process>,
    now: u64,
    /// The lowest free number, without listening: as it was.
    careless: bool,
    /// Processes that take this one number only.
    given: Option<u16>,
}

impl World {
    fn play(seed: u64, careless: bool, given: Option<u16>) -> Result<(), String> {
        let mut world = World {
            rng: fastrand::Rng::with_seed(seed),
            engine: Engine::default(),
            processes: Vec::new(),
            now: SECOND,
            careless,
            given,
        };
        for _ in 0..world.rng.usize(1..6) {
            world.arrive();
        }
        while world.now < ENDS_US {
            world.now += STEP_US;
            world.happen();
            for at in 0..world.processes.len() {
                world.act(at)?;
            }
            world.check()?;
        }
        Ok(())
    }

    fn arrive(&mut self) {
        self.processes.push(Process {
            state: State::New(Newcomer::new(self.given.map(NodeId))),
            back_at: self.now,
            frozen_until: 0,
            spoke: 0,
            overslept: false,
        });
    }

    /// Something goes wrong every few seconds, and somebody comes right then.
    fn happen(&mut self) {
        if self.now > ENDS_US - 30 * SECOND || self.rng.u64(..SECOND * 4) >= STEP_US {
            return;
        }
        match self.rng.u8(..6) {
            0 => self.engine.lose(self.now),
            1 | 2 => {
                // It ends, and starts again without data.
                self.engine.away_until = self.now + self.rng.u64(..20 * SECOND);
                self.engine.lose(self.now);
                self.engine.counter = 0;
                for process in &mut self.processes {
                    let pause = self.rng.u64(..PAUSE_MAX_US);
                    process.back_at = self.engine.away_until + pause;
                }
            }
            3 => {
                let at = self.rng.usize(..self.processes.len());
                let time = self.rng.u64(..40 * SECOND);
                self.processes[at].frozen_until = self.now + time;
                self.processes[at].overslept |= time > STANDSTILL_MAX_US;
            }
            _ => {}
        }
        for process in &mut self.processes {
            let is_holder = matches!(process.state, State::Holder { .. });
            // Nobody has heard it, so its number is not known from anything but its key. It has no clients yet.
            process.overslept |= is_holder && process.spoke == 0;
        }
        if self.processes.len() < 40 {
            self.arrive();
        }
    }

    fn act(&mut self, at: usize) -> Result<(), String> {
        let (now, process) = (self.now, &mut self.processes[at]);
        if now < process.frozen_until {
            return Ok(());
        }
        let connected = now >= process.back_at && now >= self.engine.away_until;
        match &mut process.state {
            State::Ended => {}
            State::New(newcomer) => {
                newcomer.hears(connected, now);
                if connected {
                    self.enter(at);
                }
            }
            State::Holder { .. } if connected => return self.hold(at),
            State::Holder { .. } => {}
        }
        Ok(())
    }

    fn enter(&mut self, at: usize) {
        let State::New(newcomer) = &self.processes[at].state else {
            return;
        };
        if !self.careless && newcomer.due_us().is_none_or(|due| self.now < due) {
            return;
        }
        let claims = self.engine.claims(self.now);
        let choice = match self.careless {
            true => {
                let lowest = claims.iter().position(|claim| *claim == Claim::Free);
                Choice::Take(NodeId(lowest.expect("a number") as u16))
            }
            false => newcomer.choose(&claims, self.now, self.rng.u64(..)),
        };
        let Choice::Take(node) = choice else { return };
        // Clocks differ by a minute.
        let clock = 1_000_000 + self.now / 1_000 + self.rng.u64(..60_000);
        let epoch = Epoch(clock.max(self.engine.counter + 1));
        self.engine.counter = epoch.0;
        let until = self.now + KEY_US;
        self.engine.keys.insert(node.0, (epoch, until));
        let renewed = self.now;
        let peer = Peer { node, epoch };
        self.processes[at].state = State::Holder { peer, renewed };
    }

    fn hold(&mut self, at: usize) -> Result<(), String> {
        let now = self.now;
        let State::Holder { peer, renewed } = self.processes[at].state else {
            return Ok(());
        };
        let claim = self.engine.claim(peer.node.0, now);
        let is_due = now >= renewed + RENEWAL_US
            || now >= self.processes[at].back_at && renewed < self.processes[at].back_at;
        if is_due {
            if judge(peer.epoch, claim, now - renewed) == Verdict::End {
                let innocent = !self.processes[at].overslept && !self.stood_still(claim);
                self.processes[at].state = State::Ended;
                return match innocent {
                    true => Err(format!(
                        "a holder that was there all the time ended: {peer:?} at {now}, {claim:?} was found"
                    )),
                    false => Ok(()),
                };
            }
            self.engine
                .keys
                .insert(peer.node.0, (peer.epoch, now + KEY_US));
            self.engine.counter = self.engine.counter.max(peer.epoch.0);
            self.processes[at].state = State::Holder { peer, renewed: now };
        }
        if now >= self.processes[at].spoke + HEARTBEAT_US {
            self.processes[at].spoke = now;
            self.speak(peer);
        }
        Ok(())
    }

    /// Whether the life that has a number stood still when somebody else took it.
    fn stood_still(&self, claim: Claim) -> bool {
        let is_holder = |process: &&Process| match process.state {
            State::Holder { peer, .. } => claim == Claim::Held(peer.epoch),
            _ => false,
        };
        let holder = self.processes.iter().find(is_holder);
        holder.is_some_and(|process| process.overslept)
    }

    fn speak(&mut self, peer: Peer) {
        let (now, away) = (self.now, self.engine.away_until);
        for other in &mut self.processes {
            let hears = now >= other.back_at && now >= away && now >= other.frozen_until;
            if let State::New(newcomer) = &mut other.state
                && hears
            {
                newcomer.heard(peer, now);
            }
        }
    }

    /// Two that are awake and connected for longer than two renewals take are not one number: the first restores its key, the second reads it.
    fn check(&self) -> Result<(), String> {
        let mut seen = BTreeMap::new();
        for process in &self.processes {
            let settled = self.now
                >= process
                    .frozen_until
                    .max(process.back_at)
                    .max(self.engine.away_until)
                    .max(self.engine.lost_at)
                    + 2 * RENEWAL_US
                    + SECOND;
            if let State::Holder { peer, .. } = process.state
                && settled
                && let Some(other) = seen.insert(peer.node, peer)
            {
                return Err(format!(
                    "two lives have one number: {other:?} {peer:?} at {}",
                    self.now
                ));
            }
        }
        Ok(())
    }
}

#[test]
fn an_engine_without_its_keys_and_a_newcomer_end_no_holder() {
    for seed in seeds::seeds(200) {
        if let Err(why) = World::play(seed, false, None) {
            panic!("SIM_SEED={seed}: {why}");
        }
    }
}

/// All processes have one and the same number in their configuration: one of them gets it.
#[test]
fn a_number_that_is_given_twice_is_one_node_s() {
    for seed in seeds::seeds(200) {
        if let Err(why) = World::play(seed, false, Some(7)) {
            panic!("SIM_SEED={seed}: {why}");
        }
    }
}

/// The histories would find the fault that they are for.
#[test]
fn the_lowest_number_taken_at_once_ended_healthy_holders() {
    let found = (0..20).filter(|seed| World::play(*seed, true, None).is_err());
    assert!(found.count() > 10);
}

fn peer(node: u16, epoch: u64) -> Peer {
    Peer {
        node: NodeId(node),
        epoch: Epoch(epoch),
    }
}

#[test]
fn a_newcomer_listens_anew_when_it_could_not_hear() {
    let mut newcomer = Newcomer::new(None);
    let free = vec![Claim::Free; usize::from(NUMBERS)];
    assert_eq!(newcomer.choose(&free, LISTEN_US, 5), Choice::Listen);
    newcomer.hears(true, SECOND);
    newcomer.hears(false, 2 * SECOND);
    newcomer.hears(true, 3 * SECOND);
    assert_eq!(
        newcomer.choose(&free, LISTEN_US + SECOND, 5),
        Choice::Listen
    );
    newcomer.heard(peer(1, 7), 3 * SECOND);
    let late = 3 * SECOND + LISTEN_US;
    assert_eq!(newcomer.choose(&free, late, 1), Choice::Take(NodeId(2)));
    assert_eq!(newcomer.others(late).collect::<Vec<_>>(), [peer(1, 7)]);
    assert_eq!(newcomer.others(late + 1).count(), 0);
}

#[test]
fn a_newcomer_that_stood_still_took_what_it_had_not_heard_for_silence() {
    let mut newcomer = Newcomer::new(None);
    newcomer.hears(true, SECOND);
    newcomer.hears(true, SECOND + 400 * MS);
    assert_eq!(newcomer.due_us(), Some(SECOND + LISTEN_US));
    newcomer.hears(true, 10 * SECOND);
    assert_eq!(newcomer.due_us(), Some(10 * SECOND + LISTEN_US));
}

#[test]
fn what_a_stranger_wrote_costs_a_given_number_nothing_and_is_not_chosen_otherwise() {
    let mut claims = vec![Claim::Foreign; usize::from(NUMBERS)];
    let choose = |claims: &[Claim], given: Option<u16>, dice| {
        let mut newcomer = Newcomer::new(given.map(NodeId));
        newcomer.hears(true, 0);
        newcomer.choose(claims, LISTEN_US, dice)
    };
    assert_eq!(choose(&claims, None, 3), Choice::Full);
    assert_eq!(choose(&claims, Some(4), 3), Choice::Take(NodeId(4)));
    claims[9] = Claim::Free;
    claims[4] = Claim::Held(Epoch(1));
    assert_eq!(choose(&claims, None, 3), Choice::Take(NodeId(9)));
    assert_eq!(choose(&claims, Some(4), 3), Choice::Taken(NodeId(4)));
    assert_eq!(choose(&claims, Some(9), 3), Choice::Take(NodeId(9)));
}

/// A stranger that invents lives is remembered by two of them for each number.
#[test]
fn invented_lives_fill_no_memory() {
    let mut newcomer = Newcomer::new(None);
    newcomer.hears(true, 0);
    for n in 0..100_000_u64 {
        newcomer.heard(peer((n % 3_000) as u16, n), SECOND);
    }
    assert_eq!(newcomer.others(SECOND).count(), 2 * usize::from(NUMBERS));
    let mut guests = Guests::default();
    for n in 0..100_000_u64 {
        assert!(!guests.admits(peer((n % 3_000) as u16, n)));
    }
    assert_eq!(guests.refused(), 100_000);
    assert!(guests.take_unknown() && !guests.take_unknown());
    assert!(!guests.admits(peer(NUMBERS, 1)) && !guests.take_unknown());
}

#[test]
fn a_life_is_heard_from_its_key_on_and_its_last_words_too() {
    let mut guests = Guests::expecting([peer(3, 1), peer(4, 1)].into_iter());
    assert!(!guests.admits(peer(3, 1)) && guests.are_awaited());
    guests.read(NodeId(3), Claim::Held(Epoch(1)));
    assert!(guests.admits(peer(3, 1)) && guests.are_awaited());
    // Its key is lost, and it lives.
    guests.read(NodeId(3), Claim::Free);
    guests.read(NodeId(4), Claim::Held(Epoch(2)));
    assert!(guests.admits(peer(3, 1)) && !guests.are_awaited());
    guests.read(NodeId(3), Claim::Held(Epoch(5)));
    assert!(guests.admits(peer(3, 5)) && guests.admits(peer(3, 1)));
    guests.read(NodeId(3), Claim::Held(Epoch(6)));
    assert!(!guests.admits(peer(3, 1)) && guests.admits(peer(3, 6)));
}
