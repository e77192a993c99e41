//! Questions of other servers to our hubs.

use crate::bounds::{ACKS_MS_MAX, LIST_MS, LISTS_MAX, OPEN_MAX, WORD_MS};
use crate::dialect::Dialect;
use crate::question::Part;
use crate::verb::{Answer, Args, Fetched, Letter, Verb};
use crate::writing::{name_bytes, socket_bytes};
use std::collections::{BTreeSet, HashMap};

/// What the asker wants to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Want {
    Acks,
    Sockets,
    Ids,
    Rooms,
    /// The application's word.
    Word,
}

/// An answer that we owe.
#[derive(Debug)]
struct Owed {
    to: Asker,
    want: Want,
    /// Shards that have not answered; `None` = none has said how many take part.
    parts: Option<u64>,
    sockets: u64,
    acks: u64,
    list: List,
    deadline_ms: u64,
}

/// What a list is made of, as far as the asker wants it.
#[derive(Debug, Default)]
struct List {
    sockets: Vec<Fetched>,
    names: BTreeSet<String>,
    bytes: usize,
    /// Some were left out: it would be too large, or a shard could not say all.
    is_cut: bool,
}

impl List {
    fn take(&mut self, want: Want, found: Vec<Fetched>, room: usize) {
        for socket in found {
            match want {
                Want::Rooms => socket.rooms.into_iter().for_each(|name| self.name(name)),
                Want::Ids => self.name(socket.id),
                _ => {
                    self.bytes += socket_bytes(&socket);
                    self.sockets.push(socket);
                }
            }
            if self.bytes > room {
                *self = List {
                    is_cut: true,
                    ..List::default()
                };
                return;
            }
        }
    }

    fn name(&mut self, name: String) {
        let bytes = name_bytes(&name);
        self.bytes += if self.names.insert(name) { bytes } else { 0 };
    }
}

/// Who asked, and under which name.
#[derive(Clone, Debug)]
pub(crate) struct Asker {
    pub(crate) dialect: Option<Dialect>,
    pub(crate) namespace: String,
    pub(crate) uid: String,
    pub(crate) request: String,
}

#[derive(Debug)]
pub(crate) struct OtherQuestions {
    open: HashMap<u64, Owed>,
    number: u64,
    /// A larger list is not sent.
    list_bytes_max: usize,
    /// Bytes of all lists.
    bytes: usize,
    /// Lists that were not sent.
    pub(crate) cut: u64,
    /// Questions that were not carried out, because too many are open.
    pub(crate) refused: u64,
}

impl OtherQuestions {
    pub(crate) fn new(list_bytes_max: usize) -> Self {
        Self {
            open: HashMap::new(),
            number: 0,
            list_bytes_max,
            bytes: 0,
            cut: 0,
            refused: 0,
        }
    }

    /// Opens a question for our hubs: its number, and what they are asked. `None`: too many are open.
    pub(crate) fn open(&mut self, to: Asker, letter: Letter, now_ms: u64) -> Option<(u64, Verb)> {
        let (want, wait_ms, verb) = wanted(letter.verb);
        if self.open.len() == OPEN_MAX {
            self.refused += 1;
            return None;
        }
        self.number += 1;
        let owed = Owed {
            to,
            want,
            parts: None,
            sockets: 0,
            acks: 0,
            list: List::default(),
            deadline_ms: now_ms.saturating_add(wait_ms),
        };
        self.open.insert(self.number, owed);
        Some((self.number, verb))
    }

