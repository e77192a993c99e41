//! HTTP requests on realtime paths: which endpoint, which session, which shard; and the errors of Engine.IO (protocol 3.2).

use crate::access::auth::request_token;
use crate::access::origin;
use crate::books::config::{Cors, PROBES};
use crate::books::metrics::Limit;
use crate::hub::Hub;
use crate::seam::effect::Effect;
use crate::seam::opening::{AnswerHeaders, HeaderLines, Opening, Request};
use crate::tables::conn::State;
use crate::tables::id;
use crate::tables::session::{Protocol, RequestToken, Session};
use crate::tables::slot::{ConnId, SessionId};
use crate::tables::timer::ConnTimer;
use wire::base64url::Id20;
use wire::engineio::{Query, RequestError, Transport};
use wire::http::{self, Expectation, Head, HeadError, Method};
use wire::websocket::handshake::{self, first_subprotocol};

/// Who is turned away is asked to come again within this many seconds.
const RETRY_SPREAD_S: u8 = 8;
/// Methods of realtime requests.
const ALLOW: &[u8] = b"Allow: GET, POST\r\n";

/// What a path leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Endpoint {
    Engine(Protocol),
    Plain,
    Raw,
    /// Not ours: the control plane answers.
    Elsewhere,
}

impl Hub {
    /// Takes one request head off the front of `data`.
    pub(crate) fn on_head(&mut self, conn: ConnId, data: &[u8]) -> usize {
        let head = match http::parse_head(data) {
            Ok(Some(head)) => head,
            Ok(None) => return 0,
            Err(error) => {
                self.refuse_head(conn, error);
                return data.len();
            }
        };
        let Some(slot) = self.core.tables.conns.get_mut(conn) else {
            return data.len();
        };
        slot.flags.served = true;
        slot.flags.active = true;
        // Only POST bodies are read: where it is in doubt where the next request begins, the connection ends.
        let in_step = head.method == Method::Post || !head.has_body();
        slot.flags.keep_alive = head.keep_alive && in_step;
        slot.flags.head_only = head.method == Method::Head;
        let len = head.len;
        self.find_client(conn, &head);
        let Some(slot) = self.core.tables.conns.get_mut(conn) else {
            return data.len();
        };
        let beyond = slot.flags.beyond;
        // What was taken from a reserve is given back as soon as its request is answered.
        slot.flags.keep_alive &= beyond.is_none();
        let endpoint = self.endpoint(&head);
        if endpoint != Endpoint::Elsewhere && head.expectation() == Some(Expectation::Unknown) {
            self.refuse_expectation(conn, &head);
            return len;
        }
        match endpoint {
            Endpoint::Elsewhere => match beyond.filter(|_| !PROBES.contains(&head.path)) {
                Some(bound) => self.refuse_beyond(conn, &head, bound),
                None => return self.leave_hub(conn, data, None),
            },
            Endpoint::Engine(protocol) => {
                let query = Query::parse(head.query);
                if let Some(owner) = self.foreign_owner(&query) {
                    return self.leave_hub(conn, data, Some(owner));
                }
                self.engine_request(conn, &head, &query, protocol);
            }
            Endpoint::Plain => self.plain_request(conn, &head),
            Endpoint::Raw if self.admits(conn, &head, Protocol::Raw) => {
                self.open_websocket(conn, &head, Protocol::Raw, first_subprotocol(&head));
            }
            Endpoint::Raw => {}
        }
        if data.len() == len {
            self.ask_for_body(conn, &head);
        }
        let slot = self.core.tables.conns.get(conn);
        match slot.is_some_and(|slot| slot.state == State::Held) {
            // It is read again when there is a decision.
            true => 0,
            false => len,
        }
    }

    /// The request was accepted and its body is still to come: a client that waits to be asked for it need not do so until
    /// it loses patience (RFC 9110 §10.1.1).
    fn ask_for_body(&mut self, conn: ConnId, head: &Head<'_>) {
        let reads_on = self
            .core
            .tables
            .conns
            .get(conn)
            .is_some_and(|slot| matches!(slot.state, State::Body { .. } | State::ChunkedBody));
        if reads_on && head.expectation() == Some(Expectation::Continue) {
            self.core
                .reply(conn, |out| out.extend_from_slice(http::CONTINUE));
        }
    }

