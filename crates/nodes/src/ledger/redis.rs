//! The ledger in Redis.

use super::answer::Answered;
use super::own::Due;
use super::words::Words;
use crate::engine::Trouble;
use crate::redis::settings::Settings;
use crate::redis::{self, Command, Port, odd};
use ::redis::Value;

#[derive(Debug)]
pub(super) struct Redis {
    port: Port,
    words: Words,
}

impl Redis {
    pub(super) async fn open(settings: Settings, words: Words) -> Result<Self, Trouble> {
        let port = redis::connect(settings).await?;
        Ok(Self { port, words })
    }

    pub(super) fn root(&self) -> &str {
        self.words.root()
    }

    pub(super) async fn look(&self, fresh: &str) -> Result<String, Trouble> {
        match self.ask(self.words.look(fresh)).await? {
            Value::BulkString(found) => Ok(String::from_utf8_lossy(&found).into_owned()),
            other => Err(odd(&other, "it was asked for a generation")),
        }
    }

    pub(super) async fn claim(
        &self,
        name: &str,
        entry: &str,
        known: &str,
        fresh: &str,
    ) -> Result<Answered, Trouble> {
        let answer = self
            .ask(self.words.claim(name, entry, known, fresh))
            .await?;
        Words::answered(&answer, entry).ok_or_else(|| odd(&answer, "an order was claimed"))
    }

    /// `Some`: what another node said of the same order, or this one said later.
    pub(super) async fn write(&self, due: &[Due]) -> Vec<Result<Option<String>, Trouble>> {
        let commands = due.iter().map(|due| self.words.write(due));
        let answers = self.port.carry_out(commands.collect()).await;
        let held = |answer| match answer {
            Value::BulkString(held) => Some(String::from_utf8_lossy(&held).into_owned()),
            _ => None,
        };
        let answers = answers.into_iter().map(|answer| answer.map(held));
        answers.collect()
    }

    pub(super) async fn swap(&self, name: &str, held: &str, entry: &str) -> Result<bool, Trouble> {
        let swapped = self.ask(self.words.swap(name, held, entry)).await?;
        Ok(matches!(swapped, Value::Int(1)))
    }

    async fn ask(&self, command: Command) -> Result<Value, Trouble> {
        let answers = self.port.carry_out(vec![command]).await;
        let answer = answers.into_iter().next();
        answer.unwrap_or_else(|| Err(Trouble::new("Redis gave no answer")))
    }
}
