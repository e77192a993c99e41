//! HOT PATH: no allocation for a message. Owns the way of bytes: sockets towards the server,
//! frames to messages, messages to counts, and what is said back in one write.

use super::deflate;
use super::identity::{Identity, room_key};
use super::received::Arrival;
use super::scratch::READ_BYTES;
use super::socket::{KEY, open_socket};
use super::speech::{self, Heard, Say};
use super::stage::Stage;
use super::user::{Link, State, User};
use crate::clock::now_ns;
use crate::loss::Loss;
use crate::scenario::{Endpoint, Protocol, Transport};
use crate::stream::{Filled, Stream};
use mio::event::Event;
use mio::{Interest, Token};
use wire::websocket::frame::{Header, OpCode, parse_header};

/// Sockets of a user; the low bits of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    WebSocket = 0,
    /// Long polls, or an event stream.
    Get = 1,
    Post = 2,
}

impl User {
    pub(super) fn stream(&mut self, role: Role) -> Option<&mut Stream> {
        match role {
            Role::WebSocket => Some(&mut self.ws),
            Role::Get => self.http.as_mut().map(|http| &mut http.get),
            Role::Post => self.http.as_mut().map(|http| &mut http.post),
        }
    }
}

impl Stage {
    /// Opens the first socket of a connect; more turns carry it out.
    pub(super) fn begin_connect(&mut self, index: usize) -> Result<(), Loss> {
        let endpoint = &self.scenario.flows[self.users[index].flow].endpoint;
        match (endpoint.protocol, endpoint.transport) {
            (Protocol::Sse, _) => self.ask_stream(index),
            (Protocol::SocketIo, Transport::Polling | Transport::Upgrade) => {
                self.begin_polling(index)
            }
            _ => self.begin_websocket(index, ""),
        }
    }

    /// `sid`: session that the WebSocket is to take over.
    pub(super) fn begin_websocket(&mut self, index: usize, sid: &str) -> Result<(), Loss> {
        let target = match (self.is_socket_io(index), sid) {
            (true, "") => self.target(index, "EIO=4&transport=websocket"),
            (true, sid) => self.target(index, &format!("EIO=4&transport=websocket&sid={sid}")),
            (false, _) => self.target(index, ""),
        };
        let mut extra = self.authorization(index);
        if self.endpoint(index).compression {
            extra.push_str(deflate::OFFER);
        }
        let mut request = Vec::new();
        let host = &self.server(index).host;
        let extra = extra.as_bytes();
        wire::websocket::handshake::write_request(&mut request, host, &target, KEY, extra);
        self.tally.totals.bytes_sent += request.len() as u64;
        let stream = self.open(index, Role::WebSocket)?;
        let user = &mut self.users[index];
        user.ws = stream;
        user.ws.queue(&request);
        if sid.is_empty() {
            user.link = Link::Upgrading;
        }
        Ok(())
    }

    pub(super) fn is_socket_io(&self, index: usize) -> bool {
        self.speaks(index, Protocol::SocketIo)
    }

    fn speaks(&self, index: usize, protocol: Protocol) -> bool {
        self.protocol(index) == protocol
    }

    fn protocol(&self, index: usize) -> Protocol {
        self.endpoint(index).protocol
    }

    fn endpoint(&self, index: usize) -> &Endpoint {
        &self.scenario.flows[self.users[index].flow].endpoint
    }

    pub(super) fn server(&self, index: usize) -> &super::stage::Server {
        &self.place.servers[self.users[index].server]
    }

    /// Chooses the user's server: neighbours in a room must share one.
    pub(super) fn assign_server(&mut self, index: usize) {
        let scenario = std::rc::Rc::clone(&self.scenario);
        let servers = self.place.servers.len();
        let user = &mut self.users[index];
        let scope = user.scope(self.users_total);
        let spread = &scenario.flows[user.flow].endpoint.spread;
        let text = spread.text(&scope, &mut user.dice);
        let place = text.parse().unwrap_or_else(|_| room_key(&text) as usize);
        user.server = place % servers.max(1);
    }