    fn refuse_head(&mut self, conn: ConnId, error: HeadError) {
        if matches!(
            error,
            HeadError::TooLarge | HeadError::TooManyHeaders | HeadError::TargetTooLong
        ) {
            self.core.counts.hit(Limit::HeadBytes);
        }
        self.core.counts.refused += 1;
        if let Some(slot) = self.core.tables.conns.get_mut(conn) {
            slot.flags.keep_alive = false;
        }
        self.respond(conn, error.status(), "text/plain", &[], b"");
    }

    fn endpoint(&self, head: &Head<'_>) -> Endpoint {
        let config = &self.core.config;
        let is = |path: &Option<String>| path.as_deref() == Some(head.path);
        if let Some(rest) = head.path.strip_prefix(config.socketio_path.as_str()) {
            let bundle =
                rest.starts_with("socket.io.") && matches!(head.method, Method::Get | Method::Head);
            return if bundle {
                Endpoint::Elsewhere
            } else {
                Endpoint::Engine(Protocol::SocketIo)
            };
        }
        if config
            .engineio_path
            .as_deref()
            .is_some_and(|path| head.path.starts_with(path))
        {
            return Endpoint::Engine(Protocol::EngineIo);
        }
        // At `/` it stands beside the pages: what asks for no WebSocket is for them.
        if is(&config.plain_path) && (head.path != "/" || handshake::wants_upgrade(head)) {
            return Endpoint::Plain;
        }
        if is(&config.raw_path) {
            Endpoint::Raw
        } else {
            Endpoint::Elsewhere
        }
    }

    /// The shard of this process that owns the request's session, if it is not this one.
    fn foreign_owner(&self, query: &Query<'_>) -> Option<u16> {
        if self.core.ids.me.shards == 1 {
            return None;
        }
        let sid = query.sid.as_deref()?;
        let owner = id::session_owner(&Id20::decode(sid.as_bytes())?);
        let ours = owner.node == self.core.ids.me.node && owner.shard < self.core.ids.me.shards;
        (ours && owner.shard != self.core.ids.me.shard).then_some(owner.shard)
    }

    /// Gives the connection, with the request, to another shard or the control plane.
    fn leave_hub(&mut self, conn: ConnId, data: &[u8], shard: Option<u16>) -> usize {
        let Some(slot) = self.core.tables.conns.get(conn) else {
            return data.len();
        };
        if slot.outbox.is_blocked() {
            // It pipelines requests but does not read the answers.
            self.core.finish_conn(conn);
            return data.len();
        }
        if !slot.outbox.is_empty() {
            self.stall(conn, Limit::DeliveriesPerTurn);
            return 0;
        }
        let (read, client, beyond) = (data.to_vec(), slot.peer, slot.flags.beyond);
        let proxy = self.core.forget_proxy(conn);
        self.core.release_conn(conn);
        self.core.outbound.effects.push(match shard {
            Some(shard) => {
                self.core.counts.moved += 1;
                Effect::Move {
                    conn,
                    shard,
                    read,
                    // The other shard reads the request again, and may believe its headers as this one did.
                    peer: proxy.unwrap_or(client),
                    beyond,
                }
            }
            None => Effect::Handover {
                conn,
                read,
                peer: client,
            },
        });
        data.len()
    }

    fn engine_request(
        &mut self,
        conn: ConnId,
        head: &Head<'_>,
        query: &Query<'_>,
        protocol: Protocol,
    ) {
        if !self.origin_allowed(head) {
            self.refuse(conn, head, RequestError::Forbidden);
            return;
        }
        if head.method == Method::Options {
            self.preflight(conn, head);
            return;
        }
        let websocket = query.transport == Some(Transport::WebSocket);
        // JSONP is not offered: its client cannot read what it would be given.
        let jsonp = !websocket && query.jsonp;
        if query.transport.is_none() || jsonp || !self.transport_enabled(head, websocket) {
            return self.refuse(conn, head, RequestError::UnknownTransport);
        }
        let upgrade = handshake::wants_upgrade(head);
        // A body nobody reads would be taken for the next request.
        if head.has_body() && (upgrade || head.method != Method::Post) {
            return self.refuse(conn, head, RequestError::BadRequest);
        }
        let Some(sid) = &query.sid else {
            return self.new_session_request(conn, head, query, protocol, upgrade);
        };
        let session = Id20::decode(sid.as_bytes()).and_then(|sid| self.core.find_session(&sid));
        match session.filter(|session| self.speaks(*session, protocol)) {
            None => self.refuse(conn, head, RequestError::UnknownSid),
            // A session speaks version 4, so a request that does not say so is another protocol's.
            Some(_) if !query.is_version_4 => self.refuse(conn, head, RequestError::BadRequest),
            Some(session) => self.session_request(conn, head, session, websocket, upgrade),
        }
    }

