//! Owns the HTTP transports: Engine.IO long-polling with its upgrade to WebSocket, and event
//! streams. A polling user has two connections, as a browser has: one for the GET that waits, one
//! for POSTs.

use super::http::{self, EventStream};
use super::net::Role;
use super::stage::Stage;
use super::user::{Http, Link};
use crate::loss::Loss;
use crate::stream::Stream;

/// Between two packets of a poll (Engine.IO 4, "Payload encoding").
const SEPARATOR: u8 = 0x1e;

impl Http {
    pub(super) fn queue_packet(&mut self, packet: &[u8]) {
        if !self.queue.is_empty() {
            self.queue.push(SEPARATOR);
        }
        self.queue.extend_from_slice(packet);
    }
}

impl Stage {
    pub(super) fn begin_polling(&mut self, index: usize) -> Result<(), Loss> {
        let user = &mut self.users[index];
        user.http = Some(Box::default());
        user.link = Link::PollHandshake;
        self.poll_again(index)
    }

    /// Sends the next GET, unless one waits already or the WebSocket is about to take over.
    fn poll_again(&mut self, index: usize) -> Result<(), Loss> {
        let Some(http) = &self.users[index].http else {
            return Ok(());
        };
        if http.polling || http.paused {
            return Ok(());
        }
        let query = match &*http.sid {
            "" => "EIO=4&transport=polling".to_owned(),
            sid => format!("EIO=4&transport=polling&sid={sid}"),
        };
        let target = self.target(index, &query);
        let mut request = Vec::new();
        http::write_get(&mut request, &self.server(index).host, &target, "");
        self.tally.totals.bytes_sent += request.len() as u64;
        if let Some(http) = &mut self.users[index].http {
            http.polling = true;
        }
        self.ask(index, Role::Get, &request)
    }

    /// Sends a request, on a new connection if the server ended the old one.
    fn ask(&mut self, index: usize, role: Role, request: &[u8]) -> Result<(), Loss> {
        match self.users[index].stream(role) {
            Some(stream) if stream.is_open() => return stream.send(request),
            Some(_) => {}
            None => return Ok(()),
        }
        let fresh = self.open(index, role)?;
        if let Some(stream) = self.users[index].stream(role) {
            *stream = fresh;
            stream.queue(request);
        }
        Ok(())
    }

    /// Posts the packets that wait, if no POST is under way.
    pub(super) fn post_queued(&mut self, index: usize) -> Result<(), Loss> {
        let Some(http) = &mut self.users[index].http else {
            return Ok(());
        };
        if http.posting || http.queue.is_empty() || http.sid.is_empty() {
            return Ok(());
        }
        let body = std::mem::take(&mut http.queue);
        let query = format!("EIO=4&transport=polling&sid={}", http.sid);
        let target = self.target(index, &query);
        let mut request = Vec::new();
        http::write_post(&mut request, &self.server(index).host, &target, &body);
        self.tally.totals.bytes_sent += request.len() as u64;
        if let Some(http) = &mut self.users[index].http {
            http.posting = true;
        }
        self.ask(index, Role::Post, &request)
    }

    /// Handles every whole answer on a GET or POST connection; returns the bytes used up.
    pub(super) fn take_answers(
        &mut self,
        index: usize,
        role: Role,
        bytes: &[u8],
    ) -> Result<usize, Loss> {
        if self.is_stream(index) {
            return self.take_events(index, bytes);
        }
        let mut at = 0;
        while let Some((head, body)) = http::parse_answer(&bytes[at..])? {
            let (answer, end) = (&bytes[at..], body.end);
            let body = &answer[body];
            at += end;
            if head.status != 200 {
                let text = String::from_utf8_lossy(&body[..body.len().min(80)]).into_owned();
                return Err(Loss::Refused(format!("HTTP {} {text}", head.status)));
            }
            if head.closes
                && let Some(stream) = self.users[index].stream(role)
            {
                stream.close();
            }
            match role {
                Role::Post => self.posted(index)?,
                _ => self.polled(index, body)?,
            }
            if self.users[index].http.is_none() {
                return Ok(bytes.len());
            }
        }
        Ok(at)
    }

    fn posted(&mut self, index: usize) -> Result<(), Loss> {
        if let Some(http) = &mut self.users[index].http {
            http.posting = false;
        }
        self.finish_upgrade(index);
        self.post_queued(index)
    }

    /// The answer of a GET: packets, then the next GET.
    fn polled(&mut self, index: usize, body: &[u8]) -> Result<(), Loss> {
        if let Some(http) = &mut self.users[index].http {
            http.polling = false;
        }
        for packet in body.split(|&byte| byte == SEPARATOR) {
            self.on_message(index, packet, Role::Get)?;
        }
        self.finish_upgrade(index);
        self.post_queued(index)?;
        self.poll_again(index)
    }

    /// The server answered the probe: polling pauses (Engine.IO 4, "Upgrade").
    pub(super) fn probed(&mut self, index: usize, message: &[u8]) -> Result<(), Loss> {
        let user = &mut self.users[index];
        let (Link::Probing, Some(http)) = (user.link, &mut user.http) else {
            return Ok(());
        };
        if message != b"3probe" {
            return Err(Loss::Unexpected("not the answer to a probe"));
        }
        http.paused = true;
        self.finish_upgrade(index);
        Ok(())
    }

    /// Once neither GET nor POST is under way, the session moves.
    fn finish_upgrade(&mut self, index: usize) {
        let user = &mut self.users[index];
        let (Link::Probing, Some(http)) = (user.link, &user.http) else {
            return;
        };
        if !http.paused || http.polling || http.posting || !http.queue.is_empty() {
            return;
        }
        user.http = None;
        self.frame_text(b"5");
        self.connected(index);
    }

    fn is_stream(&self, index: usize) -> bool {
        let user = &self.users[index];
        user.link == Link::StreamHead
            || user.http.as_ref().is_some_and(|http| http.events.is_some())
    }

    pub(super) fn ask_stream(&mut self, index: usize) -> Result<(), Loss> {
        let target = self.target(index, "");
        let extra = self.authorization(index);
        let extra = format!("Accept: text/event-stream\r\nCache-Control: no-store\r\n{extra}");
        let mut request = Vec::new();
        http::write_get(&mut request, &self.server(index).host, &target, &extra);
        self.tally.totals.bytes_sent += request.len() as u64;
        let mut get: Stream = self.open(index, Role::Get)?;
        get.queue(&request);
        let user = &mut self.users[index];
        user.http = Some(Box::new(Http {
            get,
            ..Http::default()
        }));
        user.link = Link::StreamHead;
        Ok(())
    }

    fn take_events(&mut self, index: usize, bytes: &[u8]) -> Result<usize, Loss> {
        let mut at = 0;
        if self.users[index].link == Link::StreamHead {
            let Some(head) = http::parse_head(bytes)? else {
                return Ok(0);
            };
            if head.status != 200 {
                return Err(Loss::Refused(format!("HTTP {}", head.status)));
            }
            at = head.len;
            if let Some(http) = &mut self.users[index].http {
                http.events = Some(EventStream::new(head.body));
            }
            self.connected(index);
        }
        let Some(http) = &mut self.users[index].http else {
            return Ok(bytes.len());
        };
        let Some(mut events) = http.events.take() else {
            return Ok(bytes.len());
        };
        let used = events.take(&bytes[at..], |name, data| {
            self.on_event(index, data, name, None)
        });
        if let Some(http) = &mut self.users[index].http {
            http.events = Some(events);
        }
        Ok(at + used?)
    }
}