    /// Credentials of protocols that have no greeting to carry them.
    pub(super) fn authorization(&self, index: usize) -> String {
        match &self.users[index].auth {
            Some(auth) if !self.is_socket_io(index) => format!("Authorization: Bearer {auth}\r\n"),
            _ => String::new(),
        }
    }

    /// The flow's path for this user, with `query` behind it.
    pub(super) fn target(&mut self, index: usize, query: &str) -> String {
        let scenario = std::rc::Rc::clone(&self.scenario);
        let user = &mut self.users[index];
        let scope = user.scope(self.users_total);
        let path = scenario.flows[user.flow]
            .endpoint
            .path
            .text(&scope, &mut user.dice);
        match (query, path.contains('?')) {
            ("", _) => path,
            (query, true) => format!("{path}&{query}"),
            (query, false) => format!("{path}?{query}"),
        }
    }

    pub(super) fn open(&mut self, index: usize, role: Role) -> Result<Stream, Loss> {
        let addr = self.server(index).addr;
        let mut socket = open_socket(addr, self.users[index].number)
            .map_err(|error| Loss::Refused(format!("{error:#}")))?;
        let token = Token(index << 2 | role as usize);
        let interest = Interest::READABLE | Interest::WRITABLE;
        self.poll
            .registry()
            .register(&mut socket, token, interest)
            .map_err(|error| Loss::Io(error.kind()))?;
        let name = self.server(index).tls.as_deref();
        let tls = match (&self.trust, name) {
            (Some(trust), Some(name)) => Some(trust.session(name)?),
            _ => None,
        };
        Ok(Stream::new(socket, tls))
    }

    pub(super) fn on_ready(&mut self, token: Token, event: &Event) {
        let index = token.0 >> 2;
        let role = match token.0 & 3 {
            0 => Role::WebSocket,
            1 => Role::Get,
            _ => Role::Post,
        };
        let Some(stream) = self.users.get_mut(index).and_then(|user| user.stream(role)) else {
            return;
        };
        if !stream.is_open() {
            return;
        }
        // A connect that failed shows in the first write.
        let flushed = match event.is_writable() {
            true => stream.flush(),
            false => Ok(()),
        };
        let result = match flushed {
            Ok(()) if event.is_readable() || event.is_read_closed() => {
                self.read(index, role, event.is_read_closed())
            }
            other => other,
        };
        match result {
            Ok(()) => self.send_out(index),
            Err(loss) => self.on_loss(index, role, &loss),
        }
    }

    fn on_loss(&mut self, index: usize, role: Role, loss: &Loss) {
        self.scratch.out.clear();
        // A connection without a request may be closed at any time (RFC 9112 §9.5); the next request opens another.
        let http = self.users[index].http.as_deref_mut();
        match (role, http) {
            (Role::Post, Some(http)) if !http.posting => return http.post.close(),
            (Role::Get, Some(http)) if http.paused && !http.polling => return http.get.close(),
            _ => {}
        }
        self.lose(index, loss);
        self.send_out(index);
    }

    fn read(&mut self, index: usize, role: Role, ends: bool) -> Result<(), Loss> {
        let mut buf = std::mem::take(&mut self.scratch.read);
        let result = self.read_into(index, role, ends, &mut buf);
        self.scratch.read = buf;
        result
    }

    fn read_into(
        &mut self,
        index: usize,
        role: Role,
        ends: bool,
        buf: &mut [u8],
    ) -> Result<(), Loss> {
        let Some(stream) = self.users[index].stream(role) else {
            return Ok(());
        };
        let mut kept = stream.take_unread(buf);
        loop {
            // What a message leads to may close or replace the socket it came on.
            let Some(stream) = self.users[index].stream(role).filter(|s| s.is_open()) else {
                return Ok(());
            };
            let filled = stream.fill(buf, kept, ends)?;
            let (Filled::Drained(end) | Filled::More(end)) = filled;
            self.tally.totals.bytes_received += (end - kept) as u64;
            self.now_ns = now_ns();
            let used = match role {
                Role::WebSocket => self.take_frames(index, &buf[..end])?,
                Role::Get | Role::Post => self.take_answers(index, role, &buf[..end])?,
            };
            if matches!(filled, Filled::Drained(_)) {
                if let Some(stream) = self.users[index].stream(role).filter(|s| s.is_open()) {
                    stream.keep_unread(&buf[used..end]);
                }
                return Ok(());
            }
            buf.copy_within(used..end, 0);
            kept = end - used;
        }
    }

