//! Commands of a bus that this shard has carried out, by the places where they stand there. A node that is killed leaves some that
//! it had not acknowledged: another one reads them again, and each shard leaves out what it had. The same holds for words in a stream that
//! all nodes read: a word that had no answer is written once more after a failover. Its shard, one writer and one home keep the words of a
//! shard in their order, so their numbers may be compared.

use crate::bounds::{
    AUTHOR_PLACES_MAX, AUTHORS_MAX, PAGE_BUSY_MS, REPEAT_PAGES_MAX, REPEATS_KEPT_MS,
};
use handoff::bounds::MARKS_OF_PAGE;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

/// Where a command stands on its bus. The same place at the same time is the same command: what is made anew begins with the same
/// numbers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Spot {
    /// The bus, its reader, and the part of it that has numbers of its own.
    pub source: Arc<str>,
    /// The number there.
    pub number: u64,
    /// When it was written, in ms since 1970.
    pub time_ms: u64,
}

impl Spot {
    pub(crate) fn bytes(&self) -> usize {
        size_of::<Self>() + self.source.len()
    }

    /// The spot of the next word that a shard has for the stream of a namespace. `shard`: a name that no other shard has.
    pub(crate) fn of_word(shard: u64, namespace: &str, number: u64) -> Self {
        Self {
            source: format!("{WORDS}{shard:x}:{namespace}").into(),
            number,
            time_ms: 0,
        }
    }

    /// Numbers of its source come in their order.
    pub(crate) fn is_word(&self) -> bool {
        self.source.starts_with(WORDS)
    }

    fn page(&self) -> (u64, usize) {
        (self.number / PAGE, (self.number % PAGE) as usize)
    }

    /// Its time, in four bytes; never 0.
    fn mark(&self) -> u32 {
        (self.time_ms as u32) << 1 | 1
    }
}

/// Sources of words begin so, and no other.
const WORDS: &str = "stream:";
/// So many numbers in a row are remembered in one piece, four bytes each.
const PAGE: u64 = MARKS_OF_PAGE as u64;

#[derive(Debug)]
struct Page {
    /// When it got its last number.
    last_ms: u64,
    marks: Box<[u32]>,
}

impl Page {
    fn is_old(&self, now_ms: u64) -> bool {
        self.last_ms + REPEATS_KEPT_MS < now_ms
    }
}

/// A shard that writes into a stream.
#[derive(Debug, Default)]
struct Author {
    /// The last words: the number of each, and the place where it stood.
    words: VecDeque<(u64, u64)>,
    last_ms: u64,
}

impl Author {
    /// The place where a word stood before; 0: nobody knows it any more. `None`: the word comes for the first time.
    fn stood(&self, number: u64) -> Option<u64> {
        let (last, _) = self.words.back()?;
        if number > *last {
            return None;
        }
        let known = self
            .words
            .binary_search_by_key(&number, |(known, _)| *known);
        Some(known.map_or(0, |index| self.words[index].1))
    }
}

/// What each shard remembers.
#[derive(Debug, Default)]
pub(crate) struct Repeats {
    authors: HashMap<Arc<str>, Author>,
    sources: HashMap<Arc<str>, BTreeMap<u64, Page>>,
    /// All pages, in the order in which they are looked at when there is no room.
    pages: VecDeque<(Arc<str>, u64)>,
}

impl Repeats {
    /// Whether a command was carried out here.
    pub(crate) fn has(&self, spot: &Spot, now_ms: u64) -> bool {
        if spot.is_word() {
            let author = self.authors.get(&spot.source);
            return author.is_some_and(|author| author.stood(spot.number).is_some());
        }
        let (page, at) = spot.page();
        let page = self.sources.get(&spot.source).and_then(|of| of.get(&page));
        page.is_some_and(|page| !page.is_old(now_ms) && page.marks[at] == spot.mark())
    }

    /// Takes a command that is carried out now; `false`: it was carried out before.
    pub(crate) fn take(&mut self, spot: &Spot, now_ms: u64) -> bool {
        let (number, at) = spot.page();
        let is_known = self.sources.get(&spot.source);
        if !is_known.is_some_and(|of| of.contains_key(&number)) {
            self.make_room(now_ms);
            self.pages.push_back((Arc::clone(&spot.source), number));
        }
        let of = self.sources.entry(Arc::clone(&spot.source)).or_default();
        let page = of.entry(number).or_insert_with(|| Page {
            last_ms: now_ms,
            marks: vec![0; PAGE as usize].into(),
        });
        if page.is_old(now_ms) {
            // A command that is read again after so long is meant.
            page.marks.fill(0);
        }
        page.last_ms = now_ms;
        std::mem::replace(&mut page.marks[at], spot.mark()) != spot.mark()
    }

