//! Plays each packet of a client against the gateway, in the order in which the running server heard them, and pairs what both say.
//! Pure: what was heard and the time come in, what is to be done goes out.
//!
//! The order between clients counts: "ada joins, then bob publishes" and its reverse are not the same. A packet that a client sent
//! after the running server had answered another one therefore waits until the gateway has answered that one, too.

use crate::compare::{Comparer, Lane, Saying, Side};
use crate::normal::Normal;
use crate::packet::{Packet, PacketType};
use crate::report::Report;
use serde_json::Value;
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

/// The end of a client waits for so long until the gateway has said all that the running server has; and for so long after the gateway
/// got its last packet.
const END_MS: u64 = 1_000;
const ANSWER_MS: u64 = 300;
/// Packets of clients that wait for the gateway.
const QUEUE_MAX: usize = 100_000;
/// Questions of one client in one namespace whose events are remembered, and questions of the server likewise.
const ASKED_MAX: usize = 10_000;

/// Something is to be done for a session.
#[derive(Debug, PartialEq, Eq)]
pub enum Deed {
    /// The gateway gets this packet.
    Send(Packet),
    /// The gateway's copy of the session ends.
    Close,
}

/// What the gateway owes before later packets go.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Debt {
    session: u64,
    namespace: String,
    /// The id of the question; `None`: the answer to CONNECT.
    ack: Option<u64>,
}

/// A question of a client.
#[derive(Debug)]
struct Asked {
    event: String,
    /// In which step.
    step: u64,
    /// One of the servers has answered it.
    is_answered: bool,
}

/// A namespace of a session.
#[derive(Debug, Default)]
struct Space {
    /// Each side's id of the socket.
    ids: Vec<String>,
    /// The client's questions, by id.
    asked: BTreeMap<u64, Asked>,
    /// Questions of the server: its id, and that of the gateway.
    questions: HashMap<u64, u64>,
    /// Answers of the client that wait until the gateway has asked.
    answers: VecDeque<(u64, Packet)>,
    refused: bool,
}

impl Space {
    /// A server has answered a question of the client. When both have, it is forgotten.
    fn answered(&mut self, id: Option<u64>) -> Meaning {
        let asked = id.and_then(|id| self.asked.get_mut(&id));
        let event = asked.as_ref().map_or("an event", |asked| &asked.event);
        let mut meaning = Meaning::paying(format!("ack of {event}"), id);
        meaning.answers = asked.as_ref().map(|asked| asked.step);
        if asked.is_some_and(|asked| std::mem::replace(&mut asked.is_answered, true)) {
            id.and_then(|id| self.asked.remove(&id));
        }
        meaning
    }
}

/// The meaning of a packet of a server.
#[derive(Debug)]
struct Meaning {
    /// Among which it is compared.
    event: String,
    /// It is the answer to the client's question with this id, or to its CONNECT.
    pays: Option<Option<u64>>,
    /// The step in which that was asked.
    answers: Option<u64>,
}

impl Meaning {
    fn of(event: impl Into<String>) -> Self {
        Self {
            event: event.into(),
            pays: None,
            answers: None,
        }
    }

    fn paying(event: impl Into<String>, ack: Option<u64>) -> Self {
        Self {
            pays: Some(ack),
            ..Self::of(event)
        }
    }
}

#[derive(Debug, Default)]
struct Session {
    spaces: HashMap<String, Space>,
    /// When the gateway last got a packet of it.
    sent_ms: u64,
    /// The copy ended by itself: until when the running server may end the session, too.
    copy_ended_until_ms: Option<u64>,
}

/// Packets of clients that follow each other so closely may bring things about in any order, if they are of several clients: what comes
/// of the first may be said behind the second, where a machine has much to do.
const BURST_MS: u64 = 500;

/// Who spoke last, and what that brings about.
#[derive(Debug, Default)]
struct Burst {
    cause: u64,
    client: u64,
    until_ms: u64,
    /// Several clients spoke.
    is_mixed: bool,
}

impl Burst {
    fn note(&mut self, now_ms: u64, client: u64) {
        if now_ms >= self.until_ms {
            *self = Self {
                cause: self.cause + 1,
                client,
                until_ms: 0,
                is_mixed: false,
            };
        }
        self.is_mixed |= client != self.client;
        self.until_ms = now_ms + BURST_MS;
    }

    fn cause(&self) -> u64 {
        match self.is_mixed {
            true => 0,
            false => self.cause,
        }
    }
}

