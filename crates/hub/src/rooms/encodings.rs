//! How one event is put into bytes: what was made of it so far, and what holds for all that is made.
//!
//! HOT PATH: no allocation, no lock, no dyn.

use crate::dialect::speech::{self, Emit, Variant};
use crate::output::backlog::Fate;
use crate::output::compression::{Deflate, SHARED_FORMS};
use crate::output::log::Range;
use crate::output::piece::Piece;

/// The encodings of an event. Each is made once, when the first receiver needs it.
#[derive(Debug)]
pub(crate) struct Encodings {
    /// For more than one receiver: they go to the shared log.
    shared: bool,
    /// Never compressed (`config::Exempt`).
    exempt: bool,
    /// One of the attachments has no byte: not every transport has a frame for that.
    has_empty: bool,
    /// What happens to them where a client is slow; known once one is made.
    fate: Option<Fate>,
    /// For each variant, one for each form.
    frames: [Option<Range>; Variant::FRAMED * SHARED_FORMS],
    /// For polling, by dialect of Socket.IO.
    polled: [Option<Piece>; Variant::POLLED],
}

impl Encodings {
    /// None is made of this event yet.
    pub(super) fn of(event: &Emit<'_>) -> Self {
        Self {
            shared: false,
            exempt: false,
            has_empty: speech::has_empty(event.attachments),
            fate: None,
            frames: [None; Variant::FRAMED * SHARED_FORMS],
            polled: Default::default(),
        }
    }

    // ---- what holds for all -------------------------------------------------------------------------------------------

    /// There may be more than one receiver.
    pub(super) fn share(&mut self) {
        self.shared = true;
    }

    /// They are not compressed if that is so, or was said before.
    pub(crate) fn exempt_if(&mut self, is_exempt: bool) {
        self.exempt |= is_exempt;
    }

    /// What happens to them where a client is slow.
    pub(super) fn settle(&mut self, fate: Fate) -> Fate {
        *self.fate.insert(fate)
    }

    #[inline]
    pub(super) fn fate(&self) -> Option<Fate> {
        self.fate
    }

    pub(super) fn is_shared(&self) -> bool {
        self.shared
    }

    pub(super) fn is_exempt(&self) -> bool {
        self.exempt
    }

    #[inline]
    pub(super) fn has_empty(&self) -> bool {
        self.has_empty
    }

    // ---- what was made ------------------------------------------------------------------------------------------------

    /// The form for a connection that compresses so.
    #[inline]
    pub(super) fn form(&self, deflate: Deflate) -> Deflate {
        match self.exempt {
            true => Deflate::Off,
            false => deflate,
        }
    }

    /// The frames of a form, if they were made and others may have them.
    #[inline]
    pub(super) fn frames(&self, variant: Variant, form: Deflate) -> Option<Range> {
        self.frames.get(place(variant, form)).copied().flatten()
    }

    /// They were made. A form that nobody shares is not kept.
    pub(super) fn keep_frames(&mut self, variant: Variant, form: Deflate, frames: Range) {
        if let Some(made) = self.frames.get_mut(place(variant, form)) {
            *made = Some(frames);
        }
    }

    /// The packets for polls; [`Self::keep_polled`] puts them back.
    pub(super) fn take_polled(&mut self, variant: Variant) -> Option<Piece> {
        self.polled[variant.polled()].take()
    }

    pub(super) fn keep_polled(&mut self, variant: Variant, packets: Piece) {
        self.polled[variant.polled()] = Some(packets);
    }
}

/// Place of a form of a variant; beyond the last one for what nobody shares.
fn place(variant: Variant, form: Deflate) -> usize {
    variant.number() + Variant::FRAMED * form as usize
}
