//! Owns the answer in machines: processor time, memory and traffic at the peak, how many nodes
//! carry them, how many are left when one fails, and the Redis that joins them.

use super::measured::{Figure, Measured};
use super::prices::{Instance, Prices, RedisNode, Sizing};
use super::sheet::{Sheet, Term, number, term};
use super::workload::{Load, Workload};
use anyhow::{Context, Result, bail};
use serde::Serialize;

const GIB: f64 = 1_073_741_824.0;
const US: f64 = 1e-6;
/// More nodes than anyone runs as one cluster.
const NODES_MAX: f64 = 10_000.0;
/// How a refusal of a machine begins; its name and the reason follow.
pub const CANNOT_CARRY: &str = "cannot carry this with ";

/// Nodes of one kind.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Nodes {
    pub instance: String,
    /// Carry the peak.
    pub needed: f64,
    /// One more, so that any one may fail.
    pub count: f64,
    pub connections_each: f64,
    pub memory_gib_each: f64,
    /// Share of a node's processors busy at the peak.
    pub cpu_share: f64,
    /// The same after one node failed.
    pub cpu_share_after_failure: f64,
    pub memory_share: f64,
    pub memory_share_after_failure: f64,
    pub per_month: f64,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Redis {
    pub node: String,
    pub masters: f64,
    pub replicas: f64,
    pub messages_per_s: f64,
    pub memory_gib: f64,
    pub per_month: f64,
}

/// What the load costs wherever it runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Demand {
    /// Cores busy with clients.
    cores: f64,
    /// Cores for hearing every message at one more node.
    cores_by_peer: f64,
    /// Other nodes that hear a message at most: its room has no more members.
    peers_max: f64,
    /// Resident and kernel memory of all connections.
    bytes: f64,
    node_bytes: f64,
    gbps: f64,
    connections: f64,
}

pub fn demand(
    workload: &Workload,
    load: &Load,
    measured: &Measured,
    sizing: &Sizing,
    sheet: &mut Sheet,
) -> Result<Demand> {
    let cores = cores(load, measured, sizing, sheet)?;
    let bytes = memory(workload, load, measured, sizing, sheet)?;
    let node_bytes = measured.node_bytes.as_ref().map_or(0.0, |given| {
        sheet.given(
            "a node without connections",
            given.value,
            "B",
            &given.source,
        )
    });
    sheet.section("Between nodes: a message goes to those that have members of its room");
    let (us, source) = (
        *sizing.cluster_cpu_us_per_message,
        format!("sizing, {}", sizing.date),
    );
    let us = sheet.given("hearing a message of another node", us, "us", &source);
    let each = term(us * *sizing.core_factor, "us") * term(US, "s/us");
    let all = term(load.messages_per_s, "messages/s") * each;
    let cores_by_peer = sheet.reckon("all messages at one more node", "cores", all);
    Ok(Demand {
        cores,
        cores_by_peer,
        peers_max: workload.room,
        bytes,
        node_bytes,
        gbps: load.bytes_out_per_s * 8e-9,
        connections: load.connections,
    })
}

fn cores(load: &Load, measured: &Measured, sizing: &Sizing, sheet: &mut Sheet) -> Result<f64> {
    sheet.section("Processors at the peak");
    let delivery = known(&measured.delivery_us, "CPU of a delivery")?;
    let mut parts = vec![("deliveries", load.deliveries_per_s, Some(delivery))];
    let messages = load.messages_per_s + load.pings_per_s;
    if measured.is_all_in {
        // The scenario's own mix of messages and connects is in the figure.
        parts.push(("acknowledgements", load.acks_per_s, Some(delivery)));
    } else {
        let (message, connect) = (measured.message_us.as_ref(), measured.connect_us.as_ref());
        parts.push(("messages and heartbeats in", messages, message));
        parts.push(("connects", load.connects_per_s, connect));
    }
    let mut summands = Vec::new();
    for (what, per_second, figure) in parts {
        let Some(figure) = figure else { continue };
        let one = format!("one of {what}");
        let us = sheet.given(&one, figure.value, "us", &figure.source);
        let all = term(per_second, "/s") * term(us, "us") * term(US, "s/us");
        let all = all * term(*sizing.core_factor, "measured cores a vCPU");
        summands.push(term(sheet.reckon(what, "cores", all), "cores"));
    }
    Ok(sheet.reckon("busy with clients", "cores", Term::sum(summands)))
}

