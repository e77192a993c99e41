//! Owns the answer in machines: processor time, memory and traffic at the peak, how many nodes
//! carry them, how many are left when one fails, and the Redis that joins them.

use super::Facts;
use super::measured::Reading;
use super::prices::{Instance, RedisNode};
use super::sheet::{Figure, Sheet, Term, figure, number};
use anyhow::{Context, Result};

const GIB: Figure = figure(1_073_741_824.0, "B/GiB");
/// More nodes than anyone runs as one cluster.
const NODES_MAX: u32 = 10_000;
/// How a refusal of a machine begins; its name and the reason follow.
pub const CANNOT_CARRY: &str = "cannot carry this with ";

/// What takes processors, memory and traffic, and what to do about it.
const FOR_CPU: [&str; 2] = [
    "clients and messages between nodes take",
    "make rooms smaller (--room), send fewer messages (--users, --connected, --messages-per-minute) or take machines with more cores",
];
const FOR_MEMORY: [&str; 2] = [
    "connections take",
    "connect fewer users (--users, --connected) or take machines with more memory",
];
const FOR_TRAFFIC: [&str; 2] = [
    "clients are sent",
    "make rooms (--room) or payloads (--payload) smaller, send fewer messages (--messages-per-minute) or take machines with more \
     network",
];

/// What the load takes wherever it runs.
#[derive(Clone, Copy, Debug)]
pub struct Demand {
    /// Busy with clients.
    cores: Figure,
    /// For hearing every message at one more node.
    cores_by_peer: Figure,
    /// Other nodes that hear a message at most: its room has no more members.
    peers_max: f64,
    /// Resident and kernel memory of all connections.
    connections_gib: Figure,
    node_gib: Figure,
    gbps: Figure,
}

/// Nodes of one kind, one more than carry the peak.
#[derive(Clone, Copy, Debug)]
pub struct Nodes {
    pub count: Figure,
    pub per_month: Figure,
}

pub fn demand(facts: &Facts, sheet: &mut Sheet) -> Result<Demand> {
    let cores = cores(facts, sheet)?;
    let connections_gib = memory(facts, sheet)?;
    let (none, alone) = (Reading::default(), &facts.measured.node_bytes);
    let alone = alone.as_ref().unwrap_or(&none).figure("B");
    let source = facts
        .measured
        .node_bytes
        .as_ref()
        .map_or("", |alone| &alone.source);
    let alone = sheet.given("a node without connections", alone, source);
    let node_gib = sheet.reckon("that is", "GiB", alone / GIB);
    sheet.section("Between nodes: a message goes to those that have members of its room");
    let sizing = &facts.prices.sizing;
    let each = figure(*sizing.cluster_cpu_us_per_message, "us");
    let each = sheet.given("a message of another node", each, &sizing.origin);
    let by_peer = cores_of(facts, facts.load.messages_per_s, each);
    let gbps = facts.load.bytes_out_per_s * figure(8e-9, "Gbit/B");
    Ok(Demand {
        cores,
        cores_by_peer: sheet.reckon("all messages at one more node", "cores", by_peer),
        peers_max: *facts.question.workload.room,
        connections_gib,
        node_gib,
        gbps: sheet.reckon("traffic", "Gbit/s", gbps),
    })
}

fn cores_of(facts: &Facts, rate: Figure, each: Figure) -> Term {
    let factor = figure(*facts.prices.sizing.core_factor, "measured cores a vCPU");
    rate * each / figure(1e6, "us/s") * factor
}

fn cores(facts: &Facts, sheet: &mut Sheet) -> Result<Figure> {
    sheet.section("Processors at the peak");
    let (load, measured) = (&facts.load, facts.measured);
    let delivery = &measured.delivery_us;
    let mut parts = vec![("a delivery", load.deliveries_per_s, delivery)];
    if measured.is_all_in {
        // The scenario's own mix of messages and connects is in the figure.
        parts.push(("an acknowledgement", load.acks_per_s, delivery));
    } else {
        let (message, connect) = (&measured.message_us, &measured.connect_us);
        parts.push(("a message", load.messages_per_s, message));
        parts.push(("a heartbeat, as a message", load.pings_per_s, message));
        parts.push(("a connect", load.connects_per_s, connect));
    }
    let mut busy = Vec::new();
    for (what, rate, each) in parts {
        if let Some(each) = each {
            let us = sheet.given(what, each.figure("us"), &each.source);
            busy.push(sheet.reckon("all of them", "cores", cores_of(facts, rate, us)));
        }
    }
    delivery
        .as_ref()
        .context("cannot plan: no result has the CPU of a delivery")?;
    Ok(sheet.reckon("busy with clients", "cores", Term::sum(busy)))
}

