//! Requests for sessions: of the workers of a backend that the configuration lets decide, one that wants to is asked about each.

use crate::bounds::{JOIN_MS, JOINS_MAX, REQUEST_DEATHS_MAX, VERDICT_BYTES_MAX};
use crate::counts::OpeningCounts;
use crate::entry::Entry;
use crate::message::{Down, To};
use crate::proto;
use crate::proto::item::What;
use crate::queue::Queue;
use crate::worker::Worker;
use std::collections::{BTreeMap, VecDeque};
use wire::http;

/// Header lines with which an answer is framed, and those of the handshake (`sec-websocket-…`): they are the gateway's own.
const FRAMING: [&str; 6] = [
    "connection",
    "content-length",
    "date",
    "keep-alive",
    "transfer-encoding",
    "upgrade",
];
const HANDSHAKE: &str = "sec-websocket-";

/// Bits of a request's number that are its shard's count: JavaScript has 53 bits, and a shard 16.
const COUNT_BITS: u32 = 36;

/// The number of a shard's request.
pub fn opening_number(shard: u16, count: u64) -> u64 {
    u64::from(shard) << COUNT_BITS | count & ((1 << COUNT_BITS) - 1)
}

#[derive(Debug, Default)]
pub(crate) struct Openings {
    known: BTreeMap<u64, Known>,
    /// When those without a verdict are given up, and those that were let in: the oldest first.
    verdicts_due: VecDeque<(u64, u64)>,
    joins_due: VecDeque<(u64, u64)>,
    counts: OpeningCounts,
}

#[derive(Debug)]
struct Known {
    /// The worker that was asked, or that let it in.
    worker: Option<u64>,
    /// Until the verdict.
    opening: Option<proto::Opening>,
    /// Memory that this takes.
    bytes: usize,
    /// Workers that ended while it waited for them.
    deaths: u8,
}

impl Known {
    fn waits_for(&self, worker: u64) -> bool {
        self.worker == Some(worker) && self.opening.is_some()
    }
}

impl Openings {
    pub(crate) fn counts(&self) -> OpeningCounts {
        self.counts
    }

    /// A request waits for a worker.
    pub(crate) fn lack_worker(&self) -> bool {
        self.known.values().any(|known| known.worker.is_none())
    }

    pub(crate) fn on_opening(&mut self, queue: &mut Queue, opening: proto::Opening) {
        let number = opening.opening;
        self.counts.asked += 1;
        let bytes = Entry::new(None, What::Opening(opening.clone()), queue.now_ms).bytes;
        // Once here, and once on its way to a worker. Strangers take no room that events of clients may need.
        if !queue.ledger.has_spare_room(2 * bytes) {
            self.counts.busy += 1;
            return tell_shard(queue, number, Down::Unavailable { opening: number });
        }
        queue.ledger.take(bytes);
        let known = Known {
            worker: None,
            opening: Some(opening),
            bytes,
            deaths: 0,
        };
        self.known.insert(number, known);
        let due_ms = queue.now_ms + queue.settings.opening_timeout_ms;
        self.verdicts_due.push_back((due_ms, number));
        self.ask_about(queue, number);
    }

    /// It waits for a worker if there is none to ask.
    fn ask_about(&mut self, queue: &mut Queue, number: u64) {
        let deciders = Worker::decides_openings;
        let chosen = queue.workers.choose_among(queue.now_ms, deciders);
        let Some(known) = self.known.get_mut(&number) else {
            return;
        };
        let (Some(id), Some(opening)) = (chosen, &known.opening) else {
            return;
        };
        known.worker = Some(id);
        if let Some(worker) = queue.workers.get_mut(id) {
            worker.asked += 1;
        }
        queue.reply(id, What::Opening(opening.clone()));
    }

    /// Returns the worker that has it: it let a newcomer's session open, and knows the request.
    pub(crate) fn forget(&mut self, queue: &mut Queue, number: u64) -> Option<u64> {
        let known = self.known.remove(&number)?;
        if known.opening.is_some() {
            queue.ledger.release(known.bytes);
        }
        let id = known.worker?;
        if let Some(worker) = queue.workers.get_mut(id) {
            worker.asked -= 1;
        }
        Some(id)
    }

    /// A request whose client was told already that nobody decides is none.
    pub(crate) fn await_verdict(&self, entry: &Entry) -> bool {
        let Some(What::Opening(opening)) = entry.what() else {
            return true;
        };
        let known = self.known.get(&opening.opening);
        known.is_some_and(|known| known.opening.is_some())
    }

    /// Shards have answered these requests by now.
    pub(crate) fn forget_old(&mut self, queue: &mut Queue) {
        let now_ms = queue.now_ms;
        let is_due = |due: &mut (u64, u64)| due.0 <= now_ms;
        while let Some((_, number)) = self.verdicts_due.pop_front_if(is_due) {
            let known = self.known.get(&number);
            if known.is_some_and(|known| known.opening.is_some()) {
                self.forget(queue, number);
                self.counts.unanswered += 1;
            }
        }
        while let Some((_, number)) = self.joins_due.pop_front_if(is_due) {
            self.forget(queue, number);
        }
    }

