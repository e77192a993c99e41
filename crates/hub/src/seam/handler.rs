//! The seam between the gateway and what it serves: built-in rules, in-process Rust code, later remote backends.
//!
//! One handler lives on each shard and runs inside the turn, so it must not block. Each call gets a [`Context`] to act with.

use crate::books::close::DisconnectReason;
use crate::cluster::letter::Found;
use crate::rooms::keeping::Keeping;
use crate::rooms::presence::Presence;
use crate::seam::context::Context;
use crate::seam::event::{AckTo, ConnectRequest, Data, Decision, Event, Refusal, ServerEvent};
use crate::seam::opening::{AnswerHeaders, Opening, Request};
use crate::seam::told::Collected;
use crate::tables::slot::{SessionKey, SocketKey};
use std::any::Any;
use std::sync::Arc;
use wire::base64url::Id20;

/// What a shard calls.
///
/// # The contract
///
/// **Where.** Each shard has a handler of its own and calls it on its own thread, one call at a time. A call runs inside the
/// turn: while it works or waits, every client of the shard waits. What takes time is asked outside
/// ([`Context::ask_outside`]), and the answer comes by [`answered`](Self::answered).
///
/// **Order.** A handler hears of things in the order in which they happened. For one socket: [`connecting`](Self::connecting) (before there
/// is a socket), [`connected`](Self::connected), then [`event`](Self::event), [`acked`](Self::acked) and
/// [`ack_timed_out`](Self::ack_timed_out) in any number, [`disconnecting`](Self::disconnecting), and [`disconnected`](Self::disconnected)
/// last and once. A client that is refused has none of them; of one that leaves before a late decision the handler hears by
/// [`gave_up`](Self::gave_up). Between the sockets of one session, and between sessions, there is the order of their input and no other.
///
/// **Effects.** What a handler does through its [`Context`] is queued, takes effect at once for what it asks of the context
/// afterwards (a room that was joined is joined), and never calls the handler from within. What is sent leaves at the end of the
/// turn. Events of one handler to one receiver arrive in the order in which they were sent.
///
/// **Keys.** A [`SocketKey`] names its socket until `disconnected` returns; with an older one every call does nothing. Tokens are
/// the handler's own numbers: the hub gives them back and looks at nothing in them. An [`AckTo`](crate::AckTo) and a
/// [`Ticket`](crate::Ticket) can be used once.
///
/// **Bounds.** Each call that keeps something says so when there is no room for it (`false`, `None`, an error), and the handler
/// decides what its client is told. Each question has a deadline, so an answer comes in any case.
///
/// **Panics.** A handler that panics costs the session for which it was called, with close code 1011; the other sessions go on.
///
/// # In Socket.IO's words
///
/// ```
/// use hub::{Context, Emit, Event, Handler, SocketKey};
///
/// struct Lobby;
///
/// impl Handler for Lobby {
///     fn connected(&mut self, cx: &mut Context<'_>, socket: SocketKey, _auth: &str) {
///         let mut socket = cx.socket(socket);
///         socket.emit(&Emit::new("welcome", "\"hello\""));
///         if socket.join("lobby").is_ok() {
///             // All members of the room but the socket itself, on every shard and node.
///             socket.to(&["lobby"]).emit(&Emit::new("joined", ""));
///         }
///     }
///
///     fn event(&mut self, cx: &mut Context<'_>, _: SocketKey, event: Event<'_>) {
///         cx.of("/").to(&["lobby"]).emit(&Emit::new(event.name, event.args));
///         if let Some(ack) = event.ack {
///             cx.ack(ack, "\"done\"", &[]);
///         }
///     }
/// }
/// ```
///
/// All methods but [`connecting`](Self::connecting) and [`event`](Self::event) have an empty default.
#[expect(unused_variables, reason = "defaults do nothing")]
pub trait Handler: Send {
    /// Whether [`opening`](Self::opening) and [`answering`](Self::answering) are called, and header lines of opening requests kept for
    /// [`connecting`](Self::connecting). Asked once; others pay nothing for it.
    fn reads_requests(&self) -> bool {
        false
    }
    /// What is kept of which events. Asked once.
    fn keeping(&self) -> Arc<Keeping> {
        Arc::default()
    }
    /// Whether counts of rooms are those of all nodes, which tell each other of changes. Asked once; others pay nothing for it.
    fn counts_nodes(&self) -> bool {
        false
    }
    /// Whether [`moved`](Self::moved) is called. Asked once; others pay nothing for it.
    fn watches_rooms(&self) -> bool {
        false
    }
    /// A request asks for a new session, and nothing else speaks against it. Socket.IO's `allowRequest`.
    fn opening(&mut self, cx: &mut Context<'_>, request: &Request<'_>) -> Opening {
        Opening::Accept
    }
    /// A request of a session is being answered: `headers` go with it. With the first answer of a new session comes its id
    /// (`initial_headers` of Socket.IO, where it sets its `io` cookie), with later ones nothing (`headers`).
    fn answering(
        &mut self,
        request: &Request<'_>,
        opens: Option<&str>,
        headers: &mut AnswerHeaders,
    ) {
    }
    /// May this client join the namespace? The default world has no namespaces at all.
    fn connecting(&mut self, cx: &mut Context<'_>, request: &ConnectRequest<'_>) -> Decision {
        Decision::Refuse(Refusal::invalid_namespace())
    }
    /// A client about which the handler was to decide later left or gave up: its ticket is void. `socket` is the id that
    /// [`connecting`](Self::connecting) named.
    fn gave_up(&mut self, cx: &mut Context<'_>, socket: Id20, reason: DisconnectReason) {}
    /// The session of this socket, or of a client that is to be decided about, went from long-polling to this transport. Each of its
    /// sockets is told.
    fn upgraded(&mut self, cx: &mut Context<'_>, socket: Id20, transport: &'static str) {}
    /// A socket of this shard joined or left a room as one of a [`Group`](crate::Group), whether this handler did it, that of another shard
    /// or node, or a server of another kind. `by`: what this handler said in [`Here::join`](crate::Here::join); 0 = others. A room that
    /// [`Here::join`](crate::Here::join) could not put it into is told as one that it left.
    fn moved(
        &mut self,
        cx: &mut Context<'_>,
        socket: SocketKey,
        room: &str,
        joined: bool,
        by: u64,
    ) {
    }
    /// The client has joined and was told so. `auth` is the raw JSON of its CONNECT payload.
    fn connected(&mut self, cx: &mut Context<'_>, socket: SocketKey, auth: &str) {}
    /// A client sent an event.
    fn event(&mut self, cx: &mut Context<'_>, socket: SocketKey, event: Event<'_>);
    /// The socket is on its way out: it gets nothing any more, but its rooms, user and data can still be read.
    fn disconnecting(&mut self, cx: &mut Context<'_>, socket: SocketKey, reason: DisconnectReason) {
    }
    /// The socket is gone: its rooms are left, its key names nothing any more after this call.
    fn disconnected(&mut self, cx: &mut Context<'_>, socket: SocketKey, reason: DisconnectReason) {}
    /// Which rule an event of a socket meets, for operators who follow it. Asked before [`event`](Self::event), and only then; `None`:
    /// there is none.
    fn explain(
        &mut self,
        cx: &mut Context<'_>,
        socket: SocketKey,
        event: &str,
    ) -> Option<Explained> {
        None
    }
    /// Answer to [`Member::ask`](crate::Member::ask).
    fn acked(
        &mut self,
        cx: &mut Context<'_>,
        socket: SocketKey,
        token: u64,
        args: &str,
        attachments: &[Vec<u8>],
    ) {
    }
    /// No answer to [`Member::ask`](crate::Member::ask) in time, or the socket is gone: `disconnected` follows.
    fn ack_timed_out(&mut self, cx: &mut Context<'_>, socket: SocketKey, token: u64) {}
    /// Result of [`Group::collect`](crate::Group::collect) and [`Servers::ask`](crate::Servers::ask).
    fn collected(&mut self, cx: &mut Context<'_>, token: u64, collected: Collected) {}
    /// Result of [`Group::fetch`](crate::Group::fetch).
    fn found(&mut self, cx: &mut Context<'_>, token: u64, found: Found) {}
    /// Another server of the cluster says something to this one ([`Context::servers`], or `serverSideEmit` of a Node server). One shard of
    /// the node is told; [`Group::local`](crate::Group::local) reaches the clients of all its shards. A server that waits is answered
    /// `null` unless the handler does it.
    fn server_event(&mut self, cx: &mut Context<'_>, event: ServerEvent<'_>) {
        if let Some(ack) = event.ack {
            cx.answer_server(ack, "null", &[]);
        }
    }
    /// The number of sockets in a room changed (coalesced; over all shards and, with
    /// [`counts_nodes`](Self::counts_nodes), all nodes; without servers of other kinds). Each shard that has some of them is told.
    fn room_count_changed(
        &mut self,
        cx: &mut Context<'_>,
        namespace: &str,
        room: &str,
        count: u64,
    ) {
    }
    /// People came into a room or left it, on whichever node (coalesced; `Config::presence` says in which rooms). Each shard that has
    /// sockets in the room is told.
    fn presence_changed(
        &mut self,
        cx: &mut Context<'_>,
        namespace: &str,
        room: &str,
        presence: &Presence,
    ) {
    }
    /// A message of a session that has no sockets.
    fn message(&mut self, cx: &mut Context<'_>, session: SessionKey, data: Data<'_>) {}
    /// Answer to [`Context::ask_outside`]; `None` = nobody answered in time.
    fn answered(&mut self, cx: &mut Context<'_>, token: u64, answer: Option<&[u8]>) {}
    /// Something that the process has for this handler from outside the shard.
    fn outside(&mut self, cx: &mut Context<'_>, word: Box<dyn Any + Send>) {}
    /// Another process is to go on with this socket: the answers that its client waits for, each under the handler's own number. Nothing
    /// changes here yet.
    fn owes(&self, socket: Id20) -> Vec<(u64, u64)> {
        Vec::new()
    }
    /// The last number that the handler gave to anything, for another process.
    fn last_number(&self) -> u64 {
        0
    }
    /// The number under which a backend knows the question with this token, which one socket was asked; `None`: no other process goes on
    /// with it.
    fn query_of(&self, token: u64) -> Option<u64> {
        None
    }
    /// This socket was asked for that question in another process: the token under which its answer is told.
    fn goes_on_with(&mut self, socket: Id20, query: u64) -> Option<u64> {
        None
    }
    /// This socket comes from another process, in the place of [`connected`](Self::connected): its client notices nothing. `owed`: what the
    /// handler there said in [`owes`](Self::owes).
    fn arrived(&mut self, cx: &mut Context<'_>, socket: SocketKey, owed: Vec<(u64, AckTo)>) {}
    /// Numbers that the handler has of this socket, for another process.
    fn numbers_of(&self, socket: SocketKey) -> Vec<u64> {
        Vec::new()
    }
    /// What the handler of the process before said in [`numbers_of`](Self::numbers_of).
    fn goes_on_with_numbers(&mut self, socket: SocketKey, numbers: &[u64]) {}
    /// All sockets of another process have come: numbers go on after this one.
    fn go_on_from(&mut self, number: u64) {}
    /// The process is shutting down: sockets are still connected and may be told.
    fn draining(&mut self, cx: &mut Context<'_>) {}
}

/// The rule that an event meets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explained {
    /// Its place in the configuration, or what the gateway does itself.
    pub rule: String,
    /// Where its events go.
    pub goes: Goes,
}

/// Where a rule sends an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goes {
    /// To the members of rooms, if there are any.
    ToRooms,
    /// To the namespace's backend.
    ToBackend,
    /// Nowhere: the handler does what there is to do.
    Nowhere,
}

/// Builds one handler per shard.
pub trait HandlerFactory: Send + Sync {
    /// The handler of this shard.
    fn build(&self, shard: u16) -> Box<dyn Handler>;
}
