//! Owns a user's way to its server. An idle one holds no buffer.

use super::http::EventStream;
use crate::stream::Stream;

/// How far the connection is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Link {
    #[default]
    Closed,
    /// WebSocket upgrade request sent.
    Upgrading,
    /// WebSocket open, Engine.IO's greeting awaited.
    Greeting,
    /// First poll sent.
    PollHandshake,
    /// Namespace asked for.
    Hello,
    /// Connected by polling, the WebSocket is being tried.
    Probing,
    /// Event stream asked for.
    StreamHead,
    Open,
}

/// Sockets of a user; the low bits of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    WebSocket = 0,
    /// Long polls, or an event stream.
    Get = 1,
    Post = 2,
}

/// Between two packets of a poll (Engine.IO 4, "Payload encoding").
pub const SEPARATOR: u8 = 0x1e;

/// The HTTP side of a user that polls or listens to an event stream.
#[derive(Debug, Default)]
pub struct Http {
    /// Long polls, or the event stream.
    pub get: Stream,
    pub post: Stream,
    pub sid: String,
    /// Packets for the next POST.
    pub queue: Vec<u8>,
    pub posting: bool,
    pub polling: bool,
    /// The probe was answered: no new poll.
    pub paused: bool,
    /// The WebSocket of an upgrade answered its request.
    pub switched: bool,
    pub events: Option<EventStream>,
}

impl Http {
    pub fn queue_packet(&mut self, packet: &[u8]) {
        if !self.queue.is_empty() {
            self.queue.push(SEPARATOR);
        }
        self.queue.extend_from_slice(packet);
    }
}

#[derive(Debug, Default)]
pub struct Connection {
    pub link: Link,
    pub ws: Stream,
    pub http: Option<Box<Http>>,
    /// Failed attempts of the present connect.
    pub attempts: u32,
    /// There was one before: every later connect is a return.
    pub has_been: bool,
}

impl Connection {
    pub fn stream(&mut self, role: Role) -> Option<&mut Stream> {
        match role {
            Role::WebSocket => Some(&mut self.ws),
            Role::Get => self.http.as_mut().map(|http| &mut http.get),
            Role::Post => self.http.as_mut().map(|http| &mut http.post),
        }
    }

    /// Whether the answer to a WebSocket's request is still to come.
    pub fn awaits_switch(&self) -> bool {
        match self.link {
            Link::Upgrading => true,
            Link::Probing => self.http.as_ref().is_some_and(|http| !http.switched),
            _ => false,
        }
    }

    pub fn is_stream(&self) -> bool {
        let is_stream = |http: &Http| http.events.is_some();
        self.link == Link::StreamHead || self.http.as_deref().is_some_and(is_stream)
    }

    /// Whether it is on HTTP, and all that it said there was taken.
    pub fn is_posted(&self) -> bool {
        let posted = |http: &Http| !http.posting && http.queue.is_empty();
        !self.ws.is_open() && self.http.as_deref().is_some_and(posted)
    }

    pub fn close(&mut self) {
        self.ws.close();
        self.http = None;
        self.link = Link::Closed;
    }
}