    /// A shard of ours says something; the answers to write.
    pub(crate) fn heard(&mut self, number: u64, part: Part) -> Option<(Asker, Answer)> {
        let owed = self.open.get_mut(&number)?;
        let most = LISTS_MAX * self.list_bytes_max;
        let answered = match part {
            Part::Asked { sockets, parts } => {
                owed.sockets += sockets;
                let last = owed.one_less(parts);
                let last = last && owed.want != Want::Word;
                last.then(|| answer(owed.want, owed.sockets, List::default()))
            }
            Part::Page(sockets) => {
                self.bytes -= owed.list.bytes;
                owed.keep(
                    sockets,
                    self.list_bytes_max.min(most.saturating_sub(self.bytes)),
                );
                self.bytes += owed.list.bytes;
                None
            }
            Part::Found {
                sockets,
                parts,
                complete,
            } => {
                self.bytes -= owed.list.bytes;
                owed.list.is_cut |= !complete;
                owed.keep(
                    sockets,
                    self.list_bytes_max.min(most.saturating_sub(self.bytes)),
                );
                self.bytes += owed.list.bytes;
                let last = owed.one_less(parts);
                if last && owed.list.is_cut {
                    self.cut += 1;
                }
                let last = last && !owed.list.is_cut;
                last.then(|| {
                    let list = std::mem::take(&mut owed.list);
                    self.bytes -= list.bytes;
                    answer(owed.want, 0, list)
                })
            }
            Part::Ack(args) => {
                owed.acks += 1;
                Some(match owed.want {
                    Want::Word => Answer::Emitted(args),
                    _ => Answer::Ack(args),
                })
            }
            Part::Gone => {
                owed.acks += 1;
                None
            }
        };
        let to = owed.to.clone();
        if owed.is_over() {
            self.open.remove(&number);
        }
        Some((to, answered?))
    }

    /// Ends the waits that are over; the answers to write.
    pub(crate) fn expire(&mut self, now_ms: u64) -> Vec<(Asker, Answer)> {
        let over = self.open.iter();
        let over = over.filter(|(_, owed)| owed.deadline_ms <= now_ms);
        let over: Vec<u64> = over.map(|(number, _)| *number).collect();
        let over = over.iter().filter_map(|number| self.open.remove(number));
        // Of acks the asker knows itself that they are late; a count that never came is owed.
        let late = over.filter(|owed| owed.parts != Some(0));
        let mut answers = Vec::new();
        for owed in late {
            self.bytes -= owed.list.bytes;
            if owed.list.is_cut {
                self.cut += 1;
                continue;
            }
            let answer = answer(owed.want, owed.sockets, owed.list);
            answers.push((owed.to, answer));
        }
        answers
    }
}

impl Owed {
    /// Keeps what a shard found, as far as there is room.
    fn keep(&mut self, sockets: Vec<Fetched>, room: usize) {
        if !self.list.is_cut {
            self.list.take(self.want, sockets, room);
        }
    }

    /// Whether that was the last part.
    fn one_less(&mut self, parts: u64) -> bool {
        let left = self.parts.unwrap_or(parts).saturating_sub(1);
        self.parts = Some(left);
        left == 0
    }

    fn is_over(&self) -> bool {
        let all = !matches!(self.want, Want::Acks | Want::Word) || self.acks >= self.sockets;
        self.parts == Some(0) && all
    }
}

/// What is wanted, how long it may take in milliseconds, and what our hubs are asked for it.
fn wanted(verb: Verb) -> (Want, u64, Verb) {
    let fetch = |of| {
        let request = String::new();
        Verb::Fetch { request, of }
    };
    match verb {
        Verb::Ids { rooms, .. } => {
            let except = Vec::new();
            let of = crate::verb::Selection { rooms, except };
            (Want::Ids, LIST_MS, fetch(of))
        }
        Verb::Rooms { .. } => (Want::Rooms, LIST_MS, fetch(Default::default())),
        Verb::Fetch { of, .. } => (Want::Sockets, LIST_MS, fetch(of)),
        verb @ Verb::ServerEmit { .. } => (Want::Word, WORD_MS, verb),
        verb => {
            let wait = match &verb {
                Verb::Ask { timeout_ms, .. } => timeout_ms.unwrap_or(ACKS_MS_MAX),
                _ => 0,
            };
            (Want::Acks, wait.min(ACKS_MS_MAX), verb)
        }
    }
}

fn answer(want: Want, sockets: u64, list: List) -> Answer {
    match want {
        Want::Acks => Answer::Count(sockets),
        Want::Word => Answer::Emitted(Args {
            json: "null".to_owned(),
            ..Args::default()
        }),
        Want::Sockets => Answer::Sockets(list.sockets),
        Want::Ids => Answer::Ids(list.names.into_iter().collect()),
        Want::Rooms => Answer::Rooms(list.names.into_iter().collect()),
    }
}
