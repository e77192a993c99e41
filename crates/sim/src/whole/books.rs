//! What was said and heard, and what must be true of it.
//!
//! Messages have one sequence of numbers. A client is due all that is said to its rooms after it was told that it is in, up to when
//! it leaves: what is on its way then may miss it, but never something before something that it got.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Below this, authors are clients.
const CLIENTS: usize = 1_000_000;

/// Above all other rooms.
const SEATS: usize = 5_000_000;

/// Something that somebody said.
#[derive(Clone, Debug)]
struct Said {
    publisher: usize,
    /// Who does not hear it: a client does not hear itself.
    author: usize,
    rooms: Vec<usize>,
    /// The life of the node on which it was said.
    life: usize,
}

#[derive(Debug)]
struct Stay {
    /// Numbers above this one and up to that one are due.
    from: u64,
    until: u64,
    /// How much its client had heard when it left.
    heard: usize,
    /// Its client was told that it is in; the history may be faster.
    is_told: bool,
    /// What the room kept, once it is told, and how much its client had heard by then.
    history: Option<(BTreeSet<u64>, usize)>,
}

/// A time that a client was connected to a life of a node: after this number, and up to that one.
#[derive(Debug)]
struct Visit {
    life: usize,
    from: u64,
    until: u64,
}

#[derive(Debug, Default)]
struct Ear {
    /// The present one is the last.
    visits: Vec<Visit>,
    /// The last number when it was told of each gap.
    gaps: Vec<u64>,
    /// How much it had heard when its connection broke.
    broke: usize,
    heard: Vec<u64>,
    /// How much it had heard each time when it got another socket. Its new node may lag, and tell once more what the old one told.
    anew: Vec<usize>,
    stays: BTreeMap<usize, Vec<Stay>>,
}

impl Ear {
    /// The numbers that it heard, socket by socket.
    fn socket_by_socket(&self) -> impl Iterator<Item = &[u64]> {
        let starts = std::iter::once(0).chain(self.anew.iter().copied());
        let ends = self.anew.iter().copied().chain([self.heard.len()]);
        starts.zip(ends).map(|(start, end)| &self.heard[start..end])
    }

    /// The life that it was connected to all the time.
    fn home(&self) -> Option<usize> {
        let [visit] = &*self.visits else {
            return None;
        };
        Some(visit.life)
    }

    /// It was connected to this life when something happened there after that number.
    fn was_at(&self, life: usize, number: u64) -> bool {
        let mut visits = self.visits.iter();
        visits.any(|visit| visit.life == life && visit.from <= number && number <= visit.until)
    }

    /// It came back to this life, and was told of a gap after that number.
    fn was_told(&self, life: usize, number: u64) -> bool {
        let came = self.visits.iter().any(|visit| visit.life == life);
        came && self.gaps.iter().any(|gap| number <= *gap)
    }
}

/// Letters that were given up: by which life, of which, and up to which number.
#[derive(Debug)]
struct Loss {
    by: usize,
    of: usize,
    upto: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Books {
    seed: u64,
    said: Vec<Said>,
    ears: BTreeMap<usize, Ear>,
    losses: Vec<Loss>,
    ended: BTreeSet<usize>,
    /// Publishers that forgot what they said last.
    forgetful: BTreeSet<usize>,
    /// How often each author was told that other nodes did not get what it said.
    only_here: BTreeMap<usize, usize>,
    /// So much waits for other nodes that not all of it is taken. Clients are told; words of workers that stay are only counted.
    are_full: bool,
    newcomers: usize,
    /// Rooms of what is said to one socket alone.
    seats: BTreeMap<String, usize>,
    /// Messages that somebody had to hear, and did; those that are excused.
    pub(crate) due: usize,
    pub(crate) excused: usize,
}

impl Books {
    /// `are_full`: so much waits for other nodes that not all of it is taken.
    pub(crate) fn new(seed: u64, are_full: bool) -> Self {
        Self {
            seed,
            are_full,
            ..Self::default()
        }
    }

    /// The last number.
    pub(crate) fn last(&self) -> u64 {
        self.said.len() as u64
    }

    /// Somebody says something on this life; its number.
    pub(crate) fn say(&mut self, publisher: usize, rooms: Vec<usize>, life: usize) -> u64 {
        self.say_as((publisher, publisher), rooms, life)
    }

    /// A client says it, which is another publisher since it came back.
    pub(crate) fn say_as(
        &mut self,
        (author, publisher): (usize, usize),
        rooms: Vec<usize>,
        life: usize,
    ) -> u64 {
        self.said.push(Said {
            publisher,
            author,
            rooms,
            life,
        });
        self.last()
    }

