//! What callers of the server API did: calls under Idempotency-Keys, and how much of its rate each has used.

use crate::bounds::{
    ANSWER_BYTES_MAX, CALLED_NAMESPACE_BYTES_MAX, DIGEST_BYTES, KEY_BYTES_MAX, NAME_BYTES_MAX,
    NUMBER_LIMIT,
};
use crate::unfit::{Unfit, need};
use prost::Message;

/// A call under an Idempotency-Key that was carried out, or may be.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Called {
    /// The name of the API key.
    #[prost(string, tag = "1")]
    pub caller: String,
    #[prost(string, tag = "2")]
    pub namespace: String,
    #[prost(string, tag = "3")]
    pub key: String,
    /// Of the order: another one under this key is a mistake.
    #[prost(bytes = "vec", tag = "4")]
    pub digest: Vec<u8>,
    #[prost(uint64, tag = "5")]
    pub age_ms: u64,
    /// What its caller is told, in the words that nodes have for each other.
    #[prost(string, tag = "6")]
    pub answer: String,
}

/// What a caller has used of its window.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Caller {
    #[prost(string, tag = "1")]
    pub name: String,
    /// Calls.
    #[prost(uint32, tag = "2")]
    pub used: u32,
    /// Until the window ends.
    #[prost(uint64, tag = "3")]
    pub left_ms: u64,
}

impl Called {
    /// Its bytes in a message.
    pub fn size(&self) -> usize {
        self.encoded_len()
    }

    pub(crate) fn check(&self) -> Result<(), Unfit> {
        let named = self.caller.len() <= NAME_BYTES_MAX;
        need(named, "calls.caller", "a name of at most 65,536 bytes")?;
        // No promise of a key is given up for a long name.
        let named = self.namespace.len() <= CALLED_NAMESPACE_BYTES_MAX;
        need(named, "calls.namespace", "at most 1 MiB")?;
        let is_key = (1..=KEY_BYTES_MAX).contains(&self.key.len());
        need(is_key, "calls.key", "1 to 255 bytes")?;
        let digest = self.digest.len();
        need(digest == DIGEST_BYTES, "calls.digest", "32 bytes")?;
        let age_ms = self.age_ms;
        let field = format!("calls.age_ms = {age_ms}");
        need(age_ms < NUMBER_LIMIT, field, "below 2^60")?;
        let is_answer = (1..=ANSWER_BYTES_MAX).contains(&self.answer.len());
        need(is_answer, "calls.answer", "1 byte to 8 MiB")
    }
}

impl Caller {
    pub(crate) fn check(&self) -> Result<(), Unfit> {
        let named = self.name.len() <= NAME_BYTES_MAX;
        need(named, "callers.name", "at most 65,536 bytes")?;
        let left_ms = self.left_ms;
        let field = format!("callers.left_ms = {left_ms}");
        need(left_ms < NUMBER_LIMIT, field, "below 2^60")
    }
}
