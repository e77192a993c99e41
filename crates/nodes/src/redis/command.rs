//! Commands of other parts of this process, many at once. Each is about one key, so that it can go to the owner of the key's slot.

use super::Port;
use super::TRY_FOR;
use super::item::{Item, Place, ended};
use super::slot::slot;
use crate::engine::Trouble;
use redis::{Cmd, ToRedisArgs, Value};
use std::time::Instant;

/// Redis's answer if a key holds a value of another type: another program has it.
const WRONG_TYPE: &str = "WRONGTYPE";

/// A command about a key. Carried out twice, it does no harm.
#[derive(Clone, Debug)]
pub(crate) struct Command {
    words: Cmd,
    slot: u16,
}

impl Command {
    pub(crate) fn new(verb: &str, key: &[u8]) -> Self {
        let mut words = Cmd::new();
        words.arg(verb).arg(key);
        Self {
            words,
            slot: slot(key),
        }
    }

    /// A script about keys of one slot.
    pub(crate) fn script(text: &str, keys: &[Vec<u8>]) -> Self {
        let mut words = Cmd::new();
        words.arg("EVAL").arg(text).arg(keys.len());
        for key in keys {
            words.arg(&key[..]);
        }
        Self {
            words,
            slot: keys.first().map_or(0, |key| slot(key)),
        }
    }

    pub(crate) fn arg(mut self, word: impl ToRedisArgs) -> Self {
        self.words.arg(word);
        self
    }
}

/// Whether a command failed because another program keeps something else under its key.
pub(crate) fn is_stranger(trouble: &Trouble) -> bool {
    trouble.to_string().contains(WRONG_TYPE)
}

impl Port {
    /// Has commands carried out, those of one server in order. It ends within seconds, whatever happens to the server.
    pub(crate) async fn carry_out(&self, commands: Vec<Command>) -> Vec<Result<Value, Trouble>> {
        let until = Instant::now() + TRY_FOR;
        let routes = self.0.routes.load_full();
        let mut answers = Vec::with_capacity(commands.len());
        for command in commands {
            let (item, answer) = Item::new(command.words, Place::Slot(command.slot), until);
            routes.send(item);
            answers.push(answer);
        }
        let mut outcomes = Vec::with_capacity(answers.len());
        for answer in answers {
            outcomes.push(answer.await.unwrap_or_else(|_| Err(ended())));
        }
        outcomes
    }

    /// Has commands about keys of one slot carried out on one connection, in order; an answer for each.
    pub async fn carry_out_together(
        &self,
        key: &[u8],
        commands: Vec<Cmd>,
    ) -> Result<Vec<Value>, Trouble> {
        let mut commands = commands.into_iter();
        let Some(first) = commands.next() else {
            return Ok(Vec::new());
        };
        let (until, place) = (Instant::now() + TRY_FOR, Place::Slot(slot(key)));
        let (item, answer) = Item::together(first, commands.collect(), place, until);
        let is_one = item.after.is_empty();
        self.0.routes.load().send(item);
        match answer.await.unwrap_or_else(|_| Err(ended()))? {
            Value::Array(answers) if !is_one => Ok(answers),
            answer => Ok(vec![answer]),
        }
    }
}

#[cfg(test)]
impl Command {
    /// As one would type it.
    pub(crate) fn text(&self) -> String {
        let words = self.words.args_iter().map(|word| match word {
            redis::Arg::Simple(word) => String::from_utf8_lossy(word).into_owned(),
            _ => String::new(),
        });
        words.collect::<Vec<_>>().join(" ")
    }
}
