//! What all clients share, and what each comes with.

use crate::figures::{Counts, Held};
use crate::openings::{Openings, Place};
use crate::session::Session;
use crate::{Bring, Settings};
use std::sync::Arc;
use web_transport_quinn::quinn::{RecvStream, SendStream};
use wire::engineio::webtransport::Opening;

/// What all clients share.
pub(crate) struct House {
    pub(crate) settings: Settings,
    pub(crate) bring: Bring,
    pub(crate) counts: Counts,
    pub(crate) openings: Arc<Openings>,
}

/// A client's session of WebTransport with its stream.
pub(crate) struct Client {
    /// Large, and handed on: each place that it stops at would be as large.
    pub(crate) session: Box<Session>,
    pub(crate) send: SendStream,
    pub(crate) recv: RecvStream,
    pub(crate) opening: Opening,
    /// What came of the stream: the opening, and what follows it.
    pub(crate) read: Vec<u8>,
}

/// A client that has no session yet: its place among those, and that it is counted.
pub(crate) type Newcomer<'a> = Option<(Place, Held<'a>)>;
