//! The way of a client into a namespace of Socket.IO: its token, the handler's decision, and what it sent meanwhile.

use crate::access::tokens::{self, shown_token};
use crate::books::claims::{Claims, Denied};
use crate::books::close::CloseReason;
use crate::books::config::AuthStyle;
use crate::books::metrics::{Dropped, Limit};
use crate::bounds::RETURN_MS;
use crate::clients::session::RequestToken;
use crate::cluster::waiting;
use crate::dialect::notices;
use crate::dialect::speech::Word;
use crate::hearing::plain_gate;
use crate::life::returning::{self, Found};
use crate::life::{ending, opening, parking};
use crate::parts::Parts;
use crate::recovery::messages::NotRecovered;
use crate::recovery::shown::Shown;
use crate::seam::ask::Token;
use crate::seam::event::{ConnectRequest, Decision, Refusal, Returns};
use crate::seam::join::Join;
use crate::seam::opening::HeaderLines;
use crate::seam::outbound::FoundSocket;
use crate::seam::question;
use crate::seam::questions::{Asked, Waiting};
use crate::seam::stage::Stage;
use crate::tables::slot::SessionId;
use std::mem;
use std::sync::Arc;
use std::time::Duration;
use wire::base64url::Id20;
use wire::socketio::PacketType;

/// Goes on with a client against which its token says nothing: its old socket is looked for, or its handler decides.
pub(crate) fn join_namespace(
    stage: &mut Stage,
    session: SessionId,
    namespace: &str,
    auth: &str,
    claims: Option<&Claims>,
    shown: Option<Shown>,
) {
    if shown.is_some() {
        let mut join = Join::new(namespace, auth.into());
        join.claims = claims.cloned();
        join.shown = shown;
        return come_back(stage, session, join);
    }
    let id = stage.parts.new_socket_id();
    match ask_handler(stage, session, (id, None), namespace, auth, claims) {
        Some(Decision::Later) => {
            let mut join = Join::new(namespace, auth.into());
            join.claims = claims.cloned();
            join.socket = Some(id);
            await_decision(stage, session, join);
        }
        Some(Decision::Admit) => enter(stage, session, (Some(id), None), namespace, auth, claims),
        Some(Decision::Refuse(refusal)) => keep_out(&mut stage.parts, session, namespace, &refusal),
        // The handler panicked, and the session is closed.
        None => {}
    }
}

/// Asks the handler about a client that waited at a gate: for a verdict about its token, or for the socket that it had.
fn join_from_gate(stage: &mut Stage, session: SessionId, mut join: Join) {
    // A socket that comes back keeps its id.
    let id = join.socket.unwrap_or_else(|| stage.parts.new_socket_id());
    join.socket = Some(id);
    let claims = join.claims.as_ref();
    let uid = claims.map(|claims| claims.uid.as_str());
    let comer = join.shown.and_then(|shown| shown.comer(uid));
    let returns = comer.map(|comer| returning::state(&stage.parts, comer));
    let socket = (id, returns.as_ref());
    match ask_handler(stage, session, socket, &join.namespace, &join.auth, claims) {
        Some(Decision::Later) => await_decision(stage, session, join),
        Some(Decision::Admit) => on_joining_decided(stage, session, join, Ok(())),
        Some(Decision::Refuse(refusal)) => {
            on_joining_decided(stage, session, join, Err(refusal));
        }
        None => {}
    }
}

/// A client that had a socket here before wants it back: it is looked for, and then the handler decides as about anybody else.
fn come_back(stage: &mut Stage, session: SessionId, mut join: Join) {
    let uid = join.claims.as_ref().map(|claims| claims.uid.as_str());
    let comer = join.shown.and_then(|shown| shown.comer(uid));
    let found = match comer {
        Some(comer) => returning::find(&mut stage.parts, session, &join.namespace, comer),
        // What it shows names a socket of another server.
        None => Found::Nowhere(NotRecovered::Unknown),
    };
    match found {
        Found::Here(id) => join.socket = Some(id),
        Found::Nowhere(why) => {
            returning::note_lost(&mut stage.parts, session, why);
            join.shown = None;
        }
        Found::Asked(number) => return await_shards(stage, session, join, number),
    }
    join_from_gate(stage, session, join);
}

