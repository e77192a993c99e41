//! Requests for sessions: of the workers of a backend that the configuration lets decide, one that wants to is asked about each.

use crate::entry::Entry;
use crate::message::{Down, Out, To};
use crate::proto;
use crate::proto::item::What;
use crate::state::Backend;
use crate::worker::Worker;
use std::collections::{BTreeMap, VecDeque};
use wire::http;

/// A client that was let in joins by then, or nobody keeps in mind which worker knows it.
const KEPT_MS: u64 = 60_000;
/// Clients that were let in and have not joined. Of one more, the oldest is forgotten: any worker may get its socket then.
const KEPT_MAX: usize = 65_536;
/// A request that so many workers had when they ended goes to no other: it may have ended them.
const DEATHS_MAX: u8 = 3;
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
/// Of what a verdict adds to an answer: names and values of its lines, and its content.
const ANSWER_BYTES_MAX: usize = 64 << 10;

/// Bits of a request's number that are its shard's count: JavaScript has 53 bits, and a shard 16.
const COUNT_BITS: u32 = 36;

/// The number of a shard's request.
pub fn opening_number(shard: u16, count: u64) -> u64 {
    u64::from(shard) << COUNT_BITS | count & ((1 << COUNT_BITS) - 1)
}

/// Requests so far, by what became of them. The rest of `asked` waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpeningCounts {
    pub asked: u64,
    pub admitted: u64,
    pub refused: u64,
    /// No verdict came in time.
    pub unanswered: u64,
    /// Too much waited already.
    pub busy: u64,
    /// Worker after worker ended over it.
    pub deadly: u64,
}

impl OpeningCounts {
    /// Requests that wait for a verdict.
    pub fn waiting(&self) -> u64 {
        let answered = self.admitted + self.refused;
        self.asked - answered - self.unanswered - self.busy - self.deadly
    }
}

#[derive(Debug, Default)]
pub(crate) struct Openings {
    known: BTreeMap<u64, Known>,
    /// When those without a verdict are given up, and those that were let in: the oldest first.
    verdicts_due: VecDeque<(u64, u64)>,
    joins_due: VecDeque<(u64, u64)>,
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

impl Openings {
    fn without_worker(&self) -> Vec<u64> {
        let known = self.known.iter();
        let free = known.filter(|(_, known)| known.worker.is_none());
        free.map(|(number, _)| *number).collect()
    }
}

fn decides(worker: &Worker) -> bool {
    worker.takes_sockets() && worker.openings == Some(true)
}

impl Backend {
    /// A request waits, and no worker that is there wants to decide.
    pub fn lacks_deciders(&self) -> bool {
        let mut waiting = self.openings.known.values();
        waiting.any(|known| known.worker.is_none()) && !self.workers.values().any(decides)
    }

    /// A worker wants to decide, and the configuration does not let this backend.
    pub fn wishes_in_vain(&self) -> bool {
        let wishes = |worker: &Worker| worker.openings == Some(true);
        !self.settings.openings && self.workers.values().any(wishes)
    }

    pub(crate) fn on_opening(&mut self, now_ms: u64, opening: proto::Opening) {
        let number = opening.opening;
        self.counts.openings.asked += 1;
        let bytes = Entry::new(None, What::Opening(opening.clone()), now_ms).bytes;
        // Once here, and once on its way to a worker. Strangers take no room that events of clients may need.
        if self.bytes() + 2 * bytes > self.settings.queue_bytes_max / 2 {
            self.counts.openings.busy += 1;
            return self.tell_shard(number, Down::Unavailable { opening: number });
        }
        self.take_bytes(bytes);
        let known = Known {
            worker: None,
            opening: Some(opening),
            bytes,
            deaths: 0,
        };
        self.openings.known.insert(number, known);
        let due_ms = now_ms + self.settings.opening_timeout_ms;
        self.openings.verdicts_due.push_back((due_ms, number));
        self.ask_about(now_ms, number);
    }

    /// It waits for a worker if there is none to ask.
    fn ask_about(&mut self, now_ms: u64, number: u64) {
        let chosen = self.choose_among(now_ms, decides);
        let Some(known) = self.openings.known.get_mut(&number) else {
            return;
        };
        let (Some(id), Some(opening)) = (chosen, &known.opening) else {
            return;
        };
        known.worker = Some(id);
        let what = What::Opening(opening.clone());
        if let Some(worker) = self.workers.get_mut(&id) {
            worker.asked += 1;
        }
        self.reply(now_ms, id, what);
    }

