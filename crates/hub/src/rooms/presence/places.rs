//! The shards that have a member: one, mostly.

use crate::tables::id::Place;
use smallvec::SmallVec;

/// Places, each once.
#[derive(Debug, Default)]
pub(super) enum Places {
    #[default]
    None,
    One(Place),
    /// Behind a pointer: two words are all that a member has for it.
    Many(Box<SmallVec<[Place; 4]>>),
}

impl Places {
    pub(super) fn all(&self) -> &[Place] {
        match self {
            Self::None => &[],
            Self::One(place) => std::slice::from_ref(place),
            Self::Many(places) => places,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all().is_empty()
    }

    pub(super) fn contains(&self, place: Place) -> bool {
        self.all().contains(&place)
    }

    pub(super) fn add(&mut self, place: Place) {
        if self.contains(place) {
            return;
        }
        match self {
            Self::None => *self = Self::One(place),
            Self::One(first) => {
                let both = SmallVec::from_slice(&[*first, place]);
                *self = Self::Many(Box::new(both));
            }
            Self::Many(places) => places.push(place),
        }
    }

    pub(super) fn remove(&mut self, place: Place) {
        match self {
            Self::None => {}
            Self::One(one) if *one == place => *self = Self::None,
            Self::One(_) => {}
            Self::Many(places) => {
                places.retain(|other| *other != place);
                if let [last] = places[..] {
                    *self = Self::One(last);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_place_is_there_once() {
        let place = |shard| Place { node: 1, shard };
        let mut places = Places::default();
        for shard in [1, 1, 2, 3, 2] {
            places.add(place(shard));
        }
        assert_eq!(places.all(), [1, 2, 3].map(place));
        for (shard, left) in [(9, 3), (2, 2), (1, 1), (1, 1), (3, 0)] {
            places.remove(place(shard));
            assert_eq!(places.all().len(), left);
        }
        assert!(places.is_empty() && matches!(places, Places::None));
    }
}