/// Something that a client did.
#[derive(Debug)]
struct Turn {
    step: u64,
    heard_ms: u64,
    session: u64,
    /// `None`: the client has gone.
    packet: Option<Packet>,
}

#[derive(Debug)]
pub struct Play {
    sessions: HashMap<u64, Session>,
    comparer: Comparer,
    normal: Normal,
    pub report: Report,
    /// Counts what was heard.
    step: u64,
    queue: VecDeque<Turn>,
    /// By step: until when.
    debts: BTreeMap<u64, (Debt, u64)>,
    owed: HashMap<Debt, u64>,
    /// Questions of clients that the running server has not answered, by step: the session, and until when that matters.
    unanswered: BTreeMap<u64, (u64, u64)>,
    /// Answers of the gateway that came before those of the running server.
    early: HashSet<Debt>,
    /// Longest wait for an answer of the gateway.
    patience_ms: u64,
    burst: Burst,
    window_ms: u64,
    done: Vec<(u64, Deed)>,
    /// Ids of sockets that have gone: others may still be told of them, until then.
    gone: VecDeque<(u64, String)>,
}

impl Play {
    pub fn new(normal: Normal, window_ms: u64, values: bool) -> Self {
        Self {
            sessions: HashMap::new(),
            comparer: Comparer::new(window_ms, values),
            normal,
            report: Report::default(),
            step: 0,
            queue: VecDeque::new(),
            debts: BTreeMap::new(),
            owed: HashMap::new(),
            unanswered: BTreeMap::new(),
            early: HashSet::new(),
            patience_ms: window_ms / 2,
            burst: Burst::default(),
            window_ms,
            done: Vec::new(),
            gone: VecDeque::new(),
        }
    }

    /// What is to be done now.
    pub fn take_deeds(&mut self) -> Vec<(u64, Deed)> {
        std::mem::take(&mut self.done)
    }

    pub fn opened(&mut self, session: u64) {
        self.report.sessions += 1;
        self.report.played += 1;
        self.sessions.insert(session, Session::default());
    }

    /// It is compared no more.
    pub fn skipped(&mut self, session: u64, why: &str) {
        if self.sessions.contains_key(&session) {
            self.give_up(session, why);
            self.done.push((session, Deed::Close));
        }
    }

    fn give_up(&mut self, session: u64, why: &str) {
        self.report.skip(why);
        self.comparer.give_up(session);
        self.forget(0, session);
    }

    /// The client said something to the running server.
    pub fn client(&mut self, now_ms: u64, session: u64, packet: Packet) {
        self.report.packets += 1;
        self.step += 1;
        self.burst.note(now_ms, session);
        let step = self.step;
        let Some(space) = self.space(session, &packet.namespace) else {
            return;
        };
        if packet.kind == PacketType::Connect && packet.data.contains("\"pid\"") {
            return self.skipped(
                session,
                "it goes on with a session from before (connection state recovery)",
            );
        }
        if let Some(id) = packet.id
            && matches!(packet.kind, PacketType::Event | PacketType::BinaryEvent)
        {
            let asked = Asked {
                event: packet.event(),
                step,
                is_answered: false,
            };
            space.asked.insert(id, asked);
            // The oldest one is not answered any more.
            if space.asked.len() > ASKED_MAX {
                space.asked.pop_first();
            }
            self.unanswered
                .insert(step, (session, now_ms + self.window_ms));
        }
        if self.queue.len() >= QUEUE_MAX {
            self.report
                .leave_out("too many packets wait for the gateway");
            return;
        }
        self.take_turn(now_ms, session, Some(packet));
    }

    pub fn client_gone(&mut self, now_ms: u64, session: u64) {
        self.step += 1;
        self.burst.note(now_ms, session);
        self.take_turn(now_ms, session, None);
    }

    fn take_turn(&mut self, now_ms: u64, session: u64, packet: Option<Packet>) {
        self.queue.push_back(Turn {
            step: self.step,
            heard_ms: now_ms,
            session,
            packet,
        });
        self.go_on(now_ms);
    }

    /// The gateway's copy ended by itself.
    pub fn copy_ended(&mut self, now_ms: u64, session: u64) {
        // Both may end it. The gateway may be faster.
        if let Some(known) = self.sessions.get_mut(&session) {
            known.copy_ended_until_ms = Some(now_ms + self.window_ms);
        }
    }

