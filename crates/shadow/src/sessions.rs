//! The sessions of clients that pass by, and what is told of them.

use crate::compare::Side;
use crate::packet::{Packet, Reader, Unreadable};
use crate::tap::Heard;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::mpsc::Sender;
use tokio::sync::mpsc::error::TrySendError;

/// A session without any sign for so long has ended: heartbeats come more often.
const SILENT: Duration = Duration::from_secs(90);

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
    /// Milliseconds since the start.
    seen_ms: AtomicU64,
    /// Requests and connections that are open.
    open: AtomicUsize,
    /// What polls: one direction each.
    pub up: Mutex<Reader>,
    pub down: Mutex<Reader>,
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
    started: Instant,
}

impl Sessions {
    pub fn new(words: Sender<Word>) -> Self {
        Self {
            by_sid: Mutex::default(),
            made: AtomicU64::new(0),
            words,
            started: Instant::now(),
        }
    }

    /// A client opens one. `opening`: it is compared.
    pub fn open(&self, opening: Option<Opening>, is_own: bool) -> Arc<Session> {
        let number = 1 + self.made.fetch_add(1, Ordering::Relaxed);
        let session = Arc::new(Session {
            number,
            sid: OnceLock::new(),
            is_own,
            is_watched: AtomicBool::new(opening.is_some()),
            ended: AtomicBool::new(false),
            seen_ms: AtomicU64::new(self.now_ms()),
            open: AtomicUsize::new(0),
            up: Mutex::default(),
            down: Mutex::default(),
        });
        if let Some(opening) = opening {
            self.tell(&session, Word::Opened(number, opening));
        }
        session
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
                Heard::Packet(packet) if is_client => {
                    self.tell(session, Word::Client(session.number, packet))
                }
                Heard::Packet(packet) => {
                    self.tell(session, Word::Said(Side::Real, session.number, packet))
                }
                Heard::Close => self.end(session),
                Heard::Open(_) | Heard::Ping => {}
            }
        }
    }

    /// It goes on, and is compared no more.
    pub fn skip(&self, session: &Session, why: &'static str) {
        if session.is_watched.swap(false, Ordering::Relaxed) {
            self.tell_for_sure(Word::Skipped(session.number, why));
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
            self.tell_for_sure(Word::Gone(session.number));
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
        self.tell_for_sure(word);
    }

    /// The running server never waits for us: a session with too much to tell is given up.
    fn tell(&self, session: &Session, word: Word) {
        if session.is_watched.load(Ordering::Relaxed)
            && let Err(TrySendError::Full(_)) = self.words.try_send(word)
        {
            self.skip(session, "more passed by than could be compared");
        }
    }

    fn tell_for_sure(&self, word: Word) {
        if let Err(TrySendError::Full(word)) = self.words.try_send(word) {
            let words = self.words.clone();
            tokio::spawn(async move { words.send(word).await });
        }
    }

    fn now_ms(&self) -> u64 {
        self.started.elapsed().as_millis() as u64
    }
}

pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
