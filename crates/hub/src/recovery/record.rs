//! The rest of a socket that has no transport.

mod handing;

use crate::bounds::FORMERS_MAX;
use crate::recovery::deed::Deed;
use crate::recovery::journal::{Journal, Missed, Reader};
use crate::recovery::members::Members;
use crate::recovery::pid::{OFFSET_LIMIT, Pid};
use crate::tables::position::Position;
use std::sync::Arc;
use wire::base64url::Id20;

/// A socket that may come back.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    pub(crate) pid: Pid,
    pub(crate) socket: Id20,
    pub(crate) namespace: Arc<str>,
    /// Its memberships at the journal's head.
    pub(crate) members: Members,
    /// The user that its token named. Nobody else may come back as this socket.
    pub(crate) uid: Option<Box<str>>,
    /// Raw JSON that a handler attached.
    pub(crate) data: Option<Box<str>>,
    pub(crate) life: Life,
}

/// What a socket that is here needs to come back later.
#[derive(Debug)]
pub(crate) struct Lifeline {
    pub(crate) pid: Pid,
    pub(crate) life: Life,
    /// As its token said.
    pub(crate) uid: Option<Box<str>>,
    /// When it began with this transport, monotonic milliseconds.
    pub(crate) since_ms: u64,
    /// It came back with this transport.
    pub(crate) recovered: bool,
    /// It came from the process before, whose last words may not have arrived: the store has them, and the journal has not.
    pub(crate) is_heir: bool,
    /// When its client was told that something is missing, if it has not proved since that it knows; monotonic milliseconds.
    pub(crate) gap_ms: Option<u64>,
}

/// A socket's places in the journal of its shard.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Life {
    /// All that it gets of this journal stands after this place.
    begun: u64,
    /// It began with its socket: there is no former one that ended there.
    first: bool,
    /// Its client has all up to here: it answered a ping that came later.
    confirmed: u64,
    /// Journals of shards that had it before. A client that got nothing of this one yet shows a place in one of them.
    formers: Vec<Former>,
    /// What the store is told of it, where it may come back when its node died.
    deed: Option<Box<Deed>>,
}

/// A journal that a socket was in before. What stands at `begun + 1`, `begun + 2` and so on in the present one stood there at these places.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Former {
    log: u64,
    places: Vec<u64>,
}

impl Life {
    pub(crate) fn new(begun: u64) -> Self {
        Self {
            begun,
            first: true,
            confirmed: begun,
            formers: Vec::new(),
            deed: None,
        }
    }

    /// The life of a socket as the store has it: it was in no journal of this node.
    pub(crate) fn of_deed(deed: Deed) -> Self {
        Self {
            deed: Some(Box::new(deed)),
            ..Self::default()
        }
    }

    pub(crate) fn deed(&self) -> Option<&Deed> {
        self.deed.as_deref()
    }

    pub(crate) fn deed_mut(&mut self) -> Option<&mut Deed> {
        self.deed.as_deref_mut()
    }

    pub(crate) fn set_deed(&mut self, deed: Deed) {
        self.deed = Some(Box::new(deed));
    }

    /// A life as another node wrote it. `None`: it is no life.
    pub(crate) fn from_parts(
        begun: u64,
        confirmed: u64,
        formers: Vec<(u64, Vec<u64>)>,
    ) -> Option<Self> {
        let sorted = formers.iter().all(|(_, places)| places.is_sorted());
        let near = begun < OFFSET_LIMIT && confirmed < OFFSET_LIMIT;
        let formers = formers.into_iter();
        let formers = formers.map(|(log, places)| Former { log, places });
        let life = Self {
            begun,
            first: false,
            confirmed,
            formers: formers.collect(),
            deed: None,
        };
        (sorted && near && life.formers.len() <= FORMERS_MAX).then_some(life)
    }

    /// Where it began, what is confirmed, and the journals before with their places.
    pub(crate) fn parts(&self) -> (u64, u64, impl Iterator<Item = (u64, &[u64])>) {
        let formers = self.formers.iter();
        let formers = formers.map(|former| (former.log, &*former.places));
        (self.begun, self.confirmed, formers)
    }

    /// Its client has all up to here.
    pub(crate) fn confirm(&mut self, at: u64) {
        self.confirmed = self.confirmed.max(at);
        if self.confirmed > self.begun {
            // Something of this journal has arrived, so the client shows no place in a former one any more.
            self.formers = Vec::new();
        }
    }

    /// The place up to which the client has all: the latest of what it shows, what it confirmed and the beginning.
    fn has(&self, journal: &Journal, shown: Option<Position>) -> u64 {
        let own = self.place(journal, shown);
        own.unwrap_or(self.begun).max(self.confirmed)
    }

    /// A place that a client shows, as one in this journal. `None`: it cannot be its own, for it is from before the socket came here, or of
    /// a journal that the socket was never in.
    fn place(&self, journal: &Journal, shown: Option<Position>) -> Option<u64> {
        let at = shown?;
        let known = journal.offset(at).or_else(|| self.translate(at));
        known.filter(|at| (self.begun..=journal.head()).contains(at))
    }

    /// A place in a former journal, as one in this.
    fn translate(&self, at: Position) -> Option<u64> {
        let former = self.formers.iter().find(|former| former.log == at.log)?;
        let had = former.places.partition_point(|place| *place <= at.offset);
        Some(self.begun + had as u64)
    }

