//! Who a client is: when its token is asked about, what a verdict leads to, and what happens when a token ends.
use crate::access::claims::{Claims, Denied, Grants, Refused};
use crate::access::gcra::Gcra;
use crate::books::close::CloseReason;
use crate::books::config::{AuthStyle, Rate};
use crate::dialect::speech::Word;
use crate::hub::Hub;
use crate::parts::Parts;
use crate::rooms::room::RoomKind;
use crate::seam::context::{Context, Emit};
use crate::seam::effect::{Effect, Notice};
use crate::seam::gate::Join;
use crate::seam::handler::{AckTo, Refusal};
use crate::seam::notices;
use crate::seam::question::{Pending, Token, Waiting};
use crate::tables::session::RequestToken;
use crate::tables::slot::{SessionId, SocketId, SocketKey};
use crate::tables::socket::Extra;
use std::borrow::Cow;
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;
use wire::http::{self, Head};
use wire::json;
use wire::plain;
use wire::socketio::PacketType;

/// How often a session may do so in a minute, or once for each of its namespaces if they can be more: looking at a token costs
/// more than taking a message.
const REFRESHES: u32 = 30;
const REFRESHES_PER: Duration = Duration::from_secs(60);
/// Number of that limiter; the rules' limiters count from one.
const REFRESHES_NUMBER: u32 = 0;

/// The token a request shows: `Authorization: Bearer`, or the query parameter of that name.
pub(crate) fn request_token(head: &Head<'_>, parameter: &str) -> Option<Arc<str>> {
    let bearer = head.header("authorization").and_then(|value| {
        let (scheme, token) = std::str::from_utf8(value).ok()?.trim().split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
    });
    let token: Option<Cow<'_, str>> = bearer.map(Cow::Borrowed);
    let token = token.or_else(|| http::query_param(head.query, parameter));
    token.filter(|token| !token.is_empty()).map(Arc::from)
}

/// The member `token` of a JSON object, or a JSON string.
fn shown_token(raw: &str) -> Option<Cow<'_, str>> {
    let raw = raw.trim();
    let value = if raw.starts_with('{') {
        json::member(raw, "\"token\"")?
    } else {
        raw
    };
    json::unquote(value).filter(|token| !token.is_empty())
}

impl Hub {
    /// A client wants to join a namespace and tokens matter: joins it now, later, or not.
    pub(crate) fn authenticate(&mut self, session: SessionId, namespace: &str, auth: &str) {
        let Some(slot) = self.parts.people.sessions.get(session) else {
            return;
        };
        let (token, auth_text) = match (shown_token(auth), slot.token.as_deref()) {
            (Some(_), _) => {
                let text: Arc<str> = auth.into();
                let shown = shown_token(&text).unwrap_or_default();
                (Token::within(&text, &shown), text)
            }
            (None, Some(RequestToken::Unread(token))) => {
                (Token::from(Arc::clone(token)), auth.into())
            }
            (None, Some(RequestToken::Good(claims))) => {
                let claims = claims.clone();
                return self.join_on_claims(session, namespace, auth, &claims);
            }
            (None, None) if self.parts.books.config.auth.required => {
                self.parts.note_denied(session, Denied::Missing.into());
                return self.deny_join(session, namespace, Denied::Missing);
            }
            (None, None) => return self.join_namespace(session, namespace, auth, None),
        };
        let join = Join::new(namespace, auth_text);
        let waiting = Waiting::Join(Box::new(join));
        if let Err(denied) = self.parts.ask_about(session, token, waiting) {
            self.parts.note_denied(session, denied.into());
            self.deny_join(session, namespace, denied);
        }
    }

    /// The request's token was good when it was looked at; is it still?
    fn join_on_claims(&mut self, session: SessionId, namespace: &str, auth: &str, claims: &Claims) {
        let now_s = self.parts.clock.now.wall_ms / 1000;
        if claims.expires_s.is_some_and(|expires_s| expires_s <= now_s) {
            self.parts.note_denied(session, Denied::Expired.into());
            return self.deny_join(session, namespace, Denied::Expired);
        }
        self.join_namespace(session, namespace, auth, Some(claims));
    }

    /// A plain session begins: its token came with the request.
    pub(crate) fn authenticate_plain(&mut self, session: SessionId) {
        let Some(slot) = self.parts.people.sessions.get_mut(session) else {
            return;
        };
        let token = slot.token.take().map(|token| *token);
        let Some(RequestToken::Unread(token)) = token else {
            return if self.parts.books.config.auth.required {
                self.parts.note_denied(session, Denied::Missing.into());
                self.deny_plain(session, Denied::Missing);
            } else {
                self.begin_plain(session, None);
            };
        };
        let waiting = Waiting::Begin(None);
        match self.parts.ask_about(session, Token::from(token), waiting) {
            Ok(()) => drop(self.set_asking(session, true)),
            Err(denied) => {
                self.parts.note_denied(session, denied.into());
                self.deny_plain(session, denied);
            }
        }
    }

