//! A client that wants to join a namespace and waits, and what it sends there meanwhile.

use crate::books::claims::Claims;
use crate::recovery::shown::Shown;
use std::sync::Arc;
use wire::base64url::Id20;
use wire::socketio::{self, Packet, PacketType};

/// A client before a gate.
#[derive(Debug)]
pub(crate) struct Join {
    pub(crate) namespace: Box<str>,
    /// The raw CONNECT payload.
    pub(crate) auth: Arc<str>,
    pub(crate) claims: Option<Claims>,
    /// Id of its socket, if it is let in: the handler knows it already.
    pub(crate) socket: Option<Id20>,
    /// The socket that it had, and wants back.
    pub(crate) shown: Option<Shown>,
    held: Vec<Held>,
    held_bytes: usize,
}

/// A packet that waits.
#[derive(Debug)]
pub(crate) struct Held {
    text: Box<str>,
    attachments: Vec<Vec<u8>>,
    connects: bool,
}

/// What a packet costs beside its bytes: the shortest ones must not be free.
const HELD_BYTES: usize = size_of::<Held>();

impl Held {
    pub(crate) fn new(packet: &Packet<'_>, attachments: &[Vec<u8>]) -> Self {
        let mut text = Vec::new();
        socketio::write(&mut text, packet);
        Self {
            text: String::from_utf8_lossy(&text).into(),
            attachments: attachments.to_vec(),
            connects: packet.kind == PacketType::Connect,
        }
    }

    /// Text that is no packet. It counts whatever is decided.
    pub(crate) fn broken(text: &str) -> Self {
        Self {
            text: text.into(),
            attachments: Vec::new(),
            connects: true,
        }
    }

    /// It asks for the membership once more.
    pub(crate) fn connects(&self) -> bool {
        self.connects
    }

    pub(crate) fn packet(&self) -> Option<Packet<'_>> {
        socketio::parse(&self.text).ok()
    }

    pub(crate) fn attachments(&self) -> &[Vec<u8>] {
        &self.attachments
    }

    pub(crate) fn bytes(&self) -> usize {
        let attachments = self.attachments.iter();
        let attached = attachments.map(|bytes| size_of::<Vec<u8>>() + bytes.len());
        HELD_BYTES + self.text.len() + attached.sum::<usize>()
    }
}

impl Join {
    pub(crate) fn new(namespace: &str, auth: Arc<str>) -> Self {
        Self {
            namespace: namespace.into(),
            auth,
            claims: None,
            socket: None,
            shown: None,
            held: Vec::new(),
            held_bytes: 0,
        }
    }

    /// What waits costs so many bytes.
    pub(crate) fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    pub(crate) fn hold(&mut self, packet: Held) {
        self.held_bytes += packet.bytes();
        self.held.push(packet);
    }

    pub(crate) fn take_held(&mut self) -> Vec<Held> {
        self.held_bytes = 0;
        std::mem::take(&mut self.held)
    }
}
