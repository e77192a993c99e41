//! What client events do: the profile's own events first, then the rule of the event, then the default rule.

use crate::book::{Book, Namespace, Rule, RulesFactory};
use crate::bridge::{Around, Bus, Buses, Inner, Records, Said};
use crate::config::{Action, BuiltIn};
use crate::desk::Desk;
use crate::errand::{Errand, Errands};
use crate::forbidden::Forbidden;
use crate::history::Readers;
use crate::large::{self, Publication, Queue};
use crate::line::{Line, Word};
use crate::trace::{Doing, TraceParent, Tracks};
use crate::{chat, presence, publishing, rooms};
use hub::{
    AckTo, AnswerHeaders, Author, Collected, ConnectRequest, Context, Decision, DisconnectReason,
    Emit, Event, Explained, Found, Goes, Handler, HandlerFactory, Keeping, Member, Opening,
    Presence, Protocol, Refusal, Request, ServerEvent, SocketKey, notices,
};
use smallvec::SmallVec;
use std::any::Any;
use std::borrow::Cow;
use std::sync::Arc;
use wire::base64url::Id20;
use wire::json;

/// Stands in the configuration for every namespace that it does not name.
const OTHERS: &str = "*";

pub(crate) struct RulesHandler {
    book: Arc<Book>,
    /// Namespace found last: most processes have one.
    last: usize,
    desk: Desk,
    errands: Errands,
    tracks: Tracks,
    queue: Queue,
    readers: Readers,
    records: Records,
}

impl HandlerFactory for RulesFactory {
    fn build(&self, shard: u16) -> Box<dyn Handler> {
        Box::new(RulesHandler::new(Arc::clone(&self.0), shard))
    }
}

impl RulesHandler {
    pub(crate) fn new(book: Arc<Book>, shard: u16) -> Self {
        Self {
            last: 0,
            desk: Desk::new(shard),
            errands: Errands::default(),
            queue: Queue::default(),
            readers: Readers::default(),
            records: Records::new(book.recorders.clone(), shard),
            tracks: Tracks::new(book.tracer.clone()),
            book,
        }
    }

    /// The ways to backends, in the order of their namespaces.
    fn lines(&self) -> impl Iterator<Item = &Arc<dyn Line>> {
        let namespaces = self.book.namespaces.iter();
        namespaces.filter_map(|(_, namespace)| namespace.backend.as_ref())
    }

    /// What is known of a socket that comes or goes.
    fn around(&self, at: usize, socket: SocketKey) -> Around<'static> {
        Around {
            trace: self.tracks.parent(socket),
            backend: self.book.namespaces[at].1.backend.is_some(),
            ..Around::default()
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
        let named = |wanted: &str| all.iter().position(|(name, _)| name == wanted);
        self.last = named(namespace).or_else(|| named(OTHERS))?;
        Some(self.last)
    }

    fn handle(
        &mut self,
        socket: &mut Member<'_>,
        mut event: Event<'_>,
        context: Option<TraceParent>,
    ) {
        let Some(at) = socket.namespace().and_then(|name| self.find(name)) else {
            // The process before this one knew the namespace.
            return unknown(socket, event);
        };
        let home = &self.book.namespaces[at];
        let (_, namespace) = home;
        let own = namespace.events.get(event.name);
        let rule = own.unwrap_or(&namespace.default);
        if let Some(limiter) = &rule.rate
            && !limiter.admit(socket, &mut event.ack)
        {
            return;
        }
        let built_in = namespace.built_in(socket, event.name);
        // A rule refines what the gateway does itself; only an action chosen for the event replaces it.
        let Some(built_in) = built_in.filter(|_| own.is_none_or(|rule| !rule.replaces)) else {
            if let Err(error) = rule.check(event.args) {
                return socket.refuse(event.ack, &error, "INVALID_PAYLOAD");
            }
            let around = Around {
                trace: context,
                backend: namespace.backend.is_some(),
                ..Around::default()
            };
            let Some(event) = rule.record(socket, &mut self.records, event, around) else {
                return;
            };
            if rule.action == Action::Backend {
                return self.desk.event(socket, event, context);
            }
            let fans_out = context.filter(|_| matches!(rule.action, Action::Rooms { .. }));
            let span = fans_out
                .and_then(|context| self.tracks.begin(Some(context), Doing::FanOut, event.name));
            rule.apply(socket, &mut self.queue, home, event, own.is_some());
            return self.tracks.end(span);
        };
        if let Some(Err(error)) = own.map(|rule| rule.check(event.args)) {
            return socket.refuse(event.ack, &error, "INVALID_PAYLOAD");
        }
        let buses = own.map(|rule| rule.beside).unwrap_or_default();
        let recorded = buses.any().then_some((buses, context));
        self.built_in(socket, (at, built_in), event, recorded);
    }

