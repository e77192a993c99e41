//! HTTP requests on realtime paths: which endpoint, which session, which shard.

use crate::access::trust;
use crate::books::config::{Config, Cors, PROBES};
use crate::books::metrics::Limit;
use crate::clients::conn::State;
use crate::clients::line::Line;
use crate::clients::people::People;
use crate::clients::session::Protocol;
use crate::life::conns;
use crate::parts::Parts;
use crate::seam::effect::Effect;
use crate::seam::stage::Stage;
use crate::tables::id::{self, Place};
use crate::tables::slot::{ConnId, SessionId};
use crate::transport::{accept, door, polling, posts, sse, stash, upgrade};
use wire::base64url::Id20;
use wire::engineio::{Query, RequestError, Revision, Transport};
use wire::http::{self, Expectation, Head, Method};
use wire::websocket::handshake::{self, first_subprotocol};

/// What a path leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Endpoint {
    Engine(Protocol),
    Plain,
    PlainRaw,
    EventStream,
    Raw,
    /// Not ours: the control plane answers.
    Elsewhere,
}

/// Takes one request head off the front of `data`.
pub(crate) fn on_head(stage: &mut Stage, conn: ConnId, data: &[u8]) -> usize {
    let head = match http::parse_head(data) {
        Ok(Some(head)) => head,
        Ok(None) => return 0,
        Err(error) => {
            stage.parts.answers().refuse_head(conn, error);
            return data.len();
        }
    };
    let Some(beyond) = begin_request(&mut stage.parts, conn, &head) else {
        return data.len();
    };
    if let Some(used) = serve(stage, conn, &head, beyond, data) {
        return used;
    }
    // A client whose body is on its way does not wait to be asked for it (RFC 9110 §10.1.1).
    if data.len() == head.len {
        stage.parts.answers().ask_for_body(conn, &head);
    }
    let slot = stage.parts.line.conns.get(conn);
    match slot.is_some_and(|slot| slot.state == State::Held) {
        // A held request is read again when there is a decision.
        true => 0,
        false => head.len,
    }
}

/// Notes what a request means for its connection, and whose it is; returns the bound that it came beyond, if any. `None` = the
/// connection is gone.
fn begin_request(parts: &mut Parts, conn: ConnId, head: &Head<'_>) -> Option<Option<Limit>> {
    let slot = parts.line.conns.get_mut(conn)?;
    slot.exchange.begin(head);
    // This judges the client's own address anew, and may drop the connection.
    trust::find_client(parts, conn, head);
    let slot = parts.line.conns.get_mut(conn)?;
    slot.exchange.be_last_if(slot.origin.is_for_one_request());
    Some(slot.origin.beyond())
}

