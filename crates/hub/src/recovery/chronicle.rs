//! What is said in namespaces of level `cluster`, on its way to the one stream that all nodes read. It also says how far this node has read
//! it. [ADR 62](../../../../docs/adr/0062-one-stream-that-all-nodes-read.md) has the reasons.

use crate::output::copies::{Copies, Weigh};
use crate::recovery::stamp::{STREAMS, ShardLife, Stamp};
use crate::tables::id::Place;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};
use std::task::Waker;

/// Cost of a word beside its texts.
const OVERHEAD_BYTES: usize = 160;

/// The state of a client's socket, as another node would need it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Saving {
    /// Its namespace.
    pub namespace: String,
    /// The secret of its client.
    pub pid: String,
    /// The user of its token.
    pub uid: Option<String>,
    /// Each later owner of the socket has a larger one.
    pub fence: u64,
    /// The rest, for [`Adoption`](crate::Adoption).
    pub body: Vec<u8>,
    /// How often the store had lost something by then.
    pub era: u64,
    /// The shard that waits until it is stored.
    pub shard: u16,
    /// The ticket under which that shard waits.
    pub ticket: u64,
}

/// A client came to a node that does not have its socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claiming {
    /// Its namespace.
    pub namespace: String,
    /// The secret of its client.
    pub pid: String,
    /// The user of its token.
    pub uid: Option<String>,
    /// The number up to which the client has all; `None`: it does not know.
    pub shown: Option<u64>,
    /// A client that missed more bytes is a new one.
    pub bytes_max: usize,
    /// The shard that asks.
    pub shard: u16,
    /// Which of its questions.
    pub number: u64,
}

/// What hubs have for the stream.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "a variant says what its fields are")]
pub enum ChronicleWord {
    /// An event, or an order to sockets that may be away: a letter as between nodes.
    Said {
        namespace: String,
        letter: Vec<u8>,
        is_order: bool,
        /// A program waits for it under this number.
        receipt: Option<u64>,
    },
    Saving(Saving),
    /// A client has all up to a number.
    Arrived {
        namespace: String,
        pid: String,
        fence: u64,
        number: u64,
    },
    /// Its client cannot come back.
    Ended {
        namespace: String,
        pid: String,
        fence: u64,
    },
}

/// What hubs ask the store, and what they say to get the answer. None of it waits for words that are to be stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChronicleQuestion {
    /// A client wants its socket.
    Claiming(Claiming),
    /// The shard that claims a socket is listed for all memberships of that socket.
    Listed {
        /// It.
        shard: u16,
        /// Its question.
        number: u64,
    },
}

impl Weigh for ChronicleQuestion {
    fn bytes(&self) -> usize {
        OVERHEAD_BYTES
    }
}

impl Weigh for ChronicleWord {
    fn bytes(&self) -> usize {
        OVERHEAD_BYTES
            + match self {
                Self::Said { letter, .. } => letter.len(),
                Self::Saving(saving) => saving.body.len(),
                _ => 0,
            }
    }
}

/// One namespace's stream.
#[derive(Debug)]
struct Course {
    /// Stands for it in stamps.
    index: u16,
    /// Shards of this node are sent all up to here.
    passed: AtomicU64,
    /// The store does not take anything.
    away: AtomicBool,
    /// On their way to the store.
    words: Copies<ChronicleWord>,
    /// Words that are to be stored and are not yet.
    unwritten: AtomicUsize,
}

/// The streams of all namespaces of level `cluster`. None waits for another.
#[derive(Debug)]
pub struct Chronicle {
    courses: BTreeMap<String, Course>,
    questions: Copies<ChronicleQuestion>,
    /// The bound of each namespace. Events find no room above half of it: records of sockets have the rest.
    bytes_max: usize,
}

impl Chronicle {
    /// The streams of these namespaces. So many bytes may wait for the store, an equal part for each.
    pub fn new(namespaces: impl IntoIterator<Item = String>, bytes_max: usize) -> Self {
        let names: Vec<String> = namespaces.into_iter().collect();
        // One queue for all would let a namespace whose Redis is away silence the others.
        let bytes_max = bytes_max / names.len().max(1);
        let courses = names.into_iter().enumerate().map(|(index, name)| {
            let course = Course {
                index: index as u16,
                passed: AtomicU64::new(0),
                // Until the store has answered once, nobody is promised a return.
                away: AtomicBool::new(true),
                words: Copies::bounded(bytes_max),
                unwritten: AtomicUsize::new(0),
            };
            (name, course)
        });
        Self {
            courses: courses.collect(),
            questions: Copies::default(),
            bytes_max,
        }
    }

