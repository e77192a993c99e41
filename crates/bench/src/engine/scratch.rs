//! HOT PATH: no allocation for a message. Owns the buffers that all users of a worker share, and the frames written into them.

use super::deflate::Deflate;
use super::repeats::Repeats;
use super::speech::{self, Say};
use super::user::User;
use crate::scenario::Endpoint;
use fastrand::Rng;
use wire::websocket::frame::{OpCode, write_masked};

pub const READ_BYTES: usize = 256 * 1024;

/// Buffers reused for every message.
#[derive(Debug)]
pub struct Scratch {
    /// Frames for the user at hand, sent in one write.
    pub out: Vec<u8>,
    pub body: Vec<u8>,
    text: Vec<u8>,
    pub read: Vec<u8>,
    packed: Vec<u8>,
    pub deflate: Deflate,
    pub repeats: Repeats,
    masks: Rng,
    /// Where the last identity stood in its message.
    pub identity_at: usize,
}

impl Default for Scratch {
    fn default() -> Self {
        Scratch {
            out: Vec::new(),
            body: Vec::new(),
            text: Vec::new(),
            read: vec![0; READ_BYTES],
            packed: Vec::new(),
            deflate: Deflate::default(),
            repeats: Repeats::default(),
            masks: Rng::default(),
            identity_at: 0,
        }
    }
}

impl Scratch {
    pub fn frame(&mut self, opcode: OpCode, payload: &[u8]) {
        let mask = self.masks.u32(..).to_ne_bytes();
        write_masked(&mut self.out, true, opcode, payload, mask);
    }

    /// Says something on the transport that the user has at the moment.
    pub fn say(&mut self, endpoint: &Endpoint, user: &mut User, what: Say<'_>) {
        let mut text = std::mem::take(&mut self.text);
        text.clear();
        speech::say(endpoint, &mut text, what);
        if !text.is_empty() {
            match &mut user.connection.http {
                Some(http) => http.queue_packet(&text),
                None if endpoint.compression => self.compressed(&text),
                None => self.frame(OpCode::Text, &text),
            }
        }
        self.text = text;
    }

    /// A message, compressed where that is shorter.
    fn compressed(&mut self, text: &[u8]) {
        let mut packed = std::mem::take(&mut self.packed);
        packed.clear();
        let is_shorter = self.deflate.deflate(text, &mut packed);
        let start = self.out.len();
        self.frame(OpCode::Text, if is_shorter { &packed } else { text });
        // RFC 7692 §6: RSV1 marks a compressed message.
        self.out[start] |= if is_shorter { 0x40 } else { 0 };
        self.packed = packed;
    }
}