fn await_shards(stage: &mut Stage, session: SessionId, mut join: Join, number: u64) {
    // Shards answer sooner, or are given up.
    let timeout = Duration::from_millis(RETURN_MS);
    let parts = &mut stage.parts;
    let bytes = join.namespace.len() + join.auth.len();
    let asked = Asked::Shards { number };
    let key = question::open_question(parts, Some(session), asked, bytes, timeout);
    match (key, &mut parts.recovery) {
        (Some(key), Some(recovery)) => {
            recovery.waiting.insert(number, key);
            question::wait_for(parts, key, Waiting::Join(Box::new(join)));
        }
        _ => {
            returning::give_up(parts, number);
            returning::note_lost(parts, session, NotRecovered::Late);
            join.shown = None;
            join_from_gate(stage, session, join);
        }
    }
}

/// Other shards were asked for the socket of a client that comes back.
pub(crate) fn on_found(stage: &mut Stage, session: SessionId, mut join: Join, found: FoundSocket) {
    // A `pid` of another namespace opens nothing here.
    let found = found.and_then(|(id, namespace)| match *namespace == *join.namespace {
        true => Ok(id),
        false => Err(NotRecovered::Unknown),
    });
    match found {
        Ok(id) => {
            if let Some(pid) = join.shown.and_then(|shown| shown.pid) {
                returning::promise(&mut stage.parts, session, pid);
            }
            join.socket = Some(id);
        }
        Err(why) => {
            returning::note_lost(&mut stage.parts, session, why);
            join.shown = None;
        }
    }
    join_from_gate(stage, session, join);
}

fn await_decision(stage: &mut Stage, session: SessionId, join: Join) {
    match stage.parts.outbound.asks.take_ticket() {
        // The handler ended the session in the same call.
        Some(key) if !stage.parts.people.sessions.is_open(session) => {
            question::close_question(&mut stage.parts, key);
        }
        Some(key) => {
            // What waits is kept even where there is no room to book it: the gate has a bound of its own.
            let _ = stage.parts.outbound.asks.keep(key.id(), join.held_bytes());
            question::wait_for(&mut stage.parts, key, Waiting::Join(Box::new(join)));
        }
        None => on_joining_decided(stage, session, join, Err(Refusal::unavailable())),
    }
}

/// The end of waiting: the client is in or not, and what it sent meanwhile is worked on when the hub settles.
pub(crate) fn on_joining_decided(
    stage: &mut Stage,
    session: SessionId,
    mut join: Join,
    decision: Result<(), Refusal>,
) {
    let mut held = join.take_held().into_iter().peekable();
    match decision {
        Ok(()) => enter(
            stage,
            session,
            (join.socket, join.shown),
            &join.namespace,
            &join.auth,
            join.claims.as_ref(),
        ),
        Err(refusal) => {
            if let Some(pid) = join.shown.and_then(|shown| shown.pid) {
                returning::take_back_promise(&mut stage.parts, pid);
            }
            keep_out(&mut stage.parts, session, &join.namespace, &refusal);
            // What it sent as a member goes nowhere; another CONNECT is another try.
            while held.next_if(|packet| !packet.connects()).is_some() {
                stage.parts.books.counts.drop_message(Dropped::Refused);
            }
        }
    }
    let key = stage.parts.people.sessions.key(session);
    stage.parts.outbound.release(key, held);
}