fn memory(facts: &Facts, sheet: &mut Sheet) -> Result<Figure> {
    sheet.section("Memory at the peak");
    let (resident, sizing) = (
        facts.measured.connection_bytes.as_ref(),
        &facts.prices.sizing,
    );
    let resident = resident.context("cannot plan: no result has the memory of a connection")?;
    let kernel = figure(*sizing.kernel_bytes_per_connection, "B");
    let mut parts = vec![
        sheet.given(
            "resident by connection",
            resident.figure("B"),
            &resident.source,
        ),
        sheet.given("in the kernel by connection", kernel, &sizing.origin),
    ];
    if facts.question.workload.tls {
        let tls = figure(*sizing.tls_bytes_per_connection, "B");
        parts.push(sheet.given("a TLS session", tls, &sizing.origin));
    }
    let each = sheet.reckon("a connection", "B", Term::sum(parts));
    Ok(sheet.reckon(
        "all connections",
        "GiB",
        facts.load.connections * each / GIB,
    ))
}

impl Demand {
    /// Other nodes that hear a message.
    fn peers(&self, nodes: f64) -> Figure {
        let peers = (nodes - 1.0).min(self.peers_max).max(0.0);
        figure(peers, "other nodes")
    }

    /// Cores busy on all of `nodes` together: clients, and messages that come from other nodes.
    fn cores(&self, nodes: f64) -> f64 {
        self.cores.value + self.peers(nodes).value * self.cores_by_peer.value
    }

    /// Shares of the processors and the memory of each of `nodes`.
    fn shares(&self, nodes: f64, instance: &Instance, sheet: &mut Sheet) -> [Figure; 2] {
        let cores = figure(self.cores(nodes), "cores") / figure(nodes, "nodes");
        let gib = self.connections_gib / figure(nodes, "nodes") + self.node_gib;
        let gib = sheet.reckon("memory of a node", "GiB", gib);
        let (cpus, has) = (
            figure(*instance.vcpus, "vCPUs"),
            figure(*instance.memory_gib, "GiB"),
        );
        let percent = figure(100.0, "%");
        [
            sheet
                .reckon("processors busy", "%", cores / cpus * percent)
                .tenths(),
            sheet
                .reckon("memory used", "%", gib / has * percent)
                .tenths(),
        ]
    }
}

/// The fewest nodes that have what all of them together take.
fn fewest(
    [takers, advice]: [&str; 2],
    taken: impl Fn(f64) -> f64,
    usable: Figure,
    instance: &Instance,
) -> Result<f64> {
    // Forgives what binary fractions add.
    let carry = |nodes: &f64| nodes * usable.value >= taken(*nodes) * (1.0 - 1e-12);
    let found = (1..=NODES_MAX).map(f64::from).find(carry);
    found.with_context(|| {
        let (machine, unit, most) = (&instance.name, usable.unit, f64::from(NODES_MAX));
        let [taken, most, usable] = [taken(most), most, usable.value.max(0.0)].map(number);
        format!(
            "{CANNOT_CARRY}{machine}: {takers} {taken} {unit}, more than {most} nodes with {usable} usable \
             {unit} each have; {advice}"
        )
    })
}