    /// The control plane has looked at a token.
    pub(crate) fn on_verdict(&mut self, pending: Pending, verdict: Result<Claims, Refused>) {
        let Some(key) = pending.session else {
            return;
        };
        let session = key.id();
        match &verdict {
            Ok(_) => self.parts.books.counts.auth_ok += 1,
            Err(refused) => self.parts.note_denied(session, *refused),
        }
        let verdict = verdict.map_err(|refused| refused.denied);
        if self.parts.people.sessions.live(key).is_none() || !self.parts.is_open(session) {
            return;
        }
        match pending.waiting {
            Waiting::Join(join) => self.on_join_verdict(session, *join, verdict),
            Waiting::Begin(_) => {
                let conn = self.set_asking(session, false);
                match verdict {
                    Ok(claims) => self.begin_plain(session, Some(&claims)),
                    Err(denied) => self.deny_plain(session, denied),
                }
                if let Some(conn) = conn {
                    self.revive(conn);
                }
            }
            Waiting::Refresh { socket, ack } => self.on_refresh_verdict(socket, ack, verdict),
            Waiting::Nobody => {}
        }
    }

    fn on_join_verdict(
        &mut self,
        session: SessionId,
        mut join: Join,
        verdict: Result<Claims, Denied>,
    ) {
        match verdict {
            // Others may have joined while this one was asked about.
            Ok(_) if !self.has_room_for_socket(session) => {}
            Ok(claims) => {
                let slot = self.parts.people.sessions.get_mut(session);
                if shown_token(&join.auth).is_none()
                    && let Some(token) = slot.and_then(|slot| slot.token.as_deref_mut())
                    && matches!(token, RequestToken::Unread(_))
                {
                    *token = RequestToken::Good(claims.clone());
                }
                join.claims = Some(claims);
                self.join_from_gate(session, join);
            }
            Err(denied) => self.deny_join(session, &join.namespace, denied),
        }
    }

    /// Strict: CONNECT_ERROR. Chat: the client is let in to be told by an `error` event, and sent off; without DISCONNECT, behind
    /// which no client comes back by itself, if the fault is ours.
    fn deny_join(&mut self, session: SessionId, namespace: &str, denied: Denied) {
        if self.parts.books.config.auth.style == AuthStyle::Strict {
            self.parts.log_refused(session, denied.close_reason());
            // What the client can mend by itself, it is told in a way that programs read.
            let code = || format!("{{\"code\":\"{}\"}}", denied.code());
            let refusal = Refusal {
                message: denied.message().to_owned(),
                data: (denied == Denied::Expired).then(code),
            };
            return self.refuse_namespace(session, namespace, &refusal);
        }
        let id = self.parts.ids.socket(self.parts.clock.now.wall_ms);
        let connect = format!("{{\"sid\":\"{id}\"}}");
        let error = format!("{{\"message\":\"{}\"}}", denied.message());
        let error = Word {
            name: notices::ERROR,
            ..Word::control(PacketType::Event, namespace, &error)
        };
        let connect = Word::control(PacketType::Connect, namespace, &connect);
        self.parts.say(session, &connect);
        self.parts.say(session, &error);
        if denied != Denied::Unavailable {
            let word = Word::control(PacketType::Disconnect, namespace, "");
            self.parts.say(session, &word);
        }
        self.parts.close_session(session, denied.close_reason());
    }

    fn deny_plain(&mut self, session: SessionId, denied: Denied) {
        let status = match denied {
            Denied::Unavailable => 503,
            _ => 401,
        };
        if !self.refuse_stream(session, status, denied.message()) {
            self.parts.say_denied(session, denied);
        }
        self.parts.close_session(session, denied.close_reason());
    }

    // ---- refreshing -------------------------------------------------------------------------------------------------------

    /// Takes the event that shows a new token, by its argument or as `{"token": …}`; `false` = it is another event.
    #[inline]
    pub(crate) fn on_refresh(
        &mut self,
        session: SessionId,
        socket: SocketKey,
        name: &str,
        args: &str,
        ack: Option<u64>,
    ) -> bool {
        if !self.parts.books.config.auth.enabled || name != notices::REFRESH {
            return false;
        }
        let token = json::first(args).and_then(shown_token);
        let sockets_max = self.parts.books.config.limits.sockets_per_session_max as u32;
        let rate = Gcra::new(Rate::new(REFRESHES.max(sockets_max), REFRESHES_PER));
        let in_time = self.parts.spend(socket, REFRESHES_NUMBER, rate).is_ok();
        let token = token.filter(|_| in_time).ok_or(Denied::Invalid);
        let asked = token.and_then(|token| {
            let token = Token::from(Arc::from(token));
            let waiting = Waiting::Refresh { socket, ack };
            self.parts.ask_about(session, token, waiting)
        });
        if let Err(denied) = asked {
            self.parts.note_denied(session, denied.into());
            self.on_refresh_verdict(socket, ack, Err(denied));
        }
        true
    }

