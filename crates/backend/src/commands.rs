//! The commands of workers.

use crate::frame::Order;
use crate::home::{Bond, Phase};
use crate::message::{Ack, Down, Out, Refusal, To};
use crate::name::Name;
use crate::proto;
use crate::proto::command::What;
use crate::proto::item;
use crate::queries::Query;
use crate::state::Backend;
use wire::json;
use wire::socketio::{self, Misfit};

/// Queries of one worker that wait for their answers.
const QUERIES_MAX: usize = 65_536;
const DATA_BYTES_MAX: usize = 16 << 10;

/// Checks the parts of a command that go into packets to clients: a fault there would end their sessions.
///
/// # Errors
/// What is wrong.
pub fn check(what: &What) -> Result<(), &'static str> {
    match what {
        What::Emit(emit) => check_emit(emit),
        What::Ask(ask) => check_emit(ask.emit.as_ref().ok_or("ask.emit is missing")?),
        What::Disconnect(end) if end.drop && !names_one(end.of.as_ref()) => {
            Err("disconnect.drop is for one socket: give its id as the only room, and no exception")
        }
        What::Ack(ack) => check_ack(&ack.args, ack.attachments.len()),
        _ => Ok(()),
    }
}

fn check_ack(args: &[u8], attachments: usize) -> Result<(), &'static str> {
    let args = json::read_elements(args);
    let args = args.ok_or("ack.args are no JSON elements separated by commas")?;
    check_attachments(args, attachments)
}

fn names_one(target: Option<&proto::Target>) -> bool {
    target.is_some_and(|target| match target.rooms.as_slice() {
        [only] => target.except.is_empty() && Name::parse(only).is_some(),
        _ => false,
    })
}

fn check_emit(emit: &proto::Emit) -> Result<(), &'static str> {
    if emit.event.is_empty() {
        return Err("emit.event is empty");
    }
    if socketio::is_reserved(&emit.event) {
        return Err(
            "emit.event is a name that only the libraries emit, such as `connect` or `disconnect`",
        );
    }
    let args = json::read_elements(&emit.args);
    let args = args.ok_or("emit.args are no JSON elements separated by commas")?;
    check_attachments(args, emit.attachments.len())
}

/// `args`: elements.
fn check_attachments(args: &str, attachments: usize) -> Result<(), &'static str> {
    match socketio::match_attachments(args, attachments) {
        Ok(()) => Ok(()),
        Err(Misfit::Many) => Err("there are more than 10 attachments"),
        Err(Misfit::Placeholder) => {
            Err("a placeholder in args has more members than `_placeholder` and a number `num`")
        }
        Err(Misfit::Unmatched) => Err(
            "each attachment must stand in args once, as {\"_placeholder\":true,\"num\":N} with N from 0",
        ),
    }
}

fn is_json(text: &[u8]) -> bool {
    std::str::from_utf8(text).is_ok() && json::validate(text).is_ok()
}

pub(crate) fn are_elements(args: &[u8]) -> bool {
    json::read_elements(args).is_some()
}

impl Backend {
    pub(crate) fn command(&mut self, now_ms: u64, worker: u64, number: u64, order: Order) {
        let unknown = "the command is empty, or of a kind that this gateway does not know";
        let done = match order {
            Order::Ack(ack) => {
                check_ack(&ack.args, ack.attachments.len()).map(|()| self.answer(worker, ack))
            }
            Order::Crowded => Err(
                "the lists of the command (rooms, except, without, attachments, headers) have more than 1000 members together",
            ),
            Order::Other(command) => match command.what {
                Some(what) => self.carry_out(now_ms, worker, what),
                None => Err(unknown),
            },
        };
        if let Err(message) = done {
            let message = message.to_owned();
            let failed = proto::Failed {
                command: number,
                message,
            };
            self.reply(now_ms, worker, item::What::Failed(failed));
            if let Some(worker) = self.workers.get_mut(&worker) {
                worker.failures += 1;
            }
        }
    }

