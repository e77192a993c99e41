//! A server of Node with the classic Redis adapter, and one client of its own that is in all rooms.

use super::bridge::{NAMESPACE, PREFIX};
use crate::names::digits;
use compat::classic::{self, Publish};
use compat::names::Names;
use compat::verb::{Answer, Args, Event, Letter, Selection, Verb, is_own};
use std::collections::BTreeMap;

/// Its client in the books, and itself as a publisher.
pub(crate) const CLIENT: usize = 2_000_000;
const UID: &str = "nodeJS";
/// Of the names of our nodes.
const UID_BYTES: usize = 19;

/// A question that it put.
#[derive(Debug, Default)]
pub(crate) struct Question {
    /// Nodes that answered how many sockets they asked; those sockets, and how many answered.
    pub(crate) nodes: u64,
    pub(crate) sockets: u64,
    pub(crate) acks: u64,
}

pub(crate) struct Server {
    names: Names,
    questions: u64,
    pub(crate) open: BTreeMap<String, Question>,
}

impl Server {
    pub(crate) fn new() -> Self {
        Self {
            names: Names::new(PREFIX),
            questions: 0,
            open: BTreeMap::new(),
        }
    }

    fn write(&self, verb: Verb) -> Publish {
        let letter = Letter {
            from: UID.to_owned(),
            namespace: NAMESPACE.to_owned(),
            verb,
        };
        classic::encode(&self.names, &letter).expect("words of this dialect")
    }

    /// It says a number to rooms.
    pub(crate) fn say(&self, rooms: &[usize], number: u64) -> Publish {
        let name = match rooms {
            [room] => format!("say-{room}"),
            rooms => format!("tell-{}-{}", rooms[0], rooms[1]),
        };
        let rooms = rooms.iter().map(|room| format!("room-{room}")).collect();
        self.write(Verb::Broadcast {
            to: selection(rooms),
            event: event(&name, format!("{CLIENT},{number}")),
        })
    }

    /// It asks a room.
    pub(crate) fn ask(&mut self, room: usize) -> Publish {
        self.questions += 1;
        let request = format!("q{}", self.questions);
        self.open.insert(request.clone(), Question::default());
        self.write(Verb::Ask {
            request,
            to: selection(vec![format!("room-{room}")]),
            event: event("question", "0,0".to_owned()),
            timeout_ms: Some(60_000),
        })
    }

    /// A message comes: the number that its client hears, and what it answers.
    pub(crate) fn hear(&mut self, channel: &str, body: &[u8]) -> (Option<u64>, Vec<Publish>) {
        let of = self.names.read(channel).expect("a channel of this kind");
        let letter = classic::decode(of, &from_a_stranger(body)).expect("words of this dialect");
        if letter.from == UID {
            return (None, Vec::new());
        }
        match letter.verb {
            Verb::Broadcast { event, .. } => (digits(&event.args.json).get(1).copied(), Vec::new()),
            Verb::Ask { request, .. } => {
                let answers = [Answer::Count(1), Answer::Ack(Args::default())];
                let answers = answers.map(|answer| {
                    self.write(Verb::Answer {
                        request: request.clone(),
                        to: String::new(),
                        answer,
                    })
                });
                (None, answers.into())
            }
            Verb::Answer {
                request, answer, ..
            } => {
                if let Some(question) = self.open.get_mut(&request) {
                    match answer {
                        Answer::Count(sockets) => {
                            question.nodes += 1;
                            question.sockets += sockets;
                        }
                        Answer::Ack(_) => question.acks += 1,
                        other => panic!("the server got {other:?}"),
                    }
                }
                (None, Vec::new())
            }
            other => panic!("nobody says {other:?} to the server"),
        }
    }
}

/// Our decoder leaves out what our nodes say, and a server of Node does not: their names are made others.
fn from_a_stranger(body: &[u8]) -> Vec<u8> {
    let mut body = body.to_vec();
    let is_ours = |uid: &[u8]| std::str::from_utf8(uid).is_ok_and(is_own);
    if let Some(at) = body.windows(UID_BYTES).position(is_ours) {
        body[at] = b'S';
    }
    body
}

fn selection(rooms: Vec<String>) -> Selection {
    Selection {
        rooms,
        except: Vec::new(),
    }
}

fn event(name: &str, json: String) -> Event {
    Event {
        name: name.to_owned(),
        args: Args {
            json,
            attachments: Vec::new(),
        },
        volatile: false,
    }
}
