//! What client events do: the profile's own events first, then the rule of the event, then the default rule.

use crate::book::{Book, Namespace, Rule};
use crate::config::{Action, BuiltIn};
use crate::desk::Desk;
use crate::line::Word;
use crate::{chat, rooms};
use hub::{
    Collected, ConnectRequest, Context, Decision, DisconnectReason, Emit, Event, Found, Handler,
    Publication, Record, Refusal, SocketKey, Target, notices,
};
use smallvec::SmallVec;
use std::any::Any;
use std::borrow::Cow;
use std::sync::Arc;
use wire::json;

pub(crate) struct RulesHandler {
    book: Arc<Book>,
    /// Namespace found last: most processes have one.
    last: usize,
    desk: Desk,
}

impl RulesHandler {
    pub(crate) fn new(book: Arc<Book>) -> Self {
        Self {
            book,
            last: 0,
            desk: Desk::default(),
        }
    }

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
    fn reads_requests(&self) -> bool {
        let mut namespaces = self.book.namespaces.iter();
        namespaces.any(|(_, namespace)| namespace.backend.is_some())
    }

    fn connecting(&mut self, cx: &mut Context<'_>, request: &ConnectRequest<'_>) -> Decision {
        let Some(at) = self.find(request.namespace) else {
            return Decision::Refuse(Refusal::invalid_namespace());
        };
        match &self.book.namespaces[at].1.backend {
            Some(line) => self.desk.connecting(cx, request, line),
            None => Decision::Admit,
        }
    }

    fn connected(&mut self, cx: &mut Context<'_>, socket: SocketKey, auth: &str) {
        let Some(at) = cx.namespace(socket).and_then(|name| self.find(name)) else {
            return;
        };
        let (_, namespace) = &self.book.namespaces[at];
        if namespace.backend.is_some() {
            self.desk.connected(cx, socket);
        }
        let replays = namespace.history && rooms::may_replay_on_connect(cx, socket, namespace);
        for room in &namespace.auto_join {
            // A configured room has a checked name.
            let _ = cx.join(socket, room);
        }
        if namespace.chat {
            chat::connected(cx, socket, auth);
        }
        if replays {
            // Its token may have put it into the same rooms: each tells its history once. The first is the socket's own.
            let rooms = cx.rooms(socket);
            for room in rooms.iter().skip(1) {
                cx.replay(socket, room);
            }
        }
    }

    fn event(&mut self, cx: &mut Context<'_>, socket: SocketKey, mut event: Event<'_>) {
        let Some(at) = cx.namespace(socket).and_then(|name| self.find(name)) else {
            return;
        };
        let (name, namespace) = &self.book.namespaces[at];
        let own = namespace.events.get(event.name);
        let rule = own.unwrap_or(&namespace.default);
        if let Some(limiter) = &rule.rate
            && !cx.within(socket, limiter, &mut event.ack)
        {
            return;
        }
        let built_in = namespace.built_in(cx, socket, event.name);
        // A rule refines what the gateway does itself; only an action chosen for the event replaces it.
        let Some(built_in) = built_in.filter(|_| own.is_none_or(|rule| !rule.replaces)) else {
            return match rule.check(event.args) {
                Err(error) => refuse(cx, socket, event, &error, "INVALID_PAYLOAD"),
                Ok(()) if rule.action == Action::Backend => self.desk.event(cx, socket, event),
                Ok(()) => rule.apply(cx, socket, name, event, own.is_some()),
            };
        };
        if let Some(Err(error)) = own.map(|rule| rule.check(event.args)) {
            return refuse(cx, socket, event, &error, "INVALID_PAYLOAD");
        }
        match built_in {
            BuiltIn::Join => rooms::join(cx, socket, event, namespace),
            BuiltIn::Leave => rooms::leave(cx, socket, event),
            BuiltIn::ChatMessage => chat::message(cx, socket, name, event),
        }
    }

    fn disconnecting(&mut self, cx: &mut Context<'_>, socket: SocketKey, reason: DisconnectReason) {
        self.desk.disconnecting(cx, socket, reason);
    }

    fn acked(
        &mut self,
        _cx: &mut Context<'_>,
        _socket: SocketKey,
        token: u64,
        args: &str,
        attachments: &[Vec<u8>],
    ) {
        self.desk.acked(token, args, attachments);
    }

    fn ack_timed_out(&mut self, _cx: &mut Context<'_>, _socket: SocketKey, token: u64) {
        self.desk.ack_timed_out(token);
    }

    fn collected(&mut self, _cx: &mut Context<'_>, token: u64, collected: Collected) {
        self.desk.collected(token, collected);
    }

    fn found(&mut self, _cx: &mut Context<'_>, token: u64, found: Found) {
        self.desk.found(token, found);
    }

