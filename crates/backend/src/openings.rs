//! Requests for sessions, about which workers decide that want to.

use crate::message::{Down, Out, To};
use crate::proto;
use crate::proto::item::What;
use crate::state::Backend;
use crate::worker::Worker;
use std::collections::{HashMap, VecDeque};
use wire::http;

/// Nobody waits longer: the shard has answered by then, and a client that was let in has joined.
const KEPT_MS: u64 = 60_000;
/// Requests that wait for a worker to come.
const WAITING_MAX: usize = 1_024;
/// Header lines with which an answer is framed: they are the gateway's own.
const FRAMING: [&str; 5] = [
    "connection",
    "content-length",
    "date",
    "transfer-encoding",
    "upgrade",
];

#[derive(Debug, Default)]
pub(crate) struct Openings {
    wanted: bool,
    /// Which worker was asked, by the number of the request.
    asked: HashMap<u64, u64>,
    due: VecDeque<(u64, u64)>,
    waiting: VecDeque<proto::Opening>,
}

impl Openings {
    pub(crate) fn new(wanted: bool) -> Self {
        Self {
            wanted,
            ..Self::default()
        }
    }

    pub(crate) fn forget_old(&mut self, now_ms: u64) {
        while let Some((_, number)) = self.due.pop_front_if(|due| due.0 <= now_ms) {
            self.asked.remove(&number);
        }
    }

    /// The worker that let the session of a newcomer open: it knows the request.
    pub(crate) fn opener(&mut self, number: u64) -> Option<u64> {
        self.asked.remove(&number)
    }
}

fn decides(worker: &Worker) -> bool {
    worker.takes_sockets() && worker.openings == Some(true)
}

impl Backend {
    /// Shards are to ask before they open a session.
    pub fn wants_openings(&self) -> bool {
        self.openings.wanted
    }

    pub(crate) fn on_opening(&mut self, now_ms: u64, opening: proto::Opening) {
        let deciders = self.workers.iter().filter(|(_, worker)| decides(worker));
        let freest = deciders.reduce(|best, other| match other.1.is_freer_than(best.1) {
            true => other,
            false => best,
        });
        let Some(worker) = freest.map(|(id, _)| *id) else {
            let waiting = &mut self.openings.waiting;
            if waiting.len() >= WAITING_MAX {
                waiting.pop_front();
            }
            return waiting.push_back(opening);
        };
        if self.is_full() {
            // The shard refuses it in time.
            self.counts.refused_busy += 1;
            return;
        }
        self.openings.asked.insert(opening.opening, worker);
        let due_ms = now_ms + KEPT_MS;
        self.openings.due.push_back((due_ms, opening.opening));
        self.reply(now_ms, worker, What::Opening(opening));
    }

    /// A worker says whether it wants to decide. While none is attached, what the last ones wanted holds: nobody slips in.
    pub(crate) fn note_wish(&mut self, now_ms: u64, id: u64, wants: bool) {
        let Some(worker) = self.workers.get_mut(&id) else {
            return;
        };
        if worker.openings.replace(wants) == Some(wants) {
            return;
        }
        let attached = || self.workers.values().filter(|worker| worker.link.is_some());
        let says = |wish| attached().any(|worker| worker.openings == Some(wish));
        let held = self.openings.wanted && !says(false);
        self.openings.wanted = self.settings.openings || says(true) || held;
        if wants {
            for opening in std::mem::take(&mut self.openings.waiting) {
                self.on_opening(now_ms, opening);
            }
        }
    }

    pub(crate) fn verdict(
        &mut self,
        worker: u64,
        verdict: proto::Verdict,
    ) -> Result<(), &'static str> {
        let number = verdict.opening;
        if self.openings.asked.get(&number) != Some(&worker) {
            self.counts.late += 1;
            return Ok(());
        }
        if !verdict.headers.iter().all(is_line) {
            return Err(
                "verdict.headers has what is no header line, or a line that frames the answer",
            );
        }
        if !verdict.admit {
            self.openings.asked.remove(&number);
        }
        let to = To::Shard((number >> 48) as u16);
        let down = Down::Verdict(verdict);
        self.out.push(Out { to, down });
        Ok(())
    }
}

/// RFC 9110 §5: a token, and a value without control characters.
fn is_line(header: &proto::Header) -> bool {
    let name = header.name.as_str();
    let framing = FRAMING.iter().any(|own| name.eq_ignore_ascii_case(own));
    let is_text = |byte: &u8| *byte == b'\t' || *byte >= b' ' && *byte != 0x7f;
    !framing && http::is_token(name.as_bytes()) && header.value.iter().all(is_text)
}
