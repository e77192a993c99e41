//! The sessions of clients that pass by, and what is told of them.

use crate::compare::Side;
use crate::packet::{Budget, Packet, Reader, Unreadable};
use crate::tap::Heard;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use tokio::runtime::Handle;
use tokio::sync::mpsc::Sender;
use tokio::sync::mpsc::error::TrySendError;

/// A session without any sign for so long has ended: heartbeats come more often.
const SILENT: Duration = Duration::from_secs(90);

const TOO_MUCH: &str = "more passed by than could be compared";

/// The request by which a client opened its session, for its copy.
#[derive(Clone, Debug)]
pub struct Opening {
    /// Without what names the transport and the session.
    pub query: String,
    /// Those that say who the client is.
    pub headers: Vec<(String, Vec<u8>)>,
}

/// Told to the conductor.
#[derive(Debug)]
pub enum Word {
    Opened(u64, Opening),
    Client(u64, Packet),
    Said(Side, u64, Packet),
    Gone(u64),
    Skipped(u64, &'static str),
    CopyEnded(u64),
    /// A session cannot be compared from its beginning on.
    NotCompared(&'static str),
    /// A session went to the gateway.
    Switched,
}

#[derive(Debug)]
pub struct Session {
    number: u64,
    /// Its id at the server, once that was heard.
    sid: OnceLock<String>,
    /// It is a session of the gateway: nothing is compared.
    pub is_own: bool,
    is_watched: AtomicBool,
    ended: AtomicBool,
    /// Its client began by polling, and may go over to a WebSocket, or fail to.
    polls: AtomicBool,
    words: Sender<Word>,
    /// One more while it lives, if it was opened to be compared.
    counted: Option<Arc<AtomicUsize>>,
    /// Milliseconds since the start.
    seen_ms: AtomicU64,
    /// Requests and connections that are open.
    open: AtomicUsize,
    /// What polls: one direction each.
    pub up: Mutex<Reader>,
    pub down: Mutex<Reader>,
}

impl Session {
    /// Its WebSocket has ended. A probe that fails ends nothing: the client goes on polling.
    pub fn polls_on(&self) -> bool {
        self.polls.load(Ordering::Relaxed)
    }
}

/// Also one whose opening got no answer has a copy.
impl Drop for Session {
    fn drop(&mut self) {
        if let Some(copies) = &self.counted {
            copies.fetch_sub(1, Ordering::Relaxed);
        }
        if !*self.ended.get_mut() && *self.is_watched.get_mut() {
            tell_for_sure(&self.words, Word::Gone(self.number));
        }
    }
}

/// Held while a request or a connection of the session is open.
#[derive(Debug)]
pub struct Held(Arc<Session>);

impl Drop for Held {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

#[derive(Debug)]
pub struct Sessions {
    by_sid: Mutex<HashMap<String, Arc<Session>>>,
    made: AtomicU64,
    words: Sender<Word>,
    budget: Budget,
    copies: Arc<AtomicUsize>,
    started: Instant,
}

impl Sessions {
    pub fn new(words: Sender<Word>, budget: Budget) -> Self {
        Self {
            budget,
            copies: Arc::default(),
            by_sid: Mutex::default(),
            made: AtomicU64::new(0),
            words,
            started: Instant::now(),
        }
    }

    /// A client opens one. `opening`: it is compared.
    pub fn open(&self, opening: Option<Opening>, is_own: bool, polls: bool) -> Arc<Session> {
        let number = 1 + self.made.fetch_add(1, Ordering::Relaxed);
        let session = Arc::new(Session {
            number,
            sid: OnceLock::new(),
            is_own,
            is_watched: AtomicBool::new(opening.is_some()),
            ended: AtomicBool::new(false),
            polls: AtomicBool::new(polls),
            words: self.words.clone(),
            counted: opening.is_some().then(|| Arc::clone(&self.copies)),
            seen_ms: AtomicU64::new(self.now_ms()),
            open: AtomicUsize::new(0),
            up: Mutex::default(),
            down: Mutex::default(),
        });
        if let Some(copies) = &session.counted {
            copies.fetch_add(1, Ordering::Relaxed);
        }
        if let Some(opening) = opening
            && let Err(TrySendError::Full(_)) = self.words.try_send(Word::Opened(number, opening))
        {
            // Nobody has heard of it.
            session.is_watched.store(false, Ordering::Relaxed);
            self.count(Word::NotCompared(TOO_MUCH));
        }
        session
    }

    /// Of those that are compared.
    pub fn copies(&self) -> usize {
        self.copies.load(Ordering::Relaxed)
    }

    pub fn find(&self, sid: &str) -> Option<Arc<Session>> {
        lock(&self.by_sid).get(sid).cloned()
    }

    pub fn hold(&self, session: &Arc<Session>) -> Held {
        session.seen_ms.store(self.now_ms(), Ordering::Relaxed);
        session.open.fetch_add(1, Ordering::Relaxed);
        Held(Arc::clone(session))
    }

    /// What a client said, or a server said to it.
    pub fn note(
        &self,
        session: &Arc<Session>,
        is_client: bool,
        heard: Result<Vec<Heard>, Unreadable>,
    ) {
        session.seen_ms.store(self.now_ms(), Ordering::Relaxed);
        let Ok(heard) = heard else {
            return self.skip(session, "it does not speak Socket.IO's protocol 5 in JSON");
        };
        for heard in heard {
            match heard {
                Heard::Open(sid) if !is_client => {
                    if session.sid.set(sid.clone()).is_ok() {
                        lock(&self.by_sid).insert(sid, Arc::clone(session));
                    }
                }
                Heard::Packet(packet) => self.tell(session, is_client, packet),
                Heard::Upgrade if is_client => session.polls.store(false, Ordering::Relaxed),
                Heard::Close => self.end(session),
                Heard::Open(_) | Heard::Ping | Heard::Upgrade => {}
            }
        }
    }

    /// It goes on, and is compared no more.
    pub fn skip(&self, session: &Session, why: &'static str) {
        if session.is_watched.swap(false, Ordering::Relaxed) {
            tell_for_sure(&self.words, Word::Skipped(session.number, why));
        }
    }

    /// The client has gone, or was sent away.
    pub fn end(&self, session: &Arc<Session>) {
        if session.ended.swap(true, Ordering::Relaxed) {
            return;
        }
        if let Some(sid) = session.sid.get() {
            lock(&self.by_sid).remove(sid);
        }
        if session.is_watched.load(Ordering::Relaxed) {
            tell_for_sure(&self.words, Word::Gone(session.number));
        }
    }

    /// Ends those that poll no more.
    pub fn end_silent(&self) {
        let now_ms = self.now_ms();
        let is_silent = |session: &&Arc<Session>| {
            let seen_ms = session.seen_ms.load(Ordering::Relaxed);
            session.open.load(Ordering::Relaxed) == 0
                && now_ms >= seen_ms + SILENT.as_millis() as u64
        };
        let silent: Vec<_> = lock(&self.by_sid)
            .values()
            .filter(is_silent)
            .cloned()
            .collect();
        silent.iter().for_each(|session| self.end(session));
    }

    /// One that is not compared at all, or given to the gateway.
    pub fn count(&self, word: Word) {
        tell_for_sure(&self.words, word);
    }

    /// The running server never waits for us: a session with too much to tell is given up.
    fn tell(&self, session: &Session, is_client: bool, mut packet: Packet) {
        if !session.is_watched.load(Ordering::Relaxed) {
            return;
        }
        let Some(share) = self.budget.take(packet.bytes()) else {
            return self.skip(session, TOO_MUCH);
        };
        packet.share = share;
        let word = match is_client {
            true => Word::Client(session.number, packet),
            false => Word::Said(Side::Real, session.number, packet),
        };
        if let Err(TrySendError::Full(_)) = self.words.try_send(word) {
            self.skip(session, TOO_MUCH);
        }
    }

    fn now_ms(&self) -> u64 {
        self.started.elapsed().as_millis() as u64
    }
}

fn tell_for_sure(words: &Sender<Word>, word: Word) {
    if let Err(TrySendError::Full(word)) = words.try_send(word)
        && let Ok(runtime) = Handle::try_current()
    {
        let words = words.clone();
        runtime.spawn(async move { words.send(word).await });
    }
}

pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
