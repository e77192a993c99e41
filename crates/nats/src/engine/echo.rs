//! A message to oneself behind each batch. A server carries out what a connection sends in its order: when the message comes back, the server
//! has taken all before it.

use super::Trouble;
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// Hears whether the server took something.
pub(super) type Done = oneshot::Sender<Result<(), Trouble>>;

struct Awaited {
    number: u64,
    since: Instant,
    done: Done,
}

#[derive(Default)]
struct State {
    last: u64,
    awaited: VecDeque<Awaited>,
    has_ended: bool,
}

/// Of one connection.
pub(super) struct Echo {
    pub(super) subject: String,
    state: Mutex<State>,
}

impl Echo {
    pub(super) fn new(subject: String) -> Self {
        Self {
            subject,
            state: Mutex::default(),
        }
    }

    /// The number to send to oneself.
    pub(super) fn expect(&self, done: Done) -> u64 {
        let mut state = self.state();
        state.last += 1;
        let number = state.last;
        // Without a connection, nobody waits for what cannot come.
        if !state.has_ended {
            state.awaited.push_back(Awaited {
                number,
                since: Instant::now(),
                done,
            });
        }
        number
    }

    /// It came back.
    pub(super) fn came(&self, number: u64) {
        let mut state = self.state();
        let is_older = |awaited: &Awaited| awaited.number <= number;
        while state.awaited.front().is_some_and(is_older) {
            if let Some(awaited) = state.awaited.pop_front() {
                let _ = awaited.done.send(Ok(()));
            }
        }
    }

    /// How long the oldest one is under way.
    pub(super) fn oldest(&self) -> Option<Duration> {
        let state = self.state();
        state.awaited.front().map(|awaited| awaited.since.elapsed())
    }

    /// The connection has ended.
    pub(super) fn end(&self) {
        let mut state = self.state();
        state.has_ended = true;
        state.awaited.clear();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_back_ends_all_before_it_and_the_end_ends_the_rest() {
        let echo = Echo::new("a".to_owned());
        let wait = || {
            let (done, taken) = oneshot::channel();
            (echo.expect(done), taken)
        };
        let [mut first, mut second, mut third] = [wait(), wait(), wait()];
        assert!(echo.oldest().is_some());
        echo.came(second.0);
        assert_eq!(first.1.try_recv(), Ok(Ok(())));
        assert_eq!(second.1.try_recv(), Ok(Ok(())));
        echo.end();
        assert!(third.1.try_recv().is_err());
        let mut fourth = wait();
        assert!(fourth.1.try_recv().is_err());
        assert_eq!(echo.oldest(), None);
    }
}