    fn on_refresh_verdict(
        &mut self,
        socket: SocketKey,
        ack: Option<u64>,
        verdict: Result<Claims, Denied>,
    ) {
        let answer = match verdict {
            Ok(claims) => self.parts.refresh(socket, &claims),
            Err(denied) => Err(denied),
        };
        let args = match answer {
            Ok(Some(expires_s)) => format!("{{\"expiresAt\":{}}}", expires_s * 1000),
            Ok(None) => "{}".to_owned(),
            Err(denied) => format!("{{\"error\":\"{}\"}}", denied.message()),
        };
        let mut cx = Context {
            parts: &mut self.parts,
        };
        match ack {
            Some(id) => cx.ack(AckTo { socket, id }, &args, &[]),
            None => cx.emit(
                socket,
                &Emit {
                    name: notices::REFRESH,
                    args: &args,
                    ..Emit::default()
                },
            ),
        }
    }

    // ---- expiry -----------------------------------------------------------------------------------------------------------

    /// Warns those whose token ends soon and ends those whose token has ended. Wall clock: that is what tokens mean.
    pub(crate) fn expire_tokens(&mut self) {
        let now_s = self.parts.clock.now.wall_ms / 1000;
        while let Some(sockets) = self.parts.clock.expiries.pop_due(now_s) {
            for key in sockets {
                let socket = key;
                let Some(slot) = self
                    .parts
                    .people
                    .sockets
                    .live_mut(key)
                    .filter(|slot| !slot.gone)
                else {
                    continue;
                };
                slot.ending = false;
                let expires_s = slot.expires_s;
                match u64::from(expires_s).saturating_sub(now_s) {
                    0 => self.token_ended(socket),
                    left_s => self.parts.token_ends(socket, expires_s, left_s),
                }
            }
        }
    }

    fn token_ended(&mut self, socket: SocketKey) {
        let Some(session) = self.parts.socket(socket).map(|slot| slot.session) else {
            return;
        };
        self.parts.books.counts.denied[Denied::Expired as usize] += 1;
        let engineio = self
            .parts
            .people
            .sessions
            .get(session)
            .is_some_and(|slot| slot.protocol.is_engineio());
        if !engineio {
            self.parts.say_denied(session, Denied::Expired);
            return self.parts.close_session(session, CloseReason::TokenExpired);
        }
        Context {
            parts: &mut self.parts,
        }
        .emit(
            socket,
            &Emit {
                name: notices::ERROR,
                args: "{\"message\":\"Token expired\"}",
                ..Emit::default()
            },
        );
        self.parts
            .disconnect_socket(socket.id(), false, Some(CloseReason::TokenExpired));
        if self
            .parts
            .people
            .sessions
            .get(session)
            .is_some_and(|slot| slot.sockets.is_empty())
        {
            self.parts.close_session(session, CloseReason::TokenExpired);
        }
    }
}

impl Parts {
    /// Gives a socket what its token says.
    pub(crate) fn grant(&mut self, socket: SocketKey, claims: &Claims) {
        let index = socket.id();
        self.set_user(index, &claims.uid);
        for room in &claims.rooms {
            // Names and numbers have bounds, which are counted where they bite.
            let _ = self.join(index, RoomKind::Named, room);
        }
        self.set_grants(socket, claims.grants.as_ref());
        if let Some(expires_s) = claims.expires_s {
            let expires_s = u32::try_from(expires_s).unwrap_or(u32::MAX);
            if let Some(slot) = self.people.sockets.live_mut(socket) {
                slot.expires_s = expires_s;
            }
            self.look_at_token(socket.id());
        }
    }

    fn set_grants(&mut self, socket: SocketKey, grants: Option<&Grants>) {
        let Some(slot) = self.people.sockets.live_mut(socket) else {
            return;
        };
        if grants.is_some() || slot.extra.is_some() {
            let extra: &mut Extra = slot.extra.get_or_insert_default();
            extra.grants = grants.cloned().map(Box::new);
        }
    }

