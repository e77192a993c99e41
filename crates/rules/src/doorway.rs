//! Requests for sessions that wait for the verdicts of backends, and what is kept of those that were let in until their clients join.

use crate::bounds::{NEWCOMERS_MAX, OPENINGS_MAX};
use crate::line::Line;
use backend::proto;
use bytes::Bytes;
use hub::{AnswerHeaders, Opening, OpeningKey, OwnAnswer, Request};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use wire::base64url::Id20;

type Lines = Vec<Arc<dyn Line>>;

#[derive(Default)]
pub(crate) struct Doorway {
    /// Requests so far.
    count: u64,
    /// By number, the oldest first.
    waiting: BTreeMap<u64, Waiting>,
    /// Verdicts whose requests are read again in this turn. What is left of connections that ended goes when there is too much of it.
    let_in: HashMap<OpeningKey, LetIn>,
    /// Until the backends that let them in have heard of the numbers, by the id of the session.
    sessions: HashMap<Id20, Session>,
}

/// A request that some backends have not decided about. All of them know it by one number.
struct Waiting {
    key: OpeningKey,
    silent: Lines,
    let_in: LetIn,
}

/// What the backends said that let a request in.
#[derive(Default)]
struct LetIn {
    lines: Lines,
    verdicts: Vec<proto::Verdict>,
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
        if self.waiting.len() >= OPENINGS_MAX {
            self.waiting.pop_first();
        }
        let waiting = Waiting {
            key,
            silent: asked.to_vec(),
            let_in: LetIn::default(),
        };
        self.waiting.insert(number, waiting);
    }

    /// Nobody decides about it.
    pub(crate) fn give_up(&mut self, number: u64) -> Option<OpeningKey> {
        self.waiting.remove(&number).map(|waiting| waiting.key)
    }

    /// A backend has decided. It is the last word if it refuses, or if all others have let the request in.
    pub(crate) fn decided(
        &mut self,
        line: &Arc<dyn Line>,
        verdict: proto::Verdict,
    ) -> Option<(OpeningKey, Opening)> {
        let number = verdict.opening;
        let waiting = self.waiting.get_mut(&number)?;
        // One that was not asked, or has decided already, has no say.
        let at = waiting
            .silent
            .iter()
            .position(|other| is_same(other, line))?;
        let line = waiting.silent.swap_remove(at);
        let decision = as_decision(&verdict);
        if verdict.admit {
            waiting.let_in.lines.push(line);
            waiting.let_in.verdicts.push(verdict);
            if !waiting.silent.is_empty() {
                return None;
            }
            let Waiting { key, let_in, .. } = self.waiting.remove(&number)?;
            self.keep(key, let_in);
            return Some((key, decision));
        }
        Some((self.give_up(number)?, decision))
    }

    fn keep(&mut self, key: OpeningKey, let_in: LetIn) {
        if self.let_in.len() >= OPENINGS_MAX {
            self.let_in.clear();
        }
        self.let_in.insert(key, let_in);
    }

    /// The request is gone: nobody joins by it.
    pub(crate) fn forget(&mut self, key: OpeningKey) {
        self.let_in.remove(&key);
    }

    /// The request opens its session now.
    pub(crate) fn answer(&mut self, key: OpeningKey, sid: &str, headers: &mut AnswerHeaders) {
        let Some(LetIn { lines, verdicts }) = self.let_in.remove(&key) else {
            return;
        };
        for verdict in &verdicts {
            add_lines(verdict, headers);
        }
        if let (Some(sid), Some(first)) = (Id20::decode(sid.as_bytes()), verdicts.first()) {
            if self.sessions.len() >= NEWCOMERS_MAX {
                self.sessions.clear();
            }
            let session = Session {
                number: first.opening,
                untold: lines,
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

fn add_lines(verdict: &proto::Verdict, headers: &mut AnswerHeaders) {
    for line in &verdict.headers {
        // The backend has checked them.
        let _ = headers.add(&line.name, &line.value);
    }
}

/// What a verdict means for its request.
fn as_decision(verdict: &proto::Verdict) -> Opening {
    match verdict {
        _ if verdict.admit => Opening::Accept,
        proto::Verdict { status: 0, .. } => Opening::Refuse(verdict.message.clone()),
        _ => own_answer(verdict).unwrap_or_else(|| Opening::Refuse(verdict.message.clone())),
    }
}

fn own_answer(verdict: &proto::Verdict) -> Option<Opening> {
    let mut headers = AnswerHeaders::default();
    add_lines(verdict, &mut headers);
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
