//! A set of shards of this process.

use crate::bounds::SHARDS_MAX;

pub(crate) const WORDS: usize = SHARDS_MAX / 64;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ShardSet([u64; WORDS]);

impl ShardSet {
    /// The first so many shards.
    pub(crate) fn first(shards: u16) -> Self {
        let mut set = Self::default();
        (0..shards).for_each(|shard| set.insert(shard));
        set
    }

    pub(crate) fn from_words(words: [u64; WORDS]) -> Self {
        Self(words)
    }

    pub(crate) fn insert(&mut self, shard: u16) {
        let (word, bit) = place(shard);
        self.0[word] |= bit;
    }

    pub(crate) fn remove(&mut self, shard: u16) {
        let (word, bit) = place(shard);
        self.0[word] &= !bit;
    }

    pub(crate) fn union(self, other: Self) -> Self {
        let mut words = self.0;
        words.iter_mut().zip(other.0).for_each(|(a, b)| *a |= b);
        Self(words)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0 == [0; WORDS]
    }

    pub(crate) fn len(&self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }

    pub(crate) fn iter(self) -> impl Iterator<Item = u16> {
        self.0.into_iter().zip(0u16..).flat_map(|(word, n)| {
            let bits = (0..64).filter(move |bit| word & (1 << bit) != 0);
            bits.map(move |bit| n * 64 + bit)
        })
    }
}

/// Word and bit of a shard.
pub(crate) fn place(shard: u16) -> (usize, u64) {
    debug_assert!(usize::from(shard) < SHARDS_MAX, "shard {shard}");
    (usize::from(shard) / 64 % WORDS, 1 << (shard % 64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shard_set_holds_256() {
        let mut set = ShardSet::default();
        assert!(set.is_empty());
        for shard in [0, 63, 64, 255] {
            set.insert(shard);
        }
        set.remove(64);
        assert_eq!(set.iter().collect::<Vec<_>>(), [0, 63, 255]);
        assert_eq!(set.len(), 3);
        assert_eq!(ShardSet::first(256).len(), 256);
        assert_eq!(ShardSet::first(3).union(set).len(), 5);
    }
}