    fn outside(&mut self, cx: &mut Context<'_>, word: Box<dyn Any + Send>) {
        if let Ok(word) = word.downcast::<Word>() {
            self.desk.carry_out(cx, *word);
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

impl Namespace {
    fn built_in(&self, cx: &Context<'_>, socket: SocketKey, event: &str) -> Option<BuiltIn> {
        let granted = || cx.grants(socket).is_some();
        BuiltIn::of(event, self.chat, self.client_joins, granted)
    }
}

/// Answers to clients that wait for one about an event that goes nowhere: a rule says so, or none knows it.
const DROPPED: &str = r#"{"error":"This event goes nowhere","code":"DROPPED_EVENT"}"#;
const UNKNOWN: &str = r#"{"error":"No rule knows this event","code":"UNKNOWN_EVENT"}"#;
/// What an event can be refused for that clients believe to be the gateway's own word.
const RESERVED: &str = "Only the gateway sends events of this name";

impl Rule {
    fn check(&self, args: &str) -> Result<(), String> {
        let Some(schema) = &self.schema else {
            return Ok(());
        };
        let checked = schema.check(json::first(args).unwrap_or("null"));
        checked.map_err(|error| format!("Invalid payload: {error}"))
    }

    /// `named`: it is the event's own rule, not the one for all others.
    fn apply(
        &self,
        cx: &mut Context<'_>,
        socket: SocketKey,
        namespace: &str,
        event: Event<'_>,
        named: bool,
    ) {
        match &self.action {
            Action::Rooms { .. } if notices::is_notice(event.name) => {
                refuse(cx, socket, event, RESERVED, "RESERVED_EVENT");
            }
            Action::Rooms { room, echo } => {
                self.to_rooms(cx, socket, namespace, event, room.as_deref(), *echo);
            }
            Action::Reply => match event.ack {
                Some(ack) => cx.ack(ack, event.args, event.attachments),
                None => cx.emit(socket, &as_emit(&event)),
            },
            // The desk has it.
            Action::Backend => {}
            Action::Drop if named => {
                cx.drop_event();
                if let Some(ack) = event.ack {
                    cx.ack(ack, DROPPED, &[]);
                }
            }
            Action::Drop => {
                cx.unknown_event(socket, event.name);
                if let Some(ack) = event.ack {
                    cx.ack(ack, UNKNOWN, &[]);
                }
            }
        }
    }

    /// The room the event names: a plain client beside the payload, others within it, if the rule says where.
    fn named_room<'a>(&self, event: &Event<'a>) -> Result<Option<Cow<'a, str>>, ()> {
        let field = self.room_field.as_deref();
        let raw = field.and_then(|field| json::member(json::first(event.args)?, field));
        match raw {
            Some(raw) => json::unquote(raw).map(Some).ok_or(()),
            None => Ok(event.room.map(Cow::Borrowed)),
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
        let Ok(named) = self.named_room(&event) else {
            return refuse(cx, socket, event, "Room must be a string", "INVALID_ROOM");
        };
        let allowed = match named.as_deref().or(room) {
            // Its own room is open to all that the rule lets speak.
            Some(open) if room == Some(open) => rooms::granted(cx, socket, open),
            Some(named) => rooms::may_publish(cx, socket, named),
            None => {
                let (own, id) = (cx.rooms(socket), cx.id(socket).map(|id| id.encode()));
                let shared = own.iter().map(String::as_str);
                let shared = shared.filter(|room| id.is_none_or(|id| room.as_bytes() != id));
                let rooms: SmallVec<[&str; 4]> = shared.collect();
                let granted = rooms
                    .iter()
                    .try_for_each(|room| rooms::granted(cx, socket, room));
                let sent =
                    granted.and_then(|()| self.send(cx, socket, namespace, &event, &rooms, echo));
                return finish(cx, socket, event, sent);
            }
        };
        let room = named.as_deref().or(room);
        let sent =
            allowed.and_then(|()| self.send(cx, socket, namespace, &event, room.as_slice(), echo));
        finish(cx, socket, event, sent);
    }

    fn send(
        &self,
        cx: &mut Context<'_>,
        socket: SocketKey,
        namespace: &str,
        event: &Event<'_>,
        rooms: &[&str],
        echo: bool,
    ) -> Result<(), rooms::Forbidden> {
        let Some(id) = cx.id(socket).map(|id| id.encode()) else {
            return Ok(());
        };
        if rooms.is_empty() {
            return Ok(());
        }
        let id = std::str::from_utf8(&id).unwrap_or_default();
        let target = Target {
            namespace,
            rooms,
            users: &[],
            except: if echo { &[] } else { &[id] },
        };
        // History keeps text: attachments would be copied for every room.
        let kept = (self.history && event.attachments.is_empty()).then(|| as_kept(event));
        let record = match &kept {
            Some(kept) => Record::Kept(kept),
            None if self.in_order => Record::Passing,
            None => Record::Nothing,
        };
        let publication = Publication {
            to: target,
            event: as_emit(event),
            record,
        };
        rooms::publish(cx, &publication)
    }
}

/// Answers a publisher.
fn finish(
    cx: &mut Context<'_>,
    socket: SocketKey,
    event: Event<'_>,
    sent: Result<(), rooms::Forbidden>,
) {
    match sent {
        Err(forbidden) => refuse(cx, socket, event, forbidden.message(), forbidden.code()),
        Ok(()) => {
            if let Some(ack) = event.ack {
                cx.ack(ack, "", &[]);
            }
        }
    }
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

/// Tells the client that its event was not carried out, and answers its ack likewise.
pub(crate) fn refuse(
    cx: &mut Context<'_>,
    socket: SocketKey,
    event: Event<'_>,
    message: &str,
    code: &str,
) {
    let about = hub::About {
        id: event.ack.as_ref().map(hub::AckTo::id),
        field: None,
    };
    cx.reject_message(socket, hub::Rejection::Refused { message, code }, about);
    if let Some(ack) = event.ack {
        cx.ack_error(ack, message);
    }
}
