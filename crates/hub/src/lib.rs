//! All realtime state of one shard: sessions, sockets, rooms, fan-out, outboxes, acks, timers. Input in, effects out; time and
//! randomness are passed in, so that the same code runs in production, in simulation, in fuzzing and in transcript tests.

#![warn(missing_docs)]

mod access;
mod books;
pub mod bounds;
mod census;
mod clients;
mod cluster;
mod dialect;
mod hearing;
mod hub;
mod life;
mod output;
mod parts;
mod recovery;
mod rooms;
mod seam;
mod tables;
mod transport;
mod turn;

pub use access::meters::UsedRate;
pub use access::{addresses, admission, budgets, origin, trust};
#[cfg(feature = "faults")]
pub use books::faults;
pub use books::places::{Carried, Entered, Lent, Places};
pub use books::{claims, config, heartbeat, limits, metrics, tls};
pub use cluster::mailbox;

pub use books::close::{CloseReason, Departure, DisconnectReason};
pub use books::ends::Ended;
pub use books::ledger::Stock;
pub use census::classes::Classes;
pub use census::invariants::Census;
pub use census::look::{
    Kernel, Look, Question, RoomsWanted, Seen, SeenRoom, SeenSession, SeenSocket, SessionsWanted,
    Sight,
};
pub use census::memory::{Footprint, MemoryWalk};
pub use clients::marks::Marks;
pub use clients::roll::{Listed, RollCall, RollWord};
pub use clients::session::Protocol;
pub use clients::trace::{
    LiveTrace, Speaker, Subject, TraceBounds, TraceDecision, TraceLine, TraceWho,
};
pub use clients::whereabouts::Whereabouts;
pub use cluster::adoption::{Adoption, Stored};
pub use cluster::away::{Parcel, Piece, Uplink};
pub use cluster::chronicle_mail::{ChronicleMail, Unadopted};
pub use cluster::foreign;
pub use cluster::inbox::{Inbox, Read};
pub use cluster::letter::{
    Answer, Fetched, Found, Letter, More, Page, Response, Scope, Target, Tidings,
};
pub use cluster::send::Reach;
pub use cluster::shared::{Outlets, Process};
pub use cluster::wire::Unreadable;
pub use dialect::notices;
pub use dialect::speech::{Author, Emit};
pub use hearing::plain::RAW_EVENT;
pub use hub::Hub;
pub use life::handing::{Handed, Handing};
pub use life::keepsakes::Unable;
pub use life::staying::{Crossing, Stays};
pub use output::sink::{Sink, Slices, Write, Writes, Written};
pub use recovery::chronicle::{Chronicle, ChronicleQuestion, ChronicleWord, Claiming, Saving};
pub use rooms::directory::Expected;
pub use rooms::history::{HistoryTap, Recorded};
pub use rooms::keeping::{Form, Keeping, Keeps};
pub use rooms::membership::JoinError;
pub use rooms::presence::{Leaver, Person, Presence, Unwatched, Who};
pub use rooms::tap::{Tap, Tapped};
pub use seam::ask::{Ask, Reply, Token};
pub use seam::context::Context;
pub use seam::deciding::Ticket;
pub use seam::effect::{Brief, Effect, Notice};
pub use seam::event::{
    AckTo, ConnectRequest, Data, Decision, Event, Refusal, Returns, ServerAck, ServerEvent,
};
pub use seam::group::{Apart, Away, Group, Here};
pub use seam::handler::{Explained, Goes, Handler, HandlerFactory};
pub use seam::limiter::Limiter;
pub use seam::member::{About, Member, Rejection};
pub use seam::opening::{
    AnswerHeaders, HeaderLines, InvalidHeader, Opening, OpeningKey, OwnAnswer, Request,
};
pub use seam::reading::SocketInfo;
pub use seam::servers::Servers;
pub use seam::told::Collected;
pub use tables::clock::Now;
pub use tables::id::{Entropy, Identity, Place};
pub use tables::interest::Naming;
pub use tables::repeats::Spot;
pub use tables::slot::{AskId, AskKey, ConnId, Key, SessionId, SessionKey, SocketId, SocketKey};
pub use transport::input::Moved;
pub use transport::tick::Spent;
pub use turn::{Strain, Turn, World};
pub use wire::socketio::is_reserved;
