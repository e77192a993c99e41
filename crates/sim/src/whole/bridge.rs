//! One node among servers of Node: their words are made deeds of its hubs, and the other way round.

use compat::classic::Publish;
use compat::clustered::Mode;
use compat::plane::{
    Counted, Membership, Part, Plane, Reply, Round, Settings, Task, Told, Topic, Way,
};
use compat::verb::{self, Args, Letter, Selection, Verb, own_uid};
use hub::foreign::{Deed, Event, Overheard, What, overhear};
use hub::{Answer, Found, Inbox, Read, Response};
use std::sync::Arc;

/// The namespace that is shared, and what channels begin with.
pub(crate) const NAMESPACE: &str = "/";
pub(crate) const PREFIX: &str = "socket.io";
/// How long servers are waited for if they do not say.
const ASK_MS: u64 = 5_000;

/// What is to be done.
#[derive(Default)]
pub(crate) struct Outcome {
    pub(crate) letters: Vec<(u16, Arc<hub::Letter>)>,
    pub(crate) published: Vec<Publish>,
    /// These are to be listened to.
    pub(crate) topics: Vec<Topic>,
    /// Subscribers are to be counted.
    pub(crate) counts: bool,
}

pub(crate) struct Bridge {
    plane: Plane,
    /// Who asks for sockets of a namespace that no server has: the shard, and the number of its question.
    alone: Vec<(u16, u64)>,
}

impl Bridge {
    pub(crate) fn new(number: u16, epoch: u64) -> Self {
        let settings = Settings {
            prefix: PREFIX.to_owned(),
            uid: own_uid(number, epoch),
            membership: [Membership::Always, Membership::Never, Membership::Never],
            mode: Mode::Dynamic,
            python: false,
            list_bytes_max: 1 << 20,
        };
        Self {
            plane: Plane::new(settings),
            alone: Vec::new(),
        }
    }

    /// It takes part from now on.
    pub(crate) fn begin(&mut self, now_ms: u64) {
        self.plane.enter(NAMESPACE, now_ms);
    }

    /// A hub has said this to other nodes.
    pub(crate) fn overheard(&mut self, shard: u16, letter: &[u8], now_ms: u64) {
        match overhear(letter).expect("a letter of a hub") {
            Overheard::Deed(deed) if deed.namespace == NAMESPACE => self.said(shard, deed, now_ms),
            Overheard::Deed(deed) => {
                if let What::Fetch { round, .. } = deed.what {
                    self.alone.push((shard, round));
                }
            }
            Overheard::Ours => {}
            Overheard::Response {
                round,
                parts,
                response,
            } => self.plane.answered(round, part(parts, response)),
        }
    }

    fn said(&mut self, shard: u16, deed: Deed, now_ms: u64) {
        if !deed.users.is_empty() {
            // Other servers know no users of ours.
            return;
        }
        let to = Selection {
            rooms: deed.rooms,
            except: deed.except,
        };
        match deed.what {
            What::Event(event) => {
                let event = event_of(event);
                self.plane
                    .say(NAMESPACE, Verb::Broadcast { to, event }, now_ms);
            }
            What::Ask {
                event,
                round,
                timeout_ms,
            } => {
                let ask = Verb::Ask {
                    request: String::new(),
                    to,
                    event: event_of(event),
                    timeout_ms: Some(timeout_ms),
                };
                let round = Round {
                    shard,
                    number: round,
                };
                self.plane.ask(NAMESPACE, round, ask, timeout_ms, now_ms);
            }
            other => panic!("nobody says {other:?}"),
        }
    }

    /// A message came.
    pub(crate) fn heard(&mut self, channel: &str, body: &[u8], now_ms: u64) {
        let main = channel.strip_prefix(PREFIX);
        let is_main = main.is_some_and(|rest| rest.starts_with('#'));
        let way = if is_main { Way::Pattern } else { Way::Channel };
        self.plane.heard(way, channel, body, now_ms);
    }

    pub(crate) fn listens(&mut self, topics: Vec<Topic>, now_ms: u64) {
        self.plane.hears(topics, true, now_ms);
    }