/// Serves a request, or gives it with its connection to another owner. `Some`: so many bytes are used, and nothing is left to do.
fn serve(
    stage: &mut Stage,
    conn: ConnId,
    head: &Head<'_>,
    beyond: Option<Limit>,
    data: &[u8],
) -> Option<usize> {
    if stage.parts.books.config.closed && !PROBES.contains(&head.path) {
        // Sessions that it asks for may live on other nodes, so they are not called unknown.
        let mut answers = stage.parts.answers();
        answers.refuse_unavailable(conn, b"Server is starting");
        return None;
    }
    let endpoint = endpoint(&stage.parts.books.config, head);
    // RFC 9110 §10.1.1: an unknown expectation may be answered with 417.
    if endpoint != Endpoint::Elsewhere && head.expectation() == Some(Expectation::Unknown) {
        stage.parts.answers().refuse_expectation(conn, head);
        return Some(head.len);
    }
    let carried = stage.parts.line.conns.get(conn);
    let carried = carried.is_some_and(|slot| slot.origin.is_carried());
    // WebTransport is a transport of Engine.IO only.
    if carried && !matches!(endpoint, Endpoint::Engine(_)) {
        let mut answers = stage.parts.answers();
        answers.refuse(conn, head, RequestError::UnknownTransport);
        return None;
    }
    let served = match endpoint {
        // Health checks are answered on a full node as well.
        Endpoint::Elsewhere => match beyond.filter(|_| !PROBES.contains(&head.path)) {
            Some(bound) => {
                door::refuse_beyond(&mut stage.parts, conn, head, bound);
                Ok(())
            }
            None => return Some(leave_hub(&mut stage.parts, conn, data, To::Pages)),
        },
        Endpoint::Engine(protocol) => {
            let query = Query::parse(head.query);
            if !is_carried_as_asked(&mut stage.parts.line, conn, &query) {
                let mut answers = stage.parts.answers();
                answers.refuse(conn, head, RequestError::UnknownTransport);
                return None;
            }
            if let Some(to) = owner_elsewhere(&mut stage.parts, conn, head, &query) {
                return Some(leave_hub(&mut stage.parts, conn, data, to));
            }
            engine_request(stage, conn, head, &query, protocol)
        }
        Endpoint::Plain => plain_request(stage, conn, head),
        Endpoint::PlainRaw => raw_request(stage, conn, head),
        Endpoint::EventStream => {
            sse::stream_request(stage, conn, head);
            Ok(())
        }
        Endpoint::Raw => {
            if door::admits(stage, conn, head, Protocol::Raw) {
                accept::open_websocket(stage, conn, head, Protocol::Raw, first_subprotocol(head));
            }
            Ok(())
        }
    };
    if let Err(error) = served {
        stage.parts.answers().refuse(conn, head, error);
    }
    None
}

/// Whether the transport that is asked for is the one that carries the connection. If another node relays it, that node has checked.
fn is_carried_as_asked(line: &mut Line, conn: ConnId, query: &Query<'_>) -> bool {
    let asked = query.transport == Some(Transport::WebTransport);
    let slot = line.conns.get_mut(conn);
    slot.is_none_or(|slot| slot.origin.is_carried_as(asked))
}

