//! Waiting for more than the machine does in a time that anybody could name.

use super::PATIENCE;
use std::time::{Duration, Instant};

/// Waits until so many have come, and gives up once no more come: a flood is as fast as the machine.
#[track_caller]
pub fn all_come(what: &str, all: f64, mut count: impl FnMut() -> f64) {
    let (mut come, mut changed) = (count(), Instant::now());
    while come < all {
        assert!(
            changed.elapsed() < PATIENCE,
            "{what}: {come} of {all}, and no more come"
        );
        std::thread::sleep(Duration::from_millis(20));
        let now = count();
        if now > come {
            (come, changed) = (now, Instant::now());
        }
    }
}
