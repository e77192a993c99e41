//! Requests for sessions that wait for the verdicts of backends, and what is kept of those that were let in until their clients join.

use crate::bounds::{LET_IN_MS, NEWCOMERS_MAX, OPENINGS_MAX, VERDICTS_BYTES_MAX};
use crate::line::Line;
use backend::proto;
use bytes::Bytes;
use hub::{AnswerHeaders, Opening, OpeningKey, OwnAnswer, Request};
use std::collections::{BTreeMap, HashMap};
use std::mem;
use std::sync::Arc;
use wire::base64url::Id20;

type Lines = Vec<Arc<dyn Line>>;

#[derive(Default)]
pub(crate) struct Doorway {
    /// Requests so far.
    count: u64,
    /// By number, the oldest first.
    waiting: BTreeMap<u64, Waiting>,
    /// Requests that are read again in this turn, by number. Those of connections that ended are forgotten when room is short.
    let_in: BTreeMap<u64, LetIn>,
    /// Their numbers.
    numbers: HashMap<OpeningKey, u64>,
    /// Bytes of the verdicts that are kept.
    bytes: usize,
    /// Until the backends that let them in have heard of the numbers, by the id of the session.
    sessions: HashMap<Id20, Session>,
}

/// A request that some backends have not decided about. All of them know it by one number.
struct Waiting {
    key: OpeningKey,
    silent: Lines,
    said: Said,
}

struct LetIn {
    key: OpeningKey,
    since_ms: u64,
    said: Said,
}

/// What the backends said that let a request in.
#[derive(Default)]
struct Said {
    lines: Lines,
    headers: Vec<(String, Box<[u8]>)>,
    bytes: usize,
}

impl Said {
    fn add(&mut self, line: Arc<dyn Line>, verdict: proto::Verdict) {
        self.bytes += weight(&verdict);
        self.lines.push(line);
        // Copied: a slice of the worker's message would keep all of it.
        let headers = verdict.headers.into_iter();
        self.headers
            .extend(headers.map(|header| (header.name, header.value.to_vec().into_boxed_slice())));
    }
}

/// What is kept of a verdict that lets a request in.
fn weight(verdict: &proto::Verdict) -> usize {
    let lines = verdict.headers.iter();
    let lines = lines.map(|header| {
        mem::size_of::<(String, Box<[u8]>)>() + header.name.capacity() + header.value.len()
    });
    lines.sum()
}

struct Session {
    number: u64,
    untold: Lines,
}

impl Doorway {
    /// For the next request.
    pub(crate) fn number(&mut self, shard: u16) -> u64 {
        self.count += 1;
        backend::opening_number(shard, self.count)
    }

    /// These backends were asked.
    pub(crate) fn wait(&mut self, number: u64, key: OpeningKey, asked: &[Arc<dyn Line>]) {
        if self.waiting.len() >= OPENINGS_MAX
            && let Some((_, oldest)) = self.waiting.pop_first()
        {
            self.bytes -= oldest.said.bytes;
        }
        let waiting = Waiting {
            key,
            silent: asked.to_vec(),
            said: Said::default(),
        };
        self.waiting.insert(number, waiting);
    }

    /// Nobody decides about it.
    pub(crate) fn give_up(&mut self, number: u64) -> Option<OpeningKey> {
        let waiting = self.waiting.remove(&number)?;
        self.bytes -= waiting.said.bytes;
        Some(waiting.key)
    }

    /// A backend has decided. It is the last word if it refuses, or if all others have let the request in.
    pub(crate) fn decided(
        &mut self,
        line: &Arc<dyn Line>,
        verdict: proto::Verdict,
        now_ms: u64,
    ) -> Option<(OpeningKey, Opening)> {
        let number = verdict.opening;
        let waiting = self.waiting.get_mut(&number)?;
        // One that was not asked, or has decided already, has no say.
        let at = waiting
            .silent
            .iter()
            .position(|other| is_same(other, line))?;
        let line = waiting.silent.swap_remove(at);
        let is_last = waiting.silent.is_empty();
        if !verdict.admit {
            let decision = as_decision(&verdict);
            return Some((self.give_up(number)?, decision));
        }
        let bytes = weight(&verdict);
        if !self.has_room(bytes, now_ms) {
            return Some((self.give_up(number)?, Opening::Unavailable));
        }
        self.bytes += bytes;
        self.waiting.get_mut(&number)?.said.add(line, verdict);
        if !is_last {
            return None;
        }
        let Waiting { key, said, .. } = self.waiting.remove(&number)?;
        self.keep(number, key, said, now_ms);
        Some((key, Opening::Accept))
    }

