//! Sessions that a node sends away, at its end or so that nodes have equally many: what was asked, and how far that is.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;

/// How a node drains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pace {
    /// `server.drain_window`
    pub window: Duration,
    /// `server.drain_grace`
    pub grace: Duration,
}

impl Pace {
    /// A client that never pauses has so long from its time on: its answers, and its end, need the rest of the grace.
    pub fn patience(self) -> Duration {
        self.grace / 2
    }
}

/// A drain that has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Begun {
    /// Unix time, milliseconds.
    pub at_ms: u64,
    pub pace: Pace,
    /// Sessions at that time.
    pub sessions: u64,
}

/// What operators want of a node's sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// So many are to go elsewhere, so many in a second.
    Rebalance { count: u64, per_second: u64 },
    /// Those that have not gone yet stay.
    Stop,
}

#[derive(Debug, Default)]
struct Orders {
    pace: Pace,
    begun: Option<Begun>,
    /// The last one counts.
    wish: Option<Wish>,
}

/// Clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Moving {
    orders: Arc<Mutex<Orders>>,
    /// Sessions that are still to go elsewhere; 0: no rebalance is under way.
    leaving: Arc<AtomicU64>,
    asked: Arc<Notify>,
}

impl Moving {
    fn orders(&self) -> MutexGuard<'_, Orders> {
        self.orders.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How the next drain goes.
    pub fn set_pace(&self, pace: Pace) {
        self.orders().pace = pace;
    }

    pub fn pace(&self) -> Pace {
        self.orders().pace
    }

    /// A drain begins, with so many sessions.
    pub fn drain_began(&self, at_ms: u64, sessions: u64) {
        let mut orders = self.orders();
        let pace = orders.pace;
        orders.begun = Some(Begun {
            at_ms,
            pace,
            sessions,
        });
    }

    pub fn begun(&self) -> Option<Begun> {
        self.orders().begun
    }

    pub fn ask(&self, wish: Wish) {
        self.orders().wish = Some(wish);
        self.asked.notify_one();
    }

    /// Somebody has asked since this was last told.
    pub async fn asked(&self) {
        self.asked.notified().await;
    }

    pub fn take_wish(&self) -> Option<Wish> {
        self.orders().wish.take()
    }

    /// Sessions that are still to go elsewhere.
    pub fn leaving(&self) -> u64 {
        self.leaving.load(Ordering::Relaxed)
    }

    pub fn set_leaving(&self, sessions: u64) {
        self.leaving.store(sessions, Ordering::Relaxed);
    }
}

impl Wish {
    const REBALANCE: &str = "rebalance";
    const STOP: &str = "rebalance stop";

    /// As another node reads it.
    pub fn text(self) -> String {
        match self {
            Self::Rebalance { count, per_second } => {
                format!("{} {count} {per_second}", Self::REBALANCE)
            }
            Self::Stop => Self::STOP.to_owned(),
        }
    }

    /// `None`: it is another order.
    pub fn read(order: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(order).ok()?;
        if text == Self::STOP {
            return Some(Self::Stop);
        }
        let numbers = text.strip_prefix(Self::REBALANCE)?.trim_start();
        let (count, per_second) = numbers.split_once(' ')?;
        Some(Self::Rebalance {
            count: count.parse().ok()?,
            per_second: per_second.parse().ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wish_is_read_as_it_was_written() {
        let wish = Wish::Rebalance {
            count: 7,
            per_second: 500,
        };
        assert_eq!(Wish::read(wish.text().as_bytes()), Some(wish));
        assert_eq!(Wish::read(Wish::Stop.text().as_bytes()), Some(Wish::Stop));
        for other in [
            "drain",
            "rebalance",
            "rebalance 7",
            "rebalance x 1",
            "\u{ff}",
        ] {
            assert_eq!(Wish::read(other.as_bytes()), None, "{other}");
        }
    }
}
