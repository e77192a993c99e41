//! Who talks to whom: each node tells which others it hears and relays to, and which engine, backends and bridges it has.

use super::{Inside, Problem, Query};
use crate::bridge::Bridge;
use crate::metrics::load;
use nodes::roster::Way;
use process::upgrades::Tally;
use rules::bridge::Bus;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::available_parallelism;
use utoipa::ToSchema;
use workers::Figures;

/// The links of one node.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct NodeLinks {
    /// The node that they are of.
    node: u16,
    /// Cores that its process kept busy in the last second; `null` in the first.
    cpu: Option<f32>,
    /// Of clients.
    connections: u64,
    /// Messages from clients in the last second.
    messages_in: f32,
    /// Events delivered to clients in the last second.
    deliveries: f32,
    /// Refused in the last second.
    rejected: f32,
    /// Cores that it may use.
    cores: usize,
    memory_bytes: Option<u64>,
    /// Memory that it may use; `null` if nobody knows.
    memory_limit_bytes: Option<u64>,
    upgrades: UpgradesHere,
    /// What is between the nodes; `null`: it has no cluster, or has just begun.
    engine: Option<EngineLink>,
    /// The other nodes, by number.
    others: Vec<OtherNode>,
    /// By name.
    backends: Vec<BackendLink>,
    bridges: Vec<BridgeLink>,
}

/// What became of upgrades, of this process and of those before it.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = UpgradesOfNode)]
struct UpgradesHere {
    /// Another process took over.
    done: u64,
    /// They were not begun.
    refused: u64,
    /// They were given up, and the process went on.
    failed: u64,
    /// How long nobody was read in the last one that was done; `null`: there was none.
    pause_ms: Option<f64>,
}

impl From<Tally> for UpgradesHere {
    fn from(tally: Tally) -> Self {
        Self {
            done: tally.done,
            refused: tally.refused,
            failed: tally.failed,
            pause_ms: tally.pause.map(|pause| pause.as_secs_f64() * 1e3),
        }
    }
}

/// A node's way through the engine.
#[derive(Debug, Serialize, ToSchema)]
struct EngineLink {
    /// `Redis` or `NATS`.
    name: &'static str,
    up: bool,
    /// The longest way of its heartbeats to the engine and back in the last four seconds, up to 700; one that is not back counts for the time
    /// so far. `null`: there was none, or the engine is away.
    round_trip_ms: Option<f64>,
    /// Bytes that wait for it.
    waiting_bytes: u64,
    /// Frames that the node sent once more, because others missed them.
    repairs: u64,
    /// Messages of others that the node lost for good.
    lost: u64,
}

/// Another node, as a node hears it.
#[derive(Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
struct OtherNode {
    /// Its number.
    to: u16,
    /// Since its last heartbeat; `null`: it is not heard.
    silent_ms: Option<u64>,
    /// Messages that came from it in its life.
    received: u64,
    /// Holes in what it sent that were found.
    gaps: u64,
    /// Messages of it that were lost for good.
    lost: u64,
    /// Connections of clients that are relayed to it now.
    relayed: u64,
}

/// A backend, as a node has it.
#[derive(Debug, Serialize, ToSchema)]
struct BackendLink {
    name: String,
    /// Workers that are attached; 1 for an endpoint that is well.
    workers: u64,
    /// Links of workers that shards serve; the others are the task's that all backends share.
    links_of_shards: u64,
}

/// A bridge to a bus.
#[derive(Debug, Serialize, ToSchema)]
struct BridgeLink {
    /// `Kafka` or `NATS`.
    name: &'static str,
    waiting_bytes: u64,
}

/// As the node's own call has it.
#[derive(Debug, Serialize)]
pub(super) struct Links {
    links: [NodeLinks; 1],
    complete: bool,
}

