//! How far a shard is with standing still.

use crate::effects::Hands;
use crate::passing::{Census, Listening, Order, Report, Wish};
use hub::Hub;
use std::io;
use std::sync::mpsc::{Receiver, Sender};

/// What the next process takes, and the channels of the one who freezes the shard.
type Freeze = (u64, Receiver<Order>, Sender<Report>);

/// A shard pauses, and may be told to freeze.
#[derive(Debug, Default)]
pub(crate) struct Pause {
    pub(crate) is_on: bool,
    /// Messages worked on since the last round.
    worked: u64,
    /// Those who asked for that are answered when the turn has ended, and what followed from its messages has left.
    rounds: Vec<Sender<u64>>,
    freeze: Option<Freeze>,
}

impl Pause {
    #[inline]
    pub(crate) fn note_mail(&mut self) {
        self.worked += u64::from(self.is_on);
    }

    /// The message was about the pause itself.
    pub(crate) fn forget_mail(&mut self) {
        self.worked = self.worked.saturating_sub(1);
    }

    /// A turn has ended.
    pub(crate) fn answer_rounds(&mut self) {
        for answer in self.rounds.drain(..) {
            let _ = answer.send(std::mem::take(&mut self.worked));
        }
    }

    pub(crate) fn take_freeze(&mut self) -> Option<Freeze> {
        self.freeze.take()
    }

    /// Those who asked may have gone: then nobody hears the answer.
    pub(crate) fn carry_out(&mut self, wish: Wish, hub: &Hub, hands: &Hands, listeners: Listeners) {
        match wish {
            Wish::Count(takes, answer) => {
                let mut census = Census::default();
                let is_secure = |conn| hands.streams.is_secure(conn);
                hub.count_handed(takes, is_secure, |goes| census.count(goes));
                census.outside = hub.count_outside();
                if takes & handoff::takes::KEEPSAKES != 0 {
                    census.windows = hub.count_windows();
                    (census.claimed, census.kept) = (hub.count_claimed(), hub.count_kept());
                }
                let _ = answer.send(census);
            }
            Wish::Listeners(answer) => {
                let _ = answer.send(listeners(hands.me.shard));
            }
            Wish::Journal(after, answer) => {
                let _ = answer.send(hub.journal_behind(after));
            }
            Wish::Pause => self.is_on = true,
            Wish::Round(answer) => self.rounds.push(answer),
            Wish::Resume => self.is_on = false,
            Wish::Freeze(takes, orders, reports) => {
                self.freeze = Some((takes, orders, reports));
            }
        }
    }
}

/// Copies of the listeners of a shard with this number.
pub(crate) type Listeners<'a> = &'a dyn Fn(u16) -> io::Result<Vec<Listening>>;