    /// The page at a place, for another process. `None`: there is none, or nobody needs it.
    pub(crate) fn record(&self, at: usize, now_ms: u64) -> Option<handoff::Marks> {
        let (source, number) = self.pages.get(at)?;
        let page = self.sources.get(source)?.get(number)?;
        (!page.is_old(now_ms)).then(|| handoff::Marks {
            source: source.to_string(),
            page: *number,
            age_ms: now_ms.saturating_sub(page.last_ms),
            marks: page.marks.to_vec(),
        })
    }

    /// How many places have one.
    pub(crate) fn len(&self) -> usize {
        self.pages.len()
    }

    /// The process before has carried these out. Its clock is another one: it is remembered for ten minutes more at most.
    pub(crate) fn go_on_with(&mut self, record: &handoff::Marks, now_ms: u64) {
        let source: Arc<str> = record.source.as_str().into();
        let known = self.sources.get(&source);
        if !known.is_some_and(|of| of.contains_key(&record.page)) {
            self.make_room(now_ms);
            self.pages.push_back((Arc::clone(&source), record.page));
        }
        let page = Page {
            last_ms: now_ms.saturating_sub(record.age_ms),
            marks: record.marks.as_slice().into(),
        };
        self.sources
            .entry(source)
            .or_default()
            .insert(record.page, page);
    }

    /// Takes a word of a stream, which stands there at `at`. `Some`: it was carried out here before, when it stood at this place; 0: nobody
    /// knows that place any more.
    pub(crate) fn take_word(&mut self, spot: &Spot, at: u64, now_ms: u64) -> Option<u64> {
        if !self.authors.contains_key(&spot.source) && self.authors.len() >= AUTHORS_MAX {
            let silent = self.authors.iter().min_by_key(|(_, author)| author.last_ms);
            let silent = silent.map(|(source, _)| Arc::clone(source));
            silent.and_then(|source| self.authors.remove(&source));
        }
        let author = self.authors.entry(Arc::clone(&spot.source)).or_default();
        author.last_ms = now_ms;
        let stood = author.stood(spot.number);
        if stood.is_none() {
            if author.words.len() == AUTHOR_PLACES_MAX {
                author.words.pop_front();
            }
            author.words.push_back((spot.number, at));
        }
        stood
    }

    /// Makes room for one more page.
    fn make_room(&mut self, now_ms: u64) {
        for _ in 0..self.pages.len() {
            let first = self.pages.front().and_then(|(source, number)| {
                let page = self.sources.get(source)?.get(number)?;
                Some((page.is_old(now_ms), page.last_ms + PAGE_BUSY_MS < now_ms))
            });
            match first {
                Some((false, _)) if self.pages.len() < REPEAT_PAGES_MAX => return,
                // A page in use is looked at last the next time.
                Some((false, false)) => self.pages.rotate_left(1),
                _ => self.drop_first(),
            }
        }
        // All pages are in use: one of them goes all the same.
        if self.pages.len() >= REPEAT_PAGES_MAX {
            self.drop_first();
        }
    }