impl Inside {
    pub(super) fn links(&self, query: Option<&str>) -> Result<Links, Problem> {
        Query::read(query, &[])?;
        let now = self.hour.newest();
        let bounds = self.exporter.bounds();
        let way = self.nodes.way();
        let relayed = self.node.relays.get().map(|relays| relays.open_by_node());
        let links = NodeLinks {
            node: self.nodes.me().number,
            cpu: now.map(|now| now.cpu),
            connections: now.map_or(0, |now| now.connections),
            messages_in: now.map_or(0.0, |now| now.messages_in),
            deliveries: now.map_or(0.0, |now| now.deliveries),
            rejected: now.map_or(0.0, |now| now.rejected),
            cores: available_parallelism().map_or(1, usize::from),
            memory_bytes: now.and_then(|now| now.memory_bytes),
            memory_limit_bytes: bounds.and_then(|bounds| bounds.memory_bytes),
            upgrades: self.node.readiness.upgrades().tally().into(),
            others: others(way.as_ref(), &relayed.unwrap_or_default()),
            engine: way.map(|way| self.engine(&way)),
            backends: self.backend_links(),
            bridges: self.bridge_links(),
        };
        Ok(Links {
            links: [links],
            complete: true,
        })
    }

    fn engine(&self, way: &Way) -> EngineLink {
        let gauges = &self.node.cluster;
        let up = gauges.up.load(Ordering::Relaxed) && !way.is_lost;
        let round_trip_us = way.hearing.round_trip_us.filter(|_| up);
        EngineLink {
            name: way.engine,
            up,
            round_trip_ms: round_trip_us.map(|us| us as f64 / 1e3),
            waiting_bytes: load(&gauges.queued_bytes),
            repairs: load(&gauges.repairs),
            lost: load(&gauges.lost),
        }
    }

    fn backend_links(&self) -> Vec<BackendLink> {
        let backends = self.node.backends.get().into_iter().flatten();
        let link = |(name, figures): (&String, &Arc<Figures>)| BackendLink {
            name: name.clone(),
            workers: load(&figures.workers),
            links_of_shards: load(&figures.links_of_shards),
        };
        backends.map(link).collect()
    }

    fn bridge_links(&self) -> Vec<BridgeLink> {
        let link = |(bus, bridge): (Bus, &Arc<dyn Bridge>)| BridgeLink {
            name: match bus {
                Bus::Kafka => "Kafka",
                Bus::Nats => "NATS",
            },
            waiting_bytes: bridge.figures().waiting_bytes,
        };
        self.node.bridges.all().map(link).collect()
    }
}

/// Those that are heard, and those that clients are relayed to.
fn others(way: Option<&Way>, relayed: &BTreeMap<u16, u64>) -> Vec<OtherNode> {
    let mut others = BTreeMap::new();
    for heard in way.into_iter().flat_map(|way| &way.hearing.peers) {
        let received = heard.received;
        let other = OtherNode {
            to: heard.node.0,
            silent_ms: Some(heard.silent_us / 1_000),
            received: received.letters,
            gaps: received.gaps,
            lost: received.lost,
            relayed: 0,
        };
        others.insert(other.to, other);
    }
    for (to, relayed) in relayed {
        let other = others.entry(*to).or_insert_with(|| OtherNode {
            to: *to,
            ..OtherNode::default()
        });
        other.relayed = *relayed;
    }
    others.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use cluster::frame::NodeId;
    use cluster::inlet::Received;
    use cluster::node::reports::{Heard, Hearing};

    /// A node that was given up may still have connections that are being cut.
    #[test]
    fn a_node_that_is_not_heard_is_there_while_something_is_relayed_to_it() {
        let received = Received {
            letters: 9,
            gaps: 1,
            ..Received::default()
        };
        let heard = Heard {
            node: NodeId(3),
            silent_us: 120_400,
            received,
        };
        let way = Way {
            engine: "Redis",
            hearing: Hearing {
                round_trip_us: Some(400),
                peers: vec![heard],
            },
            is_lost: false,
        };
        let others = others(Some(&way), &BTreeMap::from([(2, 7), (3, 1)]));
        let of = |to, silent_ms, received, gaps, relayed| OtherNode {
            to,
            silent_ms,
            received,
            gaps,
            lost: 0,
            relayed,
        };
        assert_eq!(others, [of(2, None, 0, 0, 7), of(3, Some(120), 9, 1, 1)]);
    }
}
