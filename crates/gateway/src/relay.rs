//! The door for connections that other nodes pass on: where it is, and what the others are told of it.

use crate::config::{Cluster, RelayListen};
use anyhow::{Context, Result};
use control::live::Desk;
use control::metrics::node::Node as Facts;
use hub::Places;
use nodes::Member;
use nodes::redis::settings::Addr;
use nodes::relay::{Relays, Secrets};
use shard::Shards;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, ToSocketAddrs, UdpSocket};
use std::sync::Arc;
use tokio::runtime::Runtime;

/// A listener for other nodes.
#[derive(Debug)]
pub struct Door {
    listener: TcpListener,
    /// Where others reach it.
    pub address: SocketAddr,
}

impl Door {
    /// `None`: this node takes nothing over. `engine`: others come from where Redis is reached, if nothing else is said.
    pub fn open(cluster: &Cluster, engine: Option<&Addr>) -> Result<Option<Self>> {
        let RelayListen { on, advertise } = match (&cluster.secret, &cluster.relay) {
            (Some(_), Some(relay)) => *relay,
            (None, Some(_)) => {
                tracing::warn!(
                    "requests for sessions of other nodes are not relayed without cluster.secret: behind a balancer, long-polling \
                     needs sticky sessions"
                );
                return Ok(None);
            }
            (_, None) => return Ok(None),
        };
        let own = |engine: Option<&Addr>| {
            let address = engine.and_then(own_address);
            address.context("cannot find this node's own address: set cluster.relay_listen")
        };
        let on = match on {
            Some(on) => on,
            None => SocketAddr::new(own(engine)?, 0),
        };
        let listener = TcpListener::bind(on);
        let listener =
            listener.with_context(|| format!("cannot listen on {on} (cluster.relay_listen)"))?;
        listener.set_nonblocking(true)?;
        let mut address = listener.local_addr()?;
        if address.ip().is_unspecified() && advertise.is_none() {
            address.set_ip(own(engine)?);
        }
        Ok(Some(Self {
            listener,
            address: advertise.unwrap_or(address),
        }))
    }

    /// The one of the process before.
    pub fn inherited((listener, address): (TcpListener, SocketAddr)) -> Self {
        Self { listener, address }
    }

    /// A copy, for another process.
    pub fn listener(&self) -> std::io::Result<TcpListener> {
        self.listener.try_clone()
    }
}

/// Whether the address that others are told depends on Redis' name, which may not be known yet.
pub fn lacks_address(cluster: &Cluster, engine: Option<&Addr>) -> bool {
    let (Some(_), Some(relay)) = (&cluster.secret, &cluster.relay) else {
        return false;
    };
    let is_any = |on: &SocketAddr| on.ip().is_unspecified() && relay.advertise.is_none();
    relay.on.as_ref().is_none_or(is_any) && engine.and_then(own_address).is_none()
}

/// From now on other nodes' connections reach the shards.
pub fn open(
    relays: Option<&Relays>,
    door: Option<Door>,
    (shards, desk): (&Shards, &Desk),
    runtime: &Runtime,
) -> Result<()> {
    let Some((relays, door)) = relays.zip(door) else {
        return Ok(());
    };
    let _inside = runtime.enter();
    let listener = tokio::net::TcpListener::from_std(door.listener)?;
    let adopter = shards.adopter(relays.tls().cloned());
    relays.serve(listener, Box::new(adopter), Some(desk.show()));
    Ok(())
}

/// This machine's address as Redis sees it. Nothing is sent.
fn own_address(engine: &Addr) -> Option<IpAddr> {
    let servers = (&*engine.host, engine.port).to_socket_addrs().ok()?;
    let mut own = servers.filter_map(|server| {
        let any: IpAddr = match server {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let socket = UdpSocket::bind((any, 0)).ok()?;
        socket.connect(server).ok()?;
        Some(socket.local_addr().ok()?.ip())
    });
    own.next()
}

/// This node's part in relaying; `None`: it relays nothing.
pub fn relays(
    cluster: &Cluster,
    member: &Member,
    runtime: &Runtime,
    places: &Arc<Places>,
    facts: &Facts,
) -> Result<Option<Relays>> {
    let Some((secret, _)) = cluster.secret.as_ref().zip(cluster.relay.as_ref()) else {
        return Ok(None);
    };
    let secrets = Secrets {
        secret: secret.reveal(),
        encrypts: cluster.relay_tls,
    };
    let places = (places, cluster.relays_max);
    let (me, roster) = (member.number(), member.roster());
    let relays = Relays::new(runtime.handle(), me, secrets, roster, places, &facts.relay);
    let relays = relays.context("cannot relay to other nodes")?;
    // Nobody else sets it.
    let _ = facts.relays.set(relays.clone());
    Ok(Some(relays))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_found_where_it_reaches_redis() {
        for (host, own) in [("127.0.0.1", "127.0.0.1"), ("localhost", "127.0.0.1")] {
            let engine = Addr {
                host: host.into(),
                port: 6379,
            };
            let found = own_address(&engine).expect("an address");
            assert!(found.is_loopback(), "{own} {found}");
        }
    }
}
