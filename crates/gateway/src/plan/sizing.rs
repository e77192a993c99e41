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
pub struct Demand<'a> {
    facts: &'a Facts<'a>,
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

pub fn demand<'a>(facts: &'a Facts, sheet: &mut Sheet) -> Result<Demand<'a>> {
    let cores = cores(facts, sheet)?;
    let (connections_gib, node_gib) = memory(facts, sheet)?;
    sheet.section("Between nodes: a message goes to those that have members of its room");
    let sizing = &facts.prices.sizing;
    let what = "a message at one more node";
    let us = *sizing.cluster_cpu_us_per_message;
    let us = sheet.given(what, us, "us", &sizing.origin);
    let cores_by_peer = busy(facts, facts.load.messages_per_s, us, sheet);
    let gbps = facts.load.bytes_out_per_s * figure(8e-9, "Gbit/B");
    Ok(Demand {
        facts,
        cores,
        cores_by_peer,
        peers_max: *facts.question.workload.room,
        connections_gib,
        node_gib,
        gbps: sheet.derive("traffic", "Gbit/s", gbps),
    })
}

/// Cores for so many a second, each of which takes so long.
fn busy(facts: &Facts, rate: Figure, us: Figure, sheet: &mut Sheet) -> Figure {
    let factor = figure(*facts.prices.sizing.core_factor, "measured cores a vCPU");
    let cores = rate * us / figure(1e6, "us/s") * factor;
    sheet.derive("all of them", "cores", cores)
}

fn needed<'a>(reading: &'a Option<Reading>, what: &str) -> Result<&'a Reading> {
    let advice = "give one of a scenario with messages that was run with --pid, or the suite's";
    let why = || format!("cannot plan: no result has the {what}; {advice}");
    reading.as_ref().with_context(why)
}

fn cores(facts: &Facts, sheet: &mut Sheet) -> Result<Figure> {
    sheet.section("Processors at the peak");
    let (load, measured) = (&facts.load, facts.measured);
    let delivery = Some(needed(&measured.delivery_us, "CPU of a delivery")?);
    let mut parts = vec![("a delivery", load.deliveries_per_s, delivery)];
    if measured.is_all_in {
        // The scenario's own mix of messages and connects is in the figure.
        parts.push(("an acknowledgement", load.acks_per_s, delivery));
    } else {
        let [message, connect] = [&measured.message_us, &measured.connect_us].map(Option::as_ref);
        parts.push(("a message", load.messages_per_s, message));
        parts.push(("a heartbeat, as a message", load.pings_per_s, message));
        parts.push(("a connect", load.connects_per_s, connect));
    }
    let mut all = Vec::new();
    for (what, rate, each) in parts {
        if let Some(each) = each {
            let us = sheet.given(what, each.value, "us", &each.source);
            all.push(busy(facts, rate, us, sheet));
        }
    }
    Ok(sheet.derive("busy with clients", "cores", Term::sum(all)))
}

/// Of all connections, and of a node without any.
fn memory(facts: &Facts, sheet: &mut Sheet) -> Result<(Figure, Figure)> {
    sheet.section("Memory at the peak");
    let (measured, sizing) = (facts.measured, &facts.prices.sizing);
    let resident = needed(&measured.connection_bytes, "memory of a connection")?;
    let what = "resident by connection";
    let resident = sheet.given(what, resident.value, "B", &resident.source);
    let what = "in the kernel by connection";
    let kernel = *sizing.kernel_bytes_per_connection;
    let kernel = sheet.given(what, kernel, "B", &sizing.origin);
    let mut parts = vec![resident, kernel];
    if facts.question.workload.tls {
        let tls = *sizing.tls_bytes_per_connection;
        parts.push(sheet.given("a TLS session", tls, "B", &sizing.origin));
    }
    let each = sheet.derive("a connection", "B", Term::sum(parts));
    let all = facts.load.connections * each / GIB;
    let all = sheet.derive("all connections", "GiB", all);
    let what = "a node without connections";
    let alone = measured.node_bytes.as_ref();
    let alone = alone.map(|alone| sheet.given(what, alone.value, "B", &alone.source));
    let alone = alone.unwrap_or(figure(0.0, "B")) / GIB;
    Ok((all, sheet.derive("that is", "GiB", alone)))
}