    /// Its life goes on in another journal after `begun`. `log` is the name of this journal, and `missed` are the places here of what it
    /// missed. `None`: it went through too many journals.
    pub(crate) fn go_on(&self, begun: u64, log: u64, missed: &[u64]) -> Option<Self> {
        let mut formers = vec![Former {
            log,
            places: missed.to_vec(),
        }];
        for former in &self.formers {
            // An event of a former journal that is not told again has arrived.
            let told = self.begun + former.places.len() as u64;
            let again = missed.iter().take_while(|place| **place <= told);
            let again = again.filter_map(|place| {
                let index = place.checked_sub(self.begun + 1)?;
                former.places.get(usize::try_from(index).ok()?).copied()
            });
            formers.push(Former {
                log: former.log,
                places: again.collect(),
            });
        }
        // A former journal without places says no more than `begun` does.
        formers.retain(|former| !former.places.is_empty());
        (formers.len() <= FORMERS_MAX).then_some(Self {
            begun,
            first: false,
            confirmed: begun,
            formers,
            deed: self.deed.clone(),
        })
    }

    fn bytes(&self) -> usize {
        let formers = self.formers.iter();
        let places = formers.map(|former| size_of_val(&*former.places));
        let deed = self.deed.as_ref().map_or(0, |deed| deed.bytes());
        size_of_val(&*self.formers) + places.sum::<usize>() + deed
    }
}

impl Record {
    /// The place up to which its client has all.
    pub(crate) fn has(&self, journal: &Journal, shown: Option<Position>) -> u64 {
        self.life.has(journal, shown)
    }

    /// Whether the place that a client shows is one of this life. The beginning itself may be where a former one ended.
    pub(crate) fn knows(&self, journal: &Journal, shown: Option<Position>) -> bool {
        let place = self.life.place(journal, shown);
        place.is_some_and(|at| self.life.first || at > self.life.begun)
    }

    /// The events that it missed if it has all up to a place; `None`: the journal has not all of it.
    pub(crate) fn missed(&self, journal: &Journal, has: u64) -> Option<Missed> {
        let socket = self.socket.to_string();
        let reader = Reader {
            namespace: &self.namespace,
            socket: &socket,
            members: &self.members,
        };
        journal.missed(reader, has)
    }

    pub(crate) fn bytes(&self) -> usize {
        let texts = [&self.uid, &self.data].into_iter().flatten();
        let texts: usize = texts.map(|text| text.len()).sum();
        size_of::<Self>() + self.members.bytes() + texts + self.life.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::speech::Emit;
    use crate::recovery::journal::{self, Said};
    use crate::tables::id::{Identity, Ids};

    /// Two journals of one process.
    fn journals() -> [Journal; 2] {
        let me = Identity {
            node: 1,
            shard: 0,
            shards: 2,
        };
        let mut dice = fastrand::Rng::with_seed(3);
        let mut ids = Ids::new(me, Box::new(move |bytes| dice.fill(bytes)));
        let bounds = journal::Bounds {
            window_ms: 60_000,
            bytes_max: 1 << 20,
        };
        [(); 2].map(|()| Journal::new(&mut ids, bounds))
    }

    fn tell(journal: &mut Journal, times: usize) -> Vec<u64> {
        let said = std::sync::Arc::new(Said::new(&Emit::new("e", "")));
        let all = (0..times).map(|_| journal.tell(1, "/", "me", &said));
        all.collect()
    }

    #[test]
    fn what_a_client_has_is_the_latest_that_is_known() {
        let [mut here, there] = journals();
        tell(&mut here, 3);
        let mut life = Life::new(here.head());
        tell(&mut here, 3);
        let has = |life: &Life, shown| life.has(&here, shown);
        assert_eq!(has(&life, None), 3);
        assert_eq!(has(&life, Some(here.position(5))), 5);
        for strange in [here.position(2), here.position(7), there.position(5)] {
            assert_eq!(has(&life, Some(strange)), 3, "{strange:?}");
        }
        life.confirm(4);
        assert_eq!(has(&life, None), 4);
        assert_eq!(has(&life, Some(here.position(3))), 4);
        assert_eq!(has(&life, Some(here.position(6))), 6);
    }

    /// A claim that was under way for long showed what the client had then; the client got more from the shard that it left.
    #[test]
    fn a_place_in_a_former_journal_is_one_here() {
        let [mut here, mut there] = journals();
        let old = there.position(0).log;
        tell(&mut here, 10);
        let missed = [4, 6, 9];
        let mut life = Life::new(2).go_on(here.head(), old, &missed).expect("one");
        tell(&mut here, 4);
        tell(&mut there, 20);
        let has = |life: &Life, offset| life.has(&here, Some(there.position(offset)));
        let places = [3, 4, 5, 6, 8, 9, 20].map(|offset| has(&life, offset));
        assert_eq!(places, [10, 11, 11, 12, 12, 13, 13]);
        // The next shard tells again what did not arrive here.
        let next = life.go_on(100, here.position(0).log, &[12, 13, 14]);
        let next = next.expect("two");
        assert_eq!(next.translate(there.position(4)), Some(100));
        assert_eq!(next.translate(there.position(6)), Some(101));
        assert_eq!(next.translate(there.position(9)), Some(102));
        assert_eq!(next.translate(here.position(14)), Some(103));
        life.confirm(11);
        assert_eq!(has(&life, 9), 11, "it has something of this one");
    }

    #[test]
    fn somebody_who_goes_everywhere_and_gets_nothing_is_forgotten() {
        let mut life = Some(Life::new(0));
        let mut moves = 0;
        while let Some(now) = life {
            moves += 1;
            assert!(moves < 20, "without end");
            life = now.go_on(0, moves, &[1]);
        }
        assert_eq!(moves as usize, FORMERS_MAX + 1);
    }
}
