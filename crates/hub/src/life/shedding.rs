//! Closing the slowest clients when memory is nearly used up.

use crate::books::close::CloseReason;
use crate::books::metrics::Limit;
use crate::bounds::{SHED_BACKLOG_MIN, SHED_CONNS};
use crate::life::ending;
use crate::parts::Parts;
use crate::tables::slot::SessionId;

/// Memory is nearly used up: the clients with the most unread output are closed, rather than everyone by the kernel.
pub(crate) fn shed_slowest(parts: &mut Parts) {
    let percent = parts.books.config.admission.memory_percent_shed;
    let now_ms = parts.clock.now.mono_ms;
    if !parts.access.admission.sheds(percent, now_ms) {
        return;
    }
    let sessions = parts.people.sessions.iter();
    let mut slow: Vec<(usize, SessionId)> = sessions
        .map(|(session, slot)| (parts.line.unsent_bytes(slot), session))
        .filter(|(bytes, _)| *bytes >= SHED_BACKLOG_MIN)
        .collect();
    slow.sort_unstable_by(|a, b| b.cmp(a));
    for (_, session) in slow.into_iter().take(SHED_CONNS) {
        parts.books.counts.hit(Limit::MemoryShed);
        if let Some(slot) = parts.people.sessions.get_mut(session) {
            // What waits is the memory that is needed, and the close frame would have to wait for it.
            parts.line.discard_unsent(slot);
        }
        ending::close_session(parts, session, CloseReason::OutOfMemory);
    }
}
