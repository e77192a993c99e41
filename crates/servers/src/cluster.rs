//! A Redis Cluster: three masters with a replica each, ready in two to three seconds.

use crate::redis::Redis;
use crate::{free_ports, wait_for};
use std::fs;

const MASTERS: usize = 3;
const NODES: usize = 2 * MASTERS;
const SLOTS: usize = 16_384;

#[derive(Debug)]
pub struct Cluster {
    /// Three masters, then their replicas in the same order, as they were at the start.
    pub nodes: Vec<Redis>,
}

/// What a node knows of each from the beginning: nobody has to be introduced.
fn map(me: usize, ports: &[u16], buses: &[u16]) -> String {
    let line = |node: usize| {
        let master = node % MASTERS;
        let place = format!("127.0.0.1:{}@{}", ports[node], buses[node]);
        let myself = if node == me { "myself," } else { "" };
        let epoch = master + 1;
        let role = match node < MASTERS {
            true => {
                let (first, end) = (master * SLOTS / MASTERS, (master + 1) * SLOTS / MASTERS);
                let slots = format!("{first}-{}", end - 1);
                return format!(
                    "{} {place} {myself}master - 0 0 {epoch} connected {slots}\n",
                    id(node)
                );
            }
            false => id(master),
        };
        format!(
            "{} {place} {myself}slave {role} 0 0 {epoch} connected\n",
            id(node)
        )
    };
    let nodes: String = (0..NODES).map(line).collect();
    format!("{nodes}vars currentEpoch {MASTERS} lastVoteEpoch 0\n")
}

/// Its name in the cluster.
fn id(node: usize) -> String {
    format!("{:040x}", node + 1)
}

impl Cluster {
    /// Failover begins when a master was silent for a second.
    pub fn start() -> Cluster {
        Cluster::start_with(1_000, &[])
    }

    /// With a node timeout in milliseconds and more settings for every node.
    pub fn start_with(node_timeout_ms: u32, args: &[&str]) -> Cluster {
        let free: [u16; 2 * NODES] = free_ports();
        let (ports, buses) = free.split_at(NODES);
        let node = |node: usize| {
            let folder = tempfile::tempdir().expect("a temporary folder");
            fs::write(folder.path().join("nodes.conf"), map(node, ports, buses)).expect("write");
            let (port, bus) = (ports[node], buses[node]);
            let settings = format!(
                "--port {port} --bind 127.0.0.1 --cluster-enabled yes --cluster-port {bus} \
                 --cluster-node-timeout {node_timeout_ms} --cluster-config-file nodes.conf \
                 --repl-diskless-sync-delay 0"
            );
            let settings = settings.split_whitespace().map(str::to_owned);
            let settings = settings.chain(args.iter().map(|&arg| arg.into()));
            Redis::run(port, settings.collect(), folder, &[])
        };
        let nodes: Vec<Redis> = (0..NODES).map(node).collect();
        let nodes = nodes.into_iter().map(Redis::when_up).collect();
        let cluster = Cluster { nodes };
        cluster.wait_until_whole();
        cluster
    }

    /// Waits until every slot is served and every replica follows its master.
    pub fn wait_until_whole(&self) {
        for node in &self.nodes {
            wait_for("the cluster is whole", || {
                let state = node.field(&["CLUSTER", "INFO"], "cluster_state")?;
                let role = node.field(&["INFO", "replication"], "role")?;
                let link = node.field(&["INFO", "replication"], "master_link_status");
                let follows = role == "master" || link.as_deref() == Some("up");
                (state == "ok" && follows).then_some(())
            });
        }
    }

    /// Addresses of all nodes.
    pub fn addrs(&self) -> Vec<String> {
        self.nodes.iter().map(Redis::addr).collect()
    }

    /// Which node owns the slot of a channel, as node `asked` sees it.
    pub fn owner(&self, asked: usize, channel: &str) -> usize {
        let slot = self.slot(asked, channel);
        let view = self.nodes[asked].ask(&["CLUSTER", "NODES"]);
        let owns = |range: &str| {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let bounds = (first.parse::<usize>(), last.parse::<usize>());
            matches!(bounds, (Ok(first), Ok(last)) if (first..=last).contains(&slot))
        };
        let owner = view.lines().find_map(|line| {
            let words: Vec<&str> = line.split(' ').collect();
            let found = words.get(8..)?.iter().any(|range| owns(range));
            found.then(|| usize::from_str_radix(words[0], 16))
        });
        owner.expect("an owner").expect("one of our ids") - 1
    }

    pub fn slot(&self, asked: usize, channel: &str) -> usize {
        let slot = self.nodes[asked].ask(&["CLUSTER", "KEYSLOT", channel]);
        slot.trim().parse().expect("a slot")
    }

    /// Moves an empty slot to another master, as `redis-cli --cluster reshard` does.
    pub fn migrate(&self, slot: usize, from: usize, to: usize) {
        self.begin(slot, from, to);
        self.finish(slot, from, to);
    }

    /// Moves a slot and its keys, one by one, likewise.
    pub fn migrate_keys(&self, slot: usize, from: usize, to: usize) {
        self.begin(slot, from, to);
        let (number, port) = (slot.to_string(), self.nodes[to].port().to_string());
        wait_for("the slot is empty", || {
            let keys = self.nodes[from].ask(&["CLUSTER", "GETKEYSINSLOT", &number, "100"]);
            let keys: Vec<&str> = keys.lines().filter(|key| !key.is_empty()).collect();
            for key in &keys {
                let command = ["MIGRATE", "127.0.0.1", &port, key, "0", "5000"];
                let answer = self.nodes[from].ask(&command);
                assert!(matches!(answer.trim(), "OK" | "NOKEY"), "{key}: {answer}");
            }
            keys.is_empty().then_some(())
        });
        self.finish(slot, from, to);
    }

    fn begin(&self, slot: usize, from: usize, to: usize) {
        self.set(to, slot, ["IMPORTING", &id(from)]);
        self.set(from, slot, ["MIGRATING", &id(to)]);
    }

    fn finish(&self, slot: usize, from: usize, to: usize) {
        [to, from]
            .into_iter()
            .for_each(|node| self.set(node, slot, ["NODE", &id(to)]));
    }

    fn set(&self, node: usize, slot: usize, words: [&str; 2]) {
        let command = ["CLUSTER", "SETSLOT", &slot.to_string(), words[0], words[1]];
        let answer = self.nodes[node].ask(&command);
        assert_eq!(answer.trim(), "OK", "{command:?}");
    }
}
