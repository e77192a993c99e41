//! A node's place in its cluster, on its way from one process to the next. The next one is the same life of the same node.

use super::line::{Broken, Line, decode};
use crate::relay::Door;
use anyhow::{Context, Result};
use control::metrics::node::Node as Facts;
use handoff::Kind;
use handoff::backend::Piece;
use handoff::bounds::PLACE_BYTES_MAX;
use handoff::cluster::{Membership, Stream, Streams};
use nodes::chronicle::{Stand, Still};
use nodes::{Member, Stop, Stopped};
use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

/// One message.
const STEP: Duration = Duration::from_secs(10);
/// The answer of the thread for the cluster.
pub const NODE: Duration = Duration::from_secs(5);

/// What another process gets of a member of a cluster.
#[derive(Debug)]
pub struct Seat {
    pub stop: Stop,
    pub membership: Membership,
    /// Where other nodes bring connections.
    pub relay: Option<TcpListener>,
}

impl Seat {
    /// `door`: where other nodes bring connections.
    pub fn of(member: &Member, door: Option<&Door>) -> Result<Self> {
        let card = member.card();
        let relay = door.map(Door::listener).transpose();
        Ok(Self {
            stop: member.stop(),
            membership: Membership {
                node: u32::from(member.number()),
                epoch: member.epoch(),
                life: card.life,
                started_s: card.started_s,
                relay: card.relay.map(|addr| addr.to_string()).unwrap_or_default(),
            },
            relay: relay.context("cannot copy the listener for other nodes")?,
        })
    }
}

/// What a process got of the member before.
#[derive(Debug)]
pub struct Heritage {
    pub membership: Membership,
    pub relay: Option<TcpListener>,
}

impl Heritage {
    /// Where other nodes bring connections, as they were told; `None`: nowhere.
    pub fn door(&mut self) -> Result<Option<(TcpListener, SocketAddr)>> {
        let Some(listener) = self.relay.take() else {
            return Ok(None);
        };
        listener.set_nonblocking(true)?;
        let address = self.membership.relay.parse();
        let address = address
            .context("cannot take over: the process before says no address for other nodes")?;
        Ok(Some((listener, address)))
    }

    /// Number and epoch.
    pub fn life(&self) -> Result<(u16, u64)> {
        let number = u16::try_from(self.membership.node);
        let number = number
            .context("cannot take over: the process before has a number that no node can have")?;
        Ok((number, self.membership.epoch))
    }
}

/// Sends the place.
pub fn send(line: &mut Line, stopped: &Stopped) -> Result<(), Broken> {
    let record = stopped.record(NODE).map_err(Broken::Refused)?;
    if record.len() > PLACE_BYTES_MAX {
        return Err(Broken::Refused(format!(
            "{} bytes are kept for other nodes, and at most {PLACE_BYTES_MAX} are handed over: lower cluster.ring_bytes",
            record.len()
        )));
    }
    line.send_record(Kind::Place, "", &record, STEP)
}

/// What has come of it.
#[derive(Debug, Default)]
pub struct Record {
    bytes: Vec<u8>,
    ends: bool,
}

impl Record {
    pub fn take(&mut self, body: &[u8]) -> Result<(), Broken> {
        let piece: Piece = decode(body)?;
        self.bytes.extend_from_slice(&piece.bytes);
        if self.ends || self.bytes.len() > PLACE_BYTES_MAX {
            return Err(Broken::Strange(
                "the record of the place in the cluster is too long".to_owned(),
            ));
        }
        self.ends = piece.ends;
        Ok(())
    }

    /// The member goes on with it. `some_stay`: some sockets do not come.
    pub fn restore(self, member: Option<&mut Member>, some_stay: bool) -> Result<(), Broken> {
        let strange = |text: &str| Err(Broken::Strange(text.to_owned()));
        match member {
            Some(member) if self.ends => {
                let goes_on = member.go_on_with(&self.bytes, some_stay);
                goes_on.map_err(Broken::Strange)
            }
            Some(_) => strange("the record of the place in the cluster is missing"),
            None if self.ends => strange("it is in a cluster, and this process is not"),
            None => Ok(()),
        }
    }
}

/// Sends how far streams were passed on.
pub fn send_streams(line: &mut Line, still: &Still) -> Result<(), Broken> {
    let stands = still.stands().into_iter();
    let streams = stands.map(|stand| Stream {
        namespace: stand.namespace,
        number: stand.number,
        generation: stand.generation,
    });
    let streams = Streams {
        streams: streams.collect(),
    };
    line.send(Kind::Streams, &streams, STEP)
}

/// The streams of this process go on from there.
pub fn go_on_with(facts: &Facts, streams: &Streams) -> Result<(), Broken> {
    let stands = streams.streams.iter().map(|stream| Stand {
        namespace: stream.namespace.clone(),
        number: stream.number,
        generation: stream.generation.clone(),
    });
    let stands: Vec<Stand> = stands.collect();
    let own = facts.chronicle.get().and_then(|acks| acks.streams());
    match own {
        Some(own) => own.go_on_from(&stands).map_err(Broken::Strange),
        None if stands.is_empty() => Ok(()),
        None => Err(Broken::Strange(
            "it has recovery of level \"cluster\", and this configuration has none".to_owned(),
        )),
    }
}