    fn transport_enabled(&self, head: &Head<'_>, websocket: bool) -> bool {
        let transports = &self.core.config.transports;
        if websocket {
            return transports.websocket;
        }
        if !transports.polling || transports.polling_user_agents.is_empty() {
            return transports.polling;
        }
        let agent = head.header("user-agent").unwrap_or_default();
        let agent = String::from_utf8_lossy(agent).to_ascii_lowercase();
        transports
            .polling_user_agents
            .iter()
            .any(|part| agent.contains(&part.to_ascii_lowercase()))
    }

    fn speaks(&self, session: SessionId, protocol: Protocol) -> bool {
        self.core
            .tables
            .sessions
            .get(session)
            .is_some_and(|slot| slot.protocol == protocol)
    }

    fn session_request(
        &mut self,
        conn: ConnId,
        head: &Head<'_>,
        session: SessionId,
        websocket: bool,
        upgrade: bool,
    ) {
        let Some(slot) = self.core.tables.sessions.get(session) else {
            return;
        };
        if websocket {
            if upgrade {
                self.open_probe(conn, head, session);
            } else {
                self.refuse(conn, head, RequestError::BadRequest);
            }
        } else if upgrade || slot.polling.is_none() {
            self.refuse(conn, head, RequestError::BadRequest);
        } else {
            match head.method {
                Method::Get => self.poll(conn, head, session),
                Method::Post => self.post(conn, head, session),
                _ => self.refuse_method(conn, head),
            }
        }
    }

    fn new_session_request(
        &mut self,
        conn: ConnId,
        head: &Head<'_>,
        query: &Query<'_>,
        protocol: Protocol,
        upgrade: bool,
    ) {
        let websocket = query.transport == Some(Transport::WebSocket);
        if head.method != Method::Get && !(websocket && upgrade) {
            return self.refuse(conn, head, RequestError::BadMethod);
        }
        if websocket != upgrade {
            return self.refuse(conn, head, RequestError::BadRequest);
        }
        if !query.is_version_4 {
            return self.refuse(conn, head, RequestError::UnsupportedVersion);
        }
        if !self.admits(conn, head, protocol) {
            return;
        }
        if websocket {
            self.open_websocket(conn, head, protocol, first_subprotocol(head));
        } else {
            self.open_polling(conn, head, protocol);
        }
    }

    fn plain_request(&mut self, conn: ConnId, head: &Head<'_>) {
        if !self.origin_allowed(head) {
            self.refuse(conn, head, RequestError::Forbidden);
            return;
        }
        let chosen = handshake::subprotocol(head, &["sockeye.msgpack", "sockeye.json"]);
        let protocol = match chosen {
            Some("sockeye.msgpack") => Protocol::PlainMsgpack,
            _ => Protocol::PlainJson,
        };
        if self.admits(conn, head, protocol) {
            self.open_websocket(conn, head, protocol, chosen);
        }
    }

