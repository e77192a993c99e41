//! The handler of every hub: the built-in rules, and a witness of what handlers are promised.

use crate::names::{digits, user};
use hub::{
    AckTo, Collected, ConnectRequest, Context, Decision, DisconnectReason, Emit, Event, Found,
    Handler, Keeping, Protocol, Reach, SocketKey,
};
use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use wire::base64url::Id20;

/// Longer than a history: only answers and departures end a round.
const ROUND_TIME: Duration = Duration::from_secs(1_000_000);

/// What the handlers of all hubs saw.
#[derive(Debug, Default)]
pub(crate) struct Diary {
    /// The socket of each client, from `connected` to `disconnected`, by the client's CONNECT payload.
    live: BTreeMap<String, (u16, SocketKey)>,
    /// The names of sockets, for the process that comes next.
    names: BTreeMap<[u8; 15], String>,
    /// Promises that were not kept. (A panic of a handler would only cost a session.)
    pub(crate) broken: Vec<String>,
    /// Rounds that were begun and have no result.
    pub(crate) open: usize,
    /// Results: the round, and what it brought.
    pub(crate) results: Vec<(u64, Collected)>,
    /// What each round is to its client: a place in `Report::asks`. Rounds are counted from one.
    pub(crate) rounds: Vec<usize>,
    pub(crate) returns: usize,
}

pub(crate) struct Witness {
    pub(crate) shard: u16,
    pub(crate) rules: Box<dyn Handler>,
    /// Each client is a user of its own.
    pub(crate) names_users: bool,
    pub(crate) diary: Arc<Mutex<Diary>>,
    /// Sockets of event streams.
    pub(crate) streams: BTreeSet<SocketKey>,
}

impl Witness {
    fn diary(&self) -> std::sync::MutexGuard<'_, Diary> {
        self.diary.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The client whose live socket this is.
    fn expect_live(&self, socket: SocketKey, what: &str) -> Option<String> {
        let mut diary = self.diary();
        let here = (self.shard, socket);
        let found = diary.live.iter().find(|(_, live)| **live == here);
        let name = found.map(|(name, _)| name.clone());
        if name.is_none() {
            diary
                .broken
                .push(format!("{what} of a socket that is gone"));
        }
        name
    }
}

/// Event streams have no names, and only join: the diary does not hold them.
fn is_stream(cx: &mut Context<'_>, socket: SocketKey) -> bool {
    let info = cx.socket(socket);
    let info = info.info();
    info.is_some_and(|info| info.protocol == Protocol::EventStream)
}

impl Handler for Witness {
    fn keeping(&self) -> Arc<Keeping> {
        self.rules.keeping()
    }

    fn connecting(&mut self, cx: &mut Context<'_>, request: &ConnectRequest<'_>) -> Decision {
        self.rules.connecting(cx, request)
    }

    fn connected(&mut self, cx: &mut Context<'_>, socket: SocketKey, auth: &str) {
        if is_stream(cx, socket) {
            self.streams.insert(socket);
            return self.rules.connected(cx, socket, auth);
        }
        let id = cx.socket(socket).id();
        let mut diary = self.diary();
        // Clients of the plain protocol have no name.
        let name = match (auth, id) {
            ("{}", Some(id)) => id.to_string(),
            _ => auth.to_owned(),
        };
        if let Some(id) = id {
            diary.names.insert(id.0, name.clone());
        }
        let before = diary.live.insert(name, (self.shard, socket));
        if before.is_some() {
            let broken = format!("{auth} is back before its end was told");
            diary.broken.push(broken);
        }
        drop(diary);
        let client = digits(auth).first().copied();
        if let Some(client) = client.filter(|_| self.names_users) {
            let mut socket = cx.socket(socket);
            socket.set_user(&user(client)).expect("it is here");
        }
        self.rules.connected(cx, socket, auth);
    }

    fn owes(&self, socket: Id20) -> Vec<(u64, u64)> {
        self.rules.owes(socket)
    }

    fn last_number(&self) -> u64 {
        self.rules.last_number()
    }

    fn query_of(&self, token: u64) -> Option<u64> {
        self.rules.query_of(token)
    }

    fn goes_on_with(&mut self, socket: Id20, query: u64) -> Option<u64> {
        self.rules.goes_on_with(socket, query)
    }

    fn numbers_of(&self, socket: SocketKey) -> Vec<u64> {
        self.rules.numbers_of(socket)
    }

