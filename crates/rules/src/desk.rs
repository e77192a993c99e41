//! What a shard has to do with backends: it tells them of their sockets, and does what they want.

mod handing;
mod words;

use crate::aim::{self, borrowed};
use crate::doorway::{self, Doorway};
use crate::line::{Line, Spread};
use crate::trace::{Arrival, TraceParent};
use backend::proto::command::What;
use backend::{Down, Name, Said, Up, Why, proto};
use bytes::Bytes;
use foldhash::fast::FixedState;
use hub::{
    AckTo, AnswerHeaders, Away, CloseReason, Collected, ConnectRequest, Context, Decision,
    DisconnectReason, Emit, Event, Found, Group, Opening, Refusal, Request, ServerAck, ServerEvent,
    SocketKey, Ticket,
};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;
use types::Target;
use wire::base64url::Id20;
use words::{as_answer, as_connect, as_emit, as_vecs, millis, text};

/// The backend's own refusal comes before the hub's.
const GRACE: Duration = Duration::from_secs(2);

/// How far a socket is.
enum Stage {
    /// Its backend decides about the CONNECT with this number.
    Waiting {
        number: u64,
        ticket: Ticket,
    },
    /// It was let in; the hub makes the socket.
    Admitted,
    In(SocketKey),
}

struct Member {
    line: Arc<dyn Line>,
    stage: Stage,
    /// Until it is in: what is recorded of its coming.
    arrival: Option<Box<Arrival>>,
    /// Answers that its client waits for.
    acks: HashMap<u64, AckTo, FixedState>,
}

#[derive(Default)]
pub(crate) struct Desk {
    shard: u16,
    members: HashMap<Name, Member, FixedState>,
    /// Queries of backends, by our tokens.
    queries: HashMap<u64, (Arc<dyn Line>, u64)>,
    /// Other servers that wait for an answer, by our tokens.
    servers: HashMap<u64, ServerAck>,
    numbers: u64,
    /// Was let in by the last decision.
    admitted: Option<Name>,
    doorway: Doorway,
}

impl Desk {
    pub(crate) fn new(shard: u16) -> Self {
        Self {
            shard,
            ..Self::default()
        }
    }

    pub(crate) fn shard(&self) -> u16 {
        self.shard
    }