/// The client is let in.
fn enter(
    stage: &mut Stage,
    session: SessionId,
    (id, shown): (Option<Id20>, Option<Shown>),
    namespace: &str,
    auth: &str,
    claims: Option<&Claims>,
) {
    let parts = &mut stage.parts;
    // The handler may have ended the session.
    let Some(slot) = parts.people.sessions.open(session) else {
        return;
    };
    let is_plain = slot.language.protocol().is_plain_websocket();
    let uid = claims.map(|claims| claims.uid.as_str());
    let comer = shown.and_then(|shown| shown.comer(uid));
    let back = match comer.map(|comer| returning::take(parts, comer)) {
        Some(Err(why)) => {
            parking::settle(parts);
            returning::note_lost(parts, session, why);
            // The socket went while the handler decided: the session ends, and its client comes again as somebody new (ADR 38).
            return returning::break_promise(parts, session);
        }
        Some(Ok(back)) => Some(back),
        None => None,
    };
    let Some(socket) = opening::add_socket(parts, session, id, namespace, auth, claims) else {
        return;
    };
    match &back {
        Some(back) => {
            returning::restore(parts, socket, back);
            parking::settle(parts);
        }
        None => parking::begin(parts, session, socket, uid),
    }
    if let Some(claims) = claims {
        // A socket that came back is in its rooms. It joined those of its token when it began.
        match back {
            Some(_) => tokens::renew(parts, socket, claims),
            None => tokens::grant(parts, socket, claims),
        }
    }
    // Before its CONNECT is answered, a stock client buffers events without moving its offset: a second cut would bring them twice.
    opening::greet(parts, socket, namespace);
    if let Some(back) = &back {
        returning::replay(parts, socket, back);
    }
    stage.call(session, |handler, cx| handler.connected(cx, socket, auth));
    // The turn has not been flushed yet, so all of this waits until other nodes know of the socket.
    waiting::hold_welcome(&mut stage.parts, session, socket);
    if is_plain {
        plain_gate::go_on(stage, session);
    }
}

fn keep_out(parts: &mut Parts, session: SessionId, namespace: &str, refusal: &Refusal) {
    let slot = parts.people.sessions.open(session);
    match slot.map(|slot| slot.language.protocol().is_plain_websocket()) {
        Some(true) => plain_gate::keep_out_plain(parts, session, refusal),
        Some(false) => opening::refuse_namespace(parts, session, namespace, refusal),
        None => {}
    }
}

/// A client wants to join a namespace and tokens matter: joins it now, later, or not.
pub(crate) fn authenticate(
    stage: &mut Stage,
    session: SessionId,
    namespace: &str,
    auth: &str,
    shown: Option<Shown>,
) {
    let Some(slot) = stage.parts.people.sessions.get(session) else {
        return;
    };
    // A token in the payload of CONNECT comes before the one of the request.
    let (token, auth_text) = match (shown_token(auth), slot.joining.token.as_deref()) {
        (Some(_), _) => {
            let text: Arc<str> = auth.into();
            let shown = shown_token(&text).unwrap_or_default();
            (Token::within(&text, &shown), text)
        }
        (None, Some(RequestToken::Unread(token))) => (Token::from(Arc::clone(token)), auth.into()),
        (None, Some(RequestToken::Good(claims))) => {
            let claims = claims.clone();
            return join_on_claims(stage, session, namespace, auth, &claims, shown);
        }
        (None, None) if stage.parts.books.config.auth.required => {
            tokens::note_denied(&mut stage.parts, session, Denied::Missing.into());
            return deny_join(&mut stage.parts, session, namespace, Denied::Missing);
        }
        (None, None) => return join_namespace(stage, session, namespace, auth, None, shown),
    };
    let mut join = Join::new(namespace, auth_text);
    join.shown = shown;
    let waiting = Waiting::Join(Box::new(join));
    if let Err(denied) = question::ask_about(&mut stage.parts, session, token, waiting) {
        tokens::note_denied(&mut stage.parts, session, denied.into());
        deny_join(&mut stage.parts, session, namespace, denied);
    }
}

/// The request's token was good when it was looked at; is it still?
fn join_on_claims(
    stage: &mut Stage,
    session: SessionId,
    namespace: &str,
    auth: &str,
    claims: &Claims,
    shown: Option<Shown>,
) {
    let now_s = stage.parts.clock.now.wall_ms / 1000;
    if claims.expires_s.is_some_and(|expires_s| expires_s <= now_s) {
        tokens::note_denied(&mut stage.parts, session, Denied::Expired.into());
        return deny_join(&mut stage.parts, session, namespace, Denied::Expired);
    }
    join_namespace(stage, session, namespace, auth, Some(claims), shown);
}

