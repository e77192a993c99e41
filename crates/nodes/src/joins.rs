//! Joins that wait until the other nodes know of the room.

use std::collections::VecDeque;

/// Up to which position other nodes must know the flood of this one, and whose joins up to which ticket wait for that.
#[derive(Debug)]
struct Waiting {
    position: Option<u64>,
    shard: u16,
    ticket: u64,
}

/// In the order in which they came.
#[derive(Debug, Default)]
pub(super) struct Joins {
    waiting: VecDeque<Waiting>,
}

impl Joins {
    /// A join waits. What a shard has not told yet is told together, so its last ticket stands for all: while Redis is away, joins
    /// and leaves make nothing grow.
    pub(super) fn wait(&mut self, shard: u16, ticket: u64) {
        let mut untold = self.waiting.iter_mut();
        match untold.find(|join| join.position.is_none() && join.shard == shard) {
            Some(join) => join.ticket = ticket,
            None => self.waiting.push_back(Waiting {
                position: None,
                shard,
                ticket,
            }),
        }
    }

    /// For each shard the ticket up to which its joins are known. `told`: the position at which everything is told, if it is.
    pub(super) fn confirmed(
        &mut self,
        told: Option<u64>,
        is_confirmed: impl Fn(u64) -> bool,
    ) -> Vec<(u16, u64)> {
        let mut confirmed: Vec<(u16, u64)> = Vec::new();
        while let Some(join) = self.waiting.front_mut() {
            join.position = join.position.or(told);
            if !join.position.is_some_and(&is_confirmed) {
                break;
            }
            let (shard, ticket) = (join.shard, join.ticket);
            match confirmed.iter_mut().find(|(known, _)| *known == shard) {
                Some((_, last)) => *last = ticket,
                None => confirmed.push((shard, ticket)),
            }
            self.waiting.pop_front();
        }
        confirmed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_join_waits_for_the_position_at_which_it_is_told() {
        let mut joins = Joins::default();
        joins.wait(0, 1);
        assert_eq!(joins.confirmed(None, |_| true), [], "it is not told");
        assert_eq!(joins.confirmed(Some(7), |at| at < 7), []);
        joins.wait(0, 2);
        joins.wait(1, 1);
        assert_eq!(joins.confirmed(Some(9), |at| at <= 7), [(0, 1)]);
        assert_eq!(joins.confirmed(Some(9), |at| at <= 9), [(0, 2), (1, 1)]);
    }

    /// Each join while Redis was away stayed in memory until it was back.
    #[test]
    fn joins_without_redis_take_no_memory() {
        let mut joins = Joins::default();
        for ticket in 1..=10_000 {
            joins.wait(0, ticket);
            joins.wait(1, ticket);
            assert_eq!(joins.confirmed(Some(5), |_| false), []);
        }
        assert!(joins.waiting.len() <= 3, "{}", joins.waiting.len());
        let all = [(0, 10_000), (1, 10_000)];
        assert_eq!(joins.confirmed(Some(5), |_| true), all);
    }
}
