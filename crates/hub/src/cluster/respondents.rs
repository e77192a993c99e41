//! The nodes that are to answer a round: this one, and perhaps others.

use crate::cluster::letter::{Reply, Response};

/// One node that was asked.
#[derive(Debug)]
struct There {
    node: u16,
    /// Its shards that have not said how many sockets they asked; `None` = it has not said how many take part.
    silent: Option<u32>,
    /// Sockets there that were asked and have not answered.
    owing: u64,
}

/// The nodes that a round was sent to.
#[derive(Debug)]
pub(crate) struct Respondents {
    /// The round is on its way to other nodes, and nobody knows yet which these are.
    unposted: bool,
    /// This node comes first.
    there: Vec<There>,
    /// A node went before all its shards had answered, or could not be asked.
    partial: bool,
}

impl Respondents {
    /// So many shards of this node are asked, and with `abroad` other nodes.
    pub(crate) fn new(here: u16, shards: u32, abroad: bool) -> Self {
        let here = There {
            silent: Some(shards),
            ..There::new(here)
        };
        Self {
            unposted: abroad,
            there: vec![here],
            partial: false,
        }
    }

    /// The round went to these nodes.
    pub(crate) fn posted(&mut self, nodes: &[u16]) {
        self.unposted = false;
        for node in nodes {
            // A node may have answered before this news came.
            if !self.there.iter().any(|there| there.node == *node) {
                self.there.push(There::new(*node));
            }
        }
    }

    /// The round went to no other node.
    pub(crate) fn refused(&mut self) {
        (self.unposted, self.partial) = (false, true);
    }

    /// A node says something. `false`: it was not asked, or was given up.
    pub(crate) fn heard(&mut self, reply: &Reply) -> bool {
        let at = self.there.iter().position(|at| at.node == reply.node);
        let there = match at {
            Some(at) => &mut self.there[at],
            // Its answer may overtake the news that it was asked.
            None if self.unposted => self.there.push_mut(There::new(reply.node)),
            None => return false,
        };
        match &reply.response {
            Response::Delivered { asked, .. } => {
                there.owing = there.owing.saturating_add(*asked);
                there.one_less(reply.parts);
            }
            Response::Sockets(_) => there.one_less(reply.parts),
            Response::Page(_) => there.takes_part(reply.parts),
            Response::Ack(_) | Response::Gone => there.owing = there.owing.saturating_sub(1),
        }
        true
    }

    /// A shard of this node that has answered in part is not waited for any more.
    pub(crate) fn given_up(&mut self, node: u16) {
        if let Some(there) = self.there.iter_mut().find(|there| there.node == node) {
            there.one_less(0);
        }
    }

    /// A node is gone; how many sockets there will never answer.
    pub(crate) fn lost(&mut self, node: u16) -> Option<u64> {
        let at = self.there.iter().position(|there| there.node == node)?;
        let there = self.there.swap_remove(at);
        self.partial |= there.silent != Some(0);
        Some(there.owing)
    }

    /// Whether somebody has not said how many sockets were asked.
    pub(crate) fn is_silent(&self) -> bool {
        self.unposted || self.there.iter().any(|there| there.silent != Some(0))
    }

    /// Whether everyone who was to be asked was.
    pub(crate) fn is_whole(&self) -> bool {
        !self.partial && !self.is_silent()
    }
}

impl There {
    fn new(node: u16) -> Self {
        Self {
            node,
            silent: None,
            owing: 0,
        }
    }

    fn takes_part(&mut self, parts: u16) {
        self.silent.get_or_insert(u32::from(parts));
    }

    fn one_less(&mut self, parts: u16) {
        self.takes_part(parts);
        self.silent = self.silent.map(|silent| silent.saturating_sub(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::letter::Found;

    fn reply(node: u16, response: Response) -> Reply {
        Reply {
            number: 1,
            node,
            parts: 1,
            response,
        }
    }

    /// It was forgotten, and the round ended by its deadline without it.
    #[test]
    fn an_answer_that_overtook_the_news_of_who_was_asked_was_forgotten() {
        let mut round = Respondents::new(1, 1, true);
        assert!(round.heard(&reply(7, Response::Sockets(Found::default()))));
        assert!(round.heard(&reply(1, Response::Sockets(Found::default()))));
        assert!(round.is_silent(), "others may have been asked");
        round.posted(&[7]);
        assert!(round.is_whole());

        let mut round = Respondents::new(1, 0, true);
        let (asked, undelivered) = (2, 0);
        assert!(round.heard(&reply(7, Response::Delivered { asked, undelivered })));
        assert!(round.heard(&reply(7, Response::Gone)));
        round.posted(&[7, 8]);
        assert!(round.is_silent());
        assert_eq!(round.lost(7), Some(1));
        assert!(!round.heard(&reply(9, Response::Gone)), "it was not asked");
    }
}