pub(crate) fn on_join_verdict(
    stage: &mut Stage,
    session: SessionId,
    mut join: Join,
    verdict: Result<Claims, Denied>,
) {
    match verdict {
        Ok(mut claims) => {
            let Parts { books, people, .. } = &mut stage.parts;
            let max = books.config.limits.sockets_per_session_max;
            let slot = people.sessions.get_mut(session);
            // Others may have joined while this one was asked about.
            let Some(slot) = slot.filter(|slot| slot.may_join(max)) else {
                return wants_too_many(&mut stage.parts, session);
            };
            let shared = |kinds| people.claim_kinds.shared(kinds);
            claims.kinds = claims.kinds.map(shared);
            // A verdict about the request's token holds for the namespaces that are joined later, too.
            if shown_token(&join.auth).is_none()
                && let Some(token) = slot.joining.token.as_deref_mut()
                && matches!(token, RequestToken::Unread(_))
            {
                *token = RequestToken::Good(claims.clone());
            }
            join.claims = Some(claims);
            match join.shown {
                Some(_) => come_back(stage, session, join),
                None => join_from_gate(stage, session, join),
            }
        }
        Err(denied) => deny_join(&mut stage.parts, session, &join.namespace, denied),
    }
}

/// Strict: CONNECT_ERROR. Chat: the client is let in, told by an `error` event, and sent off. If the fault is ours there is no DISCONNECT:
/// after one, no client comes back by itself.
fn deny_join(parts: &mut Parts, session: SessionId, namespace: &str, denied: Denied) {
    let slot = parts.people.sessions.get(session);
    // Only a plain client that said that it comes back gets here.
    if slot.is_some_and(|slot| slot.language.protocol().is_plain_websocket()) {
        return plain_gate::deny_plain(parts, session, denied);
    }
    if parts.books.config.auth.style == AuthStyle::Strict {
        ending::log_refused(parts, session, denied.close_reason());
        // A program can mend an expired token by itself, so it gets a code that it can read.
        let code = || format!("{{\"code\":\"{}\"}}", denied.code());
        let refusal = Refusal {
            message: denied.message().to_owned(),
            data: (denied == Denied::Expired).then(code),
        };
        return opening::refuse_namespace(parts, session, namespace, &refusal);
    }
    let id = parts.new_socket_id();
    let connect = format!("{{\"sid\":\"{id}\"}}");
    let error = format!("{{\"message\":\"{}\"}}", denied.message());
    let error = Word {
        name: notices::ERROR,
        ..Word::control(PacketType::Event, namespace, &error)
    };
    let connect = Word::control(PacketType::Connect, namespace, &connect);
    parts.speaker().say(session, &connect);
    parts.speaker().say(session, &error);
    if denied != Denied::Unavailable {
        let word = Word::control(PacketType::Disconnect, namespace, "");
        parts.speaker().say(session, &word);
    }
    ending::close_session(parts, session, denied.close_reason());
}

/// The session has, or has asked for, as many sockets as it may, and is ended for wanting more.
pub(crate) fn wants_too_many(parts: &mut Parts, session: SessionId) {
    parts.books.counts.hit(Limit::SocketsPerSession);
    ending::close_session(parts, session, CloseReason::LimitExceeded);
}

/// Asks the handler whether the session may join.
pub(crate) fn ask_handler(
    stage: &mut Stage,
    session: SessionId,
    (socket, returns): (Id20, Option<&Returns>),
    namespace: &str,
    auth: &str,
    claims: Option<&Claims>,
) -> Option<Decision> {
    let slot = stage.parts.people.sessions.get_mut(session)?;
    let (sid, protocol, peer) = (slot.sid, slot.language.protocol(), slot.client.peer());
    let transport = slot.transport();
    // The texts are lent to the handler, which may change the session, and go back afterwards.
    let rare = slot.rare.as_mut();
    let (query, headers) = rare.map_or_else(Default::default, |rare| {
        (mem::take(&mut rare.query), mem::take(&mut rare.headers))
    });
    let request = ConnectRequest {
        socket,
        returns,
        sid,
        namespace,
        auth,
        query: &query,
        headers: HeaderLines(&headers),
        protocol,
        transport,
        peer,
        claims,
        session,
    };
    let answer = stage.call(session, |handler, cx| handler.connecting(cx, &request));
    if !matches!(answer, Some(Decision::Later)) {
        // The handler took a ticket and decided at once: nobody waits with it.
        let ticket = stage.parts.outbound.asks.take_ticket();
        ticket.and_then(|key| question::close_question(&mut stage.parts, key));
    }
    let slot = stage.parts.people.sessions.get_mut(session);
    if let Some(rare) = slot.and_then(|slot| slot.rare.as_mut()) {
        (rare.query, rare.headers) = (query, headers);
    }
    answer
}
