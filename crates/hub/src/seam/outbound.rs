//! What waits to leave the hub's tables: effects for the shard, news for the handler, and what it decided.

use crate::seam::effect::Effect;
use crate::seam::event::Refusal;
use crate::seam::join::Held;
use crate::seam::told::Told;
use crate::tables::slot::{AskKey, SessionKey};
use std::collections::VecDeque;

/// What waits to leave the hub: effects for the shard, news for the handler.
#[derive(Debug, Default)]
pub(crate) struct Outbound {
    /// Decisions of the handler that are not carried out yet.
    pub(crate) decided: VecDeque<(AskKey, Result<(), Refusal>)>,
    pub(crate) effects: Vec<Effect>,
    pub(crate) told: VecDeque<Told>,
    /// Packets that waited before a gate, in order; the decision is there.
    pub(crate) released: VecDeque<(SessionKey, Held)>,
}