    /// A publisher that is no client, above this number.
    pub(crate) fn newcomer(&mut self, above: usize) -> usize {
        self.newcomers += 1;
        above + self.newcomers
    }

    /// The room of what is surely said to this socket alone.
    pub(crate) fn seat(&mut self, socket: &str) -> usize {
        let fresh = SEATS + self.seats.len();
        *self.seats.entry(socket.to_owned()).or_insert(fresh)
    }

    pub(crate) fn come(&mut self, who: usize, life: usize) {
        let ear = Ear {
            visits: vec![Visit {
                life,
                from: 0,
                until: u64::MAX,
            }],
            ..Ear::default()
        };
        self.ears.insert(who, ear);
    }

    /// Its connection breaks. What is said from now on is due if it gets its socket back.
    pub(crate) fn breaks(&mut self, who: usize) {
        let last = self.last();
        let ear = self.ear(who);
        ear.broke = ear.heard.len();
        if let Some(visit) = ear.visits.last_mut() {
            visit.until = last;
        }
    }

    /// It comes back to a life, as the same socket or as another.
    pub(crate) fn comes_back(&mut self, who: usize, life: usize, is_same: bool) {
        let from = self.last();
        if !is_same {
            self.is_over(who);
        }
        let ear = self.ear(who);
        for stays in ear.stays.values_mut() {
            // Nobody has told it that it is in: it will leave.
            stays.retain(|stay| stay.is_told);
        }
        ear.visits.push(Visit {
            life,
            from,
            until: u64::MAX,
        });
    }

    /// It does not get the socket back that it had when its connection broke.
    pub(crate) fn is_over(&mut self, who: usize) {
        let last = self.last();
        let ear = self.ear(who);
        ear.anew.push(ear.heard.len());
        let (broke, left) = (ear.broke, ear.visits.last().map(|visit| visit.until));
        for stays in ear.stays.values_mut() {
            stays.retain(|stay| stay.is_told);
            if let Some(stay) = stays.last_mut().filter(|stay| stay.until == u64::MAX) {
                (stay.until, stay.heard) = (left.unwrap_or(last), broke);
            }
        }
    }

    pub(crate) fn knows(&self, who: usize) -> bool {
        self.ears.contains_key(&who)
    }

    fn ear(&mut self, who: usize) -> &mut Ear {
        self.ears.get_mut(&who).expect("somebody who came")
    }

    /// It was told that it is in.
    pub(crate) fn join(&mut self, who: usize, room: usize) {
        let from = self.last();
        let stays = self.ear(who).stays.entry(room).or_default();
        match stays.last_mut().filter(|stay| !stay.is_told) {
            Some(stay) => (stay.from, stay.is_told) = (from, true),
            None => stays.push(Stay {
                from,
                until: u64::MAX,
                heard: usize::MAX,
                is_told: true,
                history: None,
            }),
        }
    }

    pub(crate) fn leave(&mut self, who: usize, room: usize) {
        let last = self.last();
        let ear = self.ear(who);
        let stays = ear.stays.get_mut(&room);
        if let Some(stay) = stays.and_then(|stays| stays.last_mut())
            && stay.until == u64::MAX
        {
            (stay.until, stay.heard) = (last, ear.heard.len());
        }
    }

    pub(crate) fn leave_all(&mut self, who: usize) {
        let rooms: Vec<usize> = self.ear(who).stays.keys().copied().collect();
        rooms.into_iter().for_each(|room| self.leave(who, room));
    }

    pub(crate) fn is_in(&self, who: usize, room: usize) -> bool {
        let stays = self.ears.get(&who).and_then(|ear| ear.stays.get(&room));
        let stay = stays.and_then(|stays| stays.last());
        stay.is_some_and(|stay| stay.is_told && stay.until == u64::MAX)
    }

    /// Who is in which room.
    pub(crate) fn members(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        let all = self.ears.iter();
        let all = all.flat_map(|(who, ear)| ear.stays.keys().map(move |room| (*who, *room)));
        all.filter(move |(who, room)| self.is_in(*who, *room))
    }

    pub(crate) fn hear(&mut self, who: usize, number: u64) {
        let seed = self.seed;
        assert!(
            number > 0 && number <= self.last(),
            "seed {seed}: client {who} heard {number}, which nobody said"
        );
        let ear = self.ear(who);
        let since = ear.anew.last().copied().unwrap_or(0);
        let again = ear.heard[since..].contains(&number);
        assert!(!again, "seed {seed}: client {who} got {number} twice");
        ear.heard.push(number);
    }