fn endpoint(config: &Config, head: &Head<'_>) -> Endpoint {
    let is = |path: &Option<String>| path.as_deref() == Some(head.path);
    if let Some(rest) = head.path.strip_prefix(config.socketio_path.as_str()) {
        // The bundles of the client have the same path (protocol 3.8), and the control plane serves them.
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
    // At `/` these endpoints stand beside the pages: a request for no WebSocket is for the pages.
    let is_free = head.path != "/" || handshake::wants_upgrade(head);
    if is(&config.plain_path) && is_free {
        return Endpoint::Plain;
    }
    let raw = config.plain_raw.as_ref();
    if raw.is_some_and(|raw| raw.path == head.path) && is_free {
        return Endpoint::PlainRaw;
    }
    if is(&config.sse_path) {
        return Endpoint::EventStream;
    }
    if is(&config.raw_path) {
        Endpoint::Raw
    } else {
        Endpoint::Elsewhere
    }
}

/// Where a connection goes that this hub does not serve.
enum To {
    Shard(u16),
    /// To a shard of another node; if that is not possible, this is the answer.
    Node(Place, Vec<u8>),
    Pages,
}

/// Where the request's session is, if it is not here and can be reached. A relayed request is never relayed again.
fn owner_elsewhere(
    parts: &mut Parts,
    conn: ConnId,
    head: &Head<'_>,
    query: &Query<'_>,
) -> Option<To> {
    let me = parts.ids.me;
    if me.shards == 1 && parts.away.is_none() {
        return None;
    }
    let sid = query.sid.as_deref()?;
    let owner = id::session_owner(&Id20::decode(sid.as_bytes())?);
    if owner.node == me.node {
        // A sid can be invented, and may name a shard that does not exist.
        let is_other = owner.shard < me.shards && owner.shard != me.shard;
        return is_other.then_some(To::Shard(owner.shard));
    }
    let reachable = parts.away.as_ref()?.relays_to(owner.node);
    let relayed = parts.line.conns.get(conn)?.origin.is_relayed();
    // A preflight does not depend on the session, so any node answers it.
    let relays = reachable && !relayed && head.method != Method::Options;
    relays.then(|| To::Node(owner, parts.answers().unknown_session(head)))
}

/// Gives the connection, with the request, to another shard, another node or the control plane.
fn leave_hub(parts: &mut Parts, conn: ConnId, data: &[u8], to: To) -> usize {
    let Some(slot) = parts.line.conns.get(conn) else {
        return data.len();
    };
    if slot.outbox.is_blocked() {
        // The client pipelines requests and does not read the answers.
        conns::finish(parts, conn);
        return data.len();
    }
    // A connection takes no output along: earlier answers leave first.
    if !slot.outbox.is_empty() {
        stash::stall(parts, conn, Limit::DeliveriesPerTurn);
        return 0;
    }
    let (read, origin) = (data.to_vec(), slot.origin);
    let peer = origin.peer();
    let proxy = parts.access.forget_proxy(conn);
    conns::release_conn(parts, conn);
    parts.outbound.push(match to {
        To::Shard(shard) => {
            parts.books.counts.moved += 1;
            Effect::Move {
                conn,
                shard,
                read,
                // The other shard reads the request again, and may believe its headers as this one did.
                peer: proxy.unwrap_or(peer),
                beyond: origin.beyond(),
                relayed: origin.is_relayed(),
                carried: origin.is_carried(),
            }
        }
        To::Node(owner, refusal) => Effect::Relay {
            conn,
            owner,
            read,
            peer,
            refusal,
        },
        To::Pages => Effect::Handover { conn, read, peer },
    });
    data.len()
}

/// A request of Engine.IO's, served, or the reason why not.
fn engine_request(
    stage: &mut Stage,
    conn: ConnId,
    head: &Head<'_>,
    query: &Query<'_>,
    protocol: Protocol,
) -> Result<(), RequestError> {
    let parts = &mut stage.parts;
    if !door::origin_allowed(&parts.books.config, head) {
        return Err(RequestError::Forbidden);
    }
    if head.method == Method::Options {
        parts.answers().preflight(conn, head);
        return Ok(());
    }
    let websocket = is_socket(query);
    let unreadable =
        !websocket && query.jsonp.is_some() && !takes_scripts(&parts.books.config, query);
    // The transport is checked before the sid (protocol 3.2).
    let enabled = transport_enabled(&parts.books.config, head, query.transport);
    if unreadable || !enabled {
        return Err(RequestError::UnknownTransport);
    }
    let upgrade = handshake::wants_upgrade(head);
    // A body that nobody reads would be taken for the next request.
    if head.has_body() && (upgrade || head.method != Method::Post) {
        return Err(RequestError::BadRequest);
    }
    let Some(sid) = &query.sid else {
        return new_session_request(stage, conn, head, query, protocol, upgrade);
    };
    let session = Id20::decode(sid.as_bytes()).and_then(|sid| parts.people.sessions.find(&sid));
    match session.filter(|session| speaks(&parts.people, *session, protocol)) {
        None => Err(RequestError::UnknownSid),
        Some(session) if !continues(&parts.people, session, query) => Err(RequestError::BadRequest),
        Some(session) => session_request(stage, conn, head, query, session),
    }
}

/// JSONP is for clients of protocol 3: those of protocol 4 cannot read it. The request for a script does not name its page, so scripts
/// are refused where only some pages may connect or read answers. Where WebSockets are on, any page may connect anyway.
fn takes_scripts(config: &Config, query: &Query<'_>) -> bool {
    let any_page = config.transports.websocket || config.cors == Cors::Any;
    query.revision == Some(Revision::Three) && config.origins.is_empty() && any_page
}

/// Whether a request is of the revision that the session speaks: a session keeps to one for life.
fn continues(people: &People, session: SessionId, query: &Query<'_>) -> bool {
    let slot = people.sessions.get(session);
    query.revision == slot.map(|slot| slot.language.revision())
}

/// Whether new sessions may speak that protocol.
fn is_spoken(config: &Config, protocol: Protocol, revision: Option<Revision>) -> bool {
    match revision {
        Some(Revision::Four) => true,
        Some(Revision::Three) => config.allow_eio3 && protocol == Protocol::SocketIo,
        None => false,
    }
}

/// Frames go both ways on one connection.
fn is_socket(query: &Query<'_>) -> bool {
    let transport = query.transport;
    matches!(
        transport,
        Some(Transport::WebSocket | Transport::WebTransport)
    )
}

fn transport_enabled(config: &Config, head: &Head<'_>, transport: Option<Transport>) -> bool {
    let transports = &config.transports;
    match transport {
        None => return false,
        Some(Transport::WebSocket) => return transports.websocket,
        Some(Transport::WebTransport) => return transports.webtransport,
        Some(Transport::Polling) => {}
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

fn speaks(people: &People, session: SessionId, protocol: Protocol) -> bool {
    people
        .sessions
        .get(session)
        .is_some_and(|slot| slot.language.protocol() == protocol)
}

fn session_request(
    stage: &mut Stage,
    conn: ConnId,
    head: &Head<'_>,
    query: &Query<'_>,
    session: SessionId,
) -> Result<(), RequestError> {
    let websocket = is_socket(query);
    let upgrade = handshake::wants_upgrade(head);
    let slot = stage.parts.people.sessions.get(session);
    let polls = slot.is_some_and(|slot| slot.polling.is_some());
    match head.method {
        // A poll after the upgrade is a bad request, not an unknown sid (protocol 3.2).
        _ if websocket != upgrade || !websocket && !polls => Err(RequestError::BadRequest),
        _ if websocket => upgrade::open_probe(stage, conn, head, session, query.base64),
        Method::Get => polling::poll(stage, conn, head, session, query),
        Method::Post => posts::post(stage, conn, head, session, query),
        _ => {
            stage.parts.answers().refuse_method(conn, head);
            Ok(())
        }
    }
}

fn new_session_request(
    stage: &mut Stage,
    conn: ConnId,
    head: &Head<'_>,
    query: &Query<'_>,
    protocol: Protocol,
    upgrade: bool,
) -> Result<(), RequestError> {
    let websocket = is_socket(query);
    // A handshake checks its method itself.
    if head.method != Method::Get && !(websocket && upgrade) {
        return Err(RequestError::BadMethod);
    }
    if websocket != upgrade {
        return Err(RequestError::BadRequest);
    }
    // The version is checked last (protocol 3.2).
    if !is_spoken(&stage.parts.books.config, protocol, query.revision) {
        return Err(RequestError::UnsupportedVersion);
    }
    if door::admits(stage, conn, head, protocol) {
        match websocket {
            true => accept::open_websocket(stage, conn, head, protocol, first_subprotocol(head)),
            false => polling::open_polling(stage, conn, head, protocol, query),
        }
    }
    Ok(())
}

fn plain_request(stage: &mut Stage, conn: ConnId, head: &Head<'_>) -> Result<(), RequestError> {
    if !door::origin_allowed(&stage.parts.books.config, head) {
        return Err(RequestError::Forbidden);
    }
    let chosen = handshake::subprotocol(head, &["sockeye.msgpack", "sockeye.json"]);
    let protocol = match chosen {
        Some("sockeye.msgpack") => Protocol::PlainMsgpack,
        // A client that offers no subprotocol speaks JSON.
        _ => Protocol::PlainJson,
    };
    if door::admits(stage, conn, head, protocol) {
        accept::open_websocket(stage, conn, head, protocol, chosen);
    }
    Ok(())
}

/// A client that speaks no protocol of ours may insist on one of its own: the first that it names is agreed to.
fn raw_request(stage: &mut Stage, conn: ConnId, head: &Head<'_>) -> Result<(), RequestError> {
    if !door::origin_allowed(&stage.parts.books.config, head) {
        return Err(RequestError::Forbidden);
    }
    if door::admits(stage, conn, head, Protocol::PlainRaw) {
        let chosen = first_subprotocol(head);
        accept::open_websocket(stage, conn, head, Protocol::PlainRaw, chosen);
    }
    Ok(())
}
