//! The built-in handler: what client events do is read from the configuration, no backend needed.

use crate::access::gcra::{Gcra, Meter};
use crate::books::config::{Action, EventRule, Rate, Rules};
use crate::books::metrics::Scope;
use crate::chat;
use crate::cluster::relay::Target;
use crate::rooms::membership::JoinError;
use crate::seam::context::{Context, Emit, Rejection};
use crate::seam::handler::{AckTo, ConnectRequest, Event, Handler, HandlerFactory, Refusal};
use crate::tables::slot::SocketKey;
use smallvec::SmallVec;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use wire::json;

/// Checks a payload against a schema. Implemented outside, so that the hub needs no schema library.
pub trait PayloadCheck: Send + Sync {
    /// `payload` is raw JSON, `null` when the event has no argument. The error is for people.
    fn check(&self, payload: &str) -> Result<(), String>;
}

/// Compiles a JSON Schema's text.
pub type Compile<'a> = dyn Fn(&str) -> Result<Arc<dyn PayloadCheck>, String> + 'a;

struct Rule {
    action: Action,
    schema: Option<Arc<dyn PayloadCheck>>,
    rate: Option<Limit>,
    history: bool,
}

struct Limit {
    /// Number of the limiter in a session.
    number: u32,
    meter: Meter,
}

struct Namespace {
    chat: bool,
    client_joins: bool,
    auto_join: Vec<String>,
    /// Something of its rooms is kept for late joiners.
    history: bool,
    /// Number of the limiter of replays in a session.
    replays: u32,
    events: HashMap<String, Rule>,
    default: Rule,
}

/// Rules as compiled at start, shared by all shards.
struct Book {
    namespaces: Vec<(String, Namespace)>,
}

/// Builds the rules' handler for each shard.
pub struct RulesFactory(Arc<Book>);

impl fmt::Debug for RulesFactory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RulesFactory")
            .field("namespaces", &self.0.namespaces.len())
            .finish()
    }
}

impl RulesFactory {
    /// Compiles the rules. The error names namespace and event.
    pub fn new(rules: &Rules, compile: &Compile<'_>) -> Result<Self, String> {
        let mut numbers = 1..;
        let mut number = || numbers.next().unwrap_or(0);
        let mut namespaces = Vec::new();
        for (name, source) in &rules.namespaces {
            let mut compiled = |event: &str, source: &EventRule| {
                rule(source, number(), compile).map_err(|error| {
                    format!("cannot compile the schema of event {event:?} in namespace {name:?}: {error}")
                })
            };
            let mut events = HashMap::new();
            for (event, source) in &source.events {
                events.insert(event.clone(), compiled(event, source)?);
            }
            let default = compiled("*", &source.default_event)?;
            namespaces.push((
                name.clone(),
                Namespace {
                    chat: source.chat,
                    client_joins: source.client_joins,
                    auto_join: source.auto_join.clone(),
                    history: source.chat
                        || default.history
                        || events.values().any(|rule| rule.history),
                    replays: number(),
                    events,
                    default,
                },
            ));
        }
        Ok(Self(Arc::new(Book { namespaces })))
    }
}

fn rule(source: &EventRule, number: u32, compile: &Compile<'_>) -> Result<Rule, String> {
    Ok(Rule {
        action: source.action.clone(),
        schema: source.schema.as_deref().map(compile).transpose()?,
        rate: source.rate.map(|rate| Limit {
            number,
            meter: Meter::new(rate),
        }),
        history: source.history,
    })
}

impl HandlerFactory for RulesFactory {
    fn build(&self, _shard: u16) -> Box<dyn Handler> {
        Box::new(RulesHandler {
            book: Arc::clone(&self.0),
            last: 0,
        })
    }
}

struct RulesHandler {
    book: Arc<Book>,
    /// Namespace found last: most processes have one.
    last: usize,
}

impl RulesHandler {
    fn find(&mut self, namespace: &str) -> Option<usize> {
        let all = &self.book.namespaces;
        if all
            .get(self.last)
            .is_some_and(|(name, _)| name == namespace)
        {
            return Some(self.last);
        }
        self.last = all.iter().position(|(name, _)| name == namespace)?;
        Some(self.last)
    }
}

impl Handler for RulesHandler {
    fn connecting(
        &mut self,
        _io: &mut Context<'_>,
        request: &ConnectRequest<'_>,
    ) -> Result<(), Refusal> {
        match self.find(request.namespace) {
            Some(_) => Ok(()),
            None => Err(Refusal::invalid_namespace()),
        }
    }

    fn connected(&mut self, cx: &mut Context<'_>, socket: SocketKey, auth: &str) {
        let Some(at) = cx.namespace(socket).and_then(|name| self.find(name)) else {
            return;
        };
        let (name, namespace) = &self.book.namespaces[at];
        let replays = namespace.history && may_replay_on_connect(cx, socket, namespace);
        if replays {
            // Those it has been put into by its token.
            let rooms = cx.rooms(socket);
            rooms
                .iter()
                .skip(1)
                .for_each(|room| cx.replay(socket, name, room));
        }
        for room in &namespace.auto_join {
            // A configured room has a checked name.
            let _ = cx.join(socket, room);
            if replays {
                cx.replay(socket, name, room);
            }
        }
        if namespace.chat {
            chat::connected(cx, socket, auth);
            if replays {
                cx.replay(socket, name, chat::GLOBAL);
            }
        }
    }