    /// The door for newcomers, whatever they speak: whether this one gets in now. If not, it was told when to come again.
    fn admits(&mut self, conn: ConnId, head: &Head<'_>, protocol: Protocol) -> bool {
        if self.core.draining {
            self.refuse_draining(conn);
            return false;
        }
        if let Some(decision) = self.core.access.held.take_decision(conn) {
            return self.carry_out(conn, head, decision);
        }
        // A polling session needs no connection to live: sessions have a bound of their own, which is the process's.
        let full = self.core.access.admission.sessions() >= self.core.config.limits.conns_max;
        let slot = self.core.tables.conns.get(conn);
        let beyond = slot.and_then(|slot| slot.flags.beyond);
        if let Some(bound) = beyond.or(full.then_some(Limit::Conns)) {
            self.refuse_beyond(conn, head, bound);
            return false;
        }
        if self.core.asks.len() == 0 {
            // Nobody waits for an answer any more: how long one takes now, only the next one shows.
            self.core.access.admission.forget_answers();
        }
        let Some(limit) = self
            .core
            .access
            .admission
            .closed_by(&self.core.config.admission)
        else {
            return self.admit_connect(conn) && self.handler_admits(conn, head, protocol);
        };
        self.core.counts.hit(limit);
        self.core.counts.admission_refused += 1;
        self.refuse_unavailable(conn, b"Server is busy");
        false
    }

    // ---- the handler's word -----------------------------------------------------------------------------------------------

    fn request<'a>(&self, conn: ConnId, head: &'a Head<'a>, protocol: Protocol) -> Request<'a> {
        let slot = self.core.tables.conns.get(conn);
        Request {
            head,
            conn: self.core.tables.conns.key(conn),
            protocol,
            peer: slot.map_or([0, 0, 0, 0].into(), |slot| slot.peer),
        }
    }

    /// Asks the handler about an opening request, if it wants to be asked.
    fn handler_admits(&mut self, conn: ConnId, head: &Head<'_>, protocol: Protocol) -> bool {
        if !self.reads_requests {
            return true;
        }
        let request = self.request(conn, head, protocol);
        let decision = self.call(None, |handler, cx| handler.opening(cx, &request));
        let failed = || Opening::Refuse("Internal error".to_owned());
        self.carry_out(conn, head, decision.unwrap_or_else(failed))
    }

    /// Does to an opening request what the handler decided; `true` = it may go on.
    fn carry_out(&mut self, conn: ConnId, head: &Head<'_>, decision: Opening) -> bool {
        match decision {
            Opening::Accept => return true,
            Opening::Refuse(message) => self.refuse_opening(conn, head, &message),
            Opening::Later => {
                let due_ms = self.core.after(self.core.config.limits.handshake_timeout);
                let key = self.core.tables.conns.key(conn);
                let timers = &mut self.core.clock.timers.conns;
                timers.arm_odd(ConnTimer::Handshake, due_ms, key);
                self.core.access.held.hold(conn, due_ms);
                if let Some(slot) = self.core.tables.conns.get_mut(conn) {
                    slot.state = State::Held;
                }
            }
        }
        false
    }

    /// The reference server's answer where `allowRequest` says no: 403 and the application's own words.
    fn refuse_opening(&mut self, conn: ConnId, head: &Head<'_>, message: &str) {
        self.core.counts.refused += 1;
        let extra = self.cors_headers(head);
        let websocket = handshake::wants_upgrade(head);
        if let Some(slot) = self.core.tables.conns.get_mut(conn) {
            slot.flags.keep_alive &= !websocket;
        }
        if websocket {
            return self.respond(conn, 403, "text/html", &extra, message.as_bytes());
        }
        let mut body = Vec::new();
        RequestError::Forbidden.write_json_saying(message, &mut body);
        self.respond(conn, 403, "application/json", &extra, &body);
    }

    /// Nobody has decided about a held request in time.
    pub(crate) fn opening_due(&mut self, conn: ConnId) {
        let now_ms = self.core.clock.now.mono_ms;
        if !self.core.access.held.is_due(conn, now_ms) {
            return;
        }
        self.core.access.held.forget(conn);
        self.core.counts.hit(Limit::AskTimeout);
        if let Some(slot) = self.core.tables.conns.get_mut(conn) {
            slot.input = None;
        }
        self.refuse_unavailable(conn, b"Server is busy");
    }

