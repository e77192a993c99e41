//! The way to Redis, as the one who opens the store has it: one server, Sentinels, or a cluster.

use crate::store::Answer;
use redis::{Cmd, Value};
use std::fmt::Debug;

/// Connections to Redis that are made anew by themselves.
pub trait Door: Debug + Send + Sync {
    /// Has commands about keys of one slot carried out on one connection, in order; an answer for each. Whatever happens to the
    /// server, it ends. After a failure nobody knows how many were carried out, and they may have been twice.
    fn carry_out<'a>(&'a self, key: &'a str, commands: Vec<Cmd>) -> Answer<'a, Vec<Value>>;
}
