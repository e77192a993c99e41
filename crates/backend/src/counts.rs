//! Counters of a backend.

use crate::home::Home;
use crate::link::Stray;
use crate::message::Why;

/// Events of a backend since its start, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub events: u64,
    pub redelivered: u64,
    /// Sockets that moved to another worker.
    pub moved: u64,
    /// Workers that were lost: they did not come back in time, or began anew; said nothing; handled nothing; had too many commands fail, or cannot be read.
    pub lost_away: u64,
    pub lost_silent: u64,
    pub lost_stalled: u64,
    pub lost_failing: u64,
    pub lost_expelled: u64,
    pub refused_absent: u64,
    pub refused_busy: u64,
    pub refused_unanswered: u64,
    /// Events and CONNECTs over which worker after worker ended.
    pub refused_deadly: u64,
    /// Events that an endpoint did not take, and those that it or a worker answered wrongly.
    pub refused_failed: u64,
    /// Items that went out alone, because workers had ended while they had them.
    pub alone: u64,
    /// Items that counted as handled because their handlers took too long.
    pub overdue: u64,
    /// Answers and decisions that came when nobody waited any more.
    pub late: u64,
    pub openings: OpeningCounts,
    /// Calls of an endpoint, by how they went.
    pub calls_taken: u64,
    pub calls_unread: u64,
    pub calls_refused: u64,
    pub calls_failed: u64,
    /// News of beginnings and ends that an endpoint will never get.
    pub dead_letters: u64,
    /// Commands in the answers of an endpoint that were not carried out.
    pub commands_failed: u64,
}

/// Requests so far, by what became of them. The rest of `asked` waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpeningCounts {
    pub asked: u64,
    pub admitted: u64,
    pub refused: u64,
    /// No verdict came in time, or one that cannot be used.
    pub unanswered: u64,
    /// Too much waited already.
    pub busy: u64,
    /// Worker after worker ended over it.
    pub deadly: u64,
}

impl OpeningCounts {
    /// Requests that wait for a verdict.
    pub fn waiting(&self) -> u64 {
        let answered = self.admitted + self.refused;
        self.asked - answered - self.unanswered - self.busy - self.deadly
    }
}

impl Counts {
    pub(crate) fn refused(&mut self, why: Why) {
        *match why {
            Why::Absent => &mut self.refused_absent,
            Why::Busy => &mut self.refused_busy,
            Why::Unanswered => &mut self.refused_unanswered,
            Why::Deadly => &mut self.refused_deadly,
            Why::Failed => &mut self.refused_failed,
        } += 1;
    }

    /// Nobody will hear of the end of a socket, nor of the events before it.
    pub(crate) fn lost_end(&mut self, home: Option<&Home>) {
        self.dead_letters += 1;
        self.refused_absent += home.map_or(0, |home| home.items.events_held()) as u64;
    }

    pub(crate) fn lost(&mut self, why: Stray) {
        *match why {
            Stray::Silent => &mut self.lost_silent,
            Stray::Stalled => &mut self.lost_stalled,
            Stray::Expelled => &mut self.lost_expelled,
            Stray::Failures | Stray::Garbled => &mut self.lost_failing,
            _ => &mut self.lost_away,
        } += 1;
    }
}
