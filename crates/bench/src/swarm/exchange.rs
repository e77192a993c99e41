//! HOT PATH: no allocation per message. Owns what happens on a readable connection: bytes to
//! frames to reactions, and the frames that go back in one write.

use super::Swarm;
use super::conn::{Filled, Loss, Phase};
use super::load::{Due, Load};
use crate::clock::now_ns;
use crate::dialect::{Incoming, Protocol, ROOM};
use crate::stamp::Stamp;
use fastrand::Rng;
use mio::event::Event;
use wire::websocket::frame::{OpCode, parse_header, write_masked};

/// Buffers reused for every message that is sent.
#[derive(Debug, Default)]
pub struct Scratch {
    /// Frames for the connection being handled.
    out: Vec<u8>,
    message: Vec<u8>,
    payload: Vec<u8>,
    masks: Rng,
}

impl Scratch {
    fn frame(&mut self, opcode: OpCode, payload: &[u8]) {
        let mask = self.masks.u32(..).to_ne_bytes();
        write_masked(&mut self.out, true, opcode, payload, mask);
    }

    fn frame_message(&mut self) {
        let mask = self.masks.u32(..).to_ne_bytes();
        write_masked(&mut self.out, true, OpCode::Text, &self.message, mask);
    }
}

impl Swarm {
    pub(super) fn on_event(&mut self, index: usize, event: &Event) {
        let Some(conn) = self.conns.get_mut(index).filter(|conn| conn.is_open()) else {
            return;
        };
        if conn.phase == Phase::Connecting {
            return self.finish_tcp(index);
        }
        let flushed = if event.is_writable() {
            conn.stream.flush()
        } else {
            Ok(())
        };
        let result = match flushed {
            Ok(()) if event.is_readable() || event.is_read_closed() => {
                self.read(index, event.is_read_closed())
            }
            other => other,
        };
        if let Err(loss) = result {
            self.lose(index, loss);
        }
    }

    fn finish_tcp(&mut self, index: usize) {
        let conn = &mut self.conns[index];
        if let Some(error) = conn.stream.connect_error() {
            return self.lose(index, Loss::Io(error.kind()));
        }
        if !conn.stream.is_connected() {
            return;
        }
        conn.phase = Phase::Upgrading;
        let Some(upgrade) = &self.upgrade else { return };
        if let Err(loss) = conn.stream.send(&upgrade.request) {
            self.lose(index, loss);
        }
    }

    fn read(&mut self, index: usize, ends: bool) -> Result<(), Loss> {
        let mut buf = std::mem::take(&mut self.buf);
        let result = self.read_into(index, ends, &mut buf);
        self.buf = buf;
        if result.is_err() {
            // What was meant for a dead connection must not reach the next one.
            self.scratch.out.clear();
        }
        result?;
        self.send_out(index)
    }

    fn read_into(&mut self, index: usize, ends: bool, buf: &mut [u8]) -> Result<(), Loss> {
        let mut kept = self.conns[index].stream.take_unread(buf);
        loop {
            let filled = self.conns[index].stream.fill(buf, kept, ends)?;
            let (Filled::Drained(end) | Filled::More(end)) = filled;
            self.counters.bytes_in += (end - kept) as u64;
            self.now_ns = now_ns();
            let consumed = self.consume(index, &buf[..end])?;
            if matches!(filled, Filled::Drained(_)) {
                self.conns[index].stream.keep_unread(&buf[consumed..end]);
                return Ok(());
            }
            buf.copy_within(consumed..end, 0);
            kept = end - consumed;
        }
    }

    /// Handles every whole frame; returns the bytes used up.
    fn consume(&mut self, index: usize, bytes: &[u8]) -> Result<usize, Loss> {
        let mut at = 0;
        if self.conns[index].phase == Phase::Upgrading {
            let Some(upgrade) = &self.upgrade else {
                return Ok(0);
            };
            let Some(len) = upgrade.check_response(bytes)? else {
                return Ok(0);
            };
            at = len;
            self.upgraded(index);
        }
        while let Some(header) = parse_header(&bytes[at..]).map_err(Loss::BadFrame)? {
            let payload_len = usize::try_from(header.payload_len).unwrap_or(usize::MAX);
            let Some(payload) = bytes[at + header.len..].get(..payload_len) else {
                break;
            };
            at += header.len + payload_len;
            self.on_frame(index, header.opcode, payload)?;
        }
        Ok(at)
    }

    fn on_frame(&mut self, index: usize, opcode: OpCode, payload: &[u8]) -> Result<(), Loss> {
        match opcode {
            OpCode::Text | OpCode::Binary => return self.on_message(index, payload),
            OpCode::Ping => self.scratch.frame(OpCode::Pong, payload),
            OpCode::Close => {
                let code = payload.first_chunk().map(|code| u16::from_be_bytes(*code));
                return Err(Loss::CloseFrame(code));
            }
            OpCode::Continuation | OpCode::Pong => {}
        }
        Ok(())
    }

