//! The keys of the ledger, and the scripts that read and write them. Each of them does no harm when it is carried out twice.

use super::answer::{Answered, YOUNG};
use super::own::Due;
use crate::redis::Command;
use redis::Value;
use std::time::Duration;

/// Finds the generation or begins one: a Redis without it knows nothing.
const GENERATION: &str = "local generation = redis.call('GET', KEYS[2]) \
    if not generation then generation = ARGV[1] redis.call('SET', KEYS[2], generation) \
    redis.call('SET', KEYS[3], '1', 'PX', ARGV[2]) end ";
const LOOK: &str = "return generation";
/// Takes an order that nobody has. What another node has is said.
const CLAIM: &str = "if generation ~= ARGV[3] then return {'generation', generation} end \
    if redis.call('GET', KEYS[3]) then return {'young'} end \
    local held = redis.call('GET', KEYS[1]) if held then return {'held', held} end \
    redis.call('SET', KEYS[1], ARGV[4], 'PX', ARGV[5]) return {'mine'}";
/// Writes what this node says of its own order. What another one said of it stays, and is answered.
const WRITE: &str = "local held = redis.call('GET', KEYS[1]) \
    if held and held ~= ARGV[2] and string.sub(held, 1, #ARGV[1]) ~= ARGV[1] and string.sub(held, 1, 5) ~= 'lost ' \
    then return string.sub(held, 1, 512) end \
    redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3]) return false";
/// Deletes an order of this node that was not carried out.
const STRIKE: &str = "local held = redis.call('GET', KEYS[1]) \
    if held and string.sub(held, 1, #ARGV[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end return false";
const SWAP: &str = "if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end \
    redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3]) return 1";

#[derive(Debug)]
pub(super) struct Words {
    root: String,
    remembered: u64,
}

impl Words {
    pub(super) fn new(prefix: &str, remembered: Duration) -> Self {
        Self {
            // The braces keep all keys in one slot.
            root: format!("{prefix}{{once}}"),
            remembered: ms(remembered),
        }
    }

    pub(super) fn root(&self) -> &str {
        &self.root
    }

    fn key(&self, name: &str) -> Vec<u8> {
        format!("{}:{name}", self.root).into_bytes()
    }

    fn generation(&self, script: &str, name: &str, fresh: &str) -> Command {
        let script = format!("{GENERATION}{script}");
        let keys = [
            self.key(name),
            self.root.as_bytes().to_vec(),
            format!("{}:young", self.root).into_bytes(),
        ];
        Command::script(&script, &keys).arg(fresh).arg(ms(YOUNG))
    }

    pub(super) fn look(&self, fresh: &str) -> Command {
        self.generation(LOOK, "", fresh)
    }

    pub(super) fn claim(&self, name: &str, entry: &str, known: &str, fresh: &str) -> Command {
        let claim = self.generation(CLAIM, name, fresh);
        claim.arg(known).arg(entry).arg(self.remembered)
    }

    pub(super) fn write(&self, due: &Due) -> Command {
        let key = [self.key(due.name())];
        match due.entry() {
            Some(entry) => {
                let write = Command::script(WRITE, &key).arg(due.prefix()).arg(entry);
                write.arg(self.remembered)
            }
            None => Command::script(STRIKE, &key).arg(due.prefix()),
        }
    }

    pub(super) fn swap(&self, name: &str, held: &str, entry: &str) -> Command {
        let swap = Command::script(SWAP, &[self.key(name)]);
        swap.arg(held).arg(entry).arg(self.remembered)
    }

    /// `None`: it is no answer of ours. `entry`: the one that was to be claimed.
    pub(super) fn answered(answer: &Value, entry: &str) -> Option<Answered> {
        let Value::Array(words) = answer else {
            return None;
        };
        let text = |at: usize| match words.get(at) {
            Some(Value::BulkString(text)) => Some(String::from_utf8_lossy(text).into_owned()),
            _ => None,
        };
        match (text(0).as_deref(), text(1)) {
            (Some("mine"), _) => Some(Answered::Mine),
            (Some("young"), _) => Some(Answered::Young),
            // Its answer was lost, and the claim came again.
            (Some("held"), Some(held)) if held == entry => Some(Answered::Mine),
            (Some("held"), Some(held)) => Some(Answered::Held(held)),
            (Some("generation"), Some(generation)) => Some(Answered::Another(generation)),
            _ => None,
        }
    }
}

fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
