//! What a process does with its clients: it serves them, hands them over or sends them away, and never two of these at once.

use super::line::{Broken, Line};
use handoff::Hello;
use process::health::Readiness;
use std::sync::mpsc::Sender;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The most that the end of the process waits for an upgrade that is under way.
const SETTLE: Duration = Duration::from_secs(15);
const LOOK_INTERVAL: Duration = Duration::from_millis(5);
const BUSY: &str = "another upgrade is under way: wait until it has ended";
const GONE: &str = "this process has handed over: ask its successor";
const STOPPING: &str = "this process sends its clients away, because it was told to stop or an operator drains it: start another when it has ended";

/// A successor that came, and what it said.
pub type Came = (Line, Hello);

#[derive(Debug)]
enum State {
    Idle,
    /// An operator ordered an upgrade, and waits for the process with this number.
    Ordered(u32, Sender<Came>),
    Busy,
    /// The last word is being said. Nobody keeps it back any more.
    Leaving,
    /// Another process has all.
    Gone,
    /// Clients are sent away: nothing is handed over any more.
    Stopping,
}

/// What the process is doing, for all its threads.
#[derive(Debug)]
pub struct Course {
    state: Mutex<State>,
    /// An operator may have asked for a drain that has not begun.
    readiness: Readiness,
}

impl Course {
    pub fn new(readiness: Readiness) -> Self {
        Self {
            state: Mutex::new(State::Idle),
            readiness,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Nothing keeps an upgrade from being begun, or why not.
    pub fn may_begin(&self) -> Result<(), &'static str> {
        match *self.state() {
            State::Gone => Err(GONE),
            State::Stopping => Err(STOPPING),
            _ if self.readiness.is_asked_to_drain() => Err(STOPPING),
            State::Idle => Ok(()),
            State::Ordered(..) | State::Busy | State::Leaving => Err(BUSY),
        }
    }

    /// An upgrade that is under way may go on, or why not.
    pub fn may_go_on(&self) -> Result<(), Broken> {
        self.go_on(&self.state())
    }

    fn go_on(&self, state: &State) -> Result<(), Broken> {
        let stops = matches!(state, State::Stopping) || self.readiness.is_asked_to_drain();
        match stops {
            true => Err(Broken::Refused(STOPPING.to_owned())),
            false => Ok(()),
        }
    }

    /// Begins an upgrade.
    pub fn begin(&self) -> Result<(), &'static str> {
        let mut now = self.state();
        match *now {
            State::Idle if self.readiness.is_asked_to_drain() => Err(STOPPING),
            State::Idle => {
                *now = State::Busy;
                self.readiness.upgrades().set_under_way(true);
                Ok(())
            }
            State::Gone => Err(GONE),
            State::Stopping => Err(STOPPING),
            State::Ordered(..) | State::Busy | State::Leaving => Err(BUSY),
        }
    }

    /// An operator waits for this process.
    pub fn wait_for(&self, pid: u32, sender: Sender<Came>) -> Result<(), Broken> {
        let mut now = self.state();
        self.go_on(&now)?;
        *now = State::Ordered(pid, sender);
        Ok(())
    }

    /// A process has come; where to bring it if it is the one that is waited for.
    pub fn met(&self, pid: u32) -> Option<Sender<Came>> {
        let mut now = self.state();
        if !matches!(*now, State::Ordered(awaited, _) if awaited == pid) {
            return None;
        }
        match std::mem::replace(&mut *now, State::Busy) {
            State::Ordered(_, sender) => Some(sender),
            _ => None,
        }
    }

    /// The last word may be said: from now on the process waits for how that goes before it does anything else.
    pub fn leave(&self) -> Result<(), Broken> {
        let mut now = self.state();
        self.go_on(&now)?;
        *now = State::Leaving;
        Ok(())
    }

    /// An upgrade has failed: the process does what it did before.
    pub fn give_up(&self) {
        let mut now = self.state();
        let upgrades = self.readiness.upgrades();
        upgrades.set_under_way(false);
        upgrades.note_failed();
        if !matches!(*now, State::Stopping) {
            *now = State::Idle;
        }
    }

    /// Another process has all.
    pub fn set_gone(&self) {
        *self.state() = State::Gone;
    }

    pub fn is_gone(&self) -> bool {
        matches!(*self.state(), State::Gone)
    }

    /// The process is about to send its clients away: no upgrade begins any more, one whose successor has not come is given up, and one
    /// that is under way is waited for. `false`: that one has succeeded, and there is nobody to send away.
    pub fn stop(&self) -> bool {
        let deadline = Instant::now() + SETTLE;
        loop {
            {
                let mut now = self.state();
                match *now {
                    State::Gone => return false,
                    // It has deadlines of its own.
                    State::Leaving => {}
                    State::Busy if Instant::now() < deadline => {}
                    State::Idle | State::Ordered(..) | State::Busy | State::Stopping => {
                        *now = State::Stopping;
                        return true;
                    }
                }
            }
            std::thread::sleep(LOOK_INTERVAL);
        }
    }

    /// Waits until an upgrade that is under way has ended, and until nobody waits for an answer about one that has succeeded.
    pub fn settle(&self, callers: impl Fn() -> usize) {
        let deadline = Instant::now() + SETTLE;
        let is_busy = || match *self.state() {
            State::Idle | State::Stopping => false,
            State::Ordered(..) | State::Busy | State::Leaving => true,
            State::Gone => callers() > 0,
        };
        while is_busy() && Instant::now() < deadline {
            std::thread::sleep(LOOK_INTERVAL);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::mpsc;

    fn course() -> Arc<Course> {
        Arc::new(Course::new(Readiness::default()))
    }

    #[test]
    fn a_process_that_stops_hands_nothing_over() {
        let course = course();
        assert!(course.stop());
        assert!(course.stop(), "a second time");
        assert_eq!(course.begin(), Err(STOPPING));
        assert_eq!(course.may_begin(), Err(STOPPING));
        course.give_up();
        assert_eq!(course.begin(), Err(STOPPING), "after a late failure");
    }

    #[test]
    fn an_order_whose_successor_has_not_come_is_given_up_by_a_stop() {
        let course = course();
        let (sender, came) = mpsc::channel();
        course.begin().expect("idle");
        course.wait_for(7, sender).expect("goes on");
        assert!(course.met(8).is_none(), "another process");
        assert!(course.stop());
        assert!(course.met(7).is_none());
        assert!(came.recv().is_err(), "nobody brings it any more");
        assert!(course.leave().is_err());
    }

    #[test]
    fn a_stop_waits_for_the_last_word_and_sees_how_it_went() {
        for succeeds in [true, false] {
            let course = course();
            course.begin().expect("idle");
            course.leave().expect("goes on");
            let theirs = Arc::clone(&course);
            let stop = std::thread::spawn(move || theirs.stop());
            std::thread::sleep(Duration::from_millis(50));
            assert!(!stop.is_finished());
            match succeeds {
                true => course.set_gone(),
                false => course.give_up(),
            }
            assert_eq!(stop.join().expect("it ends"), !succeeds);
        }
    }

    #[test]
    fn a_drain_that_was_asked_for_comes_before_the_last_word() {
        let readiness = Readiness::default();
        let course = Course::new(readiness.clone());
        course.begin().expect("idle");
        course.may_go_on().expect("nobody asked");
        readiness.ask_to_drain();
        assert!(course.may_go_on().is_err() && course.leave().is_err());
        course.give_up();
        assert_eq!(course.begin(), Err(STOPPING));
    }
}
