//! How the last sessions ended, and what led to it: for operators, who ask when the session is gone.

use crate::books::close::CloseReason;
use crate::bounds::{ENDED_USER_CHARS_MAX, ENDS_MAX};
use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Arc;
use wire::base64url::Id20;

/// The end of a session.
#[derive(Clone, Debug)]
pub struct Ended {
    /// Unix time, milliseconds.
    pub at_ms: u64,
    /// The session that ended.
    pub session: Id20,
    /// The reason, by the table of the wire.
    pub reason: CloseReason,
    /// The client's address, as trusted proxies tell it.
    pub peer: IpAddr,
    /// Name of the protocol that its client spoke.
    pub protocol: &'static str,
    /// `polling`, `websocket`, `webtransport` or `sse`, as it was last.
    pub transport: &'static str,
    /// Its first socket with that one's namespace, or the socket that left last; none if it joined none.
    pub socket: Option<(Id20, Arc<str>)>,
    /// The user of that socket.
    pub user: Option<Box<str>>,
    /// Bytes that waited for the client and are lost with the session, unless recovery keeps them.
    pub waiting_bytes: usize,
    /// How long a ping was unanswered, milliseconds.
    pub silent_ms: Option<u32>,
    /// Messages that were rejected for their rate, less those accepted since.
    pub rejections: u16,
}

/// The last ends, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct Ends(VecDeque<Ended>);

impl Ends {
    pub(crate) fn note(&mut self, ended: Option<Ended>) {
        let Some(mut ended) = ended else { return };
        if let Some(user) = &ended.user
            && user.len() > ENDED_USER_CHARS_MAX
        {
            ended.user = Some(user.chars().take(ENDED_USER_CHARS_MAX).collect());
        }
        if self.0.len() == ENDS_MAX {
            self.0.pop_front();
        }
        self.0.push_back(ended);
    }

    /// The connection of the session that ended last was gone already: so much had waited on it.
    pub(crate) fn had_waiting(&mut self, bytes: usize) {
        if let Some(ended) = self.0.back_mut() {
            ended.waiting_bytes = bytes;
        }
    }

    /// The last ones, the newest first.
    pub(crate) fn newest(&self, max: usize) -> impl Iterator<Item = &Ended> {
        self.0.iter().rev().take(max)
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        let names = self.0.iter().filter_map(|ended| ended.user.as_ref());
        self.0.capacity() * size_of::<Ended>() + names.map(|name| name.len()).sum::<usize>()
    }
}