fn memory(
    workload: &Workload,
    load: &Load,
    measured: &Measured,
    sizing: &Sizing,
    sheet: &mut Sheet,
) -> Result<f64> {
    sheet.section("Memory at the peak");
    let resident = known(&measured.connection_bytes, "memory of a connection")?;
    let (each, source) = (resident.value, &resident.source);
    sheet.given("resident by connection", each, "B", source);
    let kernel = *sizing.kernel_bytes_per_connection;
    sheet.given("in the kernel by connection", kernel, "B", &sizing.source);
    let mut parts = vec![term(each, "B resident"), term(kernel, "B kernel")];
    parts.extend(
        workload
            .tls
            .then(|| term(*sizing.tls_bytes_per_connection, "B TLS")),
    );
    let each = sheet.reckon("a connection", "B", Term::sum(parts));
    let all = term(load.connections, "connections") * term(each, "B");
    let bytes = sheet.reckon("all connections", "B", all);
    sheet.reckon("that is", "GiB", term(bytes, "B") / term(GIB, "B/GiB"));
    Ok(bytes)
}

/// Nodes of `instance` for the demand, or why it cannot carry it.
pub fn nodes(
    demand: &Demand,
    instance: &Instance,
    prices: &Prices,
    sheet: &mut Sheet,
) -> Result<Nodes> {
    sheet.section(&format!("Nodes: {}", instance.name));
    let sizing = &prices.sizing;
    let usable_cores = term(*instance.vcpus, "vCPUs") * term(*sizing.cpu_target, "busy at most");
    let usable_cores = sheet.reckon("usable of a node", "cores", usable_cores);
    let for_cpu = cpu_nodes(demand, usable_cores, instance, sheet)?;
    let for_memory = memory_nodes(demand, instance, sizing, sheet)?;
    let usable = *instance.network_gbps * *sizing.network_target;
    let for_traffic = term(demand.gbps, "Gbit/s") / term(usable, "Gbit/s usable");
    let for_traffic = sheet.reckon("for traffic", "nodes", for_traffic.up());
    if for_traffic > NODES_MAX {
        bail!(
            "{CANNOT_CARRY}{}: clients are sent {} Gbit/s, more than {} nodes with {} usable Gbit/s \
             each can send; make rooms (--room) or payloads (--payload) smaller, send fewer \
             messages (--messages-per-minute) or take machines with more network",
            instance.name,
            number(demand.gbps),
            number(NODES_MAX),
            number(usable)
        );
    }
    let needs = [
        term(for_cpu, "for processors"),
        term(for_memory, "for memory"),
        term(for_traffic, "for traffic"),
        term(1.0, "at least"),
    ];
    let needed = sheet.reckon("needed", "nodes", Term::greatest(&needs));
    let count = term(needed, "nodes") + term(1.0, "more");
    let count = sheet.reckon("with one that may fail (N−1)", "nodes", count);
    Ok(describe(demand, instance, prices, needed, count, sheet))
}

impl Demand {
    /// Cores busy on all of `nodes` together: clients, and messages that come from other nodes.
    fn cores_of(&self, nodes: f64) -> f64 {
        self.cores + self.cores_by_peer * self.peers(nodes)
    }

    fn peers(&self, nodes: f64) -> f64 {
        (nodes - 1.0).min(self.peers_max).max(0.0)
    }
}

/// The smallest number whose usable cores hold clients and what the others publish.
fn cpu_nodes(
    demand: &Demand,
    usable_cores: f64,
    instance: &Instance,
    sheet: &mut Sheet,
) -> Result<f64> {
    let mut count = 1.0;
    while count * usable_cores < demand.cores_of(count) {
        count += 1.0;
        if count > NODES_MAX {
            bail!(
                "{CANNOT_CARRY}{}: clients and messages between nodes take {} cores, more than {} nodes \
                 with {} usable cores each have; make rooms smaller (--room), send fewer messages \
                 (--users, --connected, --messages-per-minute) or take machines with more cores",
                instance.name,
                number(demand.cores_of(NODES_MAX)),
                number(NODES_MAX),
                number(usable_cores)
            );
        }
    }
    let peers = term(demand.peers(count), "other nodes") * term(demand.cores_by_peer, "cores");
    let peers = sheet.reckon("for each other's messages", "cores", peers);
    let busy = term(demand.cores, "cores") + term(peers, "cores");
    let busy = term(sheet.reckon("busy", "cores", busy), "cores");
    let nodes = (busy / term(usable_cores, "usable")).up();
    Ok(sheet.reckon("for processors", "nodes", nodes).max(1.0))
}

