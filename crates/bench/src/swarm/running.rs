//! Owns a load under way: the ledger, the latencies, and which message goes out next.

use super::load::{Due, Load, Pace, PublishLoad, Schedule, Window};
use crate::clock::now_ns;
use crate::latency::Latency;
use crate::ledger::{Account, Arrival, Ledger};
use crate::stamp::Stamp;

/// Nothing arrived for so long: outstanding messages are lost.
const STALL_NS: u64 = 1_000_000_000;

#[derive(Debug)]
pub struct Running {
    pub load: Load,
    first_member: u32,
    members: usize,
    ledger: Ledger,
    pub latency: Latency,
    /// How late the generator itself was against its schedule.
    pub lag: Latency,
    pace: Pacing,
    pub stopped: bool,
    stray: u64,
    pub stalls: u64,
}

#[derive(Debug)]
enum Pacing {
    /// Echo loads send when an answer comes; listening workers never.
    Answers,
    Windows(Vec<Window>),
    Schedule(Schedule),
}

impl Running {
    /// `members` connections of this worker, numbered from `first_member` among all workers.
    pub fn new(load: Load, first_member: u32, members: usize) -> Self {
        let publishers_per_member = match &load {
            Load::Echo { .. } => 1,
            Load::Publish(publish) => publish.publishers.div_ceil(publish.rooms.max(1)) as usize,
        };
        let pace = match &load {
            Load::Publish(publish) if first_member == 0 => Pacing::new(publish, members),
            _ => Pacing::Answers,
        };
        Running {
            load,
            first_member,
            members,
            ledger: Ledger::new(members, publishers_per_member),
            latency: Latency::default(),
            lag: Latency::default(),
            pace,
            stopped: false,
            stray: 0,
            stalls: 0,
        }
    }

    /// Notes a broadcast at connection `index`.
    pub fn delivered(&mut self, index: usize, stamp: Stamp, now_ns: u64) {
        let Load::Publish(publish) = &self.load else {
            self.stray += 1;
            return;
        };
        let publisher = u32::from(stamp.publisher);
        let member = self.first_member + index as u32;
        if publisher >= publish.publishers || publisher % publish.rooms != member % publish.rooms {
            self.stray += 1;
            return;
        }
        self.latency.record(now_ns.saturating_sub(stamp.due_ns));
        let slot = (publisher / publish.rooms) as usize;
        let arrival = self.ledger.observe(index, slot, stamp.sequence);
        if let Pacing::Windows(windows) = &mut self.pace
            && arrival != Arrival::Duplicate
        {
            windows[publisher as usize].arrived(stamp.sequence, now_ns);
        }
    }

    /// Notes the answer to an echo at connection `index`.
    pub fn answered(&mut self, index: usize, stamp: Stamp, now_ns: u64) {
        self.latency.record(now_ns.saturating_sub(stamp.due_ns));
        self.ledger.observe(index, 0, stamp.sequence);
    }

    /// Next message that is due by now, if any.
    pub fn take_due(&mut self, now_ns: u64) -> Option<Due> {
        if self.stopped {
            return None;
        }
        match &mut self.pace {
            Pacing::Answers => None,
            Pacing::Schedule(schedule) => {
                let due = schedule.take(now_ns)?;
                self.lag.record(now_ns - due.due_ns);
                Some(due)
            }
            Pacing::Windows(windows) => {
                windows
                    .iter_mut()
                    .enumerate()
                    .find_map(|(publisher, window)| {
                        let sequence = window.take()?;
                        Some(Due {
                            publisher: publisher as u16,
                            sequence,
                            due_ns: now_ns,
                        })
                    })
            }
        }
    }

    /// When the reactor must wake up by itself.
    pub fn next_due_ns(&self) -> Option<u64> {
        match &self.pace {
            Pacing::Schedule(schedule) if !self.stopped => Some(schedule.next_due_ns()),
            _ => None,
        }
    }

    pub fn abandon_stalled(&mut self, now_ns: u64) {
        if let Pacing::Windows(windows) = &mut self.pace {
            for window in windows {
                self.stalls += u64::from(window.abandon_stalled(now_ns, STALL_NS));
            }
        }
    }

    /// Messages sent so far, by publisher; empty at workers that only listen.
    pub fn published(&self) -> Vec<u64> {
        match &self.pace {
            Pacing::Answers => Vec::new(),
            Pacing::Schedule(schedule) => schedule.published(),
            Pacing::Windows(windows) => windows.iter().map(Window::published).collect(),
        }
    }

    pub fn received(&self) -> u64 {
        self.ledger.received()
    }

    /// Deliveries this worker should have seen in the end. `sent` tells the echoes of a connection.
    pub fn expected(&self, published: &[u64], sent: impl Fn(usize) -> u64) -> u64 {
        (0..self.members)
            .map(|index| self.owed(index, published, &sent).iter().sum::<u64>())
            .sum()
    }

    pub fn account(&self, published: &[u64], sent: impl Fn(usize) -> u64) -> Account {
        let mut account = Account {
            stray: self.stray,
            ..Account::default()
        };
        for index in 0..self.members {
            let owed = self.owed(index, published, &sent);
            self.ledger.settle_member(index, &owed, &mut account);
        }
        self.ledger.settle_totals(&mut account);
        account
    }

    /// What each publisher of this member's room sent.
    fn owed(&self, index: usize, published: &[u64], sent: &impl Fn(usize) -> u64) -> Vec<u64> {
        match &self.load {
            Load::Echo { .. } => vec![sent(index)],
            Load::Publish(publish) => {
                let room = (self.first_member as usize + index) % publish.rooms as usize;
                published
                    .iter()
                    .skip(room)
                    .step_by(publish.rooms as usize)
                    .copied()
                    .collect()
            }
        }
    }
}

impl Pacing {
    fn new(publish: &PublishLoad, members: usize) -> Self {
        let now_ns = now_ns();
        match publish.pace {
            Pace::PerSecond(rate) => {
                Pacing::Schedule(Schedule::new(rate, publish.publishers, now_ns))
            }
            Pace::Window(size) => {
                let rooms = publish.rooms as usize;
                let in_room = |room: usize| (members + rooms - 1 - room) / rooms;
                let windows = (0..publish.publishers as usize)
                    .map(|p| Window::new(size, in_room(p % rooms) as u32, now_ns));
                Pacing::Windows(windows.collect())
            }
        }
    }
}
