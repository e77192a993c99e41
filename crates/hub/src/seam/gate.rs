//! The gate before a namespace that a client wants to join while nobody has decided yet: what it sends there waits in order, its
//! other namespaces do not, and no other client does. A DISCONNECT passes: the client gave up.

use crate::access::claims::Claims;
use crate::books::close::CloseReason;
use crate::books::metrics::{Dropped, Limit};
use crate::hub::Hub;
use crate::seam::handler::{Decision, Refusal};
use crate::seam::question::Waiting;
use crate::tables::slot::{AskId, SessionId};
use std::sync::Arc;
use wire::socketio::{self, Packet, PacketType};

/// A client before a gate.
#[derive(Debug)]
pub(crate) struct Join {
    pub(crate) namespace: Box<str>,
    /// The raw CONNECT payload.
    pub(crate) auth: Arc<str>,
    pub(crate) claims: Option<Claims>,
    pub(crate) held: Vec<Held>,
    held_bytes: usize,
}

/// A packet that waits.
#[derive(Debug)]
pub(crate) struct Held {
    text: Box<str>,
    attachments: Vec<Vec<u8>>,
    connects: bool,
}

/// What a packet costs beside its bytes: the shortest ones must not be free.
const HELD_BYTES: usize = size_of::<Held>();

impl Held {
    fn new(packet: &Packet<'_>, attachments: &[Vec<u8>]) -> Self {
        let mut text = Vec::new();
        socketio::write(&mut text, packet);
        Self {
            text: String::from_utf8_lossy(&text).into(),
            attachments: attachments.to_vec(),
            connects: packet.kind == PacketType::Connect,
        }
    }

    fn bytes(&self) -> usize {
        let attachments = self.attachments.iter();
        let attached = attachments.map(|bytes| size_of::<Vec<u8>>() + bytes.len());
        HELD_BYTES + self.text.len() + attached.sum::<usize>()
    }
}

impl Join {
    pub(crate) fn new(namespace: &str, auth: Arc<str>) -> Self {
        Self {
            namespace: namespace.into(),
            auth,
            claims: None,
            held: Vec::new(),
            held_bytes: 0,
        }
    }
}

impl Hub {
    /// The question that a client waits for to join a namespace.
    pub(crate) fn gate(&self, session: SessionId, namespace: &str) -> Option<AskId> {
        let slot = self.parts.people.sessions.get(session)?;
        slot.gates.iter().find(|ask| {
            let pending = self.parts.asks.get(*ask);
            let waiting = pending.map(|pending| &pending.waiting);
            matches!(waiting, Some(Waiting::Join(join)) if *join.namespace == *namespace)
        })
    }

    /// A packet before a gate. A client that fills its gate is closed: it does not wait for the answer to its CONNECT, as clients
    /// do, and something that it sent would be lost.
    pub(crate) fn hold(
        &mut self,
        session: SessionId,
        ask: AskId,
        packet: &Packet<'_>,
        attachments: &[Vec<u8>],
    ) {
        if packet.kind == PacketType::Disconnect {
            return self.give_up(session, ask, packet.namespace);
        }
        let held = Held::new(packet, attachments);
        let bytes = held.bytes();
        let limits = &self.parts.books.config.limits;
        let (gate_max, all_max) = (limits.gate_bytes_max, limits.ask_bytes_max);
        let join = self.parts.asks.join_mut(ask);
        let fits = join.is_some_and(|join| join.held_bytes + bytes <= gate_max);
        if !fits || !self.parts.asks.keep(ask, bytes, all_max) {
            self.parts.books.counts.hit(Limit::GateBytes);
            return self
                .parts
                .close_session(session, CloseReason::LimitExceeded);
        }
        if let Some(join) = self.parts.asks.join_mut(ask) {
            join.held_bytes += bytes;
            join.held.push(held);
        }
    }