    fn event(&mut self, cx: &mut Context<'_>, socket: SocketKey, mut event: Event<'_>) {
        let Some(at) = cx.namespace(socket).and_then(|name| self.find(name)) else {
            return;
        };
        let (name, namespace) = &self.book.namespaces[at];
        let rule = namespace.events.get(event.name);
        if let Some(limit) = rule.unwrap_or(&namespace.default).rate.as_ref()
            && !within(limit, cx, socket, &mut event.ack)
        {
            return;
        }
        match (rule, event.name) {
            (Some(rule), _) => rule.apply(cx, socket, name, event),
            (None, "join" | "leave") if namespace.client_joins || cx.grants(socket).is_some() => {
                membership(cx, socket, name, event, namespace);
            }
            (None, "chat-message") if namespace.chat => chat::message(cx, socket, name, event),
            (None, _) => namespace.default.apply(cx, socket, name, event),
        }
    }

    fn room_count_changed(
        &mut self,
        cx: &mut Context<'_>,
        namespace: &str,
        room: &str,
        count: u64,
    ) {
        if let Some(at) = self.find(namespace)
            && self.book.namespaces[at].1.chat
        {
            chat::presence(cx, namespace, room, count);
        }
    }
}

/// History is up to 64 KiB for one short `join`: in a namespace a session gets it for this many joins a second, and for the rest
/// joins only. Coming back makes it no more.
const REPLAYS: Rate = Rate {
    events: 20,
    per: std::time::Duration::from_secs(1),
};

fn may_replay(cx: &mut Context<'_>, socket: SocketKey, namespace: &Namespace) -> bool {
    passes(cx, socket, namespace.replays, Gcra::new(REPLAYS))
}

/// The first time nothing is booked, which would cost each session memory: only who has left may come again and again.
fn may_replay_on_connect(cx: &mut Context<'_>, socket: SocketKey, namespace: &Namespace) -> bool {
    let session = cx.core.socket(socket).map(|slot| slot.session);
    let slot = session.and_then(|session| cx.core.tables.sessions.get(session));
    slot.is_none_or(|slot| slot.rare.is_none()) || may_replay(cx, socket, namespace)
}

/// Books an event with a limiter of the socket's session.
pub(crate) fn passes(cx: &mut Context<'_>, socket: SocketKey, number: u32, gcra: Gcra) -> bool {
    let now_us = cx.core.now_us();
    let session = cx.core.socket(socket).map(|slot| slot.session);
    let slot = session.and_then(|session| cx.core.tables.sessions.get_mut(session));
    slot.is_some_and(|slot| {
        let rare = slot.rare.get_or_insert_default();
        gcra.check(rare.rate(number), now_us).is_ok()
    })
}

/// Books the event; over the limit the client is told and the event dropped.
fn within(limit: &Limit, cx: &mut Context<'_>, socket: SocketKey, ack: &mut Option<AckTo>) -> bool {
    let Limit { number, meter } = limit;
    if passes(cx, socket, *number, meter.gcra) {
        cx.within_rate(socket);
        return true;
    }
    cx.over_rate(socket, ack, Scope::Event, meter)
}

impl Rule {
    fn apply(&self, cx: &mut Context<'_>, socket: SocketKey, namespace: &str, event: Event<'_>) {
        if let Some(schema) = &self.schema
            && let Err(error) = schema.check(first(event.args).unwrap_or("null"))
        {
            return refuse(
                cx,
                socket,
                event,
                &format!("Invalid payload: {error}"),
                "INVALID_PAYLOAD",
            );
        }
        match &self.action {
            Action::Rooms { room, echo } => {
                self.to_rooms(cx, socket, namespace, event, room.as_deref(), *echo);
            }
            Action::Reply => match event.ack {
                Some(ack) => cx.ack(ack, event.args, event.attachments),
                None => cx.emit(socket, &as_emit(&event)),
            },
            Action::Backend => refuse(cx, socket, event, "No backend is connected", "NO_BACKEND"),
            Action::Drop => cx.drop_event(),
        }
    }