    fn on_message(&mut self, index: usize, message: &[u8]) -> Result<(), Loss> {
        let Some(target) = &self.target else {
            return Ok(());
        };
        match target.protocol.classify(message) {
            Some(Incoming::Event) => self.on_delivery(index, message),
            Some(Incoming::Ack) => self.on_ack(index, message),
            Some(Incoming::EngineOpen) => self.scratch.frame(OpCode::Text, b"40"),
            Some(Incoming::EnginePing) => {
                self.counters.pings += 1;
                self.scratch.frame(OpCode::Text, b"3");
            }
            Some(Incoming::Connected) => self.greeted(index),
            Some(Incoming::Refused) => return Err(Loss::RefusedNamespace),
            None => {}
        }
        Ok(())
    }

    fn on_delivery(&mut self, index: usize, message: &[u8]) {
        self.counters.deliveries += 1;
        if let (Some(running), Some(stamp)) = (&mut self.running, Stamp::find(message)) {
            running.delivered(index, stamp, self.now_ns);
        }
    }

    fn on_ack(&mut self, index: usize, message: &[u8]) {
        if self.conns[index].phase == Phase::Joining {
            return self.ready(index);
        }
        let Some(running) = &mut self.running else {
            return;
        };
        let Some(stamp) = Stamp::find(message) else {
            return;
        };
        self.counters.acks += 1;
        running.answered(index, stamp, self.now_ns);
        if !running.stopped {
            self.queue_echo(index);
        }
    }

    fn upgraded(&mut self, index: usize) {
        self.conns[index].phase = Phase::Greeting;
        // Bare and plain WebSocket have no greeting.
        if self
            .target
            .as_ref()
            .is_some_and(|target| target.protocol != Protocol::SocketIo)
        {
            self.greeted(index);
        }
    }

    fn greeted(&mut self, index: usize) {
        let rooms = self
            .connecting
            .as_ref()
            .map_or(0, |connecting| connecting.plan.rooms);
        let Some(target) = self.target.as_ref().filter(|_| rooms > 0) else {
            return self.ready(index);
        };
        let room = room_name(self.first_member + index as u32, rooms);
        self.scratch.message.clear();
        target.write_join(&mut self.scratch.message, 0, &room);
        self.scratch.frame_message();
        self.conns[index].phase = Phase::Joining;
        self.conns[index].next_ack_id = 1;
    }

    fn ready(&mut self, index: usize) {
        let conn = &mut self.conns[index];
        conn.phase = Phase::Ready;
        if let Some(connecting) = &mut self.connecting {
            connecting.ready += 1;
            connecting.latency.record(self.now_ns - conn.begun_ns);
        }
    }

    /// Sends the first `depth` echoes of every connection.
    pub(super) fn start_echoes(&mut self, depth: u32) {
        for index in 0..self.conns.len() {
            (0..depth).for_each(|_| self.queue_echo(index));
            self.send_out_or_lose(index);
        }
    }

    fn queue_echo(&mut self, index: usize) {
        let (Some(running), Some(target)) = (&self.running, &self.target) else {
            return;
        };
        let Load::Echo { payload_bytes, .. } = running.load else {
            return;
        };
        let conn = &mut self.conns[index];
        let stamp = Stamp {
            publisher: 0,
            sequence: conn.sent,
            due_ns: self.now_ns,
        };
        let scratch = &mut self.scratch;
        scratch.payload.clear();
        stamp.write(&mut scratch.payload, payload_bytes);
        scratch.message.clear();
        target.write_echo(&mut scratch.message, conn.next_ack_id, &scratch.payload);
        scratch.frame_message();
        conn.sent += 1;
        conn.next_ack_id = conn.next_ack_id.wrapping_add(1);
    }

    /// Publishes whatever window or schedule allows, one write per publisher in a row.
    pub(super) fn send_due(&mut self) {
        let mut sender = None;
        while let Some(due) = self.running.as_mut().and_then(|r| r.take_due(self.now_ns)) {
            let index = usize::from(due.publisher);
            if let Some(last) = sender.replace(index).filter(|&last| last != index) {
                self.send_out_or_lose(last);
            }
            self.queue_publish(&due);
        }
        if let Some(last) = sender {
            self.send_out_or_lose(last);
        }
    }

    fn queue_publish(&mut self, due: &Due) {
        let (Some(running), Some(target)) = (&self.running, &self.target) else {
            return;
        };
        let Load::Publish(publish) = &running.load else {
            return;
        };
        let stamp = Stamp {
            publisher: due.publisher,
            sequence: due.sequence,
            due_ns: due.due_ns,
        };
        let scratch = &mut self.scratch;
        scratch.payload.clear();
        stamp.write(&mut scratch.payload, publish.payload_bytes);
        scratch.message.clear();
        target.write_publish(&mut scratch.message, publish.rooms > 1, &scratch.payload);
        scratch.frame_message();
        self.counters.published += 1;
    }

    fn send_out_or_lose(&mut self, index: usize) {
        if let Err(loss) = self.send_out(index) {
            self.lose(index, loss);
        }
    }

    fn send_out(&mut self, index: usize) -> Result<(), Loss> {
        if self.scratch.out.is_empty() {
            return Ok(());
        }
        let Some(conn) = self.conns.get_mut(index) else {
            return Ok(());
        };
        let result = conn.stream.send(&self.scratch.out);
        self.scratch.out.clear();
        result
    }
}

/// Room of a member when the load is spread over `rooms`.
fn room_name(member: u32, rooms: u32) -> String {
    match rooms {
        1 => ROOM.into(),
        _ => format!("{ROOM}-{}", member % rooms),
    }
}