    /// No other shard gives it out: a client may come back by any, and an answer to what it asked before may still be on its way.
    fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers << u8::BITS | u64::from(self.shard)
    }

    // ---- up -------------------------------------------------------------------------------------------------------------------

    /// The error: nobody can decide.
    pub(crate) fn connecting(
        &mut self,
        cx: &mut Context<'_>,
        request: &ConnectRequest<'_>,
        line: &Arc<dyn Line>,
        arrival: Option<Box<Arrival>>,
    ) -> Result<Decision, Option<Box<Arrival>>> {
        self.drop_unmade();
        let context = arrival.as_ref().and_then(|arrival| arrival.context());
        let mut connect = as_connect(request, context);
        connect.opening = self.doorway.opening_of(request.sid, line);
        let Some(name) = Name::parse(&connect.socket) else {
            return Err(arrival);
        };
        let Some(ticket) = cx.postpone(request, line.connect_timeout() + GRACE) else {
            return Err(arrival);
        };
        let number = self.number();
        let connect = Box::new(connect);
        if !line.up(Up::Connect { number, connect }) {
            return Err(arrival);
        }
        let member = Member {
            line: Arc::clone(line),
            stage: Stage::Waiting { number, ticket },
            arrival,
            acks: HashMap::default(),
        };
        self.members.insert(name, member);
        Ok(Decision::Later)
    }

    /// All of these backends are asked.
    pub(crate) fn opening(&mut self, request: &Request<'_>, deciders: &[Arc<dyn Line>]) -> Opening {
        let number = self.doorway.number(self.shard);
        let asks =
            |line: &Arc<dyn Line>| line.up(Up::Opening(doorway::as_opening(request, number)));
        match deciders.iter().all(asks) {
            true => {
                self.doorway.wait(number, request.key(), deciders);
                Opening::Later
            }
            false => Opening::Unavailable,
        }
    }

    fn undecided(&mut self, cx: &mut Context<'_>, opening: u64) {
        if let Some(key) = self.doorway.give_up(opening) {
            cx.decide_opening(key, Opening::Unavailable);
        }
    }

    fn verdict(&mut self, cx: &mut Context<'_>, line: &Arc<dyn Line>, verdict: proto::Verdict) {
        let now_ms = cx.now().mono_ms;
        if let Some((key, decision)) = self.doorway.decided(line, verdict, now_ms)
            && !cx.decide_opening(key, decision)
        {
            self.doorway.forget(key);
        }
    }

    /// A request that a worker let in is answered.
    pub(crate) fn answering(
        &mut self,
        request: &Request<'_>,
        sid: &str,
        headers: &mut AnswerHeaders,
    ) {
        self.doorway.answer(request.key(), sid, headers);
    }

    /// Tells the worker, if there is one, of rooms that a rule changes.
    pub(crate) fn watch(
        &self,
        socket: &mut hub::Member<'_>,
        worker: bool,
        act: impl FnOnce(&mut hub::Member<'_>),
    ) {
        if !worker {
            return act(socket);
        }
        let before = socket.rooms();
        act(socket);
        let after = socket.rooms();
        // A socket may be in a thousand rooms.
        let [was, is] = [&before, &after].map(|rooms| rooms.iter().collect::<HashSet<_>>());
        let gone = before.iter().filter(|room| !is.contains(room));
        gone.for_each(|room| self.moved(socket, room, false, 0));
        let fresh = after.iter().filter(|room| !was.contains(room));
        fresh.for_each(|room| self.moved(socket, room, true, 0));
    }

    /// A room of a socket changed.
    pub(crate) fn moved(&self, socket: &hub::Member<'_>, room: &str, joined: bool, by: u64) {
        if let Some(socket) = name_of(socket)
            && let Some(member) = self.members.get(&socket)
        {
            let room = room.to_owned();
            member.line.up(Up::Moved {
                socket,
                room,
                joined,
                by,
            });
        }
    }

    pub(crate) fn connected(&mut self, socket: &hub::Member<'_>) -> Option<Box<Arrival>> {
        let name = name_of(socket)?;
        self.admitted.take_if(|admitted| *admitted == name);
        let member = self.members.get_mut(&name)?;
        member.stage = Stage::In(socket.key());
        member.arrival.take()
    }

    pub(crate) fn event(
        &mut self,
        socket: &mut hub::Member<'_>,
        event: Event<'_>,
        context: Option<TraceParent>,
    ) {
        let name = name_of(socket);
        let number = self.number();
        let Some((name, member)) = name.and_then(|name| Some((name, self.members.get_mut(&name)?)))
        else {
            return refuse(socket, event.ack, Why::Absent);
        };
        let traceparent = context.map(|context| context.to_string());
        let said = Said {
            event: event.name,
            args: event.args,
            attachments: event.attachments,
            ack: event.ack.as_ref().map_or(0, |_| number),
            traceparent: traceparent.as_deref().unwrap_or_default(),
        };
        let up = Up::Event(backend::Event::new(name, &said));
        if !member.line.up(up) {
            return refuse(socket, event.ack, Why::Busy);
        }
        if let Some(ack) = event.ack {
            member.acks.insert(number, ack);
        }
    }

    pub(crate) fn disconnecting(
        &mut self,
        socket: &hub::Member<'_>,
        reason: DisconnectReason,
    ) -> Option<Box<Arrival>> {
        let name = name_of(socket)?;
        let member = self.members.remove(&name)?;
        gone(&member, name, reason.as_str(), socket.rooms());
        member.arrival
    }

    /// It left before its backend decided.
    pub(crate) fn gave_up(
        &mut self,
        socket: Id20,
        reason: DisconnectReason,
    ) -> Option<Box<Arrival>> {
        let name = Name::of(socket);
        let member = self.members.remove(&name)?;
        gone(&member, name, reason.as_str(), Vec::new());
        member.arrival
    }

    pub(crate) fn upgraded(&self, socket: Id20, transport: &'static str) {
        let socket = Name::of(socket);
        if let Some(member) = self.members.get(&socket) {
            member.line.up(Up::Upgraded { socket, transport });
        }
    }

    pub(crate) fn acked(&mut self, token: u64, args: &str, attachments: &[Vec<u8>]) {
        let answer = types::Answer {
            args: Bytes::copy_from_slice(args.as_bytes()),
            attachments: attachments.iter().cloned().map(Bytes::from).collect(),
        };
        self.answer(token, vec![answer], 0);
    }

    pub(crate) fn ack_timed_out(&mut self, token: u64) {
        self.answer(token, Vec::new(), 1);
    }

    pub(crate) fn collected(&mut self, token: u64, collected: Collected) {
        let kept = collected.answers.len() as u64;
        let missing = collected.timed_out + collected.gone + collected.undelivered;
        let lost = collected.acked.saturating_sub(kept);
        // A silent shard or node has not even said how many sockets it asked.
        let unknown = u64::from(!collected.complete && missing + lost == 0);
        let answers = collected.answers.into_iter().map(as_answer).collect();
        self.answer(token, answers, missing + lost + unknown);
    }

    fn answer(&mut self, token: u64, answers: Vec<types::Answer>, missing: u64) {
        if let Some((line, query)) = self.queries.remove(&token) {
            line.up(Up::Answers(proto::Answers {
                query,
                answers,
                missing,
            }));
        }
    }

    pub(crate) fn found(&mut self, token: u64, found: Found) {
        let Some((line, query)) = self.queries.remove(&token) else {
            return;
        };
        let sockets = found.sockets.into_iter().map(|socket| proto::Member {
            socket: socket.id,
            rooms: socket.rooms,
            data: socket.data,
        });
        line.up(Up::Found(proto::Found {
            query,
            sockets: sockets.collect(),
            incomplete: !found.complete,
        }));
    }

    // ---- down -----------------------------------------------------------------------------------------------------------------

    /// Returns a client that is not let in.
    pub(crate) fn carry_out(
        &mut self,
        cx: &mut Context<'_>,
        line: &Arc<dyn Line>,
        down: Down,
        spread: Spread,
    ) -> Option<Box<Arrival>> {
        self.drop_unmade();
        match down {
            Down::Decide {
                socket,
                number,
                decision,
            } => return self.decide(cx, (socket, number), decision),
            Down::Ack(ack) => self.on_ack(cx, &ack),
            Down::Refuse { socket, ack, why } => {
                if let Some(member) = self.members.get_mut(&socket)
                    && let Stage::In(key) = member.stage
                {
                    let ack = member.acks.remove(&ack);
                    refuse(&mut cx.socket(key), ack, why);
                }
            }
            Down::Describe { socket } => self.describe(cx, socket),
            Down::Close { socket } => {
                if let Some(key) = self.key(&socket) {
                    // Without a DISCONNECT packet: Socket.IO clients do not come back after one.
                    cx.socket(key).end_session(CloseReason::NoBackend);
                }
            }
            Down::Reply { told, answer } => self.reply(cx, told, answer),
            Down::Verdict(verdict) => self.verdict(cx, line, verdict),
            Down::Unavailable { opening } => self.undecided(cx, opening),
            Down::Move { by, what } => self.shift(cx, &what, by, spread),
            Down::Do(what) => self.order(cx, line, what, spread),
        }
        None
    }

    /// A client was let in and ended in the same moment: there is no socket, and the backend believes that there is one.
    fn drop_unmade(&mut self) {
        if let Some(name) = self.admitted.take()
            && let Some(member) = self.members.remove(&name)
        {
            gone(&member, name, "transport close", Vec::new());
        }
    }

    fn key(&self, name: &Name) -> Option<SocketKey> {
        match self.members.get(name)?.stage {
            Stage::In(key) => Some(key),
            Stage::Waiting { .. } | Stage::Admitted => None,
        }
    }

    fn decide(
        &mut self,
        cx: &mut Context<'_>,
        (name, number): (Name, u64),
        decision: Result<(), backend::Refusal>,
    ) -> Option<Box<Arrival>> {
        let member = self.members.get_mut(&name)?;
        let ticket = match std::mem::replace(&mut member.stage, Stage::Admitted) {
            Stage::Waiting {
                number: asked,
                ticket,
            } if asked == number => ticket,
            // It was decided about, or its client has come anew since the backend was asked.
            other => {
                member.stage = other;
                return None;
            }
        };
        let admits = decision.is_ok();
        let decision = decision.map_err(|refusal| Refusal {
            message: refusal.message,
            data: refusal.data,
        });
        let waited = cx.decide(ticket, decision);
        if admits && waited {
            self.admitted = Some(name);
            return None;
        }
        let member = self.members.remove(&name)?;
        if admits {
            gone(&member, name, "transport close", Vec::new());
        }
        member.arrival
    }

    fn on_ack(&mut self, cx: &mut Context<'_>, ack: &backend::Ack) {
        let member = self.members.get_mut(&ack.socket);
        if let Some(to) = member.and_then(|member| member.acks.remove(&ack.ack)) {
            let attachments = as_vecs(&ack.attachments);
            cx.ack(to, text(&ack.args), &attachments);
        }
    }

    fn describe(&mut self, cx: &mut Context<'_>, socket: Name) {
        if let Some(member) = self.members.get(&socket)
            && let Stage::In(key) = member.stage
        {
            let here = cx.socket(key);
            member.line.up(Up::Described {
                socket,
                rooms: here.rooms(),
                data: here.data().unwrap_or("{}").to_owned(),
            });
        }
    }

    fn order(&mut self, cx: &mut Context<'_>, line: &Arc<dyn Line>, what: What, spread: Spread) {
        let leads = spread == Spread::Leads;
        match what {
            What::Emit(emit) => {
                let attachments = as_vecs(&emit.attachments);
                let message = as_emit(&emit, &attachments);
                match self.only(cx, emit.to.as_ref()) {
                    Some(key) => cx.socket(key).emit(&message),
                    None => with(cx, emit.to.as_ref(), |to| match spread {
                        Spread::Alone => {
                            let _ = to.emit(&message);
                        }
                        Spread::Leads | Spread::Follows => to.apart(leads).emit(&message),
                    }),
                }
            }
            What::Disconnect(end) if end.drop => {
                if let Some(key) = self.only(cx, end.of.as_ref()) {
                    cx.socket(key).drop_transport();
                }
            }
            What::Disconnect(end) if self.is_elsewhere(cx, end.of.as_ref(), spread) => {
                with(cx, end.of.as_ref(), |of| {
                    // Nobody waits to be told.
                    let _ = of.disconnect(end.close);
                });
            }
            What::Disconnect(end) => {
                if leads {
                    away(cx, end.of.as_ref(), |of| of.disconnect(end.close));
                }
                with(cx, end.of.as_ref(), |of| of.here().disconnect(end.close));
            }
            What::SetData(set) => {
                let name = Name::parse(&set.socket);
                if let Some(key) = name.and_then(|name| self.key(&name)) {
                    cx.socket(key).set_data(&set.data);
                }
            }
            What::Ask(ask) => self.ask(cx, line, &ask, spread),
            What::Fetch(fetch) => {
                let token = self.number();
                self.queries.insert(token, (Arc::clone(line), fetch.query));
                let timeout = millis(fetch.timeout_ms);
                with(cx, fetch.of.as_ref(), |of| {
                    of.apart(leads).fetch(timeout, token);
                });
            }
            What::Tell(tell) => self.tell(cx, line, &tell),
            What::Count(count) => {
                let servers = cx.servers(&count.namespace).count();
                let query = count.query;
                line.up(Up::Counted(proto::Counted { query, servers }));
            }
            // These are the backend's own business, or come by a way of their own.
            What::Decision(_)
            | What::Ack(_)
            | What::Reply(_)
            | What::Verdict(_)
            | What::Ended(_)
            | What::Join(_)
            | What::Leave(_) => {}
        }
    }

    fn ask(
        &mut self,
        cx: &mut Context<'_>,
        line: &Arc<dyn Line>,
        ask: &proto::Ask,
        spread: Spread,
    ) {
        let Some(emit) = &ask.emit else { return };
        let token = self.number();
        self.queries.insert(token, (Arc::clone(line), ask.query));
        let attachments = as_vecs(&emit.attachments);
        let message = as_emit(emit, &attachments);
        let timeout = millis(ask.timeout_ms);
        match self.only(cx, emit.to.as_ref()) {
            Some(key) => {
                if !cx.socket(key).ask(&message, timeout, token) {
                    self.answer(token, Vec::new(), 1);
                }
            }
            None => {
                with(cx, emit.to.as_ref(), |to| match spread {
                    Spread::Alone => to.collect(&message, timeout, token),
                    Spread::Leads => to.apart(true).collect(&message, timeout, token),
                    Spread::Follows => to.apart(false).collect(&message, timeout, token),
                });
            }
        }
    }

    /// Other servers are told; without a query nobody answers.
    fn tell(&mut self, cx: &mut Context<'_>, line: &Arc<dyn Line>, tell: &proto::Tell) {
        let attachments = as_vecs(&tell.attachments);
        let event = Emit {
            attachments: &attachments,
            ..Emit::new(&tell.event, text(&tell.args))
        };
        let servers = cx.servers(&tell.namespace);
        if tell.query == 0 {
            return servers.emit(&event);
        }
        let token = self.number();
        self.queries.insert(token, (Arc::clone(line), tell.query));
        servers.ask(&event, millis(tell.timeout_ms), token);
    }

    /// Another server says something. One that waits is answered `null` when no worker can be asked.
    pub(crate) fn told(
        &mut self,
        cx: &mut Context<'_>,
        event: ServerEvent<'_>,
        line: Option<&Arc<dyn Line>>,
    ) {
        let number = u64::from(self.shard) << 48 | self.number();
        let told = proto::Told {
            told: event.ack.as_ref().map_or(0, |_| number),
            namespace: event.namespace.to_owned(),
            event: event.name.to_owned(),
            args: Bytes::copy_from_slice(event.args.as_bytes()),
            attachments: event.attachments.iter().cloned().map(Bytes::from).collect(),
        };
        let taken = line.is_some_and(|line| line.up(Up::Told(told.into())));
        match event.ack {
            Some(ack) if taken => {
                self.servers.insert(number, ack);
            }
            Some(ack) => cx.answer_server(ack, "null", &[]),
            None => {}
        }
    }

    fn reply(&mut self, cx: &mut Context<'_>, told: u64, answer: Option<types::Answer>) {
        let Some(ack) = self.servers.remove(&told) else {
            return;
        };
        match answer {
            Some(answer) => {
                cx.answer_server(ack, text(&answer.args), &as_vecs(&answer.attachments));
            }
            None => cx.answer_server(ack, "null", &[]),
        }
    }

    /// The one socket that is meant, if it is here. In another namespace its id means nobody.
    fn only(&self, cx: &mut Context<'_>, target: Option<&Target>) -> Option<SocketKey> {
        let target = target?;
        let key = self.key(&Name::parse(target.only()?)?)?;
        let is_there = cx.socket(key).namespace() == Some(target.namespace.as_str());
        is_there.then_some(key)
    }

    /// The one socket that is meant is not here, and no other shard is told of it: its client is away, or came back somewhere else.
    fn is_elsewhere(&self, cx: &mut Context<'_>, of: Option<&Target>, spread: Spread) -> bool {
        spread == Spread::Alone && self.only(cx, of).is_none()
    }

    /// `by`: the worker that moves the sockets. The others hear of it.
    fn shift(&self, cx: &mut Context<'_>, what: &What, by: u64, spread: Spread) {
        let (of, rooms, joins) = match what {
            What::Join(join) => (join.of.as_ref(), borrowed(&join.rooms), true),
            What::Leave(leave) => (leave.of.as_ref(), borrowed(&leave.rooms), false),
            _ => return,
        };
        if self.is_elsewhere(cx, of, spread) {
            return with(cx, of, |of| {
                let _ = match joins {
                    true => of.join(&rooms),
                    false => of.leave(&rooms),
                };
            });
        }
        if spread == Spread::Leads {
            away(cx, of, |of| match joins {
                true => of.join(&rooms),
                false => of.leave(&rooms),
            });
        }
        with(cx, of, |of| match joins {
            true => of.here().join(&rooms, by),
            false => of.here().leave(&rooms, by),
        });
    }
}

