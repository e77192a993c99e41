//! Tests whose subject is time run with no other gateway beside them: a bound on time says nothing where eight gateways share two cores.

use super::crowd::{Crowd, Size};
use super::stuck;
use std::cell::Cell;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Held by a test that measures time; nothing else runs while it is, or one other such test that computes as little.
#[derive(Debug)]
#[must_use = "other tests run again once this is dropped"]
pub struct Alone(());

/// Held by everything else, as long as it has a process under test.
#[derive(Debug)]
#[must_use = "a test that measures time may begin once this is dropped"]
pub struct Beside {
    counted: bool,
}

/// Tests about time at once that wait more than they compute.
const QUIET_MAX: usize = 2;
/// Tests with processes at once. Threads of tests are more: those that wait to be alone take no place of others.
const TESTS_MAX: usize = 12;
/// As many where processors are idle all the same.
const TESTS_OF_IDLE_PROCESSORS_MAX: usize = 24;
/// As many go on where the machine has more to do than it can: a test that waits for its processor longer than for its servers fails.
const TESTS_IN_A_CROWD_MAX: usize = 4;
/// How often a test that is to begin looks whether the crowd has gone.
const LOOK: Duration = Duration::from_millis(250);

struct Gate {
    running: usize,
    tests: usize,
    /// Tests that are alone: one, or some that let each other be.
    alone: usize,
    /// How many of them there may be.
    alone_max: usize,
    /// Tests that wait to be alone.
    waiting: usize,
    crowd: Crowd,
}

impl Gate {
    fn is_full(&mut self) -> bool {
        let tests_max = match self.crowd.size() {
            Size::Small => TESTS_OF_IDLE_PROCESSORS_MAX,
            Size::Middle => TESTS_MAX,
            Size::Large => TESTS_IN_A_CROWD_MAX,
        };
        self.tests >= tests_max
    }

    /// Whether a test that measures time, and lets so many be, has to wait: for others, and then for programs beside these tests.
    fn is_busy(&mut self, alone_max: usize) -> bool {
        let together = alone_max.min(self.alone_max);
        self.alone >= together || self.running > 0 || self.crowd.delays()
    }
}

static GATE: Mutex<Gate> = Mutex::new(Gate {
    running: 0,
    tests: 0,
    alone: 0,
    alone_max: 1,
    waiting: 0,
    crowd: Crowd::NOBODY,
});
static CHANGED: Condvar = Condvar::new();

thread_local! {
    static IS_ALONE: Cell<bool> = const { Cell::new(false) };
    static PLACE: Cell<Option<Place>> = const { Cell::new(None) };
}

/// A test's place among those that run. It is free when the test's thread ends, so that a test may stop its processes and start others.
struct Place;

impl Drop for Place {
    fn drop(&mut self) {
        lock().tests -= 1;
        CHANGED.notify_all();
    }
}

impl Alone {
    pub fn wait() -> Alone {
        Alone::among(1)
    }

    /// For a test that plays a scenario at its own pace and leaves the processors idle: one like it may run beside it.
    pub fn or_with_a_quiet_one() -> Alone {
        Alone::among(QUIET_MAX)
    }

    fn among(alone_max: usize) -> Alone {
        let mut gate = lock();
        gate.waiting += 1;
        while gate.is_busy(alone_max) {
            gate = changed(gate);
        }
        gate.waiting -= 1;
        gate.alone += 1;
        gate.alone_max = alone_max;
        stuck::begins();
        IS_ALONE.set(true);
        Alone(())
    }

    /// Whether this test is alone.
    pub fn is_held() -> bool {
        IS_ALONE.get()
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        IS_ALONE.set(false);
        stuck::ends();
        lock().alone -= 1;
        CHANGED.notify_all();
    }
}

impl Beside {
    /// Waits when one test runs alone, and, for the first process of a test, when enough tests run: whoever has one process may always
    /// have another, or two tests could wait for each other.
    pub fn wait() -> Beside {
        // A thread that a test has made has no name; the test itself is known to the gate already.
        let is_test = std::thread::current().name().is_some();
        let mut gate = lock();
        if IS_ALONE.get() || (gate.alone > 0 && !is_test) {
            return Beside { counted: false };
        }
        let place = PLACE.take();
        let is_new = is_test && place.is_none();
        PLACE.set(place);
        let shut = |gate: &mut Gate| {
            let is_full = is_new && gate.is_full();
            gate.alone > 0 || is_full || (gate.running == 0 && gate.waiting > 0)
        };
        while is_test && shut(&mut gate) {
            gate = changed(gate);
        }
        gate.running += 1;
        stuck::begins();
        if is_new {
            gate.tests += 1;
            PLACE.set(Some(Place));
        }
        Beside { counted: true }
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        if self.counted {
            stuck::ends();
            lock().running -= 1;
            CHANGED.notify_all();
        }
    }
}

/// Waits for a change. A crowd that goes tells nobody, so it is looked for now and then.
fn changed(gate: MutexGuard<'static, Gate>) -> MutexGuard<'static, Gate> {
    let waited = CHANGED.wait_timeout(gate, LOOK);
    waited.unwrap_or_else(PoisonError::into_inner).0
}

fn lock() -> MutexGuard<'static, Gate> {
    GATE.lock().unwrap_or_else(PoisonError::into_inner)
}