    pub(crate) fn carry_out(
        &mut self,
        now_ms: u64,
        worker: u64,
        what: What,
    ) -> Result<(), &'static str> {
        check(&what)?;
        match what {
            What::Decision(decision) => return self.decide(worker, decision),
            What::Ack(ack) => {
                let name = Name::parse(&ack.socket).ok_or("ack.socket is no socket's id")?;
                self.answer(worker, Ack::new(name, ack));
            }
            What::Emit(emit) => {
                let to = self.route(emit.to.as_ref())?;
                self.order(to, What::Emit(emit));
            }
            What::Join(join) => {
                let to = self.route(join.of.as_ref())?;
                let named = self.check_rooms(&join.rooms);
                self.shift(worker, to, What::Join(join));
                return named;
            }
            What::Leave(leave) => {
                let to = self.route(leave.of.as_ref())?;
                self.shift(worker, to, What::Leave(leave));
            }
            What::Disconnect(disconnect) => {
                let to = self.route(disconnect.of.as_ref())?;
                self.note_end(worker, to, disconnect.of.as_ref());
                self.order(to, What::Disconnect(disconnect));
            }
            What::SetData(set) => {
                let name = Name::parse(&set.socket).ok_or("set_data.socket is no socket's id")?;
                if !is_json(set.data.as_bytes()) {
                    return Err("set_data.data is no JSON");
                }
                if set.data.len() > DATA_BYTES_MAX {
                    return Err("set_data.data has more than 16 KiB");
                }
                // One that has left is nobody's, and so is another backend's.
                if self.homes.contains_key(&name) {
                    self.order(To::Socket(name), What::SetData(set));
                }
            }
            What::Ask(mut ask) => {
                let to = ask.emit.as_ref().and_then(|emit| emit.to.as_ref());
                let to = self.route(to)?;
                ask.query = self.query(worker, ask.query, to)?;
                self.order(to, What::Ask(ask));
            }
            What::Fetch(mut fetch) => {
                self.route(fetch.of.as_ref())?;
                fetch.query = self.query(worker, fetch.query, To::All)?;
                self.order(To::All, What::Fetch(fetch));
            }
            What::Ended(ended) => return self.note_over(worker, &ended.socket),
            What::Verdict(verdict) => return self.verdict(now_ms, worker, verdict),
            What::Tell(tell) => return self.tell_others(now_ms, worker, tell),
            What::Reply(reply) => return self.take_reply(now_ms, worker, reply),
            What::Count(mut count) => {
                self.check_namespace(&count.namespace)?;
                count.query = self.query(worker, count.query, To::One)?;
                self.order(To::One, What::Count(count));
            }
        }
        Ok(())
    }

    /// Whether a command is about sockets of this backend.
    pub(crate) fn check_target(&self, what: &What) -> Result<(), &'static str> {
        let target = match what {
            What::Emit(emit) => emit.to.as_ref(),
            What::Join(sockets) | What::Leave(sockets) => sockets.of.as_ref(),
            What::Disconnect(end) => end.of.as_ref(),
            _ => return Ok(()),
        };
        self.route(target).map(drop)
    }

    fn order(&mut self, to: To, what: What) {
        let down = Down::Do(what);
        self.out.push(Out { to, down });
    }

    /// A worker ends a socket of its own, and knows. In another namespace the id means nobody.
    fn note_end(&mut self, worker: u64, to: To, target: Option<&proto::Target>) {
        if let (To::Socket(name), Some(target)) = (to, target)
            && let Some(home) = self.homes.get_mut(&name)
            && home.phase == Phase::In
            && home.worker == Some(worker)
            && home.bond == Bond::Whole
            && home.introduction.open().namespace == target.namespace
        {
            home.bond = Bond::Ending;
        }
    }

    /// The workers of the sockets hear of it, but for the one that said it.
    fn shift(&mut self, worker: u64, to: To, what: What) {
        // An endpoint has the highest number, and is nobody to spare the news.
        let by = worker.wrapping_add(1);
        let down = Down::Move { by, what };
        self.out.push(Out { to, down });
    }

    /// A target that is one socket of ours needs one shard only.
    fn route(&self, target: Option<&proto::Target>) -> Result<To, &'static str> {
        let target = target.ok_or("the command has no target")?;
        self.check_namespace(&target.namespace)?;
        if let [only] = target.rooms.as_slice()
            && target.except.is_empty()
            && let Some(name) = Name::parse(only)
            && self.homes.contains_key(&name)
        {
            return Ok(To::Socket(name));
        }
        Ok(To::All)
    }

    pub(crate) fn check_namespace(&self, namespace: &str) -> Result<(), &'static str> {
        if !namespace.starts_with('/') {
            return Err("the namespace does not begin with a slash");
        }
        match self.settings.scope.has(namespace) {
            true => Ok(()),
            false => Err("the namespace is not of this backend: set `backend` in its table"),
        }
    }

    /// The shards leave out those that cannot be, and say so for each socket.
    fn check_rooms(&self, rooms: &[String]) -> Result<(), &'static str> {
        let lengths = 1..=self.settings.room_name_bytes_max;
        match rooms.iter().all(|room| lengths.contains(&room.len())) {
            true => Ok(()),
            false => Err(
                "the name of a room in join.rooms is empty, or longer than limits.room_name_bytes_max: nobody joined that room",
            ),
        }
    }

    pub(crate) fn number_query(&mut self) -> u64 {
        self.queries_made += 1;
        self.queries_made
    }

    fn query(&mut self, worker: u64, query: u64, to: To) -> Result<u64, &'static str> {
        let own = self.queries.values();
        if self.queries.len() >= QUERIES_MAX
            && own.filter(|query| query.worker == worker).count() >= QUERIES_MAX
        {
            return Err("65536 queries of this worker wait for their answers");
        }
        let number = self.number_query();
        let shards = match to {
            To::All => self.settings.shards,
            To::Socket(_) | To::Shard(_) | To::One => 1,
        };
        let query = Query::new(worker, query, shards);
        self.queries.insert(number, query);
        Ok(number)
    }

    fn decide(&mut self, worker: u64, decision: proto::Decision) -> Result<(), &'static str> {
        let name = Name::parse(&decision.socket).ok_or("decision.socket is no socket's id")?;
        if !decision.data.is_empty() && !is_json(decision.data.as_bytes()) {
            return Err("decision.data is no JSON");
        }
        let home = self.homes.get(&name);
        let home = home.filter(|home| home.phase == Phase::Deciding && home.worker == Some(worker));
        if home.is_none() {
            self.counts.late += 1;
            return Ok(());
        }
        let decision = match decision.admit {
            true => Ok(()),
            false => Err(Refusal {
                message: decision.message,
                data: (!decision.data.is_empty()).then_some(decision.data),
            }),
        };
        self.settle_decision(name, decision);
        Ok(())
    }

    /// A newcomer is let in or not.
    pub(crate) fn settle_decision(&mut self, socket: Name, decision: Result<(), Refusal>) {
        match (&decision, self.homes.get_mut(&socket)) {
            (Ok(()), Some(home)) => {
                let freed = home.admit();
                self.release_bytes(freed);
            }
            _ => self.forget(socket),
        }
        self.tell(socket, Down::Decide { socket, decision });
    }

    fn answer(&mut self, worker: u64, ack: Ack) {
        let home = self.homes.get_mut(&ack.socket);
        let home = home.filter(|home| home.worker == Some(worker));
        match home.and_then(|home| home.settle(ack.ack)) {
            Some(freed) => {
                self.release_bytes(freed);
                self.tell(ack.socket, Down::Ack(ack));
            }
            None => self.counts.late += 1,
        }
    }
}