    /// An event that the gateway handles itself. `recorded`: these get it as well, with this trace.
    fn built_in(
        &mut self,
        socket: &mut Member<'_>,
        (at, built_in): (usize, BuiltIn),
        event: Event<'_>,
        recorded: Option<(Buses, Option<TraceParent>)>,
    ) {
        let (name, namespace) = &self.book.namespaces[at];
        let worker = namespace.backend.is_some();
        let said = Said::of(&event);
        let named = recorded.and_then(|_| json::first(event.args).and_then(json::unquote_name));
        let moves = matches!(built_in, BuiltIn::Join | BuiltIn::Leave);
        let around = |room, inner| Around {
            room,
            inner,
            trace: recorded.and_then(|(_, trace)| trace),
            backend: worker,
        };
        if let Some((buses, _)) = recorded.filter(|_| !moves) {
            let room = event.room;
            let room = room.filter(|room| publishing::may_publish(socket, room).is_ok());
            if let Err(why) = self.records.beside(buses, socket, said, around(room, None)) {
                return socket.refuse(event.ack, why.message(), why.code());
            }
        }
        let was_in = named.as_deref().is_some_and(|room| socket.is_in(room));
        match built_in {
            BuiltIn::Join => self.desk.watch(socket, worker, |socket| {
                rooms::join(socket, event, namespace);
            }),
            BuiltIn::Leave => {
                self.desk
                    .watch(socket, worker, |socket| rooms::leave(socket, event));
            }
            BuiltIn::History => self.readers.ask(socket, event, namespace),
            BuiltIn::Presence => presence::asked(socket, event, namespace),
            BuiltIn::ChatMessage => {
                let home = (name.as_str(), namespace.large);
                chat::message(socket, &mut self.queue, home, event);
            }
        }
        // Only now it is known whether the client may.
        if let Some(room) = named.as_deref().filter(|_| moves) {
            let inner = match (was_in, socket.is_in(room)) {
                (false, true) => Inner::Join,
                (true, false) => Inner::Leave,
                _ => return,
            };
            let buses = recorded.map(|(buses, _)| buses).unwrap_or_default();
            let around = around(Some(room), Some(inner));
            // The recorder counts what it does not take; the client has its answer.
            let _ = self.records.beside(buses, socket, said, around);
        }
    }

    /// What is done with a socket that is in.
    fn welcome(&mut self, socket: &mut Member<'_>, at: usize, auth: &str) {
        let (_, namespace) = &self.book.namespaces[at];
        let decided = match namespace.backend {
            Some(_) => self.desk.connected(socket),
            None => None,
        };
        self.tracks.arrived(socket.key(), decided);
        if socket.recovered() {
            // Its rooms and its data are what they were, and it gets what it missed.
            return;
        }
        let replays = namespace.history && rooms::may_replay_on_connect(socket, namespace);
        let told = namespace.backend.is_some() && !namespace.auto_join.is_empty();
        self.desk.watch(socket, told, |socket| {
            for room in &namespace.auto_join {
                // A configured room has a checked name.
                let _ = socket.join(room);
            }
        });
        if namespace.offers.chat {
            chat::connected(socket, auth);
        }
        if replays {
            // Its token may have put it into the same rooms: each tells its history once. The first is the socket's own.
            let rooms = socket.rooms();
            for room in rooms.iter().skip(1) {
                socket.replay(room);
            }
        }
    }
}

impl Handler for RulesHandler {
    fn reads_requests(&self) -> bool {
        let asks = self.lines().next().is_some() || !self.book.deciders.is_empty();
        self.book.tracer.is_some() || asks
    }

    fn keeping(&self) -> Arc<Keeping> {
        Arc::clone(&self.book.keeping)
    }

    fn watches_rooms(&self) -> bool {
        self.lines().next().is_some()
    }

    fn opening(&mut self, _cx: &mut Context<'_>, request: &Request<'_>) -> Opening {
        if request.protocol != Protocol::SocketIo || self.book.deciders.is_empty() {
            return Opening::Accept;
        }
        self.desk.opening(request, &self.book.deciders)
    }

    fn answering(
        &mut self,
        request: &Request<'_>,
        opens: Option<&str>,
        headers: &mut AnswerHeaders,
    ) {
        if let Some(sid) = opens {
            self.desk.answering(request, sid, headers);
        }
    }