    /// A server said something to this client.
    pub fn said(&mut self, now_ms: u64, now_s: f64, side: Side, session: u64, packet: &Packet) {
        self.step += 1;
        let mut content = packet.content();
        let Some(heard) = self.hear(side, session, packet, &mut content) else {
            return;
        };
        if let Some(step) = heard.answers.filter(|_| side == Side::Real) {
            self.unanswered.remove(&step);
        }
        let namespace = packet.namespace.clone();
        if let Some(ack) = heard.pays {
            let debt = Debt {
                session,
                namespace: namespace.clone(),
                ack,
            };
            self.note_answer(now_ms, side, debt);
        }
        let cause = self.cause();
        self.report.ordered += u64::from(side == Side::Real && cause != 0);
        let is_question = matches!(packet.kind, PacketType::Event | PacketType::BinaryEvent);
        let said = Saying {
            content: self.normal.apply(&heard.event, content, now_s),
            id: packet.id.filter(|_| is_question),
            bytes: packet.bytes(),
            cause,
        };
        let lane = Lane {
            session,
            namespace,
            event: heard.event,
        };
        let report = &mut self.report;
        if let Some(ids) = self.comparer.said(now_ms, side, lane, said, report) {
            self.note_question(session, &packet.namespace, ids);
        }
        self.go_on(now_ms);
    }

    /// What a packet means for the session, which may be gone. Ids that are new on each side leave its content.
    fn hear(
        &mut self,
        side: Side,
        session: u64,
        packet: &Packet,
        content: &mut Value,
    ) -> Option<Meaning> {
        let known = self.sessions.get_mut(&session)?;
        let space = known.spaces.entry(packet.namespace.clone()).or_default();
        Some(match packet.kind {
            PacketType::Connect => {
                if let Some(id) = content.get("sid").and_then(Value::as_str) {
                    space.ids.push(id.to_owned());
                    let socket = format!("<socket of session {session} in {}>", packet.namespace);
                    self.comparer.know(id, &socket);
                    self.normal.know(id, socket);
                }
                // Offers to recover are between one server and its client, too.
                if let Some(members) = content.as_object_mut() {
                    members.remove("sid");
                    members.remove("pid");
                }
                Meaning::paying("CONNECT", None)
            }
            PacketType::ConnectError => {
                space.refused |= side == Side::Own;
                Meaning::paying("CONNECT_ERROR", None)
            }
            PacketType::Disconnect => Meaning::of("DISCONNECT"),
            PacketType::Ack | PacketType::BinaryAck => space.answered(packet.id),
            PacketType::Event | PacketType::BinaryEvent => Meaning::of(packet.event()),
        })
    }

    pub fn pass_time(&mut self, now_ms: u64) {
        while let Some((until_ms, id)) = self.gone.front()
            && *until_ms <= now_ms
        {
            self.normal.forget(id);
            self.gone.pop_front();
        }
        let is_over = |known: &Session| {
            known
                .copy_ended_until_ms
                .is_some_and(|until| until <= now_ms)
        };
        let ended = self.sessions.iter().filter(|(_, known)| is_over(known));
        for session in ended.map(|(session, _)| *session).collect::<Vec<_>>() {
            self.give_up(session, "the gateway ended its copy of the session");
        }
        self.comparer.pass_time(now_ms, &mut self.report);
        let old = self
            .debts
            .iter()
            .filter(|(_, (_, until_ms))| *until_ms <= now_ms);
        let old: Vec<u64> = old.map(|(step, _)| *step).collect();
        for step in old {
            if let Some((debt, _)) = self.debts.remove(&step) {
                self.owed.remove(&debt);
                self.report.late += 1;
            }
        }
        self.unanswered
            .retain(|_, (_, until_ms)| *until_ms > now_ms);
        for space in self
            .sessions
            .values_mut()
            .flat_map(|session| session.spaces.values_mut())
        {
            while space
                .answers
                .front()
                .is_some_and(|(until_ms, _)| *until_ms <= now_ms)
            {
                space.answers.pop_front();
                self.report
                    .leave_out("an answer to a question that the gateway did not ask");
            }
        }
        self.go_on(now_ms);
    }

    /// The last words: all that waits is judged.
    pub fn finish(&mut self, now_ms: u64) {
        self.comparer.finish(now_ms, &mut self.report);
    }

    /// Nothing but words of one client can have brought about what is heard now. 0: others spoke, or wait for an answer.
    fn cause(&self) -> u64 {
        let client = self.burst.client;
        let alone = self
            .unanswered
            .values()
            .all(|(session, _)| *session == client);
        if alone { self.burst.cause() } else { 0 }
    }

    // ---- questions and answers ------------------------------------------------------------------------------------------------

