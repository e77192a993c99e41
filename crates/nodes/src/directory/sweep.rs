//! Cleaning up after nodes that died. Each life of a node signs a register and has an index of the sockets that it listed. A life that
//! has no lease any more is dead: one of the others deletes what its index names.

use super::words::{client_key, delete};
use super::{Gauges, Writer};
use crate::redis::{Command, is_stranger};
use ::redis::Value;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fmt;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use wire::base64url::Id20;

/// The register is read this often.
const LOOK_EVERY: Duration = Duration::from_secs(3);
/// A life that was never seen counts as dead when the leases were read so often without it: its own lease is older than its signature.
const READS: u64 = 2;
/// One node cleans at a time; another goes on after this if it dies.
const LOCK: Duration = Duration::from_secs(15);
/// Sockets of an index that are read at once.
const PAGE: usize = 500;
/// Lives in the register that are looked at.
const LIVES_MAX: usize = 4_096;

/// One life of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Life {
    node: u16,
    life: u64,
}

impl fmt::Display for Life {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.node, self.life)
    }
}

impl Life {
    fn read(text: &str) -> Option<Self> {
        let (node, life) = text.split_once('.')?;
        Some(Self {
            node: node.parse().ok()?,
            life: life.parse().ok()?,
        })
    }
}

/// The lives that signed, as far as they are known.
#[derive(Debug)]
pub(super) struct Sweeper {
    prefix: String,
    me: Life,
    looked: Option<Instant>,
    /// Lives that had a lease.
    seen: HashSet<Life>,
    /// Lives without one, and how often the leases had been read when that was noticed.
    missing: HashMap<Life, u64>,
    /// This node's own index may name sockets that are gone.
    doubts_own: bool,
}

impl Sweeper {
    pub(super) fn new(prefix: &str, node: u16, life: u64) -> Self {
        Self {
            prefix: prefix.to_owned(),
            me: Life { node, life },
            looked: None,
            seen: HashSet::new(),
            missing: HashMap::new(),
            doubts_own: false,
        }
    }

    fn register(&self) -> Vec<u8> {
        format!("{}directory", self.prefix).into_bytes()
    }

    fn lock(&self) -> Vec<u8> {
        format!("{}directory:lock", self.prefix).into_bytes()
    }

    fn index(&self, life: Life) -> Vec<u8> {
        format!("{}directory:{life}", self.prefix).into_bytes()
    }

    /// This node writes here.
    pub(super) fn sign(&self, now_ms: u64) -> Command {
        let command = Command::new("ZADD", &self.register());
        command.arg(now_ms).arg(self.me.to_string())
    }

    /// Sockets that this node is about to list.
    pub(super) fn enter(&self, sockets: &[Id20]) -> Command {
        named("SADD", &self.index(self.me), sockets)
    }

    /// Sockets that it lists no more.
    pub(super) fn strike(&self, sockets: &[Id20]) -> Command {
        named("SREM", &self.index(self.me), sockets)
    }

    /// Deletions may have been lost.
    pub(super) fn doubt_own(&mut self) {
        self.doubts_own = true;
    }

    /// The dead ones of these lives, by the lives that have leases; of some numbers the life is not known. `reads`: how often the
    /// leases were read so far.
    fn dead(
        &mut self,
        signed: &BTreeSet<Life>,
        alive: &BTreeMap<u16, Option<u64>>,
        reads: u64,
    ) -> Vec<Life> {
        self.seen.retain(|life| signed.contains(life));
        self.missing.retain(|life, _| signed.contains(life));
        let mut dead = Vec::new();
        for life in signed.iter().filter(|life| **life != self.me) {
            match alive.get(&life.node) {
                Some(None) => drop(self.missing.remove(life)),
                Some(Some(other)) if *other == life.life => {
                    self.missing.remove(life);
                    self.seen.insert(*life);
                }
                _ => {
                    let since = *self.missing.entry(*life).or_insert(reads);
                    let was_seen = self.seen.contains(life) && life.node != self.me.node;
                    if was_seen || reads >= since + READS {
                        dead.push(*life);
                    }
                }
            }
        }
        dead
    }
}