    /// What a room kept, for a client that comes. `is_full`: it has forgotten what was before.
    pub(crate) fn take_history(&mut self, who: usize, room: usize, kept: Vec<u64>, is_full: bool) {
        let (seed, last) = (self.seed, self.last());
        let ear = self.ear(who);
        let (heard, count) = (ear.heard.len(), kept.len());
        let history: BTreeSet<u64> = kept.into_iter().collect();
        assert_eq!(history.len(), count, "seed {seed}: a history has one twice");
        let stays = ear.stays.entry(room).or_default();
        if stays.last().is_none_or(|stay| stay.until < u64::MAX) {
            stays.push(Stay {
                from: last,
                until: u64::MAX,
                heard: usize::MAX,
                is_told: false,
                history: None,
            });
        }
        let stay = stays.last_mut().expect("one");
        if is_full {
            stay.from = last;
        }
        stay.history = Some((history, heard));
    }

    /// It is told that it missed something.
    pub(crate) fn tell_gap(&mut self, who: usize) {
        let last = self.last();
        self.ear(who).gaps.push(last);
    }

    /// It is told that other nodes did not get something that it said.
    pub(crate) fn tell_only_here(&mut self, author: usize) {
        *self.only_here.entry(author).or_default() += 1;
    }

    /// How often authors were told so.
    pub(crate) fn told_only_here(&self) -> usize {
        self.only_here.values().sum()
    }

    /// Whether this may have stayed on the node where it was said, and did not come to this life.
    pub(crate) fn may_stay_there(&self, number: u64, by: usize) -> bool {
        let said = &self.said[number as usize - 1];
        said.life != by && self.stays_there(said)
    }

    /// Whether this may have stayed on the node where it was said.
    fn stays_there(&self, said: &Said) -> bool {
        // Workers are not told, and neither are clients that are gone.
        let hears_it = said.author < CLIENTS
            && !self.ended.contains(&said.life)
            && !self.forgetful.contains(&said.publisher);
        self.are_full && (!hears_it || self.only_here.contains_key(&said.author))
    }

    pub(crate) fn lose(&mut self, by: usize, of: usize) {
        let upto = self.last();
        self.losses.push(Loss { by, of, upto });
    }

    /// A life is over: what it had not passed on may be lost.
    pub(crate) fn end(&mut self, life: usize) {
        self.ended.insert(life);
    }

    /// What a publisher said last may have come to nobody.
    pub(crate) fn end_publisher(&mut self, publisher: usize) {
        self.forgetful.insert(publisher);
    }

    /// The first message that is found: by its number, the life on which it was said, and its rooms.
    pub(crate) fn find(&self, mut is_it: impl FnMut(u64, usize, &[usize]) -> bool) -> Option<u64> {
        let mut all = (1..).zip(&self.said);
        let found = all.find(|(number, said)| is_it(*number, said.life, &said.rooms));
        found.map(|(number, _)| number)
    }

    /// It was told to be lost on this life, or its publisher is gone.
    pub(crate) fn may_be_lost(&self, number: u64, by: usize) -> bool {
        let said = &self.said[number as usize - 1];
        let is_gone = self.ended.contains(&said.life) || self.forgetful.contains(&said.publisher);
        is_gone || self.is_excused(number, said.life, |loss| loss.by == by)
    }

    /// One of two lives has lost something of the other.
    pub(crate) fn have_lost(&self, one: usize, other: usize) -> bool {
        let mut losses = self.losses.iter();
        losses.any(|loss| [(one, other), (other, one)].contains(&(loss.by, loss.of)))
    }

    /// It was told to be lost, to somebody whom that concerns.
    fn is_excused(&self, number: u64, of: usize, concerns: impl Fn(&Loss) -> bool) -> bool {
        let mut losses = self.losses.iter();
        losses.any(|loss| loss.of == of && number <= loss.upto && concerns(loss))
    }

    pub(crate) fn check(&mut self) {
        let (mut due, mut excused) = (0, 0);
        let mut only_here = BTreeSet::new();
        for (who, ear) in &self.ears {
            self.check_order(*who, ear);
            for (room, stays) in &ear.stays {
                for stay in stays.iter().filter(|stay| stay.is_told) {
                    let (heard, missed) =
                        self.check_stay((*who, ear), (*room, stay), &mut only_here);
                    (due, excused) = (due + heard, excused + missed);
                }
            }
        }
        self.check_only_here(&only_here);
        (self.due, self.excused) = (due, excused);
    }

    /// Of each message that stayed on its node, its author was told, if it was there to hear that.
    pub(crate) fn check_only_here(&self, numbers: &BTreeSet<u64>) {
        let mut stayed: BTreeMap<usize, Vec<u64>> = BTreeMap::new();
        for number in numbers {
            let said = &self.said[*number as usize - 1];
            if said.author < CLIENTS {
                stayed.entry(said.author).or_default().push(*number);
            }
        }
        for (author, stayed) in stayed {
            let told = self.only_here.get(&author).copied().unwrap_or(0);
            assert!(
                stayed.len() <= told,
                "seed {}: {stayed:?} of client {author} stayed on its node, and it was told of {told}",
                self.seed
            );
        }
    }

