//! Who is at the other end of a session, for limits, logs and operators.

use crate::clients::tags::Tag;
use std::net::IpAddr;

/// A client, as its first request and its tokens show it. The texts behind its tags are among `People::agents` and
/// `People::claim_kinds`: what is taken there is released when the session goes.
#[derive(Debug)]
pub(crate) struct Client {
    /// Its address, as trusted proxies tell it.
    peer: IpAddr,
    /// The name of its program (`User-Agent`).
    agent: Tag,
    /// Names and kinds of the claims of the token that was good last. Beside the tag above it costs nothing; a socket has no room for one.
    claims: Tag,
}

impl Client {
    pub(crate) fn new(peer: IpAddr, agent: Tag, claims: Tag) -> Self {
        Self {
            peer,
            agent,
            claims,
        }
    }

    /// A token of it was good, and has these claims; returns the tag of those before, which is to be released.
    pub(super) fn show_claims(&mut self, claims: Tag) -> Tag {
        std::mem::replace(&mut self.claims, claims)
    }

    pub(crate) fn peer(&self) -> IpAddr {
        self.peer
    }

    pub(crate) fn agent(&self) -> Tag {
        self.agent
    }

    pub(crate) fn claims(&self) -> Tag {
        self.claims
    }
}
