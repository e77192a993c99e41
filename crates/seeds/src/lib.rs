//! Seeded histories of tests: which are played, and how one that fails is told.
//!
//! A history has steps, and each step has dice of its own. So some steps can be left out, and the others stay what they are. Of a history that
//! fails, as many are left out as leave it failing; the rest is told, step by step.
//!
//! `SIM_SEED=17` plays one history and tells it, `SIM_SEEDS=10000` plays so many, `SIM_SEEDS=3000..4000` those.

use fastrand::Rng;
use std::ops::Range;
use std::panic::{self, AssertUnwindSafe};
use std::sync::{Mutex, PoisonError};

/// How often a shorter history is tried.
const TRIES_MAX: usize = 500;
/// Makes dice of steps that follow each other differ.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// One history.
#[derive(Clone, Debug)]
pub struct Script {
    seed: u64,
    left_out: Vec<bool>,
    is_told: bool,
}

impl Script {
    /// All steps of a history.
    pub fn whole(seed: u64) -> Self {
        Self {
            seed,
            left_out: Vec::new(),
            is_told: false,
        }
    }

    /// Its seed.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The dice for all that is no step.
    pub fn opening(&self) -> Rng {
        Rng::with_seed(self.seed)
    }

    /// The dice of a step; `None`: it is left out.
    pub fn dice(&self, step: usize) -> Option<Rng> {
        let is_left_out = self.left_out.get(step).copied().unwrap_or_default();
        let own = (step as u64 + 1).wrapping_mul(SPREAD);
        (!is_left_out).then(|| Rng::with_seed(self.seed ^ own))
    }

    /// Whether its steps are told.
    pub fn is_told(&self) -> bool {
        self.is_told
    }

    /// Says what happens, if it is told.
    pub fn tell(&self, what: impl FnOnce() -> String) {
        if self.is_told {
            eprintln!("{}", what());
        }
    }
}

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    let number = text.parse();
    Some(number.unwrap_or_else(|_| panic!("{name} is a number, not {text:?}")))
}

/// The seeds that a test plays: so many, if the environment does not say otherwise.
pub fn seeds(usual: u64) -> Range<u64> {
    match number("SIM_SEED") {
        Some(seed) => seed..seed + 1,
        None => range().unwrap_or(0..usual.max(1)),
    }
}

/// A number of seeds, or the first one and the one behind the last.
fn range() -> Option<Range<u64>> {
    let text = std::env::var("SIM_SEEDS").ok()?;
    let (first, end) = text.split_once("..").unwrap_or(("0", &text));
    let bounds = first.parse().ok().zip(end.parse().ok());
    let range = bounds.map(|(first, end)| first..end);
    let range = range.filter(|range| !range.is_empty());
    Some(range.unwrap_or_else(|| panic!("SIM_SEEDS is a number or FIRST..END, not {text:?}")))
}

/// Plays histories of so many steps; what came of each. Further steps are never left out.
///
/// # Panics
/// One of them fails. Its shortest form is told before.
pub fn play<T>(name: &str, usual: u64, steps: usize, play: impl Fn(&Script) -> T) -> Vec<T> {
    let is_told = number("SIM_SEED").is_some();
    let played = seeds(usual).map(|seed| {
        let script = Script {
            is_told,
            ..Script::whole(seed)
        };
        let played = attempt(&script, &play);
        played.unwrap_or_else(|| {
            tell_shortest(name, seed, steps, &play);
            panic!("{name}: SIM_SEED={seed} fails, but not twice");
        })
    });
    played.collect()
}

fn attempt<T>(script: &Script, play: &impl Fn(&Script) -> T) -> Option<T> {
    panic::catch_unwind(AssertUnwindSafe(|| play(script))).ok()
}

/// The steps without which a history still fails.
fn without_needless(steps: usize, fails: impl Fn(&[bool]) -> bool) -> Vec<bool> {
    let (mut left_out, mut tries, mut size) = (vec![false; steps], 0, steps.div_ceil(2));
    while size > 0 && tries < TRIES_MAX {
        for first in (0..steps).step_by(size) {
            let some = first..(first + size).min(steps);
            if tries == TRIES_MAX || left_out[some.clone()].iter().all(|is_out| *is_out) {
                continue;
            }
            let mut fewer = left_out.clone();
            fewer[some].fill(true);
            tries += 1;
            if fails(&fewer) {
                left_out = fewer;
            }
        }
        size = if size == 1 { 0 } else { size.div_ceil(2) };
    }
    left_out
}

fn tell_shortest<T>(name: &str, seed: u64, steps: usize, play: &impl Fn(&Script) -> T) {
    // Tries say nothing; others that do so at the same time wait.
    static QUIET: Mutex<()> = Mutex::new(());
    let quiet = QUIET.lock().unwrap_or_else(PoisonError::into_inner);
    let hook = panic::take_hook();
    panic::set_hook(Box::new(|_| {}));
    let script = |left_out: &[bool], is_told| Script {
        seed,
        left_out: left_out.to_vec(),
        is_told,
    };
    let left_out = without_needless(steps, |left_out| {
        attempt(&script(left_out, false), play).is_none()
    });
    panic::set_hook(hook);
    drop(quiet);
    let left = left_out.iter().filter(|is_out| !**is_out).count();
    eprintln!("{name}: SIM_SEED={seed} fails. {left} of {steps} steps are enough:");
    play(&script(&left_out, true));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_has_the_same_dice_whatever_is_left_out() {
        let whole = Script::whole(7);
        let some = Script {
            left_out: vec![true, false],
            ..whole.clone()
        };
        assert!(some.dice(0).is_none());
        let rolled = |script: &Script, step| script.dice(step).map(|mut dice| dice.u64(..));
        assert_eq!(rolled(&some, 1), rolled(&whole, 1));
        assert_eq!(rolled(&some, 2), rolled(&whole, 2));
        assert_ne!(rolled(&whole, 0), rolled(&whole, 1));
    }

    #[test]
    fn of_a_history_that_fails_only_what_it_needs_is_left() {
        let needs = [3, 250, 251, 700];
        let fails = |left_out: &[bool]| needs.iter().all(|step| !left_out[*step]);
        let left_out = without_needless(900, fails);
        let left: Vec<usize> = (0..900).filter(|step| !left_out[*step]).collect();
        assert_eq!(left, needs);
    }

    #[test]
    fn what_came_of_all_is_told() {
        let came = play("none fails", 5, 3, Script::seed);
        assert_eq!(came.len(), seeds(5).count());
    }
}