impl Demand<'_> {
    /// Other nodes that hear a message.
    fn peers(&self, nodes: f64) -> Figure {
        let peers = (nodes - 1.0).min(self.peers_max).max(0.0);
        figure(peers, "other nodes")
    }

    /// Cores busy on all of `nodes` together: clients, and messages that come from other nodes.
    fn cores(&self, nodes: f64, sheet: &mut Sheet) -> Figure {
        let peers = self.peers(nodes) * self.cores_by_peer;
        let peers = sheet.derive("for each other's messages", "cores", peers);
        sheet.derive("busy", "cores", self.cores + peers)
    }

    /// Shares of the processors and the memory of each of `nodes`.
    fn shares(&self, nodes: Figure, instance: &Instance, sheet: &mut Sheet) -> [Figure; 2] {
        let (vcpus, gib) = (*instance.vcpus, *instance.memory_gib);
        let percent = figure(100.0, "%");
        let cores = self.cores(nodes.value, sheet) / nodes / figure(vcpus, "vCPUs");
        let cores = sheet.derive("processors busy", "%", cores * percent);
        let used = self.connections_gib / nodes + self.node_gib;
        let used = sheet.derive("memory of a node", "GiB", used) / figure(gib, "GiB");
        let used = sheet.derive("memory used", "%", used * percent);
        [cores, used].map(Figure::tenths)
    }

    /// Nodes of `instance` for the demand, or why it cannot carry it.
    pub fn nodes(&self, instance: &Instance, sheet: &mut Sheet) -> Result<Nodes> {
        let (name, prices) = (&instance.name, self.facts.prices);
        sheet.section(&format!("Nodes: {name}"));
        let share = |has, unit, target| figure(has, unit) * figure(target, "at most");
        let cores = share(*instance.vcpus, "vCPUs", *prices.sizing.cpu_target);
        let cores = sheet.derive("usable processors of a node", "cores", cores);
        let gib = share(*instance.memory_gib, "GiB", *prices.sizing.memory_target);
        let gib = sheet.derive("usable memory of a node", "GiB", gib - self.node_gib);
        let gbps = *instance.network_gbps;
        let gbps = share(gbps, "Gbit/s", *prices.sizing.network_target);
        let gbps = sheet.derive("usable traffic of a node", "Gbit/s", gbps);
        let busy = |nodes| self.cores(nodes, &mut Sheet::default()).value;
        let for_cpu = fewest(FOR_CPU, busy, cores)?;
        fewest(FOR_MEMORY, |_| self.connections_gib.value, gib)?;
        fewest(FOR_TRAFFIC, |_| self.gbps.value, gbps)?;
        let busy = self.cores(for_cpu, sheet);
        let parts = [
            ("for processors", busy / cores),
            ("for memory", self.connections_gib / gib),
            ("for traffic", self.gbps / gbps),
        ];
        let parts = parts.map(|(what, nodes)| sheet.derive(what, "nodes", nodes.up()));
        let needed = Term::greatest(&[&parts[..], &[figure(1.0, "nodes")]].concat());
        let needed = sheet.derive("needed", "nodes", needed);
        let count = needed + figure(1.0, "that may fail");
        let count = sheet.derive("together", "nodes", count);

        sheet.section("After a failure of one node");
        let [cpu_after, memory_after] = self.shares(needed, instance, sheet);
        sheet.section(&format!("Nodes of the plan: {count}"));
        let [cpu, memory] = self.shares(count, instance, sheet);
        let each = (self.facts.load.connections / count).up();
        let each = sheet.derive("connections of a node", "connections", each);
        let hour = sheet.given(name, *instance.per_hour, "an hour", &instance.origin);
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
    pub fn redis(&self, nodes: Figure, sheet: &mut Sheet) -> Result<Figure> {
        sheet.section("Redis");
        let (prices, sizing) = (self.facts.prices, &self.facts.prices.sizing);
        let ways = self.peers(nodes.value) * figure(2.0, "(in and out)");
        let messages = self.facts.load.messages_per_s * ways;
        let messages = sheet.derive("messages in and out", "messages/s", messages);
        let mib = nodes * figure(*sizing.redis_mib_per_node, "MiB while they stand still");
        let gib = sheet.derive("buffers", "GiB", mib / figure(1_024.0, "MiB/GiB"));
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
        let masters = sheet.derive("masters", "masters", masters(node));
        let replicas = masters * figure(*sizing.redis_replicas, "each");
        let replicas = sheet.derive("replicas", "replicas", replicas);
        let all = sheet.derive("together", "nodes", masters + replicas);
        let hour = sheet.given(&node.name, *node.per_hour, "an hour", &node.origin);
        let per_month = prices.month(all, hour, sheet);
        let (all, name) = (all.bare(), &node.name);
        sheet.answer(
            "Redis",
            format!("{all} × {name} ({masters}, {replicas}): {messages}, {gib}"),
        );
        Ok(per_month)
    }
}

/// The fewest nodes that have what all of them together take.
fn fewest([takers, advice]: [&str; 2], taken: impl Fn(f64) -> f64, usable: Figure) -> Result<f64> {
    // Forgives what binary fractions add.
    let carry = |nodes: &f64| nodes * usable.value >= taken(*nodes) * (1.0 - 1e-12);
    let found = (1..=NODES_MAX).map(f64::from).find(carry);
    found.with_context(|| {
        let (unit, most) = (usable.unit, f64::from(NODES_MAX));
        let [taken, most, usable] = [taken(most), most, usable.value.max(0.0)].map(number);
        format!("{takers} {taken} {unit}, more than {most} nodes with {usable} usable {unit} each have; {advice}")
    })
}
