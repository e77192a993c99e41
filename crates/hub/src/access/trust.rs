//! What trusted proxies say of their clients, and what operators are told of proxies that nobody trusts.

use crate::books::close::CloseReason;
pub use crate::books::proxies::{Cidr, ClientHeader, Proxies, ProxyProtocol};
use crate::clients::conn::State;
use crate::life::conns;
use crate::parts::Parts;
use crate::seam::effect::Notice;
use crate::tables::slot::ConnId;
use std::net::IpAddr;
use std::sync::atomic::Ordering;
use wire::http::Head;

/// A trusted proxy said for whom a connection is; from now on that is its peer. One too many of that client's may be
/// closed at once.
pub(crate) fn introduced(parts: &mut Parts, conn: ConnId, client: IpAddr) {
    conns::enter_address(parts, conn, client.to_canonical());
}

/// A trusted proxy did not name its client in the way it must: what the client sent cannot be told from what the proxy did.
pub(crate) fn misintroduced(parts: &mut Parts, conn: ConnId) {
    let Some(slot) = parts.line.conns.get(conn) else {
        return;
    };
    let (peer, reason) = (slot.origin.peer(), CloseReason::ProtocolError);
    // A connection whose time was up is counted already.
    if slot.state == State::Head {
        parts.books.counts.shed += 1;
        parts.books.counts.close(reason);
        let notice = Notice::Refused { peer, reason };
        parts.outbound.log(notice);
    }
    conns::drop_conn(parts, conn);
}

/// Makes the client of a request the peer of its connection, for limits and logs. The next request of the connection may
/// be another client's (proxies keep theirs open), so the proxy's own address is kept while there can be one.
pub(crate) fn find_client(parts: &mut Parts, conn: ConnId, head: &Head<'_>) {
    let slot = parts.line.conns.get(conn);
    if slot.is_some_and(|slot| slot.origin.is_relayed()) {
        // The node that relays it has read this header and named the client.
        return;
    }
    tell_distrusted(parts, conn, head);
    if parts.books.config.proxies.trusted.is_empty() {
        return;
    }
    let Some(slot) = parts.line.conns.get(conn) else {
        return;
    };
    let proxy = parts.access.proxy_of(conn);
    let proxy = proxy.unwrap_or_else(|| slot.origin.peer());
    let client = parts
        .books
        .config
        .proxies
        .client(proxy, |name| head.values(name));
    if client != slot.origin.peer() {
        parts.access.note_proxy(conn, proxy);
        introduced(parts, conn, client);
    }
}

/// A gateway that does not know its proxy takes all clients behind it for one: that is told, once.
fn tell_distrusted(parts: &mut Parts, conn: ConnId, head: &Head<'_>) {
    let Some(peer) = parts.line.conns.get(conn).map(|slot| slot.origin.peer()) else {
        return;
    };
    let peer = parts.access.proxy_of(conn).unwrap_or(peer);
    let (proxies, told) = (&parts.books.config.proxies, parts.access.distrusted(peer));
    let is_known = || told.load(Ordering::Relaxed) || proxies.trusts(peer);
    if proxies.header == ClientHeader::None || is_known() {
        return;
    }
    let mut names = ["x-forwarded-for", "forwarded"].into_iter();
    let names_client = names.any(|name| head.values(name).next().is_some());
    // Another shard may have told it in the meantime.
    if names_client && !told.swap(true, Ordering::Relaxed) {
        let notice = Notice::DistrustedProxy { peer };
        parts.outbound.log(notice);
    }
}