    /// Header lines beyond the usual ones for the answer to a session's request: CORS, and what the handler adds.
    pub(crate) fn extra_headers(
        &mut self,
        conn: ConnId,
        head: &Head<'_>,
        session: SessionId,
        opens: bool,
    ) -> Vec<u8> {
        let mut extra = self.cors_headers(head);
        let slot = self.core.tables.sessions.get(session);
        let Some(slot) = slot.filter(|_| self.reads_requests) else {
            return extra;
        };
        let (protocol, sid) = (slot.protocol, slot.sid.encode());
        let sid = std::str::from_utf8(&sid).ok().filter(|_| opens);
        let request = self.request(conn, head, protocol);
        let mut headers = AnswerHeaders::default();
        self.call_now(None, |handler, _| {
            handler.answering(&request, sid, &mut headers)
        });
        extra.append(&mut headers.lines);
        extra
    }

    /// Makes a session for a request; the caller attaches its transport.
    pub(crate) fn new_session(
        &mut self,
        conn: ConnId,
        head: &Head<'_>,
        protocol: Protocol,
    ) -> SessionId {
        let random = self.core.random();
        let sid = id::session_id(self.core.ids.me, random);
        let peer = self
            .core
            .tables
            .conns
            .get(conn)
            .map_or([0, 0, 0, 0].into(), |slot| slot.peer);
        let mut session = Session::new(sid, protocol, None, peer);
        if self.core.config.keep_handshake || self.reads_requests {
            let rare = session.rare.get_or_insert_default();
            if self.core.config.keep_handshake {
                rare.query = head.query.into();
            }
            if self.reads_requests {
                rare.headers = HeaderLines::of(head);
            }
        }
        if self.core.config.auth.enabled {
            let token = request_token(head, &self.core.config.auth.query_parameter);
            session.token = token.map(|token| Box::new(RequestToken::Unread(token)));
        }
        session.flags.b64 = protocol.is_engineio() && Query::parse(head.query).base64;
        self.core.insert_session(session)
    }

    // ---- answers --------------------------------------------------------------------------------------------------------

    /// Writes a response and makes the connection ready for the next request, or ends it.
    pub(crate) fn respond(
        &mut self,
        conn: ConnId,
        status: u16,
        content_type: &str,
        extra: &[u8],
        body: &[u8],
    ) {
        let Some(slot) = self.core.tables.conns.get_mut(conn) else {
            return;
        };
        // While sessions are being closed, one that polls asks for its end on the connection it has: no new one is accepted.
        let drained = self.core.draining && self.drain.is_none();
        debug_assert!(!matches!(slot.state, State::Finishing | State::Linger));
        let keep_alive = slot.flags.keep_alive && !slot.flags.eof && !drained;
        slot.session = None;
        slot.state = State::Head;
        let arm = keep_alive && !std::mem::replace(&mut slot.flags.keep_alive_timer, true);
        let answer = http::Response {
            status,
            content_type,
            extra,
            body,
            date: &self.core.clock.date(),
            keep_alive,
            head_only: slot.flags.head_only,
        };
        self.core.reply(conn, |out| answer.write(out));
        if !keep_alive {
            self.core.finish_conn(conn);
        } else if arm {
            let timeout = self.core.config.limits.keep_alive_timeout;
            self.core.arm_conn(ConnTimer::KeepAlive, timeout, conn);
        }
    }

    /// An Engine.IO error. The request's body, if any, is not read, so the connection ends.
    pub(crate) fn refuse(&mut self, conn: ConnId, head: &Head<'_>, error: RequestError) {
        self.core.counts.refused += 1;
        let mut extra = self.cors_headers(head);
        if let Some(slot) = self.core.tables.conns.get_mut(conn) {
            let websocket = handshake::wants_upgrade(head);
            slot.flags.keep_alive &= !head.has_body() && !websocket;
        }
        // A refused upgrade gets the bare text (protocol 3.2).
        if handshake::wants_upgrade(head) {
            let status = if error == RequestError::Forbidden {
                403
            } else {
                400
            };
            return self.respond(
                conn,
                status,
                "text/html",
                &extra,
                error.message().as_bytes(),
            );
        }
        let mut body = Vec::new();
        error.write_json(&mut body);
        if error == RequestError::BadMethod {
            extra.extend_from_slice(ALLOW);
        }
        self.respond(conn, error.status(), "application/json", &extra, &body);
    }