    /// Handles every whole frame; returns the bytes used up.
    fn take_frames(&mut self, index: usize, bytes: &[u8]) -> Result<usize, Loss> {
        let mut at = 0;
        if self.awaits_switch(index) {
            let Some(len) = check_switch(bytes, self.endpoint(index).compression)? else {
                return Ok(0);
            };
            at = len;
            self.switched(index);
        }
        let protocol = self.protocol(index);
        loop {
            at = self.take_repeats(index, protocol, bytes, at);
            let Some(header) = parse_header(&bytes[at..]).map_err(Loss::BadFrame)? else {
                break;
            };
            let length = usize::try_from(header.payload_len).unwrap_or(usize::MAX);
            let Some(payload) = bytes[at + header.len..].get(..length) else {
                break;
            };
            let frame = &bytes[at..at + header.len + length];
            at += frame.len();
            match header.opcode {
                OpCode::Text | OpCode::Binary
                    if header.fin && !self.users[index].ws.is_in_fragments() =>
                {
                    match header.rsv1 {
                        true => self.on_compressed(index, payload)?,
                        false => {
                            self.on_frame(index, payload)?;
                            self.scratch.repeats.learn(protocol, frame, header.len);
                        }
                    }
                }
                OpCode::Text | OpCode::Binary | OpCode::Continuation => {
                    self.on_fragment(index, &header, payload)?;
                }
                OpCode::Ping => {
                    self.tally.totals.heartbeats += 1;
                    self.scratch.frame(OpCode::Pong, payload);
                }
                OpCode::Close => {
                    let code = payload.first_chunk().map(|code| u16::from_be_bytes(*code));
                    return Err(Loss::CloseFrame(code));
                }
                OpCode::Pong => {}
            }
            if !self.users[index].ws.is_open() {
                return Ok(bytes.len());
            }
        }
        Ok(at)
    }

    /// One frame of a message that came in several.
    #[cold]
    fn on_fragment(&mut self, index: usize, header: &Header, payload: &[u8]) -> Result<(), Loss> {
        let ws = &mut self.users[index].ws;
        match ws.take_fragment(header, payload, READ_BYTES)? {
            Some(whole) if whole.is_compressed => self.on_compressed(index, &whole.message),
            Some(whole) => self.on_frame(index, &whole.message),
            None => Ok(()),
        }
    }

    fn on_compressed(&mut self, index: usize, payload: &[u8]) -> Result<(), Loss> {
        if !self.endpoint(index).compression {
            return Err(Loss::Unexpected(
                "a compressed message that nobody agreed to",
            ));
        }
        let mut deflate = std::mem::take(&mut self.scratch.deflate);
        let result = match deflate.inflate(payload, READ_BYTES) {
            Ok(text) => self.on_frame(index, text),
            Err(loss) => Err(loss),
        };
        self.scratch.deflate = deflate;
        result
    }

    /// Counts events whose bytes another user had before; returns where the next frame begins.
    fn take_repeats(
        &mut self,
        index: usize,
        protocol: Protocol,
        bytes: &[u8],
        mut at: usize,
    ) -> usize {
        while let Some(known) = self.scratch.repeats.find(protocol, &bytes[at..]) {
            let (identity, name) = (known.identity, known.name());
            let frame = &bytes[at..at + known.frame_bytes];
            at += frame.len();
            self.delivered(index, &identity);
            self.noticed(index, &frame[name]);
            if !self.users[index].ws.is_open() {
                return bytes.len();
            }
        }
        at
    }