fn named(verb: &str, key: &[u8], sockets: &[Id20]) -> Command {
    let names = sockets.iter().map(Id20::to_string);
    names.fold(Command::new(verb, key), |command, name| command.arg(name))
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::BulkString(bytes) => String::from_utf8(bytes.clone()).ok(),
        Value::SimpleString(text) => Some(text.clone()),
        _ => None,
    }
}

impl Writer {
    /// Looks who signed, and cleans up after the dead.
    pub(super) async fn sweep(&mut self) {
        let looked = self.sweeper.looked;
        if self.is_away || looked.is_some_and(|at| at.elapsed() < LOOK_EVERY) {
            return;
        }
        self.sweeper.looked = Some(Instant::now());
        if std::mem::take(&mut self.sweeper.doubts_own) && !self.clean(self.sweeper.me, false).await
        {
            self.sweeper.doubts_own = true;
        }
        let key = self.sweeper.register();
        let read = Command::new("ZRANGE", &key).arg(0).arg(LIVES_MAX - 1);
        let Ok(Value::Array(signed)) = self.ask(read).await else {
            return;
        };
        let signed = signed.iter().filter_map(|life| Life::read(&text(life)?));
        let signed: BTreeSet<Life> = signed.collect();
        let rows = self.plan.roster.rows();
        let own = self.sweeper.me;
        let alive = rows.iter().map(|row| {
            // A description that was not read yet has none.
            let life = (row.card.life > 0).then_some(row.card.life);
            (row.number, life)
        });
        let alive = alive.chain([(own.node, Some(own.life))]).collect();
        let reads = self.plan.roster.reads();
        let dead = self.sweeper.dead(&signed, &alive, reads);
        if !dead.is_empty() && self.has_lock().await {
            for life in dead {
                self.bury(life).await;
            }
            let _ = self.ask(Command::new("DEL", &self.sweeper.lock())).await;
        }
    }

    /// No other node cleans up now.
    async fn has_lock(&mut self) -> bool {
        let lock = Command::new("SET", &self.sweeper.lock());
        let lock = lock.arg(self.sweeper.me.to_string()).arg("NX").arg("PX");
        let lock = lock.arg(LOCK.as_millis() as u64);
        matches!(self.ask(lock).await, Ok(Value::Okay))
    }

    /// Everything of a dead life goes, its signature last.
    async fn bury(&mut self, life: Life) {
        let before = self.plan.gauges.swept.load(Ordering::Relaxed);
        if !self.clean(life, true).await {
            return;
        }
        let forget = Command::new("DEL", &self.sweeper.index(life));
        let register = Command::new("ZREM", &self.sweeper.register());
        let strike = register.arg(life.to_string());
        if self.carried_out(vec![forget]).await && self.carried_out(vec![strike]).await {
            let swept = self.plan.gauges.swept.load(Ordering::Relaxed) - before;
            tracing::info!(
                node = life.node,
                swept,
                "the directory was cleaned of a node that is gone"
            );
        }
    }

    /// Deletes the entries that the index of a life names; of the own life, those of sockets that are gone. `false`: Redis is away, or
    /// another process is this node now.
    async fn clean(&mut self, life: Life, all: bool) -> bool {
        let index = self.sweeper.index(life);
        let mut cursor = "0".to_owned();
        loop {
            let page = Command::new("SSCAN", &index).arg(&cursor);
            let page = page.arg("COUNT").arg(PAGE);
            let (next, names) = match self.ask(page).await {
                Ok(Value::Array(answer)) => match answer.as_slice() {
                    [next, Value::Array(names)] => (text(next), names.clone()),
                    _ => (None, Vec::new()),
                },
                Ok(_) => (None, Vec::new()),
                // A stranger's key is no index.
                Err(_) => return false,
            };
            // Asked behind the answer: names that came before the other process began are none of its clients'.
            if self.plan.handed.is_so() {
                return false;
            }
            let names = names.iter().filter_map(text);
            let sockets = names.filter_map(|name| Id20::decode(name.as_bytes()));
            let sockets: Vec<Id20> = sockets
                .filter(|socket| all || !self.book.knows(socket))
                .collect();
            if !self.delete(life, &sockets).await {
                return false;
            }
            match next {
                Some(next) if next != "0" => cursor = next,
                _ => return true,
            }
        }
    }

