//! Compression on a connection: what its handshake settles, and what becomes of its messages.

use crate::books::Books;
use crate::books::metrics::Limit;
use crate::clients::line::Line;
use crate::output::backlog::Fate;
use crate::output::compression::Deflate;
use crate::output::log::Range;
use crate::tables::slot::ConnId;
use wire::http::Head;
use wire::websocket::deflate::InflateError;
use wire::websocket::extension::{self, Agreed, Willing};

impl Line {
    /// Settles how a new WebSocket compresses; the answer goes into the handshake's response.
    pub(crate) fn agree_on_deflate(
        &mut self,
        books: &mut Books,
        conn: ConnId,
        head: &Head<'_>,
    ) -> Option<Agreed> {
        let config = &books.config.compression;
        if !config.websocket {
            return None;
        }
        // Whether a window is free is settled here, so nothing is switched off in the middle of a connection (ADR 7).
        let full = self.codecs.windows() >= books.config.limits.takeover_contexts_max;
        let willing = Willing {
            // Frames that later ones refer to cannot be dropped.
            server_takeover: config.server_takeover && !full && !books.config.drops_events(),
            client_takeover: config.client_takeover && !full,
            server_window_bits: config.window_bits,
            client_window_bits: 15,
        };
        let agreed = extension::negotiate(head, &willing)?;
        if full && (config.server_takeover || config.client_takeover) {
            books.counts.hit(Limit::TakeoverContexts);
        }
        let window_bits = agreed.server_max_window_bits.unwrap_or(config.window_bits);
        let deflate = match agreed.server_no_context_takeover {
            false => Deflate::Own,
            // This client takes no window as large as everybody's (RFC 7692 §7.1.2.1).
            true if window_bits < config.window_bits => Deflate::Small,
            true => Deflate::Shared,
        };
        let slot = self.conns.get_mut(conn)?;
        slot.handshake
            .agree(deflate, !agreed.client_no_context_takeover);
        if slot.handshake.keeps_window() {
            self.codecs.keep_window(conn, window_bits);
            books.counts.takeover_contexts += 1;
        }
        books.counts.deflate_websockets += 1;
        Some(agreed)
    }

    /// The connection is gone, and its window with it.
    pub(crate) fn forget_deflate(&mut self, books: &mut Books, conn: ConnId) {
        books.counts.deflate_websockets -= 1;
        if self.codecs.forget_window(conn) {
            books.counts.takeover_contexts -= 1;
        }
    }

    /// Inflates a message of at most `bytes_max` bytes into `out`.
    pub(crate) fn inflate(
        &mut self,
        books: &mut Books,
        conn: ConnId,
        payload: &[u8],
        bytes_max: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), InflateError> {
        let slot = self.conns.get(conn);
        let own = slot.is_some_and(|slot| slot.handshake.inflates_own());
        let result = self.codecs.inflate((conn, own), payload, bytes_max, out);
        books.counts.inflated_messages += 1;
        books.counts.inflated_bytes_before += payload.len() as u64;
        books.counts.inflated_bytes_after += out.len() as u64;
        books.counts.inflate_errors += u64::from(result.is_err());
        result
    }

    /// Lets `write` append the frames of one message to the private log, compresses them if that was agreed on, and queues them.
    pub(crate) fn reply_message(
        &mut self,
        books: &mut Books,
        conn: impl Into<Option<ConnId>>,
        exempt: bool,
        fate: Fate,
        write: impl FnOnce(&mut Vec<u8>),
    ) {
        let Some(conn) = conn.into() else { return };
        let log = self.log.bytes_mut(false);
        let start = log.len();
        write(log);
        let len = log.len() - start;
        // A short message hardly shrinks, and compressing costs as much as many sends (ADR 7).
        if !exempt && len >= books.config.compression.threshold {
            let deflate = self.deflate_of(Some(conn));
            if deflate != Deflate::Off {
                self.deflate_private(books, conn, deflate, start);
            }
        }
        if len > 0 {
            let range = self.log.close(false, start, fate);
            self.push(conn, range);
        }
    }

    /// Compresses what the private log holds since `start` in place.
    fn deflate_private(&mut self, books: &mut Books, conn: ConnId, deflate: Deflate, start: usize) {
        let mut frames = std::mem::take(&mut self.codecs.frames);
        let (config, out) = (&books.config.compression, self.log.bytes_mut(false));
        // The compressor writes to the log, so it reads from a copy.
        frames.extend_from_slice(&out[start..]);
        out.truncate(start);
        if !self
            .codecs
            .deflate(config, (conn, deflate), &frames, out, &mut books.counts)
        {
            out.extend_from_slice(&frames);
        }
        self.codecs.recycle_frames(frames);
    }

    /// Compresses frames into the shared log or the private one; `None` if they are better sent as they are.
    fn deflated_range(
        &mut self,
        books: &mut Books,
        conn: ConnId,
        deflate: Deflate,
        frames: &[u8],
        (shared, fate): (bool, Fate),
    ) -> Option<Range> {
        let config = &books.config.compression;
        if frames.len() < config.threshold {
            return None;
        }
        let out = self.log.bytes_mut(shared);
        let start = out.len();
        self.codecs
            .deflate(config, (conn, deflate), frames, out, &mut books.counts)
            .then(|| self.log.close(shared, start, fate))
    }

    /// The form of an event for connections that agreed on compression; `None` if the plain one is better. `plain` is that
    /// form if it was made, and `write` makes it.
    pub(crate) fn append_deflated(
        &mut self,
        books: &mut Books,
        (conn, deflate): (ConnId, Deflate),
        (shared, fate): (bool, Fate),
        plain: Option<Range>,
        write: impl FnOnce(&mut Vec<u8>, &mut Vec<u8>),
    ) -> Option<Range> {
        let mut frames = std::mem::take(&mut self.codecs.frames);
        match plain {
            // The compressor writes to the log, so it reads from a copy.
            Some(range) => frames.extend_from_slice(self.log.bytes(range)),
            None => write(&mut frames, &mut self.scratch),
        }
        let range = self.deflated_range(books, conn, deflate, &frames, (shared, fate));
        self.codecs.recycle_frames(frames);
        range
    }
}
