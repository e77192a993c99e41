//! Answers to questions and decisions of the handler: what they mean for the client that waits.

use crate::access::tokens;
use crate::books::claims::{Claims, Denied, Refused};
use crate::books::metrics::Limit;
use crate::hearing::{expiry, joining, plain_gate, plain_joining, socketio};
use crate::recovery::messages::NotRecovered;
use crate::seam::ask::Reply;
use crate::seam::event::Refusal;
use crate::seam::join::Held;
use crate::seam::outbound::{FoundSocket, Next};
use crate::seam::question;
use crate::seam::questions::{Asked, Pending, Waiting};
use crate::seam::stage::Stage;
use crate::seam::told::Told;
use crate::tables::slot::{AskKey, SessionKey};

/// The answer to an `Effect::Ask`.
pub(crate) fn answered(stage: &mut Stage, key: AskKey, reply: Reply) {
    if let Some(pending) = question::settle_question(&mut stage.parts, key) {
        on_answer(stage, pending, reply);
    }
}

/// Nobody answered in time.
pub(crate) fn ask_due(stage: &mut Stage, key: AskKey) {
    let Some(pending) = question::settle_question(&mut stage.parts, key) else {
        return;
    };
    stage.parts.books.counts.hit(Limit::AskTimeout);
    if pending.asked == Asked::Handler {
        on_decision(stage, pending, Err(Refusal::unavailable()));
    } else {
        on_answer(stage, pending, Reply::Answered(None));
    }
}

fn on_answer(stage: &mut Stage, pending: Pending, reply: Reply) {
    match (pending.asked, reply) {
        (Asked::Verifier, Reply::Verified(verdict)) => on_verdict(stage, pending, verdict),
        (Asked::Verifier, Reply::Answered(_)) => {
            on_verdict(stage, pending, Err(Denied::Unavailable.into()));
        }
        (Asked::Outside { token }, reply) => {
            let answer = match reply {
                Reply::Answered(answer) => answer,
                Reply::Verified(_) => None,
            };
            stage.parts.outbound.tell(Told::Answered { token, answer });
        }
        (Asked::Shards { .. }, _) => on_found(stage, pending, Err(NotRecovered::Late)),
        // A ticket is not answered from outside.
        (Asked::Handler, _) => on_decision(stage, pending, Err(Refusal::unavailable())),
    }
}

/// Carries out what the handler decided.
fn decided(stage: &mut Stage, key: AskKey, decision: Result<(), Refusal>) {
    if let Some(pending) = question::settle_question(&mut stage.parts, key) {
        on_decision(stage, pending, decision);
    }
}

fn on_decision(stage: &mut Stage, pending: Pending, decision: Result<(), Refusal>) {
    // The session may have ended while its handler thought.
    let sessions = &stage.parts.people.sessions;
    let session = pending
        .session
        .filter(|key| sessions.still_open(*key).is_some());
    let Some(session) = session.map(SessionKey::id) else {
        return;
    };
    match pending.waiting {
        Waiting::Join(join) => joining::on_joining_decided(stage, session, *join, decision),
        Waiting::Begin(claims, socket) => {
            plain_joining::on_beginning_decided(stage, session, claims, socket, decision)
        }
        Waiting::Refresh { .. } | Waiting::Nobody => {}
    }
}

/// Other shards were asked for the socket of a client that comes back.
fn on_found(stage: &mut Stage, pending: Pending, found: FoundSocket) {
    let Some(key) = pending.session else {
        return;
    };
    if let Waiting::Join(join) = pending.waiting
        && stage.parts.people.sessions.still_open(key).is_some()
    {
        joining::on_found(stage, key.id(), *join, found);
    }
}

/// The control plane has looked at a token.
fn on_verdict(stage: &mut Stage, pending: Pending, verdict: Result<Claims, Refused>) {
    let Some(key) = pending.session else {
        return;
    };
    let session = key.id();
    // A verdict counts also where its client is gone.
    match &verdict {
        Ok(_) => stage.parts.books.counts.auth_ok += 1,
        Err(refused) => tokens::note_denied(&mut stage.parts, session, refused.clone()),
    }
    let verdict = verdict.map_err(|refused| refused.denied);
    if stage.parts.people.sessions.still_open(key).is_none() {
        return;
    }
    match pending.waiting {
        Waiting::Join(join) => joining::on_join_verdict(stage, session, *join, verdict),
        Waiting::Begin(..) => {
            let conn = plain_gate::set_asking(&mut stage.parts, session, false);
            match verdict {
                Ok(claims) => plain_joining::begin_plain(stage, session, Some(&claims)),
                Err(denied) => plain_gate::deny_plain(&mut stage.parts, session, denied),
            }
            // Frames that waited are read once the socket is there.
            if let Some(conn) = conn {
                stage
                    .parts
                    .line
                    .intake
                    .revive(&mut stage.parts.line.conns, conn);
            }
        }
        Waiting::Refresh { socket, ack } => {
            expiry::on_refresh_verdict(&mut stage.parts, socket, ack, verdict)
        }
        Waiting::Nobody => {}
    }
}

/// Tells the handler what it must know, and carries out what it decided, until nothing is left.
pub(crate) fn settle(stage: &mut Stage) {
    loop {
        stage.tell();
        match stage.parts.outbound.next() {
            Some(Next::Released(session, held)) => released(stage, session, &held),
            Some(Next::Decided(key, decision)) => decided(stage, key, decision),
            Some(Next::Found(key, found)) => {
                if let Some(pending) = question::settle_question(&mut stage.parts, key) {
                    on_found(stage, pending, found);
                }
            }
            None => return,
        }
    }
}

/// A packet that waited before a gate is worked on.
fn released(stage: &mut Stage, key: SessionKey, held: &Held) {
    let parts = &mut stage.parts;
    let Some(slot) = parts.people.sessions.still_open(key) else {
        return;
    };
    let has_others = slot.sockets.len() > 1;
    let Some(packet) = held.packet() else {
        return socketio::parse_error(parts, key.id());
    };
    // Stock clients give up a namespace without a word, as long as they have another one. A client that came back before the answer
    // has asked twice and means once.
    if held.connects() && has_others && parts.people.socket_in(key.id(), packet.namespace).is_some()
    {
        return;
    }
    socketio::on_packet(stage, key.id(), &packet, held.attachments());
}