fn gone(member: &Member, name: Name, reason: &str, rooms: Vec<String>) {
    // A line takes news of ends whatever waits for it.
    member.line.up(Up::Gone(proto::Gone {
        socket: name.as_str().to_owned(),
        reason: reason.to_owned(),
        rooms,
    }));
}

/// Tells a client that its event is not carried out.
fn refuse(socket: &mut hub::Member<'_>, ack: Option<AckTo>, why: Why) {
    let (message, code) = match why {
        Why::Absent => ("No backend is connected", "NO_BACKEND"),
        Why::Busy => ("The backend has too much to do", "BACKEND_BUSY"),
        Why::Unanswered => ("The backend did not answer in time", "BACKEND_TIMEOUT"),
        Why::Deadly | Why::Failed => ("The backend failed on this event", "BACKEND_FAILED"),
    };
    socket.refuse(ack, message, code);
}

fn name_of(socket: &hub::Member<'_>) -> Option<Name> {
    socket.id().map(Name::of)
}

fn with(cx: &mut Context<'_>, target: Option<&Target>, use_it: impl FnOnce(Group<'_, '_>)) {
    let Some(target) = target else { return };
    if target.local || !target.without.is_empty() {
        cx.speaks_apart(&target.namespace);
    }
    aim::with(cx, target, use_it);
}

/// Those of other nodes. Their own gateways may hear of it from the worker itself.
fn away(cx: &mut Context<'_>, target: Option<&Target>, use_it: impl FnOnce(Away<'_, '_>)) {
    with(cx, target, |of| use_it(of.away()));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A client that came back by another shard could get the answer to what it had asked before.
    #[test]
    fn two_shards_gave_out_one_number() {
        let mut desks = [0, 1, 255].map(Desk::new);
        let numbers = (0..100).flat_map(|_| desks.each_mut().map(|desk| desk.number()));
        assert_eq!(numbers.collect::<HashSet<_>>().len(), 300);
    }
}
