//! Shutting down politely: everyone is told, then connections are closed evenly over a window (F4).

use crate::close::CloseReason;
use crate::conn::NONE;
use crate::hub::Hub;
use crate::io::{Emit, Io};
use crate::socket::Variant;
use wire::websocket::frame::{self, OpCode};

/// Connections are closed in steps of this many milliseconds.
pub(crate) const STEP_MS: u64 = 20;

const NOTICE: &str = "SERVER_SHUTDOWN";
const ARGS: &str = r#"{"message":"Server is shutting down"}"#;
const PLAIN_JSON: &[u8] = br#"{"type":"SERVER_SHUTDOWN","message":"Server is shutting down"}"#;
/// The same map in MessagePack.
const PLAIN_MSGPACK: &[u8] =
    b"\x82\xa4type\xafSERVER_SHUTDOWN\xa7message\xb7Server is shutting down";

/// A shutdown in progress.
#[derive(Debug)]
pub(crate) struct Drain {
    started_ms: u64,
    window_ms: u64,
    /// Sessions when it began.
    total: usize,
    /// Sessions still to be closed.
    left: Vec<u32>,
}

impl Hub {
    /// Takes no more sessions, lets the handler tell the clients, and closes every session with 1001 within `window_ms`.
    pub fn drain(&mut self, window_ms: u64) {
        if self.core.draining {
            return;
        }
        self.core.draining = true;
        self.call(NONE, |handler, io| handler.draining(io));
        self.notify_shutdown();
        let left: Vec<u32> = self.core.sessions.iter().map(|(index, _)| index).collect();
        self.drain = Some(Drain {
            started_ms: self.core.now.mono_ms,
            window_ms,
            total: left.len(),
            left,
        });
        self.settle();
    }

    /// Every client is told in its protocol's words.
    fn notify_shutdown(&mut self) {
        let sockets: Vec<u32> = self.core.sockets.iter().map(|(index, _)| index).collect();
        for index in sockets {
            let Some(socket) = self.core.sockets.get(index) else {
                continue;
            };
            let (variant, conn) = (socket.variant, socket.conn);
            match variant {
                Variant::PlainJson => {
                    self.core.reply(conn, |out| {
                        frame::write_frame(out, OpCode::Text, PLAIN_JSON)
                    });
                }
                Variant::PlainMsgpack => {
                    self.core.reply(conn, |out| {
                        frame::write_frame(out, OpCode::Binary, PLAIN_MSGPACK)
                    });
                }
                _ => {
                    let key = self.core.socket_key(index);
                    let emit = Emit {
                        name: NOTICE,
                        args: ARGS,
                        ..Emit::default()
                    };
                    Io {
                        core: &mut self.core,
                    }
                    .emit(key, &emit);
                }
            }
        }
    }

    pub(crate) fn drain_step(&mut self) {
        let Some(drain) = &mut self.drain else { return };
        let elapsed = self.core.now.mono_ms - drain.started_ms;
        // The first step is late enough for the notice to leave before the first close.
        let keep = if elapsed >= drain.window_ms {
            0
        } else {
            let done = drain.total as u64 * elapsed / drain.window_ms;
            drain.total - done as usize
        };
        let close = drain.left.split_off(keep.min(drain.left.len()));
        for session in close {
            self.core.close_session(session, CloseReason::ShuttingDown);
        }
        if let Some(drain) = &self.drain
            && drain.left.is_empty()
        {
            self.drain = None;
            self.close_idle_conns();
        }
    }

    /// Connections without a session: kept-alive HTTP and half-made requests.
    fn close_idle_conns(&mut self) {
        let idle: Vec<u32> = self
            .core
            .conns
            .iter()
            .filter(|(_, slot)| slot.state == crate::conn::State::Head)
            .map(|(index, _)| index)
            .collect();
        idle.into_iter()
            .for_each(|conn| self.core.finish_conn(conn));
    }

    /// Draining, and nobody is left.
    pub fn is_drained(&self) -> bool {
        self.core.draining && self.drain.is_none() && self.core.conns.len() == 0
    }
}
