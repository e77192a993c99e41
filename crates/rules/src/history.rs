//! Clients that read what a room said: the event `history` with an ack. The store is outside; only the client that asks waits.

use crate::book::Namespace;
use crate::bounds::READERS_MAX;
use crate::rooms;
use hub::{AckTo, Context, Event, Member, SocketKey};
use std::collections::HashMap;
use std::time::Duration;
use wire::json;

/// Questions to the store begin with it; those about large events begin otherwise.
const MARK: u8 = b'h';
/// Tokens of these questions have it, those about large events do not.
const TOKEN_MARK: u64 = 1 << 62;
/// The store has so long.
const TIMEOUT: Duration = Duration::from_secs(10);

const BUSY: &str = "The history cannot be read now";
const BUSY_CODE: &str = "HISTORY_UNAVAILABLE";

/// A client's request: JSON as the client wrote it, checked for its room alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    /// The namespace of the room.
    pub namespace: &'a str,
    /// The room, of which the client is a member.
    pub room: &'a str,
    /// Only what was said from then on, in ms since 1970; 0: everything.
    pub since_ms: u64,
    /// The object that the client sent.
    pub wanted: &'a str,
}

impl<'a> Request<'a> {
    fn as_question(&self) -> Box<[u8]> {
        let mut text = vec![MARK];
        text.extend_from_slice(&self.since_ms.to_be_bytes());
        for part in [self.namespace, self.room] {
            text.extend_from_slice(&(part.len() as u32).to_be_bytes());
            text.extend_from_slice(part.as_bytes());
        }
        text.extend_from_slice(self.wanted.as_bytes());
        text.into()
    }

    /// Reads a question; `None`: it is about something else.
    pub fn read(question: &'a [u8]) -> Option<Self> {
        let (MARK, rest) = question.split_first().map(|(mark, rest)| (*mark, rest))? else {
            return None;
        };
        let (since_ms, rest) = rest.split_first_chunk::<8>()?;
        let (namespace, rest) = part(rest)?;
        let (room, wanted) = part(rest)?;
        let wanted = std::str::from_utf8(wanted).ok()?;
        Some(Self {
            namespace,
            room,
            since_ms: u64::from_be_bytes(*since_ms),
            wanted,
        })
    }
}

fn part(bytes: &[u8]) -> Option<(&str, &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    let (text, rest) = rest.split_at_checked(u32::from_be_bytes(*length) as usize)?;
    Some((std::str::from_utf8(text).ok()?, rest))
}

/// The clients of this shard that wait for a page.
#[derive(Default)]
pub(crate) struct Readers {
    waiting: HashMap<u64, (SocketKey, AckTo)>,
    made: u64,
}

impl Readers {
    /// `history` `{room, before?, after?, limit?}` by a member of the room.
    pub(crate) fn ask(&mut self, socket: &mut Member<'_>, event: Event<'_>, rules: &Namespace) {
        let args = event.args;
        let Some((room, ack)) = rooms::asked(socket, event) else {
            return;
        };
        if !rules.replays.spend(socket) || self.waiting.len() >= READERS_MAX {
            return socket.refuse(Some(ack), BUSY, BUSY_CODE);
        }
        let Some(namespace) = socket.namespace() else {
            return;
        };
        let room = &*room;
        let question = Request {
            namespace,
            room,
            since_ms: socket.sees_since_ms(room).unwrap_or_default(),
            wanted: json::first(args).unwrap_or("null"),
        };
        let question = question.as_question();
        self.made += 1;
        let token = TOKEN_MARK | self.made;
        if !socket.ask_outside(question, TIMEOUT, token) {
            return socket.refuse(Some(ack), BUSY, BUSY_CODE);
        }
        self.waiting.insert(token, (socket.key(), ack));
    }

    /// The store's answer, which is the ack's. `false`: somebody else asked.
    pub(crate) fn answered(
        &mut self,
        cx: &mut Context<'_>,
        token: u64,
        answer: Option<&[u8]>,
    ) -> bool {
        let Some((socket, ack)) = self.waiting.remove(&token) else {
            return token & TOKEN_MARK != 0;
        };
        match answer.and_then(|answer| std::str::from_utf8(answer).ok()) {
            Some(answer) => cx.ack(ack, answer, &[]),
            None => cx.socket(socket).refuse(Some(ack), BUSY, BUSY_CODE),
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_is_read_as_it_was_asked() {
        let request = Request {
            namespace: "/chat",
            room: "ä\0",
            since_ms: 7,
            wanted: "{\"limit\":3}",
        };
        let question = request.as_question();
        assert_eq!(Request::read(&question), Some(request));
        for end in 0..question.len() - "{\"limit\":3}".len() {
            assert_eq!(Request::read(&question[..end]), None, "{end}");
        }
        assert_eq!(Request::read(b"jsomething else"), None);
    }
}