    fn moved(
        &mut self,
        cx: &mut Context<'_>,
        socket: SocketKey,
        room: &str,
        joined: bool,
        by: u64,
    ) {
        self.desk.moved(&cx.socket(socket), room, joined, by);
    }

    fn connecting(&mut self, cx: &mut Context<'_>, request: &ConnectRequest<'_>) -> Decision {
        let Some(at) = self.find(request.namespace) else {
            return Decision::Refuse(Refusal::invalid_namespace());
        };
        match &self.book.namespaces[at].1.backend {
            Some(line) => {
                let arrival = self.tracks.arrival(request);
                let decision = self.desk.connecting(cx, request, line, arrival);
                decision.unwrap_or_else(|arrival| {
                    self.tracks.turned_away(arrival);
                    Decision::Refuse(Refusal::unavailable())
                })
            }
            None => {
                self.tracks.arrives(request);
                Decision::Admit
            }
        }
    }

    fn gave_up(&mut self, _cx: &mut Context<'_>, socket: Id20, reason: DisconnectReason) {
        let arrival = self.desk.gave_up(socket, reason);
        self.tracks.turned_away(arrival);
    }

    fn upgraded(&mut self, _cx: &mut Context<'_>, socket: Id20, transport: &'static str) {
        self.desk.upgraded(socket, transport);
    }

    fn connected(&mut self, cx: &mut Context<'_>, socket: SocketKey, auth: &str) {
        let socket = &mut cx.socket(socket);
        let Some(at) = socket.namespace().and_then(|name| self.find(name)) else {
            return;
        };
        self.welcome(socket, at, auth);
        let lives = self.book.namespaces[at].1.lives;
        if lives.any() {
            let around = self.around(at, socket.key());
            self.records.connected(lives, socket, around);
        }
    }

    fn event(&mut self, cx: &mut Context<'_>, socket: SocketKey, event: Event<'_>) {
        let parent = self.tracks.parent(socket);
        let span = self.tracks.begin(parent, Doing::Event, event.name);
        let context = span.as_ref().map(|span| span.context).or(parent);
        self.handle(&mut cx.socket(socket), event, context);
        self.tracks.end(span);
    }

    fn owes(&self, socket: Id20) -> Vec<(u64, u64)> {
        self.desk.owes(socket)
    }

    fn query_of(&self, token: u64) -> Option<u64> {
        self.desk.query_of(token)
    }

    fn goes_on_with(&mut self, socket: Id20, query: u64) -> Option<u64> {
        self.desk.goes_on_with(socket, query)
    }

    fn last_number(&self) -> u64 {
        self.desk.last_number()
    }

    fn arrived(&mut self, cx: &mut Context<'_>, socket: SocketKey, owed: Vec<(u64, AckTo)>) {
        let member = cx.socket(socket);
        let at = member.namespace().and_then(|name| self.find(name));
        if let Some(line) = at.and_then(|at| self.book.namespaces[at].1.backend.as_ref()) {
            self.desk.arrived(&member, line, owed);
        }
        self.tracks.arrived(socket, None);
    }

    fn numbers_of(&self, socket: SocketKey) -> Vec<u64> {
        self.records.numbers_of(socket)
    }

    fn goes_on_with_numbers(&mut self, socket: SocketKey, numbers: &[u64]) {
        self.records.go_on_with(socket, numbers);
    }

    fn go_on_from(&mut self, number: u64) {
        self.desk.go_on_from(number);
    }

    fn explain(
        &mut self,
        cx: &mut Context<'_>,
        socket: SocketKey,
        event: &str,
    ) -> Option<Explained> {
        let member = cx.socket(socket);
        let at = self.find(member.namespace()?)?;
        let (name, namespace) = &self.book.namespaces[at];
        Some(namespace.explain(&member, name, event))
    }

    fn disconnecting(&mut self, cx: &mut Context<'_>, socket: SocketKey, reason: DisconnectReason) {
        let member = &cx.socket(socket);
        if let Some(at) = member.namespace().and_then(|name| self.find(name))
            && let lives = self.book.namespaces[at].1.lives
            && lives.any()
        {
            let around = self.around(at, socket);
            self.records.disconnecting(lives, member, reason, around);
        }
        self.records.forget(socket);
        self.tracks.left(socket);
        let arrival = self.desk.disconnecting(&cx.socket(socket), reason);
        self.tracks.turned_away(arrival);
    }

    fn answered(&mut self, cx: &mut Context<'_>, token: u64, answer: Option<&[u8]>) {
        if !self.readers.answered(cx, token, answer) && !self.records.answered(cx, token, answer) {
            self.queue.answered(cx, token, answer);
        }
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
        if let Some(collected) = self.errands.collected(token, collected) {
            self.desk.collected(token, collected);
        }
    }