    fn check_order(&self, who: usize, ear: &Ear) {
        for heard in ear.socket_by_socket() {
            let mut last = BTreeMap::new();
            for number in heard {
                let publisher = self.said[*number as usize - 1].publisher;
                let before = last.insert(publisher, *number).unwrap_or(0);
                assert!(
                    before < *number,
                    "seed {}: client {who} got {number} of {publisher} after {before}",
                    self.seed
                );
            }
        }
    }

    /// How much was heard in a stay, and how much of it is excused.
    fn check_stay(
        &self,
        (who, ear): (usize, &Ear),
        (room, stay): (usize, &Stay),
        only_here: &mut BTreeSet<u64>,
    ) -> (usize, usize) {
        let seed = self.seed;
        // What was heard twice counts where it was heard first.
        let heard = ear.heard.iter().copied().zip(0..ear.heard.len());
        let heard: BTreeMap<u64, usize> = heard.rev().collect();
        let (history, since) = match &stay.history {
            Some((history, heard)) => (Some(history), *heard),
            None => (None, 0),
        };
        if let Some(history) = history {
            // Nothing may have been heard between the history and the end of the socket.
            let end = stay.heard.clamp(since, ear.heard.len());
            let live = ear.heard[since..end].iter();
            let mut live = live.filter(|number| self.said[**number as usize - 1].rooms == [room]);
            let again = live.find(|number| **number <= stay.until && history.contains(number));
            assert_eq!(
                again, None,
                "seed {seed}: client {who} got {again:?} in room {room} live and by its history"
            );
        }
        let got = |number: &u64| {
            heard.contains_key(number) || history.is_some_and(|history| history.contains(number))
        };
        let (mut count, mut excused) = (0, 0);
        // Of each publisher: what was missed.
        let mut missed: BTreeMap<usize, u64> = BTreeMap::new();
        let due = (stay.from + 1..).take_while(|number| *number <= stay.until.min(self.last()));
        for number in due {
            let said = &self.said[number as usize - 1];
            if !said.rooms.contains(&room) || said.author == who {
                continue;
            }
            if got(&number) {
                count += 1;
                // What came by another room, or to a later stay, says nothing.
                let alone =
                    said.rooms.len() == 1 && heard.get(&number).is_none_or(|at| *at < stay.heard);
                if let Some(missed) = missed.get(&said.publisher).filter(|_| alone) {
                    panic!(
                        "seed {seed}: client {who} got {number} in room {room} and missed {missed} before it: {said:?}"
                    );
                }
            } else if self.is_excused(number, said.life, |loss| {
                ear.was_at(loss.by, loss.upto) || ear.was_told(loss.by, loss.upto)
            }) {
                excused += 1;
            } else {
                let may_miss = stay.until < u64::MAX
                    || self.ended.contains(&said.life)
                    || self.forgetful.contains(&said.publisher);
                if self.stays_there(said) && !ear.was_at(said.life, number) {
                    excused += 1;
                    only_here.extend((!may_miss).then_some(number));
                    continue;
                }
                assert!(
                    may_miss,
                    "seed {seed}: client {who} missed {number} in room {room}: {said:?}, in since {}",
                    stay.from
                );
                missed.entry(said.publisher).or_insert(number);
            }
        }
        (count, excused)
    }

    /// Where rooms keep their events, all on a node hear them in one order: but for what is said to users, which is in these rooms.
    pub(crate) fn check_one_order(&self, users: &Range<usize>) {
        let ears: Vec<(&usize, &Ear)> = self.ears.iter().collect();
        for (at, (one, ear)) in ears.iter().enumerate() {
            let is_kept = |number: &u64| !users.contains(&self.said[*number as usize - 1].rooms[0]);
            let numbers = ear.heard.iter().copied().filter(is_kept);
            let places: BTreeMap<u64, usize> = numbers.zip(0..).collect();
            let Some(home) = ear.home() else { continue };
            let others = ears[at + 1..].iter();
            for (other, theirs) in others.filter(|(_, theirs)| theirs.home() == Some(home)) {
                let common: Vec<_> = theirs
                    .heard
                    .iter()
                    .filter_map(|number| places.get(number))
                    .collect();
                let crossed = common.windows(2).find(|two| two[0] > two[1]);
                assert!(
                    crossed.is_none(),
                    "seed {}: {one} and {other} heard two events in another order",
                    self.seed
                );
            }
        }
    }
}
