//! What a recording shows in the place of names: equal names have equal marks, and nobody can tell the name from its mark. The key is in no
//! line, so that names cannot be tried out either.

use crate::clients::trace::{Speaker, TraceDecision, TraceLine};
use crate::tables::sip::sip;
use wire::json;

/// The key of one recording; all its shards and nodes have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marks([u64; 2]);

impl Marks {
    /// By a key that nobody can guess.
    pub fn new(key: [u64; 2]) -> Self {
        Self(key)
    }

    /// For the other nodes of the cluster.
    pub fn key(self) -> [u64; 2] {
        self.0
    }

    fn of(self, name: &str) -> Box<str> {
        format!("{:016x}", sip(self.0, name.as_bytes())).into()
    }

    /// Takes what clients have said or are called out of a line. `args` is what the line's shapes are of.
    pub(crate) fn redact(self, line: &mut TraceLine, args: Option<&str>) {
        let user = line.who.as_mut().and_then(|who| who.user.as_mut());
        if let Some(user) = user {
            *user = self.of(user);
        }
        for room in &mut line.rooms {
            *room = self.of(room);
        }
        match &mut line.decision {
            TraceDecision::Delivered {
                by: Some(Speaker::User(name)),
                ..
            } => *name = self.of(name),
            // It may quote what was said.
            TraceDecision::Refused { why, .. } => *why = Box::default(),
            _ => {}
        }
        let first = args.and_then(json::first).and_then(json::unquote);
        line.mark = first.map(|first| self.of(&first));
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
