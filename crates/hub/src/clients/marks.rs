//! What a recording shows in the place of names: equal names have equal marks, and nobody can tell the name from its mark. The key is in no
//! line, so that names cannot be tried out either.

use crate::tables::sip::sip;

/// The key of one recording; all its shards and nodes have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marks([u64; 2]);

impl Marks {
    /// `key`: nobody can guess it.
    pub fn new(key: [u64; 2]) -> Self {
        Self(key)
    }

    /// The key, for the other nodes of the cluster.
    pub fn key(self) -> [u64; 2] {
        self.0
    }

    pub(super) fn of(self, name: &str) -> Box<str> {
        format!("{:016x}", sip(self.0, name.as_bytes())).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_names_have_equal_marks_in_one_recording_only() {
        let (one, other) = (Marks::new([1, 2]), Marks::new([1, 3]));
        assert_eq!(one.of("den"), one.of("den"));
        assert_ne!(one.of("den"), one.of("hall"));
        assert_ne!(one.of("den"), other.of("den"));
        assert_eq!(one.of("").len(), 16);
    }
}