    fn drop_first(&mut self) {
        let Some((source, number)) = self.pages.pop_front() else {
            return;
        };
        if let Some(of) = self.sources.get_mut(&source) {
            of.remove(&number);
            if of.is_empty() {
                self.sources.remove(&source);
            }
        }
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.pages.len() * (PAGE as usize * size_of::<u32>() + size_of::<Page>())
            + self.pages.capacity() * size_of::<(Arc<str>, u64)>()
            + self.authors.len() * size_of::<(Arc<str>, Author)>()
            + self
                .authors
                .values()
                .map(|author| author.words.capacity())
                .sum::<usize>()
                * size_of::<(u64, u64)>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spot(source: &str, number: u64, time_ms: u64) -> Spot {
        Spot {
            source: source.into(),
            number,
            time_ms,
        }
    }

    #[test]
    fn a_word_that_comes_again_stood_somewhere_before() {
        let mut repeats = Repeats::default();
        let word = |number| Spot::of_word(7, "/", number);
        let other = Spot::of_word(8, "/", 1);
        assert!(word(1).is_word() && !spot("stream", 1, 1).is_word());
        assert_eq!(repeats.take_word(&word(5), 100, 0), None);
        assert_eq!(repeats.take_word(&word(7), 200, 0), None);
        assert_eq!(repeats.take_word(&other, 300, 0), None);
        assert!(repeats.has(&word(7), 0) && !repeats.has(&word(8), 0));
        assert_eq!(repeats.take_word(&word(5), 400, 0), Some(100));
        assert_eq!(repeats.take_word(&word(7), 500, 0), Some(200));
        assert_eq!(repeats.take_word(&word(6), 500, 0), Some(0));
        for number in 8..8 + AUTHOR_PLACES_MAX as u64 {
            assert_eq!(repeats.take_word(&word(number), 600, 0), None);
        }
        assert_eq!(repeats.take_word(&word(7), 700, 0), Some(0), "too old");
        let before = repeats.heap_bytes();
        for shard in 0..2 * AUTHORS_MAX as u64 {
            repeats.take_word(&Spot::of_word(shard, "/a", 1), 1, 1 + shard);
        }
        assert!(repeats.authors.len() == AUTHORS_MAX && repeats.heap_bytes() > before);
    }

    #[test]
    fn a_command_is_carried_out_once() {
        let mut repeats = Repeats::default();
        assert!(!repeats.has(&spot("a", 7, 100), 0));
        assert!(repeats.take(&spot("a", 7, 100), 0));
        assert!(repeats.has(&spot("a", 7, 100), 0) && !repeats.take(&spot("a", 7, 100), 0));
        assert!(repeats.take(&spot("b", 7, 100), 0), "of another partition");
        assert!(repeats.take(&spot("a", 8, 100), 0));
        assert!(
            repeats.take(&spot("a", 7, 101), 0),
            "the topic was made anew"
        );
        // Later numbers take nothing from earlier ones.
        assert!((9..9_000).all(|n| repeats.take(&spot("a", n, 5), 0)));
        assert!((9..9_000).all(|n| !repeats.take(&spot("a", n, 5), 0)));
    }

    #[test]
    fn memory_is_bounded_in_bytes_and_time() {
        let mut repeats = Repeats::default();
        for n in 0..3_000 {
            repeats.take(&spot(&format!("{}", n % 2_500), n * PAGE, 1), 0);
        }
        assert_eq!(repeats.pages.len(), REPEAT_PAGES_MAX);
        let pages: usize = repeats.sources.values().map(BTreeMap::len).sum();
        assert_eq!(pages, REPEAT_PAGES_MAX);
        assert!(repeats.heap_bytes() < 9 << 20);
        assert!(repeats.take(&spot("late", 0, 1), REPEATS_KEPT_MS + 1));
        assert_eq!((repeats.pages.len(), repeats.sources.len()), (1, 1));
    }

    /// A slow partition: its page is made long before a number of it is read again.
    #[test]
    fn a_number_is_remembered_for_ten_minutes_and_no_longer() {
        let mut repeats = Repeats::default();
        repeats.take(&spot("slow", 0, 1), 0);
        repeats.take(&spot("slow", 1, 1), REPEATS_KEPT_MS);
        // Others make a page.
        repeats.take(&spot("slow", PAGE, 1), REPEATS_KEPT_MS + 1);
        assert!(!repeats.take(&spot("slow", 1, 1), REPEATS_KEPT_MS + 2));
        // Whoever sets the offsets back later means it.
        let later = 3 * REPEATS_KEPT_MS;
        assert!(!repeats.has(&spot("slow", 1, 1), later));
        assert!(repeats.take(&spot("slow", 1, 1), later));
        assert!(repeats.take(&spot("slow", 0, 1), later));
        assert!(!repeats.take(&spot("slow", 1, 1), later));
    }

    /// `sockeye upgrade`: what the process before had not acknowledged is read again.
    #[test]
    fn the_next_process_knows_what_was_carried_out() {
        let mut before = Repeats::default();
        before.take(&spot("old", 3, 1), 0);
        let now_ms = REPEATS_KEPT_MS + 1;
        before.take(&spot("a", 7, 100), now_ms - 5_000);
        before.take(&spot("b", 7 + PAGE, 100), now_ms);
        let records = (0..before.len()).filter_map(|at| before.record(at, now_ms));
        let records: Vec<_> = records.collect();
        assert_eq!(records.len(), 2, "nobody needs the old one");
        assert!(records.iter().all(|record| record.check() == Ok(())));
        let mut next = Repeats::default();
        for record in records.iter().chain(&records) {
            next.go_on_with(record, 1_000);
        }
        assert_eq!(next.pages.len(), 2);
        assert!(!next.take(&spot("a", 7, 100), 1_000));
        assert!(!next.take(&spot("b", 7 + PAGE, 100), 1_000));
        assert!(next.take(&spot("a", 8, 100), 1_000));
        assert!(next.take(&spot("b", 7 + PAGE, 101), 1_000), "made anew");
        assert!(next.take(&spot("a", 7, 100), 2 * REPEATS_KEPT_MS));
    }

    #[test]
    fn what_is_busy_stays() {
        let mut repeats = Repeats::default();
        repeats.take(&spot("busy", 0, 1), 0);
        for n in 0..5_000 {
            let now_ms = 100 * n;
            repeats.take(&spot("other", n * PAGE, 1), now_ms);
            assert!(!repeats.take(&spot("busy", 0, 1), now_ms));
        }
        assert_eq!(repeats.pages.len(), REPEAT_PAGES_MAX);
    }
}
