//! The stretches of a journal in which a socket was a member, read backwards from what it is a member of now.

use crate::recovery::headings::{Kind, Membership};
use std::collections::BTreeMap;

/// A change of a membership.
#[derive(Clone, Copy, Debug)]
pub(super) struct Change<'a> {
    pub(super) at: u64,
    pub(super) joined: bool,
    pub(super) member: &'a Membership,
}

/// A socket was a member for what was said after `after`, up to `upto`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span<'a> {
    pub(super) member: &'a Membership,
    pub(super) after: u64,
    pub(super) upto: u64,
}

#[derive(Debug)]
pub(super) struct Spans<'a> {
    /// Sorted by membership; spans of one membership stand in any order.
    sorted: Vec<Span<'a>>,
}

impl<'a> Spans<'a> {
    /// The spans after `after`. `now`: what the socket is a member of at `head`; `changes`: those in between, the newest first.
    pub(super) fn read(
        now: impl Iterator<Item = &'a Membership>,
        changes: impl Iterator<Item = Change<'a>>,
        (after, head): (u64, u64),
    ) -> Self {
        let mut open: BTreeMap<&Membership, u64> = now.map(|member| (member, head)).collect();
        let mut sorted = Vec::new();
        for Change { at, joined, member } in changes {
            // Backwards, a leave is the end of a span, and a join its beginning.
            if !joined {
                open.insert(member, at);
            } else if let Some(upto) = open.remove(member) {
                sorted.push(Span {
                    member,
                    after: at,
                    upto,
                });
            }
        }
        let older = open.into_iter();
        sorted.extend(older.map(|(member, upto)| Span {
            member,
            after,
            upto,
        }));
        sorted.sort_unstable_by_key(|span| span.member);
        Self { sorted }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Span<'a>> {
        self.sorted.iter()
    }

    /// Whether the socket was a member at that place.
    pub(super) fn hold(&self, kind: Kind, name: &str, at: u64) -> bool {
        let key = |span: &Span<'a>| (span.member.kind, &*span.member.name).cmp(&(kind, name));
        let first = self.sorted.partition_point(|span| key(span).is_lt());
        let mut own = self.sorted[first..]
            .iter()
            .take_while(|span| key(span).is_eq());
        own.any(|span| span.after < at && at <= span.upto)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The same, by walking forwards and noting each place.
    fn members_by_place(changes: &[(bool, usize)]) -> Vec<Vec<bool>> {
        let mut now = vec![false; 3];
        let mut all = Vec::new();
        for (joined, member) in changes {
            now[*member] = *joined;
            all.push(now.clone());
        }
        all
    }

    proptest! {
        /// Changes that change something stand at each second place, events between them.
        #[test]
        fn spans_tell_for_each_place_what_it_was_a_member_of(
            tries in proptest::collection::vec((any::<bool>(), 0usize..3), 0..30),
            after in 0usize..60,
        ) {
            let names: Vec<Membership> =
                ["a", "b", "c"].map(|name| Membership::new(Kind::Room, name)).into();
            let mut state = [false; 3];
            let changes: Vec<(bool, usize)> = tries
                .into_iter()
                .filter(|(joined, member)| std::mem::replace(&mut state[*member], *joined) != *joined)
                .collect();
            let truth = members_by_place(&changes);
            let head = 2 * changes.len() as u64;
            let after = (after as u64).min(head);
            let now = (0..3).filter(|member| state[*member]).map(|member| &names[member]);
            let newest_first = changes.iter().enumerate().rev();
            let newest_first = newest_first
                .map(|(n, (joined, member))| Change {
                    at: 2 * n as u64 + 1,
                    joined: *joined,
                    member: &names[*member],
                })
                .take_while(|change| change.at > after);
            let spans = Spans::read(now, newest_first, (after, head));
            for (n, truth) in truth.iter().enumerate() {
                let at = 2 * n as u64 + 2;
                for member in 0..3 {
                    let expected = at > after && truth[member];
                    prop_assert_eq!(spans.hold(Kind::Room, &names[member].name, at), expected);
                }
            }
        }
    }
}
