//! Rates of messages: with whom a message is booked, and what its session owes.

use crate::access::addresses::holder;
use crate::access::gcra::{Exceeded, Gcra};
use crate::access::meters::{Meters, Sender, UsedRate};
use crate::books::metrics::Scope;
use crate::clients::people::People;
use crate::clients::session::Session;
use crate::tables::slot::{SessionId, SocketId, SocketKey};

/// Books an event with a limiter of the socket's session.
pub(crate) fn spend(
    people: &mut People,
    now_us: u64,
    socket: SocketKey,
    number: u32,
    gcra: Gcra,
) -> Result<(), Exceeded> {
    let session = people.sockets.here(socket).map(|slot| slot.session);
    let slot = session.and_then(|session| people.sessions.get_mut(session));
    slot.map_or(Ok(()), |slot| {
        let rare = slot.rare.get_or_insert_default();
        let state_us = rare.rate(number);
        // The state may come from a process with other rates.
        *state_us = gcra.believed(*state_us, now_us);
        gcra.check(state_us, now_us)
    })
}

impl Meters {
    /// Books a message, or says which of the rates has nothing left for it: it then costs none of them anything. `true`: it made
    /// up for a message that was rejected.
    #[inline]
    pub(crate) fn book_message(
        &self,
        people: &mut People,
        now_us: u64,
        session: SessionId,
        socket: Option<SocketKey>,
    ) -> Result<bool, (Scope, Exceeded)> {
        let Some(slot) = people.sessions.get_mut(session) else {
            return Ok(false);
        };
        let before_us = slot.dues.rate;
        if let Some(meter) = &self.session {
            let booked = meter.gcra.check(&mut slot.dues.rate, now_us);
            booked.map_err(|exceeded| (Scope::Session, exceeded))?;
        }
        // The last booking allowed a few messages more: the shared table is further away than the session.
        if slot.dues.granted > 0 || !self.are_shared() {
            slot.dues.unbooked += u8::from(slot.dues.granted > 0);
            slot.dues.granted = slot.dues.granted.saturating_sub(1);
            return Ok(slot.dues.forgive());
        }
        let booked = self.book_shared(people, now_us, session, socket);
        let Some(slot) = people.sessions.get_mut(session) else {
            return Ok(false);
        };
        match booked {
            Ok(granted) => {
                slot.dues.granted = granted;
                Ok(slot.dues.forgive())
            }
            Err(refused) => {
                // A refused message costs none of the rates, so the session's gets back what it took.
                slot.dues.rate = before_us;
                Err(refused)
            }
        }
    }

    /// Books a message of a session with its user and address. Returns how many more may pass before the next booking.
    fn book_shared(
        &self,
        people: &mut People,
        now_us: u64,
        session: SessionId,
        socket: Option<SocketKey>,
    ) -> Result<u8, (Scope, Exceeded)> {
        let Some(slot) = people.sessions.get_mut(session) else {
            return Ok(0);
        };
        let owed = std::mem::take(&mut slot.dues.unbooked);
        let address = holder(slot.client.peer());
        let user = self.user_to_charge(people, session, socket.map(|socket| socket.id()));
        self.book(Sender { user, address }, now_us, owed)
    }

    /// What is used of the rates that hold for a session's messages.
    pub(crate) fn used_by(&self, people: &People, now_us: u64, session: &Session) -> Vec<UsedRate> {
        let user = self.user.as_ref().and_then(|_| {
            let mut sockets = session.sockets.iter();
            sockets.find_map(|socket| people.user_of(*socket))
        });
        let address = holder(session.client.peer());
        self.used(&session.dues, Sender { user, address }, now_us)
    }

    /// Books what a session still owes, before it ends or one of its sockets is nobody's or another's. From then on it is
    /// granted nothing.
    pub(crate) fn book_rest(
        &self,
        people: &mut People,
        now_us: u64,
        session: SessionId,
        socket: Option<SocketId>,
    ) {
        let Some(slot) = people.sessions.get_mut(session) else {
            return;
        };
        slot.dues.granted = 0;
        let owed = std::mem::take(&mut slot.dues.unbooked);
        if owed > 0 {
            let address = holder(slot.client.peer());
            let user = self.user_to_charge(people, session, socket);
            self.owe(Sender { user, address }, now_us, owed);
        }
    }

    /// Makes a socket one of a user's. The session's unbooked messages are booked with the user that it had before.
    pub(crate) fn set_user(&self, people: &mut People, now_us: u64, socket: SocketId, name: &str) {
        if let Some(session) = people.sockets.get(socket).map(|slot| slot.session) {
            self.book_rest(people, now_us, session, Some(socket));
        }
        people.set_user(socket, name);
    }

    /// The user of the socket, or else of another socket of the session: it answers for the whole session.
    fn user_to_charge<'a>(
        &self,
        people: &'a People,
        session: SessionId,
        socket: Option<SocketId>,
    ) -> Option<&'a str> {
        self.user.as_ref()?;
        let own = socket.and_then(|socket| people.user_of(socket));
        own.or_else(|| {
            let mut sockets = people.sessions.get(session)?.sockets.iter();
            sockets.find_map(|socket| people.user_of(*socket))
        })
    }
}
