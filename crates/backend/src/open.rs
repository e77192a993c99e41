//! Numbers of the answers that a client waits for. They grow, and the oldest is mostly the next that is answered.

use crate::bounds::OPEN_KEPT;
use std::collections::VecDeque;

#[derive(Debug, Default)]
pub(crate) struct Open(VecDeque<u64>);

impl Open {
    pub(crate) fn insert(&mut self, ack: u64) {
        if self.0.back().is_none_or(|last| *last < ack) {
            return self.0.push_back(ack);
        }
        if let Err(at) = self.0.binary_search(&ack) {
            self.0.insert(at, ack);
        }
    }

    pub(crate) fn contains(&self, ack: u64) -> bool {
        self.find(ack).is_some()
    }

    /// Returns whether it was there.
    pub(crate) fn remove(&mut self, ack: u64) -> bool {
        let Some(at) = self.find(ack) else {
            return false;
        };
        self.0.remove(at);
        if self.0.is_empty() && self.0.capacity() > OPEN_KEPT {
            self.0 = VecDeque::new();
        }
        true
    }

    pub(crate) fn clear(&mut self) {
        self.0 = VecDeque::new();
    }

    fn find(&self, ack: u64) -> Option<usize> {
        if self.0.front() == Some(&ack) {
            return Some(0);
        }
        self.0.binary_search(&ack).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn numbers_are_kept_as_a_set_keeps_them() {
        let mut rng = fastrand::Rng::with_seed(5);
        let (mut open, mut set) = (Open::default(), BTreeSet::new());
        for _ in 0..10_000 {
            let ack = rng.u64(..40);
            match rng.bool() {
                true => {
                    open.insert(ack);
                    set.insert(ack);
                }
                false => assert_eq!(open.remove(ack), set.remove(&ack)),
            }
            assert_eq!(open.contains(ack), set.contains(&ack));
            assert!(open.0.iter().eq(&set), "in their order");
        }
    }
}
