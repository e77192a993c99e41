//! Where a connection comes from, and by what right it is here.

use crate::books::metrics::Limit;
use std::net::IpAddr;

/// The other end of a connection, and what lies between.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Origin {
    /// The client's address, as far as it is known.
    peer: IpAddr,
    /// It is counted with that address.
    counted: bool,
    /// The bound beyond which it was accepted: it serves sessions that there are and health checks, and begins no session.
    beyond: Option<Limit>,
    /// Another node passes it on: it serves one request, whose client that node has named.
    relayed: bool,
    /// It speaks TLS.
    secure: bool,
    /// It stands for a stream of WebTransport, and its other end is in this process or, if it is relayed, in another node's.
    carried: bool,
}

impl Origin {
    /// Accepted here, from a place that nobody counts yet.
    pub(crate) fn new(peer: IpAddr) -> Self {
        Self {
            peer,
            counted: false,
            beyond: None,
            relayed: false,
            secure: false,
            carried: false,
        }
    }

    /// It was accepted elsewhere, and somebody brings it.
    pub(crate) fn be_brought(&mut self, relayed: bool, carried: bool, secure: bool) {
        (self.relayed, self.carried, self.secure) = (relayed, carried, secure);
    }

    /// It speaks TLS.
    pub(crate) fn be_secure(&mut self) {
        self.secure = true;
    }

    /// The node that relays it says that it stands for a stream; of others this is known before. Whether it does.
    pub(crate) fn is_carried_as(&mut self, asked: bool) -> bool {
        self.carried |= asked && self.relayed;
        self.carried == asked
    }

    // ---- its address --------------------------------------------------------------------------------------------------

    /// It is this client's from now on, and counted with the address or not; returns the address that it was counted with.
    pub(crate) fn assign(&mut self, peer: IpAddr, counted: bool) -> Option<IpAddr> {
        let before = self.counted_with();
        (self.peer, self.counted) = (peer, counted);
        before
    }

    /// The address that it is counted with, if it is.
    pub(crate) fn counted_with(&self) -> Option<IpAddr> {
        self.counted.then_some(self.peer)
    }

    /// The client's address.
    pub(crate) fn peer(&self) -> IpAddr {
        self.peer
    }

    // ---- bounds -------------------------------------------------------------------------------------------------------

    /// It was accepted beyond this bound, or beyond none.
    pub(crate) fn be_beyond(&mut self, bound: Option<Limit>) {
        self.beyond = bound;
    }

    /// Whether its address has too many connections. One from the reserve stays there, whatever address it has.
    pub(crate) fn be_crowded(&mut self, is_crowded: bool) {
        self.beyond = match self.beyond {
            None if is_crowded => Some(Limit::ConnsPerAddress),
            Some(Limit::ConnsPerAddress) if !is_crowded => None,
            beyond => beyond,
        };
    }

    /// The bound that it is beyond.
    pub(crate) fn beyond(&self) -> Option<Limit> {
        self.beyond
    }

    /// A place taken from a reserve is given back as soon as its request is answered. The next request of a connection that is
    /// relayed may be for a session of another node.
    pub(crate) fn is_for_one_request(&self) -> bool {
        self.beyond.is_some() || self.relayed
    }

    // ---- what lies between --------------------------------------------------------------------------------------------

    /// Another node passes it on.
    pub(crate) fn is_relayed(&self) -> bool {
        self.relayed
    }

    /// It stands for a stream of WebTransport.
    pub(crate) fn is_carried(&self) -> bool {
        self.carried
    }

    /// It speaks TLS, and the next request of its client may come by it: one that another node brought has only one.
    pub(crate) fn stays_secure(&self) -> bool {
        self.secure && !self.relayed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_is_counted_with_one_address() {
        let (proxy, client) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([192, 0, 2, 7]));
        let mut origin = Origin::new(proxy);
        assert_eq!(origin.assign(proxy, false), None);
        assert_eq!(origin.assign(client, true), None, "a proxy is not counted");
        assert_eq!(origin.counted_with(), Some(client));
        assert_eq!(origin.assign(proxy, false), Some(client));
        assert_eq!(origin.counted_with(), None);
    }

    #[test]
    fn another_address_frees_no_place_of_the_reserve() {
        let mut origin = Origin::new([192, 0, 2, 7].into());
        origin.be_crowded(true);
        assert!(origin.is_for_one_request());
        origin.be_crowded(false);
        assert!(!origin.is_for_one_request());
        origin.be_beyond(Some(Limit::Conns));
        origin.be_crowded(true);
        origin.be_crowded(false);
        assert_eq!(origin.beyond(), Some(Limit::Conns));
    }

    #[test]
    fn only_a_node_that_relays_says_what_a_connection_stands_for() {
        let mut accepted = Origin::new([192, 0, 2, 7].into());
        assert!(!accepted.is_carried_as(true) && accepted.is_carried_as(false));
        let mut relayed = Origin::new([192, 0, 2, 7].into());
        relayed.be_brought(true, false, true);
        assert!(relayed.is_carried_as(true) && relayed.is_carried());
        assert!(!relayed.is_carried_as(false), "it stands for one now");
        assert!(!relayed.stays_secure());
    }
}