    /// For what one more verdict says.
    fn has_room(&mut self, bytes: usize, now_ms: u64) -> bool {
        loop {
            let is_full = self.let_in.len() >= OPENINGS_MAX;
            if !is_full && self.bytes + bytes <= VERDICTS_BYTES_MAX {
                return true;
            }
            let oldest = self.let_in.first_key_value();
            match oldest.map(|(_, oldest)| (oldest.key, oldest.since_ms)) {
                Some((key, since_ms)) if since_ms + LET_IN_MS <= now_ms => self.forget(key),
                _ => return false,
            }
        }
    }

    fn keep(&mut self, number: u64, key: OpeningKey, said: Said, now_ms: u64) {
        // What is left of an earlier request of the same connection.
        self.forget(key);
        self.numbers.insert(key, number);
        let let_in = LetIn {
            key,
            since_ms: now_ms,
            said,
        };
        self.let_in.insert(number, let_in);
    }

    /// The request is gone: nobody joins by it.
    pub(crate) fn forget(&mut self, key: OpeningKey) {
        self.take(key);
    }

    fn take(&mut self, key: OpeningKey) -> Option<(u64, Said)> {
        let number = self.numbers.remove(&key)?;
        let said = self.let_in.remove(&number)?.said;
        self.bytes -= said.bytes;
        Some((number, said))
    }

    /// The request opens its session now.
    pub(crate) fn answer(&mut self, key: OpeningKey, sid: &str, headers: &mut AnswerHeaders) {
        let Some((number, said)) = self.take(key) else {
            return;
        };
        for (name, value) in &said.headers {
            // The backend has checked them.
            let _ = headers.add(name, value);
        }
        if let Some(sid) = Id20::decode(sid.as_bytes()) {
            if self.sessions.len() >= NEWCOMERS_MAX {
                self.sessions.clear();
            }
            let session = Session {
                number,
                untold: said.lines,
            };
            self.sessions.insert(sid, session);
        }
    }

    /// The number of the request that opened a session, for a backend that let it in; 0 = it was not asked. Told once.
    pub(crate) fn opening_of(&mut self, sid: Id20, line: &Arc<dyn Line>) -> u64 {
        if self.sessions.is_empty() {
            return 0;
        }
        let Some(session) = self.sessions.get_mut(&sid) else {
            return 0;
        };
        let number = session.number;
        let untold = &mut session.untold;
        let Some(at) = untold.iter().position(|other| is_same(other, line)) else {
            return 0;
        };
        untold.swap_remove(at);
        if untold.is_empty() {
            self.sessions.remove(&sid);
        }
        number
    }
}

fn is_same(one: &Arc<dyn Line>, other: &Arc<dyn Line>) -> bool {
    Arc::ptr_eq(one, other)
}

/// What a verdict that lets nobody in means for its request.
fn as_decision(verdict: &proto::Verdict) -> Opening {
    match verdict {
        proto::Verdict { status: 0, .. } => Opening::Refuse(verdict.message.clone()),
        _ => own_answer(verdict).unwrap_or_else(|| Opening::Refuse(verdict.message.clone())),
    }
}

fn own_answer(verdict: &proto::Verdict) -> Option<Opening> {
    let mut headers = AnswerHeaders::default();
    for line in &verdict.headers {
        // The backend has checked them.
        let _ = headers.add(&line.name, &line.value);
    }
    let status = u16::try_from(verdict.status).ok()?;
    let answer = OwnAnswer::new(status, headers, verdict.body.to_vec())?;
    Some(Opening::Answer(Box::new(answer)))
}

pub(crate) fn as_opening(request: &Request<'_>, opening: u64) -> proto::Opening {
    let headers = request.headers().map(|(name, value)| proto::Header {
        name: name.to_owned(),
        value: Bytes::copy_from_slice(value),
    });
    proto::Opening {
        opening,
        target: request.target().to_owned(),
        headers: headers.collect(),
        address: request.peer.to_string(),
    }
}