    /// Its namespaces.
    pub fn namespaces(&self) -> impl Iterator<Item = &str> {
        self.courses.keys().map(String::as_str)
    }

    /// Wakes the one writer of a namespace for each word from now on.
    pub fn wake_writer(&self, namespace: &str, writer: Waker) {
        if let Some(course) = self.courses.get(namespace) {
            course.words.wake_for_each(writer);
        }
    }

    /// Wakes the one reader of questions for each from now on.
    pub fn wake_answerer(&self, reader: Waker) {
        self.questions.wake_for_each(reader);
    }

    /// A namespace's next word; those of one shard are in order.
    pub fn next(&self, namespace: &str) -> Option<ChronicleWord> {
        self.courses.get(namespace)?.words.next()
    }

    /// The next question.
    pub fn next_question(&self) -> Option<ChronicleQuestion> {
        self.questions.next()
    }

    /// So many of a namespace's words that were taken are stored now.
    pub fn written(&self, namespace: &str, words: usize) {
        if let Some(course) = self.courses.get(namespace) {
            course.unwritten.fetch_sub(words, Ordering::Relaxed);
        }
    }

    /// A namespace's words that are to be stored and are not yet, whether they were taken or not.
    pub fn unwritten_of(&self, namespace: &str) -> usize {
        let course = self.courses.get(namespace);
        course.map_or(0, |course| course.unwritten.load(Ordering::Relaxed))
    }

    /// The number of such words in all namespaces.
    pub fn unwritten(&self) -> usize {
        let all = self.courses.keys();
        all.map(|namespace| self.unwritten_of(namespace)).sum()
    }

    /// Words that found no room.
    pub fn dropped(&self) -> u64 {
        let all = self.courses.values();
        all.map(|course| course.words.dropped()).sum()
    }

    /// Whether the store takes nothing now: new sockets cannot come back then, and publishers are told.
    pub fn is_away(&self, namespace: &str, is_away: bool) {
        if let Some(course) = self.courses.get(namespace) {
            course.away.store(is_away, Ordering::Relaxed);
        }
    }

    /// Shards of this node are sent what comes after this number.
    pub fn begins(&self, namespace: &str, number: u64) {
        if let Some(course) = self.courses.get(namespace) {
            course.passed.fetch_max(number, Ordering::SeqCst);
        }
    }

    // ---- for hubs -----------------------------------------------------------------------------------------------------

    pub(crate) fn has(&self, namespace: &str) -> bool {
        self.courses.contains_key(namespace)
    }

    /// Whether the store takes something now.
    pub(crate) fn is_open(&self, namespace: &str) -> bool {
        let course = self.courses.get(namespace);
        course.is_some_and(|course| !course.away.load(Ordering::Relaxed))
    }

    /// The stamp of what has this number.
    pub(crate) fn stamp(&self, namespace: &str, number: u64) -> Option<Stamp> {
        let from = self.place(namespace)?;
        let life = ShardLife::OF_STREAMS;
        Some(Stamp { from, life, number })
    }

    pub(crate) fn place(&self, namespace: &str) -> Option<Place> {
        let course = self.courses.get(namespace)?;
        Some(Place {
            node: STREAMS,
            shard: course.index,
        })
    }

    /// The home passes an event with this number on. It says so before it reads the cards: a shard that lists itself later is sent what
    /// comes after it.
    pub(crate) fn passes(&self, namespace: &str, stamp: Stamp) {
        if let Some(course) = self.courses.get(namespace)
            && stamp.from.node == STREAMS
        {
            // The home writes the number and then reads cards; a shard writes its card and then reads the number. The two fences let at
            // least one of them see what the other wrote.
            course.passed.store(stamp.number, Ordering::SeqCst);
            fence(Ordering::SeqCst);
        }
    }

    /// The number after which this shard is sent all that is for a membership that it has listed by now.
    pub(crate) fn passed(&self, namespace: &str) -> u64 {
        fence(Ordering::SeqCst);
        let course = self.courses.get(namespace);
        course.map_or(0, |course| course.passed.load(Ordering::SeqCst))
    }

