//! What the opening handshake of a WebSocket settled.

use crate::output::compression::Deflate;

/// How frames pass on a connection; nothing before its handshake.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Handshake {
    /// It is a WebSocket, and counted as one.
    done: bool,
    /// How messages to it are compressed.
    deflate: Deflate,
    inflate: Inflate,
}

/// How messages from the client may be compressed (RFC 7692).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Inflate {
    /// permessage-deflate was not agreed on.
    #[default]
    Never,
    /// Each by itself.
    Alone,
    /// They may refer to earlier ones.
    Own,
}

impl Handshake {
    /// One that another process made. Windows do not come along.
    pub(crate) fn made_elsewhere(done: bool, deflate: Deflate, inflates: bool) -> Self {
        Self {
            done,
            deflate,
            inflate: match inflates {
                true => Inflate::Alone,
                false => Inflate::Never,
            },
        }
    }

    /// Both sides agreed to compress. `inflates_own`: messages from the client may refer to earlier ones.
    pub(crate) fn agree(&mut self, deflate: Deflate, inflates_own: bool) {
        self.deflate = deflate;
        self.inflate = match inflates_own {
            true => Inflate::Own,
            false => Inflate::Alone,
        };
    }

    /// It was accepted.
    pub(crate) fn finish(&mut self) {
        self.done = true;
    }

    /// The connection is a WebSocket.
    pub(crate) fn is_done(&self) -> bool {
        self.done
    }

    /// How messages to it are compressed.
    pub(crate) fn deflate(&self) -> Deflate {
        self.deflate
    }

    /// Both sides may compress.
    pub(crate) fn inflates(&self) -> bool {
        self.inflate != Inflate::Never
    }

    /// Its messages may refer to earlier ones.
    pub(crate) fn inflates_own(&self) -> bool {
        self.inflate == Inflate::Own
    }

    /// A window is kept for it, in one direction at least.
    pub(crate) fn keeps_window(&self) -> bool {
        self.deflate == Deflate::Own || self.inflates_own()
    }
}