    /// Broadcasts to the room the client named, to the rule's room, or to all rooms of the sender.
    fn to_rooms(
        &self,
        cx: &mut Context<'_>,
        socket: SocketKey,
        namespace: &str,
        event: Event<'_>,
        room: Option<&str>,
        echo: bool,
    ) {
        let Some(id) = cx.id(socket).map(|id| id.encode()) else {
            return;
        };
        let id = std::str::from_utf8(&id).unwrap_or_default();
        let own: Vec<String>;
        let rooms: SmallVec<[&str; 4]> = match event.room.or(room) {
            Some(named) => {
                if event.room.is_some() && room != event.room && !cx.is_in(socket, named) {
                    return refuse(cx, socket, event, "Not in that room", "NOT_IN_ROOM");
                }
                [named].into_iter().collect()
            }
            None => {
                own = cx.rooms(socket);
                own.iter()
                    .map(String::as_str)
                    .filter(|room| *room != id)
                    .collect()
            }
        };
        if !may_publish(cx, socket, &rooms) {
            return refuse(cx, socket, event, FORBIDDEN_PUBLISH, "FORBIDDEN");
        }
        if !rooms.is_empty() {
            let except: &[&str] = if echo { &[] } else { &[id] };
            let target = Target {
                namespace,
                rooms: &rooms,
                users: &[],
                except,
            };
            cx.broadcast(&target, &as_emit(&event));
            // History keeps text: attachments would be copied for every room.
            if self.history && event.attachments.is_empty() {
                let kept = as_kept(&event);
                rooms
                    .iter()
                    .for_each(|room| cx.record(namespace, room, &kept));
            }
        }
        if let Some(ack) = event.ack {
            cx.ack(ack, "", &[]);
        }
    }
}

/// What a client hears whose token does not allow it.
pub(crate) const FORBIDDEN_PUBLISH: &str = "Not allowed to publish to that room";
const FORBIDDEN_JOIN: &str = "Not allowed to join that room";

/// Whether the socket's token, if it speaks of rooms, allows publishing to all of these.
pub(crate) fn may_publish(cx: &Context<'_>, socket: SocketKey, rooms: &[&str]) -> bool {
    cx.grants(socket)
        .is_none_or(|grants| rooms.iter().all(|room| grants.may_publish(room)))
}

fn as_emit<'a>(event: &Event<'a>) -> Emit<'a> {
    Emit {
        name: event.name,
        args: event.args,
        attachments: event.attachments,
        volatile: false,
    }
}

/// An event as late joiners get it: one value, whatever the number of its arguments.
fn as_kept(event: &Event<'_>) -> String {
    let mut kept = b"{\"event\":".to_vec();
    json::quote(&mut kept, event.name);
    format!(
        "{},\"args\":[{}]}}",
        String::from_utf8_lossy(&kept),
        event.args
    )
}

/// First of several raw elements.
pub(crate) fn first(args: &str) -> Option<&str> {
    let start = json::skip_space(args.as_bytes(), 0);
    let end = json::skip_value(args.as_bytes(), start).ok()?;
    args.get(start..end)
}

/// Tells the client that its event was not carried out, and answers its ack likewise.
pub(crate) fn refuse(
    cx: &mut Context<'_>,
    socket: SocketKey,
    event: Event<'_>,
    message: &str,
    code: &str,
) {
    cx.reject(socket, Rejection::Refused { message, code });
    if let Some(ack) = event.ack {
        cx.ack_error(ack, message);
    }
}

/// `join` and `leave` by a client; the ack gets the list of its rooms.
fn membership(
    cx: &mut Context<'_>,
    socket: SocketKey,
    namespace: &str,
    event: Event<'_>,
    rules: &Namespace,
) {
    let Some(room) = first(event.args).and_then(json::unquote) else {
        return refuse(cx, socket, event, "Room must be a string", "INVALID_ROOM");
    };
    if event.name == "leave" {
        cx.leave(socket, &room);
    } else if cx.is_socket_id(&room) && cx.id(socket).is_none_or(|id| id.to_string() != *room) {
        // Else it would hear what is meant for that client alone, and could speak to it alone.
        return refuse(cx, socket, event, "Invalid room name", "INVALID_ROOM");
    } else if cx
        .grants(socket)
        .is_some_and(|grants| !grants.may_join(&room))
    {
        return refuse(cx, socket, event, FORBIDDEN_JOIN, "FORBIDDEN");
    } else if let Err(error) = join_as_client(cx, socket, &room) {
        let (message, code) = match error {
            JoinError::TooManyRooms => ("Too many rooms", "TOO_MANY_ROOMS"),
            JoinError::BadName | JoinError::Gone => ("Invalid room name", "INVALID_ROOM"),
        };
        return refuse(cx, socket, event, message, code);
    } else if rules.history && may_replay(cx, socket, rules) {
        cx.replay(socket, namespace, &room);
    }
    if let Some(ack) = event.ack {
        let (rooms, own) = (cx.rooms(socket), cx.id(socket).map(|id| id.to_string()));
        let mut args = b"[".to_vec();
        for (n, room) in rooms
            .iter()
            .filter(|room| own.as_ref() != Some(*room))
            .enumerate()
        {
            if n > 0 {
                args.push(b',');
            }
            json::quote(&mut args, room);
        }
        args.push(b']');
        cx.ack(ack, &String::from_utf8_lossy(&args), &[]);
    }
}

/// Clients may not use NUL, which ends a name wherever C reads it: two rooms here could be one there.
fn join_as_client(cx: &mut Context<'_>, socket: SocketKey, room: &str) -> Result<(), JoinError> {
    if room.contains('\0') {
        cx.core.counts.hit(crate::books::metrics::Limit::RoomName);
        return Err(JoinError::BadName);
    }
    cx.join(socket, room)
}
