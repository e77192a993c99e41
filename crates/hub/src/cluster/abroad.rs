//! What a round waits for from other nodes.

use crate::cluster::letter::{Reply, Response};

/// One node that was asked.
#[derive(Debug)]
struct There {
    node: u16,
    /// Its shards that have not said how many sockets they asked; `None` = it has not said how many take part.
    silent: Option<u16>,
    /// Sockets there that were asked and have not answered.
    owing: u64,
}

/// The nodes that a round was sent to.
#[derive(Debug, Default)]
pub(crate) struct Abroad {
    /// Nobody knows yet which nodes these are.
    unposted: bool,
    there: Vec<There>,
    /// A node went before all its shards had answered, or could not be asked.
    partial: bool,
}

impl Abroad {
    /// A round that is on its way to other nodes.
    pub(crate) fn asked() -> Self {
        Self {
            unposted: true,
            ..Self::default()
        }
    }

    /// It went to these nodes.
    pub(crate) fn posted(&mut self, nodes: &[u16]) {
        self.unposted = false;
        self.there.extend(nodes.iter().map(|node| There {
            node: *node,
            silent: None,
            owing: 0,
        }));
    }

    /// It went nowhere.
    pub(crate) fn refused(&mut self) {
        (self.unposted, self.partial) = (false, true);
    }

    /// A node says something. `false`: it was not asked, or was given up.
    pub(crate) fn heard(&mut self, reply: &Reply) -> bool {
        let Some(there) = self.there.iter_mut().find(|at| at.node == reply.node) else {
            return false;
        };
        match &reply.response {
            Response::Delivered { asked, .. } => {
                there.owing = there.owing.saturating_add(*asked);
                there.one_less(reply.parts);
            }
            Response::Sockets(_) => there.one_less(reply.parts),
            Response::Ack(_) | Response::Gone => there.owing = there.owing.saturating_sub(1),
        }
        true
    }

    /// A node is gone; how many sockets there will never answer.
    pub(crate) fn lost(&mut self, node: u16) -> Option<u64> {
        let at = self.there.iter().position(|there| there.node == node)?;
        let there = self.there.swap_remove(at);
        self.partial |= there.silent != Some(0);
        Some(there.owing)
    }

    /// Somebody has not said how many sockets were asked.
    pub(crate) fn is_silent(&self) -> bool {
        self.unposted || self.there.iter().any(|there| there.silent != Some(0))
    }

    /// Everyone who was to be asked was.
    pub(crate) fn is_whole(&self) -> bool {
        !self.partial && !self.is_silent()
    }
}

impl There {
    fn one_less(&mut self, parts: u16) {
        self.silent = Some(self.silent.unwrap_or(parts).saturating_sub(1));
    }
}
