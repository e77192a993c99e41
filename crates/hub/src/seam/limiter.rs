//! Rates of a handler's own: how often a session may do one thing.

use crate::access::gcra::{Exceeded, Meter};
use crate::access::rates;
use crate::books::config::Rate;
use crate::books::metrics::Scope;
use crate::hearing::booking;
use crate::seam::event::AckTo;
use crate::seam::inside::Inside;
use crate::seam::member::Member;

/// A rate that holds for each session. What a session has used is kept with it, under the limiter's number; leaving a namespace
/// and coming back changes nothing.
#[derive(Clone, Debug)]
pub struct Limiter {
    number: u32,
    meter: Meter,
}

impl Limiter {
    /// `number` tells the limiters of a handler apart. It is 1 or more: 0 is the gateway's own.
    pub fn new(number: u32, rate: Rate) -> Self {
        debug_assert_ne!(number, 0, "the limiter of token refreshes");
        Self {
            number,
            meter: Meter::new(rate),
        }
    }

    /// Books one event of a socket; `false` = there is nothing left of the rate, and nothing was booked or told.
    pub fn spend(&self, socket: &mut Member<'_>) -> bool {
        let _inside = Inside::enter();
        self.book(socket).is_ok()
    }

    /// The same for an event of its client, which is told when it is over the rate (in the answer it waits for, too) and closed
    /// when it goes on and on. `false`: drop the event. In a dry run it is counted and passes.
    pub fn admit(&self, socket: &mut Member<'_>, ack: &mut Option<AckTo>) -> bool {
        let _inside = Inside::enter();
        match self.book(socket) {
            Ok(()) => {
                booking::forgive(socket);
                true
            }
            Err(exceeded) => {
                booking::reject(socket, ack, (Scope::Event, &self.meter.message), exceeded)
            }
        }
    }

    fn book(&self, socket: &mut Member<'_>) -> Result<(), Exceeded> {
        let (key, parts) = (socket.key(), &mut *socket.parts);
        let now_us = parts.clock.now_us();
        rates::spend(&mut parts.people, now_us, key, self.number, self.meter.gcra)
    }
}

impl Member<'_> {
    /// Whether no limiter has booked anything for its session, and it has left no namespace.
    pub fn is_newcomer(&self) -> bool {
        let _inside = Inside::enter();
        let slot = self.live();
        let session = slot.and_then(|slot| self.parts.people.sessions.get(slot.session));
        let rare = session.and_then(|session| session.rare.as_ref());
        rare.is_none_or(|rare| rare.rates().is_empty() && rare.parted().is_empty())
    }
}