    /// Whether what waits for the store leaves room for more than what is said just now.
    pub(crate) fn is_calm(&self, namespace: &str) -> bool {
        let course = self.courses.get(namespace);
        course.is_some_and(|course| course.words.waiting() < self.bytes_max / 4)
    }

    /// `false`: too much waits for the store.
    #[must_use = "somebody must be told"]
    pub(crate) fn push(&self, word: ChronicleWord) -> bool {
        let Some(course) = self.courses.get(word.namespace()) else {
            return false;
        };
        let is_said = matches!(word, ChronicleWord::Said { .. });
        // A publisher is told that nobody got it; a client whose record is not stored loses its session (ADR 62).
        if is_said && course.words.waiting() > self.bytes_max / 2 {
            return false;
        }
        // The word is counted before its writer can see it, or `written` could take it off first.
        course.unwritten.fetch_add(1, Ordering::Relaxed);
        let has_room = course.words.push(word).is_ok();
        if !has_room {
            course.unwritten.fetch_sub(1, Ordering::Relaxed);
        }
        has_room
    }

    /// `false`: too many questions wait.
    #[must_use = "somebody must be told"]
    pub(crate) fn ask(&self, question: ChronicleQuestion) -> bool {
        self.questions.push(question).is_ok()
    }
}

impl ChronicleWord {
    fn namespace(&self) -> &str {
        match self {
            Self::Said { namespace, .. }
            | Self::Arrived { namespace, .. }
            | Self::Ended { namespace, .. } => namespace,
            Self::Saving(saving) => &saving.namespace,
        }
    }

    /// What it takes while it waits.
    pub fn bytes(&self) -> usize {
        Weigh::bytes(self)
    }
}

/// The chronicle, if the namespace has a stream in it.
pub(crate) fn of<'a>(
    chronicle: &'a Option<Arc<Chronicle>>,
    namespace: &str,
) -> Option<&'a Arc<Chronicle>> {
    chronicle.as_ref().filter(|all| all.has(namespace))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(namespace: &str) -> ChronicleWord {
        ChronicleWord::Said {
            namespace: namespace.to_owned(),
            letter: vec![0; 1_000],
            is_order: false,
            receipt: None,
        }
    }

    fn ended(namespace: &str) -> ChronicleWord {
        ChronicleWord::Ended {
            namespace: namespace.to_owned(),
            pid: String::new(),
            fence: 1,
        }
    }

    #[test]
    fn events_leave_room_for_what_is_known_of_sockets() {
        let all = Chronicle::new(["/a".to_owned()], 4_096);
        assert!(all.has("/a") && !all.has("/b") && !all.is_open("/a"));
        all.is_away("/a", false);
        assert!(all.is_open("/a") && all.is_calm("/a"));
        let taken = (0..5).filter(|_| all.push(said("/a"))).count();
        assert_eq!(taken, 2);
        assert!(!all.is_calm("/a"));
        assert!(all.push(ended("/a")));
        assert_eq!(all.unwritten(), 3);
        all.written("/a", 3);
        assert_eq!(all.unwritten(), 0);
        all.begins("/a", 7);
        assert_eq!(all.passed("/a"), 7);
        let stamp = all.stamp("/a", 9).expect("a stamp");
        all.passes("/a", stamp);
        assert_eq!((all.passed("/a"), all.passed("/b")), (9, 0));
    }

    /// A namespace whose Redis was away filled the one queue of all: nobody came back anywhere, and nobody could say anything.
    #[test]
    fn one_namespace_filled_the_queue_of_all() {
        let all = Chronicle::new(["/a", "/b"].map(str::to_owned), 8_192);
        while all.push(ended("/a")) {}
        assert!(all.dropped() > 0);
        assert!(all.push(said("/b")) && all.push(ended("/b")));
        let listed = ChronicleQuestion::Listed {
            shard: 0,
            number: 1,
        };
        assert!(all.ask(listed.clone()));
        assert_eq!(all.next_question(), Some(listed));
        assert_eq!(all.next("/b"), Some(said("/b")));
        assert_eq!(all.unwritten_of("/b"), 2);
        assert!(!all.push(said("/c")), "it has no stream");
    }
}