    /// The client does not want in any more.
    fn give_up(&mut self, session: SessionId, ask: AskId, namespace: &str) {
        let Some(slot) = self.parts.people.sessions.get_mut(session) else {
            return;
        };
        slot.rare.get_or_insert_default().part(namespace);
        if let Some(join) = self.parts.asks.join_mut(ask) {
            let held = std::mem::take(&mut join.held);
            held.iter()
                .for_each(|_| self.parts.books.counts.drop_message(Dropped::Invalid));
        }
        self.parts.forget_question(ask);
    }

    /// The client may be let in, as far as its token goes.
    pub(crate) fn join_namespace(
        &mut self,
        session: SessionId,
        namespace: &str,
        auth: &str,
        claims: Option<&Claims>,
    ) {
        match self.ask_handler(session, namespace, auth, claims) {
            Some(Decision::Later) => {
                let mut join = Join::new(namespace, auth.into());
                join.claims = claims.cloned();
                self.await_decision(session, join);
            }
            Some(Decision::Admit) => self.enter(session, namespace, auth, claims),
            Some(Decision::Refuse(refusal)) => self.keep_out(session, namespace, &refusal),
            None => {}
        }
    }

    /// The same for a client that waited before a gate for its token's sake.
    pub(crate) fn join_from_gate(&mut self, session: SessionId, join: Join) {
        let claims = join.claims.as_ref();
        match self.ask_handler(session, &join.namespace, &join.auth, claims) {
            Some(Decision::Later) => self.await_decision(session, join),
            Some(Decision::Admit) => self.on_joining_decided(session, join, Ok(())),
            Some(Decision::Refuse(refusal)) => {
                self.on_joining_decided(session, join, Err(refusal));
            }
            None => {}
        }
    }

    fn await_decision(&mut self, session: SessionId, join: Join) {
        match self.parts.take_ticket() {
            // The handler ended the session in the same call.
            Some(key) if !self.parts.is_open(session) => {
                self.parts.close_question(key);
            }
            Some(key) => {
                let bytes_max = self.parts.books.config.limits.ask_bytes_max;
                // What waits is kept even where there is no room to book it: the gate has a bound of its own.
                let _ = self.parts.asks.keep(key.id(), join.held_bytes, bytes_max);
                self.parts.wait_for(key, Waiting::Join(Box::new(join)));
            }
            None => self.on_joining_decided(session, join, Err(Refusal::unavailable())),
        }
    }

    /// The end of waiting: the client is in or not, and what it sent meanwhile is worked on.
    pub(crate) fn on_joining_decided(
        &mut self,
        session: SessionId,
        join: Join,
        decision: Result<(), Refusal>,
    ) {
        let mut held = join.held.into_iter().peekable();
        match decision {
            Ok(()) => self.enter(session, &join.namespace, &join.auth, join.claims.as_ref()),
            Err(refusal) => {
                self.keep_out(session, &join.namespace, &refusal);
                // What it sent as a member goes nowhere; another CONNECT is another try.
                while held.next_if(|packet| !packet.connects).is_some() {
                    self.parts.books.counts.drop_message(Dropped::Refused);
                }
            }
        }
        for packet in held {
            if !self.parts.is_open(session) {
                return;
            }
            // Stock clients give up without a word. One that came back before the answer asked twice, and means once.
            if packet.connects && self.parts.socket_in(session, &join.namespace).is_some() {
                continue;
            }
            if let Ok(parsed) = socketio::parse(&packet.text) {
                self.on_packet(session, &parsed, &packet.attachments);
            }
        }
    }

    /// The client is let in.
    fn enter(&mut self, session: SessionId, namespace: &str, auth: &str, claims: Option<&Claims>) {
        // The handler may have ended the session.
        if !self.parts.is_open(session) {
            return;
        }
        let socket = self.add_socket(session, namespace, auth, claims);
        if let Some(claims) = claims {
            self.parts.grant(socket, claims);
        }
        self.greet(session, socket, namespace);
        self.call(session, |handler, cx| handler.connected(cx, socket, auth));
    }

    fn keep_out(&mut self, session: SessionId, namespace: &str, refusal: &Refusal) {
        if self.parts.is_open(session) {
            self.refuse_namespace(session, namespace, refusal);
        }
    }
}