    fn tell_shard(&mut self, number: u64, down: Down) {
        let to = To::Shard((number >> COUNT_BITS) as u16);
        self.out.push(Out { to, down });
    }

    /// Returns the worker that has it.
    fn forget_opening(&mut self, number: u64) -> Option<u64> {
        let known = self.openings.known.remove(&number)?;
        if known.opening.is_some() {
            self.release_bytes(known.bytes);
        }
        let worker = known.worker?;
        if let Some(worker) = self.workers.get_mut(&worker) {
            worker.asked -= 1;
        }
        Some(worker)
    }

    /// A request whose client was told already that nobody decides is none.
    pub(crate) fn is_awaited(&self, entry: &Entry) -> bool {
        let Some(What::Opening(opening)) = entry.what() else {
            return true;
        };
        let known = self.openings.known.get(&opening.opening);
        known.is_some_and(|known| known.opening.is_some())
    }

    /// The worker that let the session of a newcomer open: it knows the request.
    pub(crate) fn opener(&mut self, number: u64) -> Option<u64> {
        self.forget_opening(number)
    }

    /// Shards have answered these requests by now.
    pub(crate) fn forget_old_openings(&mut self, now_ms: u64) {
        let is_due = |due: &mut (u64, u64)| due.0 <= now_ms;
        while let Some((_, number)) = self.openings.verdicts_due.pop_front_if(is_due) {
            let known = self.openings.known.get(&number);
            if known.is_some_and(|known| known.opening.is_some()) {
                self.forget_opening(number);
                self.counts.openings.unanswered += 1;
            }
        }
        while let Some((_, number)) = self.openings.joins_due.pop_front_if(is_due) {
            self.forget_opening(number);
        }
    }

    /// A worker says whether it wants to decide.
    pub(crate) fn note_wish(&mut self, now_ms: u64, id: u64, wants: bool) {
        let worker = self.workers.get_mut(&id);
        if worker.is_some_and(|worker| worker.openings.replace(wants) != Some(wants)) {
            self.review_openings(now_ms);
        }
    }

    /// Workers came, went or want something else. While none is there to say, what the last ones wanted holds: nobody slips in.
    pub(crate) fn review_openings(&mut self, now_ms: u64) {
        for number in self.openings.without_worker() {
            self.ask_about(now_ms, number);
        }
    }

    /// A worker has ended: another one decides about the requests that waited for it.
    pub(crate) fn ask_others(&mut self, now_ms: u64, lost: u64, in_order: bool) {
        let mut deadly = Vec::new();
        for (number, known) in &mut self.openings.known {
            if known.worker != Some(lost) || known.opening.is_none() {
                continue;
            }
            known.worker = None;
            known.deaths += u8::from(!in_order);
            if known.deaths >= DEATHS_MAX {
                deadly.push(*number);
            }
        }
        for number in deadly {
            self.forget_opening(number);
            self.counts.openings.deadly += 1;
            self.tell_shard(number, Down::Unavailable { opening: number });
        }
        self.review_openings(now_ms);
    }

    pub(crate) fn verdict(
        &mut self,
        now_ms: u64,
        worker: u64,
        verdict: proto::Verdict,
    ) -> Result<(), &'static str> {
        let number = verdict.opening;
        let known = self.openings.known.get_mut(&number);
        let waits = |known: &&mut Known| known.worker == Some(worker) && known.opening.is_some();
        let Some(known) = known.filter(waits) else {
            self.counts.late += 1;
            return Ok(());
        };
        check(&verdict)?;
        if verdict.admit {
            known.opening = None;
            let bytes = known.bytes;
            self.release_bytes(bytes);
            self.counts.openings.admitted += 1;
            self.keep_for_join(now_ms, number);
        } else {
            self.forget_opening(number);
            self.counts.openings.refused += 1;
        }
        self.tell_shard(number, Down::Verdict(verdict));
        Ok(())
    }

    fn keep_for_join(&mut self, now_ms: u64, number: u64) {
        let due = &mut self.openings.joins_due;
        due.push_back((now_ms + KEPT_MS, number));
        if due.len() > KEPT_MAX
            && let Some((_, oldest)) = due.pop_front()
        {
            self.forget_opening(oldest);
        }
    }
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
    if lines.sum::<usize>() + verdict.body.len() > ANSWER_BYTES_MAX {
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
