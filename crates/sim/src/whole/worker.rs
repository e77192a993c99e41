//! A worker as a node sees it: what it has got, what it has handled, and what it says.

use super::books::Books;
use super::deeds::{Deeds, Run};
use crate::names::digits;
use backend::Link;
use backend::proto::command::What as Order;
use backend::proto::item::What;
use backend::proto::{self, Emit, FromWorker, Hello, Membership, Target, ToWorker, Welcome};
use std::collections::{BTreeSet, VecDeque};

/// The backend of all workers, and its namespace.
pub(crate) const BACKEND: &str = "kitchen";
pub(crate) const NAMESPACE: &str = "/work";
/// So long a node waits for hubs that owe a list.
const FETCH_MS: u32 = 3_000;
/// Rooms of that namespace, into which workers put clients.
const TABLES: u64 = 3;
/// In the books a client is another one in that namespace, and what is said for it alone is said to a room of its own.
const GUESTS: usize = 4_000_000;
/// No history has so many.
const CLIENTS: usize = 10_000;

/// A client, as the books know it in the workers' namespace; with each socket there it is another one. One that is new on a node that was cut
/// off may hear what it has heard with the socket before.
pub(crate) fn guest(name: usize, sockets: usize) -> usize {
    GUESTS + sockets * CLIENTS + name
}

/// Where it is written down what workers say and do.
pub(crate) struct Voice<'a> {
    pub(crate) books: &'a mut Books,
    pub(crate) deeds: &'a mut Deeds,
    /// The life of their node, and the room in the books of all sockets of the namespace.
    pub(crate) life: usize,
    pub(crate) room: usize,
}

#[derive(Debug)]
pub(crate) struct Worker {
    instance: u64,
    life: u64,
    /// Under which it speaks in the books, as long as it remembers.
    pub(crate) publisher: usize,
    pub(crate) link: Option<Link>,
    was_welcomed: bool,
    /// Under way, with the time at which it comes.
    pub(crate) down: VecDeque<(u64, ToWorker)>,
    pub(crate) up: VecDeque<(u64, FromWorker)>,
    received: u64,
    handled: u64,
    inbox: VecDeque<proto::Item>,
    commands: u64,
    /// Commands that the gateway may not have, with their numbers.
    kept: VecDeque<(u64, proto::Command)>,
    /// Sockets that are its own.
    sockets: BTreeSet<String>,
    /// Lists of sockets that it asked for, by their numbers, how many it has asked for, and how many it asks for when a client comes.
    lists: BTreeSet<u64>,
    asked: u64,
    each: usize,
    /// It does nothing until then, or is not there.
    pub(crate) frozen_until: u64,
    pub(crate) back_at: u64,
}

impl Worker {
    pub(crate) fn new(instance: u64, publisher: usize, each: usize) -> Self {
        Self {
            instance,
            life: 0,
            publisher,
            link: None,
            was_welcomed: false,
            down: VecDeque::new(),
            up: VecDeque::new(),
            received: 0,
            handled: 0,
            inbox: VecDeque::new(),
            commands: 0,
            kept: VecDeque::new(),
            sockets: BTreeSet::new(),
            lists: BTreeSet::new(),
            asked: 0,
            each,
            frozen_until: 0,
            back_at: 0,
        }
    }

    fn run(&self) -> Run {
        (self.instance, self.life)
    }

    pub(crate) fn hello(&self) -> Hello {
        Hello {
            backend: BACKEND.to_owned(),
            instance: self.instance.to_string(),
            received: self.received,
            resumes: self.was_welcomed,
            ..Hello::default()
        }
    }

    /// Whether it has to forget all that it knew.
    pub(crate) fn is_forgotten(&self, welcome: &Welcome) -> bool {
        self.was_welcomed && !welcome.resumed
    }

    pub(crate) fn begin_anew(&mut self, publisher: usize) {
        let anew = Self::new(self.instance, publisher, self.each);
        *self = Self {
            life: self.life + 1,
            ..anew
        };
    }

    pub(crate) fn is_welcomed(&mut self, link: Link, welcome: &Welcome, now_ms: u64) {
        (self.link, self.was_welcomed) = (Some(link), true);
        self.down.clear();
        self.up.clear();
        self.kept.retain(|(number, _)| *number > welcome.commands);
        let first = self.kept.front().map_or(0, |(number, _)| *number);
        let commands = self.kept.iter().map(|(_, command)| command.clone());
        let frame = self.frame(first, commands.collect());
        self.up.push_back((now_ms, frame));
    }

    fn frame(&self, first: u64, commands: Vec<proto::Command>) -> FromWorker {
        FromWorker {
            first,
            commands,
            handled: self.handled,
            begun: self.handled,
            ..FromWorker::default()
        }
    }

    pub(crate) fn get(&mut self, message: ToWorker) {
        self.kept.retain(|(number, _)| *number > message.commands);
        for (item, number) in message.items.into_iter().zip(message.first..) {
            assert_eq!(number, self.received + 1, "a worker got another item");
            self.received = number;
            self.inbox.push_back(item);
        }
    }

