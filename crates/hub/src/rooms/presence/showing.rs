//! What members of a room on this shard see of it: the list that answers them, and the events that keep it true.

use super::roll::Roll;
use super::word::{Person, Presence};
use crate::clients::people::People;

impl Roll {
    /// What members here are told.
    pub(super) fn show(&mut self, people: &People) -> Option<Presence> {
        let names = self.knows_names();
        let turns = std::mem::replace(&mut self.view.names, names) != names;
        if turns {
            self.crowd.forget_shown();
        }
        // A client with an answer has what members were not told yet, and cannot know which of it is new (ADR 44).
        let answered = std::mem::take(&mut self.view.answered);
        let (came, mut left) = self.crowd.take_unshown(answered);
        let count = self.count();
        let before = self.view.count.replace(count);
        let mut joined = Vec::new();
        match names {
            true => joined.extend(came.into_iter().map(|who| self.person(who, people))),
            false => left.clear(),
        }
        let is_news = match names {
            true => !joined.is_empty() || !left.is_empty(),
            false => before != Some(count) || turns,
        };
        is_news.then_some(Presence {
            count,
            nameless: !names,
            complete: true,
            joined,
            left,
        })
    }

    /// All members, though those here may not have been told yet.
    pub(super) fn all(&self, people: &People, now_ms: u64) -> Presence {
        let present = self.crowd.iter().filter(|entry| entry.is_present());
        let present = present.map(|entry| Person {
            who: entry.who(),
            info: self.info(entry, people),
        });
        let mut joined: Vec<Person> = match self.view.names {
            true => present.collect(),
            false => Vec::new(),
        };
        joined.sort_by(|a, b| a.who.cmp(&b.who));
        Presence {
            count: self.count(),
            nameless: !self.view.names,
            complete: self.speech.is_answered(now_ms) && !self.doubts_somebody(),
            joined,
            left: Vec::new(),
        }
    }

    /// The same for a member here, which hears the events from then on. The next event names all people that members were not told of when
    /// this one asked, even if nothing is new of them by then.
    pub(super) fn answer(&mut self, people: &People, now_ms: u64) -> Presence {
        self.view.answered |= self.crowd.has_unshown();
        self.all(people, now_ms)
    }

    /// Something that another shard said was missed, and it has not said all it has since.
    fn doubts_somebody(&self) -> bool {
        let mut peers = self.peers.values();
        peers.any(|peer| peer.doubted_ms.is_some())
    }

    fn count(&self) -> u64 {
        match self.view.names {
            true => u64::from(self.crowd.present()),
            false => self.sum(),
        }
    }
}
