//! The GET of a session that polls, while it waits for packets, and in which form it wants them.

use crate::tables::slot::ConnId;
use wire::engineio::Query;
use wire::engineio::jsonp::Callback;
use wire::http::{Encoding, Head};

/// A GET that waits. It ends with its answer.
#[derive(Debug)]
pub(crate) struct Get {
    conn: ConnId,
    /// It came when the session was closing already.
    late: bool,
    /// Its client takes any number of packets in one answer.
    takes_all: bool,
    /// What the answer may be compressed with.
    encoding: Option<Encoding>,
    /// The answer is a script.
    script: Option<Callback>,
    /// CORS header lines for the answer.
    cors: Option<Box<[u8]>>,
}

impl Get {
    /// `extra`: header lines for its answer. `late`: the session is closing.
    pub(crate) fn new(
        conn: ConnId,
        head: &Head<'_>,
        query: &Query<'_>,
        extra: Vec<u8>,
        late: bool,
    ) -> Self {
        Self {
            conn,
            late,
            takes_all: is_javascript(head),
            encoding: Encoding::accepted(head),
            script: query.jsonp,
            cors: (!extra.is_empty()).then(|| extra.into_boxed_slice()),
        }
    }

    /// The connection that it came by.
    pub(crate) fn conn(&self) -> ConnId {
        self.conn
    }

    /// It came when the session was closing already.
    pub(crate) fn is_late(&self) -> bool {
        self.late
    }

    /// Packets in its answer at most, where others get so many.
    pub(crate) fn packets_max(&self, others: usize) -> usize {
        match self.takes_all {
            true => usize::MAX,
            false => others,
        }
    }

    /// The function that the answer calls, if it is a script.
    pub(crate) fn script(&self) -> Option<Callback> {
        self.script
    }

    /// What an answer may be compressed with.
    pub(crate) fn encoding(&self) -> Option<Encoding> {
        self.encoding
    }

    /// Header lines for the answer, which ends it.
    pub(crate) fn into_headers(self) -> Vec<u8> {
        self.cors.map_or_else(Vec::new, Vec::from)
    }
}

/// Clients that take any number of packets in one answer say so by their name: browsers, and the JavaScript client's own requests
/// in Node. Others may be python-engineio, which breaks off at the seventeenth.
fn is_javascript(head: &Head<'_>) -> bool {
    head.header("user-agent").is_some_and(|agent| {
        agent.starts_with(b"Mozilla/") || agent.starts_with(b"node-XMLHttpRequest")
    })
}