    /// Deletes what stands of these sockets of a life, and then their names in its index.
    async fn delete(&mut self, life: Life, sockets: &[Id20]) -> bool {
        if sockets.is_empty() {
            return true;
        }
        let read = |socket: &Id20| {
            let read = Command::new("HMGET", &client_key(&socket.to_string()));
            read.arg("node").arg("uid").arg("rooms")
        };
        let entries = self
            .port
            .carry_out(sockets.iter().map(read).collect())
            .await;
        let mut commands = Vec::new();
        for (socket, entry) in sockets.iter().zip(entries) {
            let fields = match entry {
                Ok(Value::Array(fields)) => fields,
                // Its name stays in the index: nobody would delete what stands there.
                Err(trouble) if !is_stranger(&trouble) => {
                    self.lose(&trouble);
                    return false;
                }
                _ => continue,
            };
            let mut fields = fields.iter().map(text);
            let node = fields.next().flatten();
            if node.and_then(|node| node.parse().ok()) != Some(life.node) {
                continue;
            }
            let user = fields.next().flatten().filter(|user| !user.is_empty());
            let rooms = fields.next().flatten().unwrap_or_default();
            let rooms: Vec<String> = serde_json::from_str(&rooms).unwrap_or_default();
            let documents = rooms.iter().filter(|room| self.plan.documents.has(room));
            let documents = documents.map(String::as_str);
            let user = user.iter().map(String::as_str);
            delete(&socket.to_string(), user, documents, &mut commands);
            Gauges::add(&self.plan.gauges.swept, 1);
        }
        let strike = named("SREM", &self.sweeper.index(life), sockets);
        self.carried_out(commands).await && self.carried_out(vec![strike]).await
    }

    /// The last words of this node: it lists nobody.
    pub(super) async fn leave(mut self) {
        if self.is_away || self.signed.is_none() || self.plan.handed.is_so() {
            return;
        }
        self.bury(self.sweeper.me).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn life(node: u16, life: u64) -> Life {
        Life { node, life }
    }

    #[test]
    fn lives_are_written_as_they_are_read() {
        assert_eq!(Life::read(&life(7, 99).to_string()), Some(life(7, 99)));
        for stranger in ["", "7", "7.", ".9", "x.9", "70000.1", "7.9.1"] {
            assert_eq!(Life::read(stranger), None, "{stranger:?}");
        }
    }

    #[test]
    fn only_lives_without_a_lease_are_dead() {
        let mut sweeper = Sweeper::new("p:", 1, 10);
        let signed: BTreeSet<Life> = [life(1, 10), life(2, 20), life(3, 30)].into();
        let alive =
            |lives: &[(u16, Option<u64>)]| lives.iter().copied().collect::<BTreeMap<_, _>>();
        let both = alive(&[(1, Some(10)), (2, Some(20))]);
        // Nobody has seen the third: it may have come just now.
        assert_eq!(sweeper.dead(&signed, &both, 5), []);
        assert_eq!(sweeper.dead(&signed, &both, 6), []);
        assert_eq!(sweeper.dead(&signed, &both, 7), [life(3, 30)]);
        // The second was there, and is not any more.
        let own = alive(&[(1, Some(10))]);
        let mut dead = sweeper.dead(&signed, &own, 7);
        dead.sort_by_key(|life| life.node);
        assert_eq!(dead, [life(2, 20), life(3, 30)]);
        // Somebody has its number, and did not say who it is.
        assert_eq!(
            sweeper.dead(&signed, &alive(&[(2, None), (3, None)]), 9),
            []
        );
    }

    /// A node that started again under its number cleans up after its former life.
    #[test]
    fn the_former_life_of_a_number_is_dead() {
        let mut sweeper = Sweeper::new("p:", 1, 11);
        let signed: BTreeSet<Life> = [life(1, 10), life(1, 11)].into();
        let alive: BTreeMap<u16, Option<u64>> = [(1, Some(11))].into();
        assert_eq!(sweeper.dead(&signed, &alive, 1), []);
        assert_eq!(sweeper.dead(&signed, &alive, 3), [life(1, 10)]);
    }
}
