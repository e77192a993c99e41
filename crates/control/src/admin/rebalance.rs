//! How sessions are evened out over nodes: who has too many, and when that is over.

use nodes::roster::Row;
use process::moving::Wish;
use serde::Serialize;
use std::time::{Duration, Instant};
use utoipa::ToSchema;

/// Nodes are even if none has more than this above the mean, in percent.
const EVEN_PERCENT: u64 = 5;

/// The first leave so much later: by then a shard knows which clients are idle.
const LEAD: Duration = Duration::from_secs(1);

/// A node's part in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct Share {
    number: u16,
    state: String,
    /// At most 5 s old.
    sessions: u64,
    /// So many are to go elsewhere.
    surplus: u64,
    /// At most so many in a second.
    per_second: u64,
}

impl Share {
    /// What is asked of the node; `None`: nothing.
    pub(crate) fn wish(&self) -> Option<(u16, Wish)> {
        let wish = Wish::Rebalance {
            count: self.surplus,
            per_second: self.per_second,
        };
        (self.surplus > 0).then_some((self.number, wish))
    }
}

/// Only nodes that take clients count.
fn takes_clients(row: &Row) -> bool {
    row.heard && row.card.state == "ready"
}

/// Rounded up: the last one may stay where it is.
fn mean(rows: &[Row]) -> u64 {
    let those = || rows.iter().filter(|row| takes_clients(row));
    let sessions: u64 = those().map(|row| row.card.sessions).sum();
    sessions.div_ceil(those().count().max(1) as u64)
}

fn is_even(sessions: u64, mean: u64) -> bool {
    sessions * 100 <= mean * (100 + EVEN_PERCENT)
}

/// Everybody's part, if all together send away so many sessions in a second.
pub(crate) fn shares(rows: &[Row], per_second: u64) -> Vec<Share> {
    let mean = mean(rows);
    let surplus = |row: &Row| match takes_clients(row) && !is_even(row.card.sessions, mean) {
        true => row.card.sessions - mean,
        false => 0,
    };
    let all: u64 = rows.iter().map(surplus).sum();
    let share = |row: &Row| {
        let surplus = surplus(row);
        let part = (per_second * surplus).checked_div(all).unwrap_or_default();
        Share {
            number: row.number,
            state: match row.heard {
                true => row.card.state.clone(),
                false => "silent".to_owned(),
            },
            sessions: row.card.sessions,
            surplus,
            per_second: part.max(u64::from(surplus > 0)),
        }
    };
    rows.iter().map(share).collect()
}

/// A rebalance that this node carries out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    count: u64,
    began: Instant,
    window: Duration,
    /// Sessions that were sent away before.
    gone_before: u64,
    /// The mean, as the node that gave the order knew it.
    goal: u64,
}

impl Run {
    pub(crate) fn new(
        (count, per_second): (u64, u64),
        began: Instant,
        sessions: u64,
        gone_before: u64,
    ) -> Self {
        let window = Duration::from_millis(count * 1_000 / per_second.max(1));
        Self {
            count,
            began,
            window,
            gone_before,
            goal: sessions.saturating_sub(count),
        }
    }

    pub(crate) fn window(&self) -> Duration {
        self.window
    }

    /// How many are still to go, after so many were sent away.
    pub(crate) fn left(&self, gone: u64) -> u64 {
        self.count.saturating_sub(gone - self.gone_before)
    }

    /// Whether there is nothing left to do: all have gone, so many left by themselves that the nodes are even, or their time is over.
    pub(crate) fn is_over(&self, gone: u64, sessions: u64, patience: Duration) -> bool {
        self.left(gone) == 0
            || is_even(sessions, self.goal)
            || self.began.elapsed() > LEAD + self.window + patience
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodes::card::Card;

    fn row(number: u16, state: &str, sessions: u64) -> Row {
        Row {
            number,
            card: Card {
                sessions,
                state: state.to_owned(),
                ..Card::default()
            },
            heard: true,
        }
    }

    fn surplus(rows: &[Row]) -> Vec<(u64, u64)> {
        let shares = shares(rows, 100);
        shares
            .iter()
            .map(|share| (share.surplus, share.per_second))
            .collect()
    }

    #[test]
    fn a_node_gives_what_it_has_above_the_mean_of_those_that_take_clients() {
        let rows = [
            row(0, "ready", 900),
            row(1, "ready", 300),
            row(2, "ready", 0),
        ];
        assert_eq!(surplus(&rows), [(500, 100), (0, 0), (0, 0)]);
        let rows = [row(0, "ready", 104), row(1, "ready", 96)];
        assert_eq!(surplus(&rows), [(0, 0); 2], "even within 5 %");
        let rows = [
            row(0, "ready", 100),
            row(1, "draining", 0),
            row(2, "starting", 0),
        ];
        assert_eq!(surplus(&rows), [(0, 0); 3], "nobody takes them");
        let rows = [
            row(0, "ready", 400),
            row(1, "ready", 300),
            row(2, "ready", 50),
        ];
        assert_eq!(surplus(&rows), [(150, 75), (50, 25), (0, 0)]);
        assert_eq!(surplus(&[]), []);
    }

    #[test]
    fn it_is_over_when_all_have_gone_or_the_nodes_are_even() {
        let run = Run::new((50, 100), Instant::now(), 100, 7);
        assert_eq!(run.window(), Duration::from_millis(500));
        let is_over = |gone, sessions| run.is_over(gone, sessions, Duration::from_secs(60));
        assert!(!is_over(7, 100));
        assert_eq!((run.left(7), run.left(40), run.left(57)), (50, 17, 0));
        assert!(is_over(57, 100), "they came back");
        assert!(is_over(30, 52) && !is_over(30, 53));
        let late = Run::new((0, 1), Instant::now(), 100, 7);
        assert!(late.is_over(7, 100, Duration::ZERO));
    }
}
