//! Rates of a handler's own: how often a session may do one thing.

use crate::access::gcra::Meter;
use crate::access::rates;
use crate::books::config::Rate;
use crate::books::metrics::Scope;
use crate::seam::context::Context;
use crate::seam::event::AckTo;
use crate::seam::inside::Inside;
use crate::tables::slot::SocketKey;

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
}

impl Context<'_> {
    /// Books one event with a limiter; `false` = there is nothing left of the rate, and nothing was booked or told.
    pub fn spend(&mut self, socket: SocketKey, limiter: &Limiter) -> bool {
        let _inside = Inside::enter();
        let Limiter { number, meter } = limiter;
        rates::spend(
            &mut self.parts.people,
            self.parts.clock.now_us(),
            socket,
            *number,
            meter.gcra,
        )
        .is_ok()
    }

    /// The same for an event of a client, which is told when it is over the rate (in the answer it waits for, too) and closed
    /// when it goes on and on. `false`: drop the event. In a dry run it is counted and passes.
    pub fn within(
        &mut self,
        socket: SocketKey,
        limiter: &Limiter,
        ack: &mut Option<AckTo>,
    ) -> bool {
        let _inside = Inside::enter();
        let Limiter { number, meter } = limiter;
        match rates::spend(
            &mut self.parts.people,
            self.parts.clock.now_us(),
            socket,
            *number,
            meter.gcra,
        ) {
            Ok(()) => {
                self.within_rate(socket);
                true
            }
            Err(exceeded) => self.over_rate(socket, ack, Scope::Event, &meter.message, exceeded),
        }
    }

    /// No limiter has booked anything for the socket's session, and it has left no namespace.
    pub fn is_newcomer(&self, socket: SocketKey) -> bool {
        let _inside = Inside::enter();
        let session = self.parts.people.socket(socket).map(|slot| slot.session);
        let slot = session.and_then(|session| self.parts.people.sessions.get(session));
        slot.is_none_or(|slot| slot.rare.is_none())
    }
}