    fn awaits_switch(&self, index: usize) -> bool {
        let user = &self.users[index];
        match user.link {
            Link::Upgrading => true,
            Link::Probing => user.http.as_ref().is_some_and(|http| !http.switched),
            _ => false,
        }
    }

    /// The WebSocket is open.
    fn switched(&mut self, index: usize) {
        let is_socket_io = self.is_socket_io(index);
        let user = &mut self.users[index];
        if let (Link::Probing, Some(http)) = (user.link, &mut user.http) {
            http.switched = true;
            self.scratch.frame(OpCode::Text, b"2probe");
        } else if is_socket_io {
            user.link = Link::Greeting;
        } else if self.speaks(index, Protocol::Centrifugo) {
            self.ask_in(index);
        } else {
            self.connected(index);
        }
    }

    /// A whole frame. Centrifugo puts several messages into one, a line each.
    fn on_frame(&mut self, index: usize, payload: &[u8]) -> Result<(), Loss> {
        if !self.speaks(index, Protocol::Centrifugo) {
            return self.on_message(index, payload, Role::WebSocket);
        }
        for line in payload.split(|&byte| byte == b'\n') {
            if !line.is_empty() {
                self.on_message(index, line, Role::WebSocket)?;
            }
        }
        Ok(())
    }

    /// One message of a WebSocket, or one packet of a poll.
    pub(super) fn on_message(
        &mut self,
        index: usize,
        message: &[u8],
        role: Role,
    ) -> Result<(), Loss> {
        match speech::hear(self.protocol(index), message) {
            Heard::Event { name, id } => self.on_event(index, message, name, id),
            Heard::Ack(id) => self.answered(index, id),
            Heard::Answer => match self.users[index].oldest_question() {
                Some(id) => self.answered(index, id),
                None => self.tally.totals.acks_duplicated += 1,
            },
            Heard::Ping => {
                self.tally.totals.heartbeats += 1;
                self.say(index, Say::Pong);
            }
            Heard::Pong if role == Role::WebSocket => self.probed(index, message)?,
            Heard::Open { sid } => self.greeted(index, sid)?,
            Heard::Connected => self.namespace_joined(index)?,
            Heard::Refused(reason) => {
                return Err(Loss::Refused(String::from_utf8_lossy(reason).into_owned()));
            }
            Heard::Bye => return Err(Loss::Farewell),
            Heard::Complaint(what) => {
                self.tally
                    .error(format!("server: {}", String::from_utf8_lossy(what)));
            }
            Heard::Pong | Heard::Nothing => {}
        }
        Ok(())
    }

    /// Engine.IO is open: ask for the namespace.
    fn greeted(&mut self, index: usize, sid: &[u8]) -> Result<(), Loss> {
        if let Some(http) = &mut self.users[index].http {
            http.sid = String::from_utf8_lossy(sid).into_owned();
        }
        self.ask_in(index);
        Ok(())
    }

    /// Says hello, with credentials if there are any.
    fn ask_in(&mut self, index: usize) {
        let user = &mut self.users[index];
        user.link = Link::Hello;
        let auth = user.auth.take();
        self.say(
            index,
            Say::Hello {
                auth: auth.as_deref(),
            },
        );
        self.users[index].auth = auth;
    }

    fn namespace_joined(&mut self, index: usize) -> Result<(), Loss> {
        let user = &self.users[index];
        if user.link != Link::Hello {
            return Ok(());
        }
        let transport = self.scenario.flows[user.flow].endpoint.transport;
        let sid = user.http.as_ref().map(|http| http.sid.clone());
        match (transport, sid) {
            (Transport::Upgrade, Some(sid)) => {
                self.users[index].link = Link::Probing;
                self.begin_websocket(index, &sid)
            }
            _ => {
                self.connected(index);
                Ok(())
            }
        }
    }

    /// An event, counted if it carries an identity.
    pub(super) fn on_event(
        &mut self,
        index: usize,
        message: &[u8],
        name: &[u8],
        id: Option<&[u8]>,
    ) {
        let mut at = self.scratch.identity_at;
        if let Some(identity) = Identity::find(message, &mut at) {
            self.scratch.identity_at = at;
            self.delivered(index, &identity);
        } else {
            self.tally.totals.heard += 1;
        }
        if let Some(id) = id {
            self.say(index, Say::Ack { id });
        }
        self.noticed(index, name);
    }