    /// Handles so many items, and may have news for all; what it says then comes to its node at this time.
    pub(crate) fn work(&mut self, most: usize, has_news: bool, voice: &mut Voice<'_>, at_ms: u64) {
        let mut orders: Vec<Order> = Vec::new();
        for _ in 0..most {
            let Some(item) = self.inbox.pop_front() else {
                break;
            };
            self.handled += 1;
            orders.extend(self.handle(item, voice));
        }
        if has_news {
            let all = Target::all_of(NAMESPACE);
            orders.push(self.say(all, "news", voice.room, voice));
        }
        let first = self.commands + 1;
        for what in orders {
            self.commands += 1;
            let command = proto::Command {
                what: Some(what),
                ..proto::Command::default()
            };
            self.kept.push_back((self.commands, command));
        }
        let fresh = self.kept.iter().filter(|(number, _)| *number >= first);
        let fresh = fresh.map(|(_, command)| command.clone()).collect();
        let frame = self.frame(first, fresh);
        self.up.push_back((at_ms, frame));
    }

    /// Lists of sockets that it waits for.
    pub(crate) fn waits_for(&self) -> usize {
        self.lists.len()
    }

    /// All sockets of the namespace, on this node or on all in turn, as `fetchSockets` in a handler of `connection` asks for them.
    fn fetch(&mut self, deeds: &mut Deeds) -> Order {
        self.asked += 1;
        self.lists.insert(self.asked);
        let local = self.asked.is_multiple_of(2);
        deeds.ask((self.run(), self.asked), local);
        Order::Fetch(proto::Fetch {
            query: self.asked,
            of: Some(Target {
                local,
                ..Target::all_of(NAMESPACE)
            }),
            timeout_ms: FETCH_MS,
        })
    }

    /// Says the next number to a target; `room`: those in the books who surely are to hear it.
    fn say(&self, to: Target, event: &str, room: usize, voice: &mut Voice<'_>) -> Order {
        let number = voice.books.say(self.publisher, vec![room], voice.life);
        Order::Emit(Box::new(Emit {
            to: Some(to),
            event: event.to_owned(),
            args: number.to_string().into_bytes().into(),
            ..Emit::default()
        }))
    }

    /// `socket.join(table); io.to(table).emit("told", number)`, and for every other event `socket.leave(table)`.
    fn seat(&self, socket: &str, event: u64, voice: &mut Voice<'_>) -> Vec<Order> {
        let table = format!("table-{}", event % TABLES);
        let member = || Membership {
            of: Some(Target::room(NAMESPACE, socket)),
            rooms: vec![table.clone()],
        };
        let to = Target::room(NAMESPACE, table.as_str());
        let seat = voice.books.seat(socket);
        let mut orders = vec![Order::Join(member()), self.say(to, "told", seat, voice)];
        orders.extend(event.is_multiple_of(2).then(|| Order::Leave(member())));
        orders
    }

    fn handle(&mut self, item: proto::Item, voice: &mut Voice<'_>) -> Vec<Order> {
        match item.what.expect("an item") {
            What::Connect(connect) => {
                self.sockets.insert(connect.socket.clone());
                let decision = Order::Decision(proto::Decision {
                    socket: connect.socket,
                    admit: true,
                    ..proto::Decision::default()
                });
                let lists = (0..self.each).map(|_| self.fetch(voice.deeds));
                std::iter::once(decision).chain(lists).collect()
            }
            What::Resume(resume) => {
                let connect = resume.connect.expect("what the client said");
                self.sockets.insert(connect.socket);
                Vec::new()
            }
            What::Found(found) => {
                let was_asked = self.lists.remove(&found.query);
                assert!(was_asked, "a worker got a list that it did not ask for");
                voice.deeds.find((self.run(), found.query), &found);
                Vec::new()
            }
            What::Failed(failed) => panic!("a command of a worker failed: {failed:?}"),
            What::Event(event) => {
                let is_known = self.sockets.contains(&event.socket);
                assert!(
                    is_known,
                    "a worker got an event of a socket that it does not know"
                );
                let said = digits(std::str::from_utf8(&event.args).expect("text"));
                let (by, run) = (said[0] as usize, self.run());
                voice.deeds.handle(by, said[1], item.redelivered, run);
                let mut orders = self.seat(&event.socket, said[1], voice);
                let ack = (event.ack != 0).then(|| {
                    Order::Ack(proto::Ack {
                        socket: event.socket,
                        ack: event.ack,
                        args: said[1].to_string().into_bytes().into(),
                        attachments: Vec::new(),
                    })
                });
                orders.extend(ack);
                orders
            }
            What::Gone(gone) => {
                // Its client may come back for it, and hears then what was said when it had gone.
                let had = self.sockets.remove(&gone.socket);
                let note = had.then(|| {
                    let seat = voice.books.seat(&gone.socket);
                    let to = Target::room(NAMESPACE, gone.socket.as_str());
                    self.say(to, "note", seat, voice)
                });
                note.into_iter().collect()
            }
            What::Part(part) => {
                let had = self.sockets.remove(&part.socket);
                let socket = part.socket;
                let ended = (!had).then_some(Order::Ended(proto::Ended { socket }));
                ended.into_iter().collect()
            }
            _ => Vec::new(),
        }
    }
}