    fn goes_on_with_numbers(&mut self, socket: SocketKey, numbers: &[u64]) {
        self.rules.goes_on_with_numbers(socket, numbers);
    }

    fn go_on_from(&mut self, number: u64) {
        self.rules.go_on_from(number);
    }

    fn arrived(&mut self, cx: &mut Context<'_>, socket: SocketKey, owed: Vec<(u64, AckTo)>) {
        if is_stream(cx, socket) {
            self.streams.insert(socket);
            return self.rules.arrived(cx, socket, owed);
        }
        let id = cx.socket(socket).id();
        let mut diary = self.diary();
        match id.and_then(|id| diary.names.get(&id.0).cloned()) {
            Some(name) => {
                diary.live.insert(name, (self.shard, socket));
            }
            None => diary.broken.push("a socket that nobody knew".to_owned()),
        }
        drop(diary);
        self.rules.arrived(cx, socket, owed);
    }

    fn outside(&mut self, cx: &mut Context<'_>, word: Box<dyn Any + Send>) {
        self.rules.outside(cx, word);
    }

    fn gave_up(&mut self, cx: &mut Context<'_>, socket: Id20, reason: DisconnectReason) {
        self.rules.gave_up(cx, socket, reason);
    }

    fn upgraded(&mut self, cx: &mut Context<'_>, socket: Id20, transport: &'static str) {
        self.rules.upgraded(cx, socket, transport);
    }

    fn disconnecting(&mut self, cx: &mut Context<'_>, socket: SocketKey, reason: DisconnectReason) {
        self.rules.disconnecting(cx, socket, reason);
    }

    fn event(&mut self, cx: &mut Context<'_>, socket: SocketKey, event: Event<'_>) {
        if !self.streams.contains(&socket) {
            self.expect_live(socket, "an event");
        }
        if let Some(rooms) = event.name.strip_prefix("tell-") {
            let rooms = rooms.split('-').map(|room| format!("room-{room}"));
            let rooms: Vec<String> = rooms.collect();
            let rooms: Vec<&str> = rooms.iter().map(String::as_str).collect();
            let tell = Emit::new(event.name, event.args);
            let reach = cx.socket(socket).to(&rooms).emit(&tell);
            return tell_reach(cx, socket, reach);
        }
        if let Some(client) = event.name.strip_prefix("greet-") {
            let user = user(client.parse().expect("the name of a client"));
            let greeting = Emit::new(event.name, event.args);
            let reach = cx.of("/").to_users(&[&user]).emit(&greeting);
            return tell_reach(cx, socket, reach);
        }
        let Some(room) = event.name.strip_prefix("ask-") else {
            return self.rules.event(cx, socket, event);
        };
        let room = format!("room-{room}");
        let round = {
            let mut diary = self.diary();
            diary.open += 1;
            diary
                .rounds
                .push(event.args.parse().expect("a number of ours"));
            diary.rounds.len() as u64
        };
        let args = format!("{},{round}", event.args);
        let question = Emit::new("question", &args);
        cx.of("/")
            .to(&[&room])
            .collect(&question, ROUND_TIME, round);
    }

    fn disconnected(&mut self, cx: &mut Context<'_>, socket: SocketKey, reason: DisconnectReason) {
        if !self.streams.remove(&socket)
            && let Some(name) = self.expect_live(socket, "the end")
        {
            let mut diary = self.diary();
            diary.live.remove(&name);
            diary.returns += 1;
        }
        self.rules.disconnected(cx, socket, reason);
    }

    fn found(&mut self, cx: &mut Context<'_>, token: u64, found: Found) {
        self.rules.found(cx, token, found);
    }

    fn collected(&mut self, _: &mut Context<'_>, token: u64, collected: Collected) {
        let whole = collected.timed_out + collected.gone + collected.undelivered == 0;
        let kept = collected.answers.len() as u64 == collected.acked;
        let mut diary = self.diary();
        if collected.complete && !(whole && kept) {
            let broken = format!("a result that is not as whole as it says: {collected:?}");
            diary.broken.push(broken);
        }
        diary.open -= 1;
        diary.results.push((token, collected));
    }
}

/// Its author hears when other nodes did not get something, as the rules tell it.
fn tell_reach(cx: &mut Context<'_>, author: SocketKey, reach: Reach) {
    if reach != Reach::Everyone {
        let args = "{\"message\":\"Other nodes cannot be reached\"}";
        cx.socket(author).emit(&Emit::new("error", args));
    }
}