fn memory_nodes(
    demand: &Demand,
    instance: &Instance,
    sizing: &Sizing,
    sheet: &mut Sheet,
) -> Result<f64> {
    let usable = *instance.memory_gib * *sizing.memory_target * GIB - demand.node_bytes;
    if usable <= 0.0 {
        bail!(
            "{CANNOT_CARRY}{}: its memory does not hold a node without connections, which takes {} \
             GiB; take machines with more memory",
            instance.name,
            number(demand.node_bytes / GIB)
        );
    }
    let source = format!(
        "{} GiB × {} − a node without connections",
        number(*instance.memory_gib),
        number(*sizing.memory_target)
    );
    let usable = sheet.given("usable memory of a node", usable / GIB, "GiB", &source);
    let count = term(demand.bytes / GIB, "GiB") / term(usable, "GiB usable");
    let count = sheet.reckon("for memory", "nodes", count.up());
    if count > NODES_MAX {
        bail!(
            "{CANNOT_CARRY}{}: connections take {} GiB, more than {} nodes with {} usable GiB each \
             hold; connect fewer users (--users, --connected) or take machines with more memory",
            instance.name,
            number(demand.bytes / GIB),
            number(NODES_MAX),
            number(usable)
        );
    }
    Ok(count)
}

fn describe(
    demand: &Demand,
    instance: &Instance,
    prices: &Prices,
    needed: f64,
    count: f64,
    sheet: &mut Sheet,
) -> Nodes {
    let cpu = |nodes: f64| demand.cores_of(nodes) / (nodes * *instance.vcpus);
    let gib = |nodes: f64| (demand.bytes / nodes + demand.node_bytes) / GIB;
    let memory = |nodes: f64| gib(nodes) / *instance.memory_gib;
    let after = count - 1.0;
    for (what, share) in [
        ("processors busy", cpu(count)),
        ("processors busy after a failure of one node", cpu(after)),
        ("memory used", memory(count)),
        ("memory used after a failure of one node", memory(after)),
    ] {
        sheet.given(what, share * 100.0, "%", "");
    }
    Nodes {
        instance: instance.name.to_string(),
        needed,
        count,
        connections_each: (demand.connections / count).ceil(),
        memory_gib_each: gib(count),
        cpu_share: cpu(count),
        cpu_share_after_failure: cpu(after),
        memory_share: memory(count),
        memory_share_after_failure: memory(after),
        per_month: count * *instance.per_hour * *prices.hours_per_month,
    }
}

/// Redis beside the nodes: each message goes in and out once for each other node that has members of its room.
pub fn redis(
    workload: &Workload,
    load: &Load,
    nodes: f64,
    prices: &Prices,
    sheet: &mut Sheet,
) -> Result<Redis> {
    sheet.section("Redis");
    let sizing = &prices.sizing;
    let others = term((nodes - 1.0).min(workload.room), "other nodes");
    let messages = term(load.messages_per_s, "messages/s") * others * term(2.0, "(in and out)");
    let messages_per_s = sheet.reckon("messages in and out", "/s", messages);
    let each = term(*sizing.redis_bytes_per_connection, "B");
    let registry = term(load.connections, "connections") * each;
    let bytes = sheet.reckon("session registry", "B", registry);
    let memory_gib = bytes / GIB;
    let needs = |node: &RedisNode| {
        let usable = *node.memory_gib * *sizing.memory_target;
        let for_rate = (messages_per_s / *node.messages_per_second).ceil();
        [
            term(for_rate, "for the rate"),
            term((memory_gib / usable).ceil(), "for memory"),
            term(*sizing.redis_masters_min, "of a cluster"),
        ]
    };
    let cost = |node: &RedisNode| Term::greatest(&needs(node)).value * *node.per_hour;
    let priced = prices.redis_nodes.iter();
    let cheapest = priced.min_by(|a, b| cost(a).total_cmp(&cost(b)));
    let node = cheapest.context("cannot choose a Redis node: none is priced")?;
    let what = format!("masters of {}", node.name);
    let masters = sheet.reckon(&what, "", Term::greatest(&needs(node)));
    let replicas = term(masters, "masters") * term(*sizing.redis_replicas, "each");
    let replicas = sheet.reckon("replicas", "", replicas);
    Ok(Redis {
        node: node.name.to_string(),
        masters,
        replicas,
        messages_per_s,
        memory_gib,
        per_month: (masters + replicas) * *node.per_hour * *prices.hours_per_month,
    })
}

fn known<'a>(figure: &'a Option<Figure>, what: &str) -> Result<&'a Figure> {
    let known = figure.as_ref();
    known.with_context(|| format!("cannot plan: no result has the {what}"))
}
