//! Places for test clients: few of a node, and fewer of a key, so that one cannot have them all.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Test clients at once.
const OF_NODE_MAX: usize = 4;
/// Those of one key.
const OF_KEY_MAX: usize = 2;

/// Names of the keys whose test clients listen, one for each of these. Clones are the same.
#[derive(Clone, Debug, Default)]
pub(super) struct Places(Arc<Mutex<Vec<String>>>);

/// A place that is taken until this is dropped.
#[derive(Debug)]
pub(super) struct Place {
    of: Places,
    key: String,
}

impl Places {
    /// A place for a test client of that key, or what to do.
    pub(super) fn take(&self, key: &str) -> Result<Place, String> {
        let mut keys = self.keys();
        let own = keys.iter().filter(|taken| *taken == key).count();
        if own >= OF_KEY_MAX {
            return Err(format!(
                "{own} test clients of the key {key:?} listen at this node: end one of them, or ask another node"
            ));
        }
        if keys.len() >= OF_NODE_MAX {
            return Err(format!(
                "{OF_NODE_MAX} test clients listen at this node: wait for one of them, or ask another node"
            ));
        }
        keys.push(key.to_owned());
        Ok(Place {
            of: self.clone(),
            key: key.to_owned(),
        })
    }

    fn keys(&self) -> MutexGuard<'_, Vec<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut keys = self.of.keys();
        if let Some(at) = keys.iter().position(|key| *key == self.key) {
            keys.swap_remove(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_key_does_not_take_the_places_of_others_and_places_come_back() {
        let places = Places::default();
        let mut taken: Vec<Place> = ["a", "a", "b", "c"]
            .map(|key| places.take(key).expect("a place"))
            .into();
        let refused = places.take("a").expect_err("two are its own");
        assert!(refused.starts_with("2 test clients of the key \"a\""));
        let refused = places.take("d").expect_err("four are taken");
        assert!(refused.starts_with("4 test clients"), "{refused}");
        taken.remove(0);
        let refused = places.take("d").map(|place| taken.push(place));
        assert!(refused.is_ok() && places.take("a").is_err());
    }
}
