//! How a client lags behind what it is to be told: output that waits for other nodes, and what was dropped because it was slow.

/// Of one connection, or of the queue that a session's polls empty.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Lag {
    /// Other nodes do not know of so many of its sockets: what it is told waits.
    held: u16,
    gap: Gap,
}

/// What was dropped of what a slow client should have got, until it has taken the rest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Gap {
    #[default]
    None,
    /// Nobody told it yet.
    Fresh,
    /// It is told.
    Told,
    /// And more went since.
    More,
}

impl Lag {
    /// Output waits until it was released as often.
    pub(crate) fn hold(&mut self, times: u16) {
        self.held = self.held.saturating_add(times);
    }

    /// One reason fewer to wait; `true` = there is none any more.
    pub(crate) fn release(&mut self) -> bool {
        self.held = self.held.saturating_sub(1);
        self.held == 0
    }

    /// Output waits for us, and not for the client.
    #[inline]
    pub(crate) fn is_held(&self) -> bool {
        self.held > 0
    }

    /// Something was dropped.
    pub(crate) fn widen(&mut self) {
        self.gap = match self.gap {
            Gap::None | Gap::Fresh => Gap::Fresh,
            Gap::Told | Gap::More => Gap::More,
        };
    }

    /// Whether its client is to be told now of what was dropped. `is_over`: it has taken all that waited.
    pub(crate) fn is_due(&mut self, is_over: bool) -> bool {
        let is_due = self.gap == Gap::Fresh || is_over && self.gap == Gap::More;
        self.gap = match (is_over, self.gap) {
            (true, _) => Gap::None,
            (false, Gap::Fresh) => Gap::Told,
            (false, same) => same,
        };
        is_due
    }

    /// Its client is told now, if there is something that it was not told.
    pub(crate) fn tell(&mut self) -> bool {
        let is_untold = self.is_untold();
        if is_untold {
            self.gap = Gap::Told;
        }
        is_untold
    }

    /// It has taken all that waited, and was told of what was dropped before. What went after the notice is told later.
    pub(crate) fn close_if_told(&mut self) {
        if self.gap == Gap::Told {
            self.gap = Gap::None;
        }
    }

    /// What the client lost elsewhere and was not told, it is told here.
    pub(crate) fn take_over(&mut self, other: &Self) {
        self.gap = other.gap;
    }

    /// Its client does not know of all that was dropped.
    pub(crate) fn is_untold(&self) -> bool {
        matches!(self.gap, Gap::Fresh | Gap::More)
    }

    /// Something was dropped, and nobody told its client.
    #[inline]
    pub(crate) fn is_fresh(&self) -> bool {
        self.gap == Gap::Fresh
    }

    /// Nothing is missing of what it got and gets.
    #[inline]
    pub(crate) fn is_whole(&self) -> bool {
        self.gap == Gap::None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_is_told_when_it_begins_and_when_more_went_behind_that() {
        let mut lag = Lag::default();
        assert!(!lag.is_due(false) && !lag.is_due(true));
        lag.widen();
        lag.widen();
        assert!(lag.is_due(false) && !lag.is_due(false));
        lag.widen();
        assert!(!lag.is_due(false), "it was told of this one");
        assert!(lag.is_due(true) && !lag.is_due(true));
        lag.widen();
        assert!(lag.is_due(true), "it begins and ends at once");
        lag.widen();
        assert!(lag.is_due(false));
        assert!(!lag.is_due(true), "nothing went since");
    }

    #[test]
    fn output_waits_until_it_was_released_as_often_as_held() {
        let mut lag = Lag::default();
        assert!(!lag.is_held());
        lag.hold(2);
        assert!(!lag.release() && lag.is_held());
        assert!(lag.release() && !lag.is_held());
        assert!(lag.release(), "there was none");
    }
}