    fn found(&mut self, _cx: &mut Context<'_>, token: u64, found: Found) {
        if let Some(found) = self.errands.found(token, found) {
            self.desk.found(token, found);
        }
    }

    fn server_event(&mut self, cx: &mut Context<'_>, event: ServerEvent<'_>) {
        let at = self.find(event.namespace);
        let line = at.and_then(|at| self.book.namespaces[at].1.backend.as_ref());
        self.desk.told(cx, event, line);
    }

    fn outside(&mut self, cx: &mut Context<'_>, word: Box<dyn Any + Send>) {
        match word.downcast::<Word>() {
            Ok(word) if word.shard() != self.desk.shard() => word.pass(cx),
            Ok(mut word) => {
                let (line, spread) = (Arc::clone(&word.line), word.spread);
                for down in std::mem::take(&mut word.downs) {
                    let arrival = self.desk.carry_out(cx, &line, down, spread);
                    self.tracks.turned_away(arrival);
                }
            }
            Err(other) => {
                if let Ok(errand) = other.downcast::<Errand>() {
                    self.errands.carry_out(cx, *errand);
                }
            }
        }
    }

    fn counts_nodes(&self) -> bool {
        self.book
            .namespaces
            .iter()
            .any(|(_, namespace)| namespace.offers.chat)
    }

    fn room_count_changed(
        &mut self,
        cx: &mut Context<'_>,
        namespace: &str,
        room: &str,
        count: u64,
    ) {
        if let Some(at) = self.find(namespace)
            && self.book.namespaces[at].1.offers.chat
        {
            chat::presence(cx, namespace, room, count);
        }
    }

    fn presence_changed(
        &mut self,
        cx: &mut Context<'_>,
        namespace: &str,
        room: &str,
        presence: &Presence,
    ) {
        presence::tell(cx, namespace, room, presence);
    }
}

impl Namespace {
    fn built_in(&self, socket: &Member<'_>, event: &str) -> Option<BuiltIn> {
        let granted = || socket.grants().is_some();
        BuiltIn::of(event, self.offers, granted)
    }

    /// The rule that an event meets, in the words of the configuration.
    fn explain(&self, socket: &Member<'_>, name: &str, event: &str) -> Explained {
        let own = self.events.get(event);
        let rule = own.unwrap_or(&self.default);
        let built_in = self.built_in(socket, event);
        let built_in = built_in.filter(|_| own.is_none_or(|rule| !rule.replaces));
        let action = match (built_in, &rule.action) {
            (Some(_), _) => "built in",
            (None, Action::Rooms { .. }) => "rooms",
            (None, Action::Reply) => "reply",
            (None, Action::Backend) => "backend",
            (None, Action::Bus(Bus::Kafka)) => "kafka",
            (None, Action::Bus(Bus::Nats)) => "nats",
            (None, Action::Drop) => "drop",
        };
        let place = match own {
            Some(_) => format!("events.{event}"),
            None => "default".to_owned(),
        };
        Explained {
            rule: format!("{name} {place}: {action}"),
            goes: match action {
                "rooms" => Goes::ToRooms,
                "backend" => Goes::ToBackend,
                _ => Goes::Nowhere,
            },
        }
    }
}

/// Answers to clients that wait for one about an event that goes nowhere: a rule says so, or none knows it.
const DROPPED: &str = r#"{"error":"This event goes nowhere","code":"DROPPED_EVENT"}"#;
const UNKNOWN: &str = r#"{"error":"No rule knows this event","code":"UNKNOWN_EVENT"}"#;
/// What an event can be refused for that clients believe to be the gateway's own word.
const RESERVED: &str = "Only the gateway sends events of this name";