/// Nodes of `instance` for the demand, or why it cannot carry it.
pub fn nodes(
    facts: &Facts,
    demand: &Demand,
    instance: &Instance,
    sheet: &mut Sheet,
) -> Result<Nodes> {
    let (name, prices) = (&instance.name, facts.prices);
    sheet.section(&format!("Nodes: {name}"));
    let share = |has, unit, target| figure(has, unit) * figure(target, "at most");
    let cores = share(*instance.vcpus, "vCPUs", *prices.sizing.cpu_target);
    let cores = sheet.reckon("usable processors of a node", "cores", cores);
    let for_cpu = fewest(FOR_CPU, |nodes| demand.cores(nodes), cores, instance)?;
    let peers = demand.peers(for_cpu) * demand.cores_by_peer;
    let peers = sheet.reckon("for each other's messages", "cores", peers);
    let busy = sheet.reckon("busy", "cores", demand.cores + peers);
    let for_cpu = sheet.reckon("for processors", "nodes", (busy / cores).up());
    let gib = share(*instance.memory_gib, "GiB", *prices.sizing.memory_target);
    let gib = sheet.reckon("usable memory of a node", "GiB", gib - demand.node_gib);
    fewest(FOR_MEMORY, |_| demand.connections_gib.value, gib, instance)?;
    let for_memory = (demand.connections_gib / gib).up();
    let for_memory = sheet.reckon("for memory", "nodes", for_memory);
    let gbps = share(
        *instance.network_gbps,
        "Gbit/s",
        *prices.sizing.network_target,
    );
    let gbps = sheet.reckon("usable traffic of a node", "Gbit/s", gbps);
    fewest(FOR_TRAFFIC, |_| demand.gbps.value, gbps, instance)?;
    let for_traffic = sheet.reckon("for traffic", "nodes", (demand.gbps / gbps).up());
    let parts = [for_cpu, for_memory, for_traffic, figure(1.0, "nodes")];
    let needed = sheet.reckon("needed", "nodes", Term::greatest(&parts));
    let count = needed + figure(1.0, "that may fail");
    let count = sheet.reckon("together", "nodes", count);

    sheet.section("After a failure of one node");
    let [cpu_after, memory_after] = demand.shares(needed.value, instance, sheet);
    sheet.section(&format!("Nodes of the plan: {count}"));
    let [cpu, memory] = demand.shares(count.value, instance, sheet);
    let each = (facts.load.connections / count).up();
    let each = sheet.reckon("connections of a node", "connections", each);
    let hour = figure(*instance.per_hour, "an hour");
    let hour = sheet.given(name, hour, &instance.origin);
    let per_month = prices.month(count, hour, sheet);
    let (all, needed) = (count.bare(), needed.bare());
    sheet.answer("nodes", format!("{all} × {name} ({needed} needed, one may fail): processors {cpu} busy, {cpu_after} after a failure"));
    sheet.answer(
        "memory",
        format!("{memory} of each node's, with {each}; {memory_after} after a failure"),
    );
    Ok(Nodes { count, per_month })
}

/// Redis beside the nodes: each message goes in and out once for each other node that has members of its room. What it costs a month.
pub fn redis(facts: &Facts, demand: &Demand, nodes: Figure, sheet: &mut Sheet) -> Result<Figure> {
    sheet.section("Redis");
    let (prices, sizing) = (facts.prices, &facts.prices.sizing);
    let ways = demand.peers(nodes.value) * figure(2.0, "(in and out)");
    let messages = facts.load.messages_per_s * ways;
    let messages = sheet.reckon("messages in and out", "messages/s", messages);
    let mib = nodes * figure(*sizing.redis_mib_per_node, "MiB while they stand still");
    let gib = sheet.reckon("buffers", "GiB", mib / figure(1_024.0, "MiB/GiB"));
    let masters = |node: &RedisNode| {
        let rate = (messages / figure(*node.messages_per_second, "")).up();
        let usable = *node.memory_gib * *sizing.memory_target;
        Term::greatest(&[
            rate.figure("for the rate"),
            (gib / figure(usable, "")).up().figure("for memory"),
            figure(*sizing.redis_masters_min, "of a cluster"),
        ])
    };
    let cost = |node: &&RedisNode| masters(node).figure("").value * *node.per_hour;
    let priced = prices.redis_nodes.iter();
    let cheapest = priced.min_by(|a, b| cost(a).total_cmp(&cost(b)));
    let node = cheapest.context("cannot choose a Redis node: none is priced")?;
    let masters = sheet.reckon("masters", "masters", masters(node));
    let replicas = masters * figure(*sizing.redis_replicas, "each");
    let replicas = sheet.reckon("replicas", "replicas", replicas);
    let all = sheet.reckon("together", "nodes", masters + replicas);
    let hour = figure(*node.per_hour, "an hour");
    let hour = sheet.given(&node.name, hour, &node.origin);
    let per_month = prices.month(all, hour, sheet);
    let (all, name) = (all.bare(), &node.name);
    sheet.answer(
        "Redis",
        format!("{all} × {name} ({masters}, {replicas}): {messages}, {gib}"),
    );
    Ok(per_month)
}