    fn note_answer(&mut self, now_ms: u64, side: Side, debt: Debt) {
        match side {
            Side::Real if self.early.remove(&debt) => {}
            Side::Real => {
                self.owed.insert(debt.clone(), self.step);
                self.debts
                    .insert(self.step, (debt, now_ms + self.patience_ms));
            }
            Side::Own => match self.owed.remove(&debt) {
                Some(step) => drop(self.debts.remove(&step)),
                None => drop(self.early.insert(debt)),
            },
        }
    }

    /// Both asked the same: an answer of the client can be given to the gateway.
    fn note_question(&mut self, session: u64, namespace: &str, (real, own): (u64, u64)) {
        let Some(space) = self.space(session, namespace) else {
            return;
        };
        if space.questions.len() < ASKED_MAX {
            space.questions.insert(real, own);
        }
        let at = space
            .answers
            .iter()
            .position(|(_, packet)| packet.id == Some(real));
        let answer = at.and_then(|at| space.answers.remove(at));
        if let Some((_, mut packet)) = answer {
            space.questions.remove(&real);
            packet.id = Some(own);
            self.done.push((session, Deed::Send(packet)));
        }
    }

    fn space(&mut self, session: u64, namespace: &str) -> Option<&mut Space> {
        let session = self.sessions.get_mut(&session)?;
        Some(session.spaces.entry(namespace.to_owned()).or_default())
    }

    // ---- the gateway's turn ---------------------------------------------------------------------------------------------------

    fn go_on(&mut self, now_ms: u64) {
        while let Some(turn) = self.queue.front()
            && self.may_go(now_ms, turn)
            && let Some(turn) = self.queue.pop_front()
        {
            match turn.packet {
                Some(packet) => self.play(now_ms, turn.session, packet),
                None => self.end(now_ms, turn.session),
            }
        }
    }

    fn may_go(&self, now_ms: u64, turn: &Turn) -> bool {
        let owes = |owed: &u64| *owed < turn.step;
        if self.debts.keys().next().is_some_and(owes) {
            return false;
        }
        let Some(known) = self.sessions.get(&turn.session) else {
            return true;
        };
        // The waits of several clients pass at the same time.
        let over_ms = (turn.heard_ms + END_MS).max(known.sent_ms + ANSWER_MS);
        // One that leaves its namespaces first goes as well.
        let goes_on = |packet: &Packet| packet.kind != PacketType::Disconnect;
        turn.packet.as_ref().is_some_and(goes_on)
            || self.comparer.is_settled(turn.session)
            || now_ms >= over_ms
    }

    fn play(&mut self, now_ms: u64, session: u64, mut packet: Packet) {
        let until_ms = now_ms + self.window_ms;
        let Some(space) = self.space(session, &packet.namespace) else {
            return;
        };
        if packet.kind == PacketType::Connect {
            space.refused = false;
        }
        if space.refused {
            return self.report.leave_out("the gateway refused the namespace");
        }
        if let (PacketType::Ack | PacketType::BinaryAck, Some(id)) = (packet.kind, packet.id) {
            match space.questions.remove(&id) {
                Some(own) => packet.id = Some(own),
                None if space.answers.len() < ASKED_MAX => {
                    return space.answers.push_back((until_ms, packet));
                }
                None => {
                    return self
                        .report
                        .leave_out("too many answers wait for questions of the gateway");
                }
            }
        }
        if let Some(known) = self.sessions.get_mut(&session) {
            known.sent_ms = now_ms;
        }
        self.done.push((session, Deed::Send(packet)));
    }

    fn end(&mut self, now_ms: u64, session: u64) {
        if self.sessions.contains_key(&session) {
            self.comparer.end(now_ms, session, &mut self.report);
            self.forget(now_ms, session);
            self.done.push((session, Deed::Close));
        }
    }

    fn forget(&mut self, now_ms: u64, session: u64) {
        let Some(known) = self.sessions.remove(&session) else {
            return;
        };
        self.report.played -= 1;
        let until_ms = now_ms + 2 * self.window_ms;
        let ids = known.spaces.into_values().flat_map(|space| space.ids);
        self.gone.extend(ids.map(|id| (until_ms, id)));
        self.unanswered.retain(|_, (asker, _)| *asker != session);
        self.early.retain(|debt| debt.session != session);
        let owed = self.owed.extract_if(|debt, _| debt.session == session);
        for (_, step) in owed {
            self.debts.remove(&step);
        }
    }
}

#[cfg(test)]
#[path = "play_tests.rs"]
mod tests;
