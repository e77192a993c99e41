//! What comes from Redis: whose it is, and what follows.

use super::{Dialect, PYTHON, Plane, Task, Way};
use crate::names::Channel;
use crate::others::Asker;
use crate::refused::Refused;
use crate::verb::{Letter, Verb};
use crate::{classic, clustered, python};

impl Plane {
    /// A message came.
    pub fn heard(&mut self, way: Way, channel: &str, body: &[u8], now_ms: u64) {
        if self.settings.python && way == Way::Channel && channel == python::CHANNEL {
            let read = python::decode(body);
            self.take_in(None, read, true, now_ms);
            return;
        }
        let read = self.names.read(channel);
        let Ok(of) = read else {
            // The marker: nobody publishes there.
            self.refuse(Refused::Elsewhere);
            return;
        };
        let is_main = matches!(of, Channel::Main { .. });
        if way == Way::Sharded {
            let read = clustered::decode(of.namespace(), body);
            self.take_in(Some(Dialect::Sharded), read, true, now_ms);
        } else if is_main && !classic::is_ours(body) {
            let read = clustered::decode(of.namespace(), body);
            // What comes by the pattern comes by the channel as well, while we take part; before that, nobody counts on us.
            self.take_in(Some(Dialect::Streams), read, way == Way::Channel, now_ms);
        } else if matches!(of, Channel::Responses { .. })
            && !classic::may_answer(body, &self.settings.uid)
        {
            self.refuse(Refused::Elsewhere);
        } else if !is_main || way == Way::Pattern {
            let read = classic::decode(of, body);
            self.take_in(Some(Dialect::Classic), read, true, now_ms);
        }
    }

    /// An entry of the stream came.
    pub fn heard_entry<'a>(
        &mut self,
        fields: impl Iterator<Item = (&'a [u8], &'a [u8])>,
        now_ms: u64,
    ) {
        let read = clustered::decode_entry(fields);
        self.take_in(Some(Dialect::Streams), read, true, now_ms);
    }

    fn refuse(&mut self, why: Refused) {
        self.tally.refused[why as usize] += 1;
    }

    /// `counts`: the letter is to be carried out, not only a sign of its writer.
    fn take_in(
        &mut self,
        dialect: Option<Dialect>,
        read: Result<Letter, Refused>,
        counts: bool,
        now_ms: u64,
    ) {
        let letter = match read {
            Ok(letter) => letter,
            Err(why) => return self.refuse(why),
        };
        let Some(space) = self.spaces.get_mut(&letter.namespace) else {
            return self.refuse(Refused::Elsewhere);
        };
        self.tally.taken[dialect.map_or(PYTHON, |dialect| dialect as usize)] += 1;
        if let Some(dialect) = dialect {
            let presence = &mut space.side(dialect).presence;
            match letter.verb {
                Verb::Bye => presence.left(&letter.from),
                _ => presence.heard(&letter.from, now_ms),
            }
            self.greet(&letter.namespace, now_ms);
        }
        if counts {
            self.carry_out(dialect, letter, now_ms);
        }
    }

    fn carry_out(&mut self, dialect: Option<Dialect>, letter: Letter, now_ms: u64) {
        let asker = |request: &String| Asker {
            dialect,
            namespace: letter.namespace.clone(),
            uid: letter.from.clone(),
            request: request.clone(),
        };
        match &letter.verb {
            Verb::Alive | Verb::Bye => {}
            Verb::Broadcast { .. }
            | Verb::ServerEmit { request: None, .. }
            | Verb::Join { .. }
            | Verb::Leave { .. }
            | Verb::Disconnect { .. } => self.tasks.push(Task::Carry {
                letter,
                question: None,
            }),
            Verb::ServerEmit {
                request: Some(request),
                ..
            }
            | Verb::Ask { request, .. }
            | Verb::Fetch { request, .. }
            | Verb::Ids { request, .. }
            | Verb::Rooms { request } => {
                let to = asker(request);
                self.carry_question(to, letter, now_ms);
            }
            Verb::Answer {
                request, answer, ..
            } => {
                self.ours.answered(request, answer.clone(), now_ms);
            }
        }
    }

    fn carry_question(&mut self, to: Asker, letter: Letter, now_ms: u64) {
        let (from, namespace) = (letter.from.clone(), letter.namespace.clone());
        if let Some((number, verb)) = self.others.open(to, letter, now_ms) {
            self.tasks.push(Task::Carry {
                letter: Letter {
                    from,
                    namespace,
                    verb,
                },
                question: Some(number),
            });
        }
    }
}
