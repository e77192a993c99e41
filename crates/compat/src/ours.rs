//! Questions of our hubs to other servers.

use crate::asked::{Asked, End, Step, Wait};
use crate::dialect::Dialect;
use crate::question::{Reply, Round, Told};
use crate::space::{Pending, Side};
use crate::verb::{Answer, Verb};

/// A question, in one dialect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ours {
    round: Round,
    /// Servers in all dialects.
    servers: u64,
    /// It asks for sockets, not for their acks.
    is_fetch: bool,
}

impl Ours {
    /// What the hub is told where there are no servers.
    fn nobody(self) -> Told {
        match self.is_fetch {
            true => Told::Sockets(Some(Vec::new())),
            false => Told::Count(Some(0)),
        }
    }

    /// What the hub is told of a server that says nothing.
    fn silence(self) -> Told {
        match self.is_fetch {
            true => Told::Sockets(None),
            false => Told::Count(None),
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct OurQuestions {
    asked: Asked<Ours>,
    number: u64,
    /// Questions that were not asked, because too many are open.
    pub(crate) refused: u64,
    /// What our hubs are to be told.
    replies: Vec<Reply>,
}

impl OurQuestions {
    /// Opens a question in each dialect that has servers; the letters to say.
    pub(crate) fn open(
        &mut self,
        pending: &Pending,
        uid: &str,
        sides: &[Side; 3],
        may: impl Fn(Dialect) -> bool,
        now_ms: u64,
    ) -> Vec<(Dialect, Verb)> {
        let all = Dialect::ALL.into_iter().zip(sides);
        let with_servers: Vec<_> = all.filter(|(_, side)| side.others > 0).collect();
        let servers = with_servers.iter().map(|(_, side)| side.others).sum();
        let ours = Ours {
            round: pending.round,
            servers,
            is_fetch: matches!(pending.verb, Verb::Fetch { .. }),
        };
        if servers == 0 {
            self.tell(ours, ours.nobody());
        }
        let mut letters = Vec::new();
        for (dialect, side) in with_servers {
            self.number += 1;
            let request = format!("{uid}-{}", self.number);
            let wait = Wait {
                expected: side.others,
                heard: side.presence.heard_lately(now_ms).min(side.others),
                deadline_ms: pending.deadline_ms,
            };
            let opened = may(dialect) && self.open_one(&request, ours, wait, now_ms);
            if opened {
                letters.push((dialect, named(&pending.verb, request)));
            } else {
                (0..side.others).for_each(|_| self.tell(ours, ours.silence()));
            }
        }
        letters
    }

    fn open_one(&mut self, request: &str, ours: Ours, wait: Wait, now_ms: u64) -> bool {
        let opened = self.asked.open(request.to_owned(), ours, wait, now_ms);
        self.refused += u64::from(opened.is_err());
        opened.is_ok()
    }

    fn tell(&mut self, ours: Ours, told: Told) {
        self.replies.push(Reply {
            round: ours.round,
            servers: ours.servers.max(1),
            told,
        });
    }

    /// A question could not be asked at all.
    pub(crate) fn refuse(&mut self, round: Round, verb: &Verb) {
        let ours = Ours {
            round,
            servers: 1,
            is_fetch: matches!(verb, Verb::Fetch { .. }),
        };
        self.tell(ours, ours.silence());
    }

    /// A server answers. `false`: nobody asked, or the wait is over.
    pub(crate) fn answered(&mut self, request: &str, answer: Answer, now_ms: u64) -> bool {
        let Some(ours) = self.asked.get(request).copied() else {
            return false;
        };
        let (told, step) = match answer {
            Answer::Count(count) => {
                let step = self.asked.server(request, count, now_ms);
                (Told::Count(Some(count)), step)
            }
            Answer::Ack(args) => (Told::Ack(args), self.asked.socket(request, now_ms)),
            Answer::Sockets(found) => {
                let step = self.asked.server(request, 0, now_ms);
                (Told::Sockets(Some(found)), step)
            }
            // A server that answers for itself: it was asked, and that is what it says.
            Answer::Emitted(args) => {
                self.tell(ours, Told::Count(Some(1)));
                (Told::Ack(args), self.asked.server(request, 0, now_ms))
            }
            Answer::Ids(_) | Answer::Rooms(_) => return false,
        };
        self.tell(ours, told);
        if let Step::Closed(ours, end) = step {
            self.end(ours, end);
        }
        true
    }

    fn end(&mut self, ours: Ours, end: End) {
        (0..end.silent).for_each(|_| self.tell(ours, ours.silence()));
    }

    pub(crate) fn expire(&mut self, now_ms: u64) {
        for (ours, end) in self.asked.expire(now_ms) {
            self.end(ours, end);
        }
    }

    pub(crate) fn replies(&mut self) -> Vec<Reply> {
        std::mem::take(&mut self.replies)
    }
}

fn named(verb: &Verb, name: String) -> Verb {
    let mut verb = verb.clone();
    match &mut verb {
        Verb::Ask { request, .. } | Verb::Fetch { request, .. } => *request = name,
        Verb::ServerEmit { request, .. } => *request = Some(name),
        _ => {}
    }
    verb
}