    fn delivered(&mut self, index: usize, identity: &Identity) {
        if identity.run != self.place.run {
            self.tally.totals.foreign += 1;
            return;
        }
        self.tally.totals.heard += 1;
        // Room 0 marks what was sent to no room: an answer, which nobody counts on.
        if identity.room == 0 {
            return;
        }
        let user = &mut self.users[index];
        let known = user.rooms.iter_mut().find(|m| m.room == identity.room);
        let Some(membership) = known else {
            self.tally.totals.stray += 1;
            self.tally.totals.outside += 1;
            return;
        };
        let Identity {
            worker,
            sequence,
            publisher,
            back,
            ..
        } = *identity;
        if publisher == user.number && membership.is_own(sequence) {
            self.tally.totals.stray += 1;
            return;
        }
        match membership.observe(worker, sequence, publisher, back) {
            Arrival::Duplicate => self.tally.totals.duplicated += 1,
            arrival => {
                self.tally.totals.echoes_received += u64::from(publisher == user.number);
                self.tally.totals.reordered += u64::from(arrival == Arrival::Reordered);
                self.tally.delivered(identity.due_ns, self.now_ns);
                if publisher == user.number {
                    self.came_back(index);
                }
            }
        }
    }

    /// Says something on the transport that the user has at the moment.
    pub(super) fn say(&mut self, index: usize, what: Say<'_>) {
        let scenario = std::rc::Rc::clone(&self.scenario);
        let endpoint = &scenario.flows[self.users[index].flow].endpoint;
        let mut text = std::mem::take(&mut self.scratch.text);
        text.clear();
        speech::say(endpoint, &mut text, what);
        if !text.is_empty() {
            match &mut self.users[index].http {
                Some(http) => http.queue_packet(&text),
                None if endpoint.compression => self.scratch.compressed(&text),
                None => self.scratch.frame(OpCode::Text, &text),
            }
        }
        self.scratch.text = text;
    }

    /// Sends what was said to this user, in one write.
    pub(super) fn send_out(&mut self, index: usize) {
        let mut result = Ok(());
        if !self.scratch.out.is_empty() {
            self.tally.totals.bytes_sent += self.scratch.out.len() as u64;
            result = self.users[index].ws.send(&self.scratch.out);
            self.scratch.out.clear();
        }
        if let Err(loss) = result.and_then(|()| self.post_queued(index)) {
            self.lose(index, &loss);
            self.scratch.out.clear();
        }
        let user = &self.users[index];
        if user.state == State::Leaving && user.is_posted() {
            self.leave(index);
        }
    }

    /// Begins the closing handshake (RFC 6455 §7.1.2).
    pub(super) fn frame_close(&mut self) {
        self.scratch.frame(OpCode::Close, &1000u16.to_be_bytes());
    }

    pub(super) fn frame_text(&mut self, text: &[u8]) {
        self.scratch.frame(OpCode::Text, text);
    }
}

/// Length of the answer's head, once it is whole and switches protocols.
fn check_switch(bytes: &[u8], compression: bool) -> Result<Option<usize>, Loss> {
    let Some(head) = super::http::parse_head(bytes)? else {
        return Ok(None);
    };
    let text = &bytes[..head.len];
    let accept = wire::websocket::handshake::accept_value(KEY);
    let is_right = text.windows(accept.len()).any(|window| window == accept);
    if head.status != 101 || !is_right {
        let end = text
            .iter()
            .position(|&byte| byte == b'\r')
            .unwrap_or(text.len());
        let status = String::from_utf8_lossy(&text[..end]).into_owned();
        return Err(Loss::RefusedUpgrade(status));
    }
    if compression && !deflate::is_agreed(&String::from_utf8_lossy(text)) {
        return Err(Loss::Unexpected("the server declined permessage-deflate"));
    }
    Ok(Some(head.len))
}