    /// A new token for a socket: the same user's, and not one that ends sooner. Returns when it ends.
    fn refresh(&mut self, socket: SocketKey, claims: &Claims) -> Result<Option<u64>, Denied> {
        let slot = self.socket(socket).ok_or(Denied::Invalid)?;
        let (session, before_s) = (slot.session, u64::from(slot.expires_s));
        let later = claims
            .expires_s
            .is_none_or(|expires_s| before_s > 0 && expires_s >= before_s);
        if self.user_of(socket.id()) != Some(&*claims.uid) || !later {
            return Err(Denied::Invalid);
        }
        self.refresh_request_token(session, claims);
        self.set_grants(socket, claims.grants.as_ref());
        // Whoever had no end before needs none. Who waits for the old time is looked at then, the others at a heartbeat.
        if let Some(slot) = self.people.sockets.live_mut(socket)
            && before_s > 0
        {
            let expires_s = claims.expires_s.unwrap_or(u64::from(u32::MAX));
            slot.expires_s = u32::try_from(expires_s).unwrap_or(u32::MAX);
        }
        Ok(claims.expires_s)
    }

    /// A client showed no token, or one that grants nothing: counted, and told to the log with the cause.
    fn note_denied(&mut self, session: SessionId, refused: Refused) {
        self.books.counts.denied[refused.denied as usize] += 1;
        if let Some(slot) = self.people.sessions.get(session) {
            let (peer, cause) = (slot.peer, refused.cause);
            let notice = Notice::TokenRefused { peer, cause };
            self.outbound.effects.push(Effect::Log(notice));
        }
    }

    /// What the user showed anew holds for the namespaces of the session that are yet to be joined, too.
    fn refresh_request_token(&mut self, session: SessionId, claims: &Claims) {
        let slot = self.people.sessions.get_mut(session);
        if let Some(RequestToken::Good(known)) = slot.and_then(|slot| slot.token.as_deref_mut())
            && known.uid == claims.uid
            && claims.outlast(known)
        {
            known.clone_from(claims);
        }
    }

    /// The token of a socket ends in `left_s` seconds: time for a warning, or (after a refresh) not yet.
    fn token_ends(&mut self, socket: SocketKey, expires_s: u32, left_s: u64) {
        let expires_s = u64::from(expires_s);
        if left_s > self.books.config.auth.warn_before.as_secs() {
            return self.look_at_token(socket.id());
        }
        self.await_end(socket.id(), expires_s);
        let mut args = String::new();
        let at_ms = expires_s * 1000;
        let _ = write!(args, "{{\"expiresAt\":{at_ms},\"expiresIn\":{left_s}}}");
        Context { parts: self }.emit(
            socket,
            &Emit {
                name: notices::EXPIRING,
                args: &args,
                ..Emit::default()
            },
        );
    }

    /// The wall clock went ahead of time: what heartbeats would find is to be found now.
    #[cold]
    pub(crate) fn look_at_all_tokens(&mut self) {
        let all = (0..).map_while(|index| self.people.sockets.nth(index));
        for socket in all.collect::<Vec<_>>() {
            self.look_at_token(socket);
        }
    }

    /// At a heartbeat: who of the session is to be warned before the next one.
    pub(crate) fn look_at_tokens(&mut self, session: SessionId) {
        if !self.books.config.auth.enabled {
            return;
        }
        for n in 0.. {
            let sockets = self.people.sessions.get(session).map(|slot| &slot.sockets);
            let Some(socket) = sockets.and_then(|sockets| sockets.get(n).copied()) else {
                return;
            };
            self.look_at_token(socket);
        }
    }

    /// Lets a socket wait for its warning, if that is due before the next heartbeat of its session.
    fn look_at_token(&mut self, index: SocketId) {
        let Some(slot) = self.people.sockets.get(index) else {
            return;
        };
        let warn_s = self.books.config.auth.warn_before.as_secs();
        let due_s = u64::from(slot.expires_s).saturating_sub(warn_s);
        let next_s =
            self.clock.now.wall_ms / 1000 + self.books.config.heartbeat_gap_max().as_secs() + 1;
        if slot.expires_s > 0 && !slot.ending && due_s <= next_s {
            self.await_end(index, due_s);
        }
    }

    fn await_end(&mut self, index: SocketId, due_s: u64) {
        let key = self.people.sockets.key(index);
        if let Some(slot) = self.people.sockets.get_mut(index) {
            slot.ending = true;
            self.clock.expiries.add(due_s, key);
        }
    }

    /// A socket that may have waited for the end of its token is gone.
    pub(crate) fn forget_expiry(&mut self, index: SocketId) {
        if self
            .people
            .sockets
            .get(index)
            .is_some_and(|slot| slot.ending)
        {
            let sockets = &self.people.sockets;
            let is_live = |key| sockets.live(key).is_some_and(|slot| !slot.gone);
            self.clock.expiries.forget_one(is_live);
        }
    }

    /// Tells a plain client why it is sent off.
    fn say_denied(&mut self, session: SessionId, denied: Denied) {
        let error = plain::Error {
            code: denied.code(),
            message: denied.message(),
            timestamp_ms: self.clock.now.wall_ms,
            ..plain::Error::default()
        };
        self.say_error(session, &error);
    }
}
