//! Owns what the connections do once they are ready: the description of a load, and the state of
//! windows and schedules that decide when the next message is due. Pure; `now` is passed in.

use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// What ready connections do.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Load {
    /// Every connection keeps `depth` acknowledged events in flight.
    Echo { depth: u32, payload_bytes: usize },
    /// Members 0..publishers publish; everyone in the publisher's room receives.
    Publish(PublishLoad),
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PublishLoad {
    /// Member m and publisher p share a room when m = p (mod rooms).
    pub rooms: u32,
    /// A multiple of `rooms`.
    pub publishers: u32,
    pub pace: Pace,
    pub payload_bytes: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pace {
    /// So many messages of each publisher outstanding: a message is done when every member of the
    /// room has it. As fast as the server can.
    Window(u32),
    /// Messages per second of all publishers together, at constant distance.
    PerSecond(f64),
}

/// Outstanding messages of one publisher in windowed pace.
#[derive(Debug)]
pub struct Window {
    size: u32,
    members: u32,
    /// Receptions that each outstanding message still lacks, oldest first.
    lacking: VecDeque<u32>,
    next_sequence: u64,
    pub progress_ns: u64,
}

impl Window {
    pub fn new(size: u32, members: u32, now_ns: u64) -> Self {
        let lacking = VecDeque::with_capacity(size as usize);
        Window {
            size,
            members,
            lacking,
            next_sequence: 0,
            progress_ns: now_ns,
        }
    }

    /// One member has message `sequence` (for the first time).
    pub fn arrived(&mut self, sequence: u64, now_ns: u64) {
        let oldest = self.next_sequence - self.lacking.len() as u64;
        let Some(at) = sequence.checked_sub(oldest) else {
            return;
        };
        let Some(lacking) = self.lacking.get_mut(at as usize) else {
            return;
        };
        *lacking = lacking.saturating_sub(1);
        self.progress_ns = now_ns;
        while self.lacking.front() == Some(&0) {
            self.lacking.pop_front();
        }
    }

    /// Sequence number of a message that may be sent now.
    pub fn take(&mut self) -> Option<u64> {
        if self.lacking.len() as u32 >= self.size {
            return None;
        }
        self.lacking.push_back(self.members);
        self.next_sequence += 1;
        Some(self.next_sequence - 1)
    }

    pub fn published(&self) -> u64 {
        self.next_sequence
    }

    /// Gives up on outstanding messages when nothing arrived for `patience_ns`: a server that
    /// loses messages must not stop the run that shall count them.
    pub fn abandon_stalled(&mut self, now_ns: u64, patience_ns: u64) -> bool {
        let stalled = !self.lacking.is_empty() && now_ns > self.progress_ns + patience_ns;
        if stalled {
            self.lacking.clear();
            self.progress_ns = now_ns;
        }
        stalled
    }
}

/// Constant-rate schedule over all publishers in turn. Messages are stamped with the time they
/// were due, so that a stalled server (or generator) cannot hide its delay (coordinated omission).
#[derive(Debug)]
pub struct Schedule {
    start_ns: u64,
    distance_ns: f64,
    publishers: u32,
    sent: u64,
}

/// One message that the schedule wants sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due {
    pub publisher: u16,
    pub sequence: u64,
    pub due_ns: u64,
}

impl Schedule {
    pub fn new(per_second: f64, publishers: u32, start_ns: u64) -> Self {
        Schedule {
            start_ns,
            distance_ns: 1e9 / per_second,
            publishers,
            sent: 0,
        }
    }

    pub fn next_due_ns(&self) -> u64 {
        self.start_ns + (self.sent as f64 * self.distance_ns) as u64
    }

    pub fn take(&mut self, now_ns: u64) -> Option<Due> {
        let due_ns = self.next_due_ns();
        if due_ns > now_ns {
            return None;
        }
        let publishers = u64::from(self.publishers);
        let (sequence, publisher) = (self.sent / publishers, (self.sent % publishers) as u16);
        self.sent += 1;
        Some(Due {
            publisher,
            sequence,
            due_ns,
        })
    }

    /// Messages sent by each publisher.
    pub fn published(&self) -> Vec<u64> {
        let publishers = u64::from(self.publishers);
        (0..publishers)
            .map(|p| (self.sent + publishers - 1 - p) / publishers)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_refills_when_every_member_has_the_oldest() {
        let mut window = Window::new(2, 3, 0);
        assert_eq!(
            (window.take(), window.take(), window.take()),
            (Some(0), Some(1), None)
        );
        for _ in 0..3 {
            window.arrived(1, 5);
        }
        assert_eq!(window.take(), None, "message 0 is still outstanding");
        for _ in 0..3 {
            window.arrived(0, 6);
        }
        assert_eq!(
            (window.take(), window.take(), window.take()),
            (Some(2), Some(3), None)
        );
        assert_eq!(window.published(), 4);
    }

    #[test]
    fn a_stalled_window_is_abandoned_and_late_arrivals_do_no_harm() {
        let mut window = Window::new(1, 2, 0);
        window.take();
        assert!(!window.abandon_stalled(50, 100));
        assert!(window.abandon_stalled(101, 100));
        window.arrived(0, 102);
        assert_eq!(window.take(), Some(1));
    }

    #[test]
    fn a_late_schedule_stamps_the_time_it_should_have_sent() {
        let mut schedule = Schedule::new(1_000.0, 2, 500);
        let due: Vec<_> = std::iter::from_fn(|| schedule.take(2_000_500)).collect();
        let expected = [(0, 0, 500), (1, 0, 1_000_500), (0, 1, 2_000_500)];
        let expected = expected.map(|(publisher, sequence, due_ns)| Due {
            publisher,
            sequence,
            due_ns,
        });
        assert_eq!(due, expected);
        assert_eq!(schedule.published(), [2, 1]);
    }
}