    fn refuse_expectation(&mut self, conn: ConnId, head: &Head<'_>) {
        self.core.counts.refused += 1;
        let extra = self.cors_headers(head);
        if let Some(slot) = self.core.tables.conns.get_mut(conn) {
            slot.flags.keep_alive &= !head.has_body() && !handshake::wants_upgrade(head);
        }
        self.respond(conn, 417, "text/plain", &extra, b"");
    }

    /// A method that no request here has. A handshake by another one than GET is `BadMethod`, as clients know it.
    fn refuse_method(&mut self, conn: ConnId, head: &Head<'_>) {
        self.core.counts.shed += 1;
        let mut extra = self.cors_headers(head);
        extra.extend_from_slice(ALLOW);
        if let Some(slot) = self.core.tables.conns.get_mut(conn) {
            slot.flags.keep_alive &= !head.has_body();
        }
        let body = br#"{"code":2,"message":"Bad method"}"#;
        self.respond(conn, 405, "application/json", &extra, body);
    }

    /// For those who come back before the process is gone: not until then, and not all at once.
    pub(crate) fn refuse_draining(&mut self, conn: ConnId) {
        self.core.counts.shed += 1;
        let seconds = self.drain_delay_ms().div_ceil(1000);
        self.respond_retry(conn, 503, seconds, b"Server is shutting down");
    }

    pub(crate) fn refuse_unavailable(&mut self, conn: ConnId, text: &[u8]) {
        self.core.counts.shed += 1;
        if let Some(slot) = self.core.tables.conns.get_mut(conn) {
            slot.flags.keep_alive = false;
        }
        // Not all at once.
        let [dice] = self.core.random();
        let seconds = 1 + u64::from(dice % RETRY_SPREAD_S);
        self.respond_retry(conn, 503, seconds, text);
    }

    pub(crate) fn respond_retry(&mut self, conn: ConnId, status: u16, seconds: u64, text: &[u8]) {
        let extra = format!("Retry-After: {seconds}\r\n");
        if let Some(slot) = self.core.tables.conns.get_mut(conn) {
            slot.flags.keep_alive = false;
        }
        self.respond(conn, status, "text/plain", extra.as_bytes(), text);
    }

    fn preflight(&mut self, conn: ConnId, head: &Head<'_>) {
        let mut extra = self.cors_headers(head);
        if self.core.config.cors == Cors::Off {
            return self.refuse_method(conn, head);
        }
        extra.extend_from_slice(b"Access-Control-Allow-Methods: GET,POST\r\n");
        let max_age = self.core.config.cors_max_age.as_secs();
        if max_age > 0 {
            extra.extend_from_slice(format!("Access-Control-Max-Age: {max_age}\r\n").as_bytes());
        }
        if let Some(asked) = head.header("access-control-request-headers") {
            extra.extend_from_slice(b"Access-Control-Allow-Headers: ");
            extra.extend_from_slice(asked);
            extra.extend_from_slice(b"\r\nVary: Access-Control-Request-Headers\r\n");
        }
        self.respond(conn, 204, "", &extra, b"");
    }

    /// Header lines for cross-origin callers; nothing unless CORS is on (and allocates nothing then).
    pub(crate) fn cors_headers(&self, head: &Head<'_>) -> Vec<u8> {
        match &self.core.config.cors {
            Cors::Off => Vec::new(),
            Cors::Any => b"Access-Control-Allow-Origin: *\r\n".to_vec(),
            Cors::Origins(allowed) => {
                let mut extra = b"Vary: Origin\r\n".to_vec();
                let origin = head.header("origin").unwrap_or_default();
                if origin::is_listed(allowed, origin) {
                    extra.extend_from_slice(b"Access-Control-Allow-Origin: ");
                    extra.extend_from_slice(origin);
                    extra.extend_from_slice(b"\r\nAccess-Control-Allow-Credentials: true\r\n");
                }
                extra
            }
        }
    }

    /// With an allow-list, a browser's origin must be on it (requests without one do not come from pages).
    pub(crate) fn origin_allowed(&self, head: &Head<'_>) -> bool {
        let allowed = &self.core.config.origins;
        allowed.is_empty()
            || head
                .values("origin")
                .all(|origin| origin::is_listed(allowed, origin))
    }
}