fn unknown(socket: &mut Member<'_>, event: Event<'_>) {
    socket.unknown_event(event.name);
    if let Some(ack) = event.ack {
        socket.cx().ack(ack, UNKNOWN, &[]);
    }
}

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
        socket: &mut Member<'_>,
        queue: &mut Queue,
        home: &(String, Namespace),
        event: Event<'_>,
        named: bool,
    ) {
        match &self.action {
            Action::Rooms { .. } if notices::is_notice(event.name) => {
                socket.refuse(event.ack, RESERVED, "RESERVED_EVENT");
            }
            Action::Rooms { room, echo } => {
                self.to_rooms(socket, queue, home, event, (room.as_deref(), *echo));
            }
            Action::Reply => match event.ack {
                Some(ack) => socket.cx().ack(ack, event.args, event.attachments),
                None => socket.emit(&as_emit(&event)),
            },
            // The desk has it, or a bus.
            Action::Backend | Action::Bus(_) => {}
            Action::Drop if named => {
                socket.cx().drop_event();
                if let Some(ack) = event.ack {
                    socket.cx().ack(ack, DROPPED, &[]);
                }
            }
            Action::Drop => unknown(socket, event),
        }
    }

    /// The room the event names: a plain client beside the payload, others within it, if the rule says where.
    fn named_room<'a>(&self, event: &Event<'a>) -> Result<Option<Cow<'a, str>>, &'static str> {
        let field = self.room_field.as_deref();
        let raw = field.and_then(|field| json::member(json::first(event.args)?, field));
        match raw {
            Some(raw) => rooms::named(Some(raw)).map(Some),
            None => Ok(event.room.map(Cow::Borrowed)),
        }
    }

    /// Kafka and NATS get the event, if the rule says so. `None`: nothing else is done with it.
    fn record<'e>(
        &self,
        socket: &mut Member<'_>,
        records: &mut Records,
        event: Event<'e>,
        around: Around<'_>,
    ) -> Option<Event<'e>> {
        let alone = match self.action {
            Action::Bus(bus) => Some(bus),
            _ => None,
        };
        if alone.is_none() && !self.beside.any() {
            return Some(event);
        }
        let named = match self.named_room(&event) {
            Ok(named) => named,
            Err(why) => {
                socket.refuse(event.ack, why, "INVALID_ROOM");
                return None;
            }
        };
        let room = named.as_deref();
        // Programs take the name in a record for the gateway's word.
        let allowed = room.map_or(Ok(()), |room| self.may_name(socket, room));
        if alone.is_some() && allowed.is_err() {
            large::finish(socket, event.ack, "", allowed);
            return None;
        }
        let around = Around {
            // An action beside it refuses by itself what it does not allow.
            room: room.filter(|_| allowed.is_ok()),
            ..around
        };
        if let Err(why) = records.beside(self.beside, socket, Said::of(&event), around) {
            socket.refuse(event.ack, why.message(), why.code());
            return None;
        }
        let Some(bus) = alone else {
            return Some(event);
        };
        records.alone(bus, socket, event, around);
        None
    }

    /// Where the rule's action lets the client speak.
    fn may_name(&self, socket: &mut Member<'_>, room: &str) -> Result<(), Forbidden> {
        match &self.action {
            Action::Rooms { room: own, .. } if own.as_deref() == Some(room) => {
                publishing::granted(socket, room)
            }
            _ => publishing::may_publish(socket, room),
        }
    }

    /// Broadcasts to the room the client named, to the rule's room, or to all rooms of the sender.
    fn to_rooms(
        &self,
        socket: &mut Member<'_>,
        queue: &mut Queue,
        home: &(String, Namespace),
        event: Event<'_>,
        (room, echo): (Option<&str>, bool),
    ) {
        let named = match self.named_room(&event) {
            Ok(named) => named,
            Err(why) => return socket.refuse(event.ack, why, "INVALID_ROOM"),
        };
        let own;
        let (allowed, rooms) = match named.as_deref().or(room) {
            // Its own room is open to all that the rule lets speak.
            Some(open) if room == Some(open) => (
                publishing::granted(socket, open),
                SmallVec::from_slice(&[open]),
            ),
            Some(named) => (
                publishing::may_publish(socket, named),
                SmallVec::<[&str; 4]>::from_slice(&[named]),
            ),
            None => {
                own = socket.rooms();
                let id = socket.id().map(|id| id.encode());
                let shared = own.iter().map(String::as_str);
                let shared = shared.filter(|room| id.is_none_or(|id| room.as_bytes() != id));
                let rooms: SmallVec<[&str; 4]> = shared.collect();
                let granted = rooms
                    .iter()
                    .try_for_each(|room| publishing::granted(socket, room));
                (granted, rooms)
            }
        };
        if allowed.is_err() || rooms.is_empty() {
            return large::finish(socket, event.ack, "", allowed);
        }
        let (name, namespace) = home;
        let what = Publication {
            namespace: name,
            rooms: &rooms,
            echo,
            event: Emit {
                author: Author::Client(socket.key()),
                ..as_emit(&event)
            },
            answer: "",
        };
        queue.publish(socket, namespace.large, &what, event.ack);
    }
}

fn as_emit<'a>(event: &Event<'a>) -> Emit<'a> {
    Emit {
        attachments: event.attachments,
        ..Emit::new(event.name, event.args)
    }
}