    /// So many servers are there, and so many nodes.
    pub(crate) fn counted(&mut self, servers: u64, nodes: u64, now_ms: u64) {
        let counted = Counted([[servers + nodes, nodes], [0, 0], [0, 0]]);
        self.plane.counted(NAMESPACE, Some(counted), now_ms);
    }

    pub(crate) fn tick(&mut self, now_ms: u64) {
        self.plane.tick(now_ms);
    }

    /// What follows from all that.
    pub(crate) fn take(&mut self, inbox: &Inbox) -> Outcome {
        let mut outcome = Outcome::default();
        for (shard, round) in self.alone.drain(..) {
            let nobody = Found {
                sockets: Vec::new(),
                complete: true,
            };
            let reads = inbox.response(shard, round, 1, Response::Sockets(nobody));
            reads.iter().for_each(|read| outcome.deliver(read));
        }
        for task in self.plane.take() {
            match task {
                Task::Publish(publish) => outcome.published.push(publish),
                Task::Subscribe(topics) => outcome.topics.extend(topics),
                Task::Count(_) => outcome.counts = true,
                Task::Carry { letter, question } => {
                    outcome.deliver(&inbox.deed(deed(letter, question)));
                }
                Task::Reply(Reply {
                    round,
                    servers,
                    told,
                }) => {
                    let (shard, number) = (round.shard, round.number);
                    let reads = inbox.response(shard, number, servers as u16, response(told));
                    reads.iter().for_each(|read| outcome.deliver(read));
                }
                other => panic!("no server of this kind is there: {other:?}"),
            }
        }
        inbox.counts_foreign(NAMESPACE, self.plane.others(NAMESPACE));
        outcome
    }
}

impl Outcome {
    fn deliver(&mut self, read: &Read) {
        let shards = read.shards();
        let letters = shards.map(|shard| (shard, Arc::clone(&read.letter)));
        self.letters.extend(letters);
    }
}

// ---- the same in the words of hubs and of servers -----------------------------------------------------------------------------

fn event_of(event: Event) -> verb::Event {
    verb::Event {
        name: event.name,
        args: args(event.content),
        volatile: event.volatile,
    }
}

fn args(answer: Answer) -> Args {
    Args {
        json: answer.args,
        attachments: answer.attachments,
    }
}

fn answer(args: Args) -> Answer {
    Answer {
        args: args.json,
        attachments: args.attachments,
    }
}

/// What one of our shards says to a question of a server.
fn part(parts: u16, response: Response) -> Part {
    let parts = u64::from(parts);
    match response {
        Response::Delivered { asked, undelivered } => Part::Asked {
            sockets: asked + undelivered,
            parts,
        },
        Response::Ack(answer) => Part::Ack(args(answer)),
        Response::Gone => Part::Gone,
        Response::Sockets(_) | Response::Page(_) => panic!("nobody asks which sockets there are"),
    }
}

/// What a server says to a question of ours.
fn response(told: Told) -> Response {
    match told {
        Told::Count(asked) => Response::Delivered {
            asked: asked.unwrap_or(0),
            undelivered: u64::from(asked.is_none()),
        },
        Told::Ack(args) => Response::Ack(answer(args)),
        Told::Sockets(_) => panic!("nobody asks which sockets there are"),
    }
}

/// What a server wants of our sockets.
fn deed(letter: Letter, question: Option<u64>) -> Deed {
    let event = |event: verb::Event| Event {
        name: event.name,
        content: answer(event.args),
        volatile: event.volatile,
    };
    let (of, what) = match letter.verb {
        Verb::Broadcast { to, event: said } => (to, What::Event(event(said))),
        Verb::Ask {
            to,
            event: said,
            timeout_ms,
            ..
        } => {
            let ask = What::Ask {
                event: event(said),
                round: question.expect("a question has a number"),
                timeout_ms: timeout_ms.unwrap_or(ASK_MS),
            };
            (to, ask)
        }
        other => panic!("the server does not say {other:?}"),
    };
    Deed {
        namespace: letter.namespace,
        rooms: of.rooms,
        users: Vec::new(),
        except: of.except,
        what,
    }
}