    /// A worker says whether it wants to decide.
    pub(crate) fn note_wish(&mut self, queue: &mut Queue, id: u64, wants: bool) {
        let worker = queue.workers.get_mut(id);
        if worker.is_some_and(|worker| worker.profile.openings.replace(wants) != Some(wants)) {
            self.review(queue);
        }
    }

    /// Workers came, went or want something else. While none is there to say, what the last ones wanted holds: nobody slips in.
    pub(crate) fn review(&mut self, queue: &mut Queue) {
        let known = self.known.iter();
        let free = known.filter(|(_, known)| known.worker.is_none());
        let free: Vec<u64> = free.map(|(number, _)| *number).collect();
        for number in free {
            self.ask_about(queue, number);
        }
    }

    /// A worker has ended: another one decides about the requests that waited for it.
    pub(crate) fn ask_others(&mut self, queue: &mut Queue, lost: u64, in_order: bool) {
        let mut deadly = Vec::new();
        for (number, known) in &mut self.known {
            if known.worker != Some(lost) || known.opening.is_none() {
                continue;
            }
            known.worker = None;
            known.deaths += u8::from(!in_order);
            if known.deaths >= REQUEST_DEATHS_MAX {
                deadly.push(*number);
            }
        }
        for number in deadly {
            self.forget(queue, number);
            self.counts.deadly += 1;
            tell_shard(queue, number, Down::Unavailable { opening: number });
        }
        self.review(queue);
    }

    /// A worker has decided.
    pub(crate) fn decide(
        &mut self,
        queue: &mut Queue,
        worker: u64,
        verdict: proto::Verdict,
    ) -> Result<(), &'static str> {
        let number = verdict.opening;
        let known = self.known.get_mut(&number);
        let Some(known) = known.filter(|known| known.waits_for(worker)) else {
            queue.counts().late += 1;
            return Ok(());
        };
        check(&verdict)?;
        if verdict.admit {
            known.opening = None;
            queue.ledger.release(known.bytes);
            self.counts.admitted += 1;
            self.keep_for_join(queue, number);
        } else {
            self.forget(queue, number);
            self.counts.refused += 1;
        }
        tell_shard(queue, number, Down::Verdict(verdict));
        Ok(())
    }

    /// The verdict of a worker cannot be used: nobody decides.
    pub(crate) fn fail(&mut self, queue: &mut Queue, worker: u64, number: u64) {
        let known = self.known.get(&number);
        if known.is_some_and(|known| known.waits_for(worker)) {
            self.forget(queue, number);
            self.counts.unanswered += 1;
            tell_shard(queue, number, Down::Unavailable { opening: number });
        }
    }

    fn keep_for_join(&mut self, queue: &mut Queue, number: u64) {
        self.joins_due.push_back((queue.now_ms + JOIN_MS, number));
        if self.joins_due.len() > JOINS_MAX
            && let Some((_, oldest)) = self.joins_due.pop_front()
        {
            self.forget(queue, oldest);
        }
    }
}

fn tell_shard(queue: &mut Queue, number: u64, down: Down) {
    let shard = To::Shard((number >> COUNT_BITS) as u16);
    queue.outlet.send(shard, down);
}

/// Whether a client can be answered with this.
fn check(verdict: &proto::Verdict) -> Result<(), &'static str> {
    let own = verdict.status != 0;
    let typed = |header: &proto::Header| header.name.eq_ignore_ascii_case("content-type");
    if !verdict.headers.iter().all(is_line) || !own && verdict.headers.iter().any(typed) {
        return Err("verdict.headers has what is no header line, or a line that frames the answer");
    }
    let lines = verdict.headers.iter();
    let lines = lines.map(|header| header.name.len() + header.value.len());
    if lines.sum::<usize>() + verdict.body.len() > VERDICT_BYTES_MAX {
        return Err("verdict.headers and verdict.body have more than 64 KiB together");
    }
    let has_content = !matches!(verdict.status, 204 | 205 | 304);
    match verdict.body.len() {
        _ if own && verdict.admit => Err("verdict.status is for requests that are not let in"),
        _ if own && !(200..600).contains(&verdict.status) => {
            Err("verdict.status is none of 200 to 599")
        }
        0 => Ok(()),
        _ if !own => Err("verdict.body needs verdict.status"),
        _ if !has_content => Err("verdict.body is for no answer with status 204, 205 or 304"),
        _ => Ok(()),
    }
}

/// RFC 9110 §5: a token, and a value without control characters.
fn is_line(header: &proto::Header) -> bool {
    let name = header.name.to_ascii_lowercase();
    let framing = FRAMING.contains(&name.as_str()) || name.starts_with(HANDSHAKE);
    let is_text = |byte: &u8| *byte == b'\t' || *byte >= b' ' && *byte != 0x7f;
    !framing && http::is_token(name.as_bytes()) && header.value.iter().all(is_text)
}
