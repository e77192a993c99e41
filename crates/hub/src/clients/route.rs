//! The way to a socket's client.

use crate::dialect::speech::Variant;
use crate::output::compression::Deflate;
use crate::tables::slot::ConnId;

/// A copy of what the session and its connection say, so that fan-out needs no look at them. All of it changes when the session's
/// transport does.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Route {
    /// The session's WebSocket or event stream; none while it polls.
    conn: Option<ConnId>,
    variant: Variant,
    deflate: Deflate,
}

impl Route {
    pub(crate) fn new(conn: Option<ConnId>, variant: Variant, deflate: Deflate) -> Self {
        Self {
            conn,
            variant,
            deflate,
        }
    }

    /// The session goes another way now. Whether events say their offset, each of its sockets knows for itself.
    pub(super) fn change(&mut self, other: Self) {
        let offsets = self.variant.offsets;
        *self = other;
        self.variant.offsets = offsets;
    }

    /// Events say their offset from now on.
    pub(crate) fn say_offsets(&mut self) {
        self.variant.offsets = true;
    }

    #[inline]
    pub(crate) fn conn(&self) -> Option<ConnId> {
        self.conn
    }

    #[inline]
    pub(crate) fn variant(&self) -> Variant {
        self.variant
    }

    #[inline]
    pub(crate) fn deflate(&self) -> Deflate {
        self.deflate
    }
}
