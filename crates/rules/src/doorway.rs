//! Requests for sessions that wait for a worker's verdict, and what is kept of those that were let in until their clients join.

use backend::proto;
use bytes::Bytes;
use hub::{AnswerHeaders, Opening, OpeningKey, OwnAnswer, Request};
use std::collections::{BTreeMap, HashMap};
use wire::base64url::Id20;

/// Requests that nobody decided about are answered by the hub; what is kept of them here goes with time.
const WAITING_MAX: usize = 16_384;
/// Of clients that never join. One whose request is forgotten is looked at again when it joins.
const SESSIONS_MAX: usize = 16_384;

#[derive(Default)]
pub(crate) struct Doorway {
    /// Requests so far.
    count: u64,
    /// By number, the oldest first.
    waiting: BTreeMap<u64, OpeningKey>,
    /// Verdicts whose requests are read again in this turn. What is left of connections that ended goes when there is too much of it.
    let_in: HashMap<OpeningKey, proto::Verdict>,
    /// Numbers by the id of the session.
    sessions: HashMap<Id20, u64>,
}

impl Doorway {
    /// For the next request.
    pub(crate) fn number(&mut self, shard: u16) -> u64 {
        self.count += 1;
        backend::opening_number(shard, self.count)
    }

    pub(crate) fn wait(&mut self, number: u64, key: OpeningKey) {
        if self.waiting.len() >= WAITING_MAX {
            self.waiting.pop_first();
        }
        self.waiting.insert(number, key);
    }

    pub(crate) fn take(&mut self, number: u64) -> Option<OpeningKey> {
        self.waiting.remove(&number)
    }

    pub(crate) fn let_in(&mut self, key: OpeningKey, verdict: proto::Verdict) {
        if self.let_in.len() >= WAITING_MAX {
            self.let_in.clear();
        }
        self.let_in.insert(key, verdict);
    }

    /// The request opens its session now.
    pub(crate) fn answer(&mut self, key: OpeningKey, sid: &str, headers: &mut AnswerHeaders) {
        let Some(verdict) = self.let_in.remove(&key) else {
            return;
        };
        add_lines(&verdict, headers);
        if let Some(sid) = Id20::decode(sid.as_bytes()) {
            if self.sessions.len() >= SESSIONS_MAX {
                self.sessions.clear();
            }
            self.sessions.insert(sid, verdict.opening);
        }
    }

    /// The number of the request that opened a session; 0 = nobody was asked. Told once.
    pub(crate) fn opening_of(&mut self, sid: Id20) -> u64 {
        match self.sessions.is_empty() {
            true => 0,
            false => self.sessions.remove(&sid).unwrap_or(0),
        }
    }
}

fn add_lines(verdict: &proto::Verdict, headers: &mut AnswerHeaders) {
    for line in &verdict.headers {
        // The backend has checked them.
        let _ = headers.add(&line.name, &line.value);
    }
}

/// What a verdict means for its request.
pub(crate) fn as_decision(verdict: &proto::Verdict) -> Opening {
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
