//! How long it takes to find a Socket.IO client that is gone without a word: its interval, and the time in which a ping is to be
//! answered. Intervals differ when they grow with the number of sessions.

use hub::config::Config;
use hub::heartbeat::{Step, Stretch};
use std::time::Duration;

#[derive(Clone, Copy, Debug)]
pub struct Detection {
    interval: Duration,
    timeout: Duration,
    stretch: Stretch,
}

impl Detection {
    pub fn of(config: &Config) -> Self {
        Self {
            interval: config.ping_interval,
            timeout: config.ping_timeout,
            stretch: config.stretch,
        }
    }

    fn after(&self, step: Step) -> Duration {
        let interval = self.stretch.interval(self.interval, step);
        interval.saturating_add(self.timeout)
    }

    /// For a client with the shortest interval that is announced.
    pub fn shortest(&self) -> Duration {
        self.after(Step::FIRST)
    }

    /// For one with the longest.
    pub fn longest(&self) -> Duration {
        self.after(Step::LAST)
    }

    /// For a client that comes when there are so many sessions.
    pub fn newcomer(&self, sessions: usize) -> Duration {
        self.after(self.stretch.step(self.interval, sessions))
    }

    /// By interval; without shards there is nothing to find.
    pub(super) fn seconds(of: Option<&Self>, sessions: usize) -> Vec<(String, f64)> {
        let times = [
            ("shortest", of.map(Self::shortest)),
            ("newcomer", of.map(|detection| detection.newcomer(sessions))),
            ("longest", of.map(Self::longest)),
        ];
        let seconds = |time: Option<Duration>| time.map_or(0.0, |time| time.as_secs_f64());
        let rows = times.map(|(interval, time)| (interval.to_owned(), seconds(time)));
        rows.into()
    }
}
