//! Shutting down politely: everyone is told, then connections are closed evenly over a window.

use crate::books::close::CloseReason;
use crate::dialect::speech::{Dialect, Framing};
use crate::hub::Hub;
use crate::seam::context::{Context, Emit};
use crate::seam::notices;
use crate::tables::slot::{ConnId, SessionId, SocketId};
use crate::transport::sse;
use wire::plain;

/// Connections are closed in steps of this many milliseconds.
pub(crate) const STEP_MS: u64 = 20;

const MESSAGE: &str = "Server is shutting down";
/// Clients of one process do not all come back within the same second, however short the window.
const SPREAD_MIN_MS: u64 = 1_000;

/// A shutdown in progress.
#[derive(Debug)]
pub(crate) struct Drain {
    started_ms: u64,
    window_ms: u64,
    /// Sessions when it began.
    total: usize,
    /// Sessions still to be closed.
    left: Vec<SessionId>,
}

impl Hub {
    /// Takes no more sessions, lets the handler tell the clients, and closes every session with 1001 within `window_ms`.
    pub(crate) fn drain(&mut self, window_ms: u64) {
        if self.draining {
            return;
        }
        self.draining = true;
        self.call(None, |handler, cx| handler.draining(cx));
        let left: Vec<SessionId> = self
            .parts
            .people
            .sessions
            .iter()
            .map(|(index, _)| index)
            .collect();
        self.drain = Some(Drain {
            started_ms: self.parts.clock.now.mono_ms,
            window_ms,
            total: left.len(),
            left,
        });
        self.notify_shutdown();
        self.settle();
    }

    /// Every client is told in its protocol's words, and when to come back: the one closed last has left by then.
    fn notify_shutdown(&mut self) {
        let sockets: Vec<SocketId> = self
            .parts
            .people
            .sockets
            .iter()
            .map(|(index, _)| index)
            .collect();
        for index in sockets {
            let retry_after_ms = self.drain_delay_ms();
            let Some(socket) = self.parts.people.sockets.get(index) else {
                continue;
            };
            let (variant, conn) = (socket.variant, socket.conn);
            let members = format!("\"message\":\"{MESSAGE}\",\"retry_after_ms\":{retry_after_ms}");
            match variant.dialect {
                Dialect::PlainJson => {
                    let notice = format!("{{\"type\":\"{}\",{members}}}", notices::SHUTDOWN);
                    self.parts.reply(conn, |out| {
                        if variant.framing == Framing::EventStream {
                            sse::write_retry(out, retry_after_ms);
                        }
                        variant.wrap(out, notice.as_bytes(), &[]);
                    });
                }
                Dialect::PlainMsgpack => {
                    let notice =
                        plain::shutdown_msgpack(notices::SHUTDOWN, MESSAGE, retry_after_ms);
                    self.parts
                        .reply(conn, |out| variant.wrap(out, &notice, &[]));
                }
                _ => {
                    let key = self.parts.socket_key(index);
                    let emit = Emit {
                        name: notices::SHUTDOWN,
                        args: &format!("{{{members}}}"),
                        ..Emit::default()
                    };
                    Context {
                        parts: &mut self.parts,
                    }
                    .emit(key, &emit);
                }
            }
        }
    }

    /// In how many milliseconds a client may come back: each another number, evenly spread behind what is left of the window.
    pub(crate) fn drain_delay_ms(&mut self) -> u64 {
        let now = self.parts.clock.now.mono_ms;
        let (left, window) = self.drain.as_ref().map_or((0, 0), |drain| {
            let ends = drain.started_ms + drain.window_ms;
            (ends.saturating_sub(now), drain.window_ms)
        });
        let dice = u64::from(u16::from_be_bytes(self.parts.random()));
        left + 1 + window.max(SPREAD_MIN_MS) * dice / u64::from(u16::MAX)
    }

    pub(crate) fn drain_step(&mut self) {
        let Some(drain) = &mut self.drain else { return };
        let elapsed = self.parts.clock.now.mono_ms - drain.started_ms;
        // The first step is late enough for the notice to leave before the first close.
        let keep = if elapsed >= drain.window_ms {
            0
        } else {
            let done = drain.total as u64 * elapsed / drain.window_ms;
            drain.total - done as usize
        };
        let close = drain.left.split_off(keep.min(drain.left.len()));
        for session in close {
            self.parts.close_session(session, CloseReason::ShuttingDown);
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
        let idle: Vec<ConnId> = self
            .parts
            .line
            .conns
            .iter()
            .filter(|(_, slot)| slot.state == crate::tables::conn::State::Head)
            .map(|(index, _)| index)
            .collect();
        idle.into_iter()
            .for_each(|conn| self.parts.finish_conn(conn));
    }

    /// Every session has been told to go: nobody who comes now needs to be told anything.
    pub fn has_let_go(&self) -> bool {
        self.draining && self.drain.is_none()
    }

    /// Draining, and nobody is left.
    pub fn is_drained(&self) -> bool {
        self.draining && self.drain.is_none() && self.parts.line.conns.len() == 0
    }
}
