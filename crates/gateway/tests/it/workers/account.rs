//! What clients said, compared with what workers wrote down.

use super::crowd::{Life, Said};
use servers::Handled;
use std::collections::HashMap;
use std::fs::File;
use std::io::Write;
use std::time::{Duration, Instant};

/// What one history came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Account {
    pub said: usize,
    /// Handled at least once.
    pub handled: usize,
    /// Marked as perhaps handled before.
    pub marked: usize,
    /// Answered with an error.
    pub refused: usize,
    /// Answered, and no worker handled it.
    pub lost: usize,
    /// Not answered at all.
    pub unanswered: usize,
    /// Handled twice without a mark.
    pub twice: usize,
    /// Handled behind a later one of the same client.
    pub reordered: usize,
    pub disconnects: usize,
}

impl Account {
    /// `ledgers`: one of each worker.
    pub fn of(lives: &[Life], ledgers: &[Vec<Handled>]) -> Account {
        let mut account = Account::default();
        let mut times: HashMap<(u32, u32), [usize; 2]> = HashMap::new();
        for ledger in ledgers {
            let mut last: HashMap<u32, u32> = HashMap::new();
            for handled in ledger {
                let last = last.entry(handled.client).or_default();
                account.reordered += usize::from(handled.number <= *last);
                *last = handled.number;
                let of_event = times.entry((handled.client, handled.number)).or_default();
                of_event[usize::from(handled.redelivered)] += 1;
            }
        }
        for life in lives {
            account.disconnects += usize::from(life.lost.is_some());
            for said in &life.said {
                let times = times.get(&(said.client, said.number));
                account.enter(said, times.copied().unwrap_or_default());
            }
        }
        account
    }

    fn enter(&mut self, said: &Said, [unmarked, marked]: [usize; 2]) {
        let answer = said.answered.as_ref().map(|(_, error)| error.is_some());
        self.said += 1;
        self.handled += usize::from(unmarked + marked > 0);
        self.marked += marked;
        self.refused += usize::from(answer == Some(true));
        self.lost += usize::from(answer == Some(false) && unmarked + marked == 0);
        self.unanswered += usize::from(answer.is_none());
        self.twice += usize::from(unmarked > 1);
    }

    /// Every event was handled once, or again with a mark; in order, and nobody was disconnected.
    pub fn is_clean(&self) -> bool {
        let Account {
            lost,
            unanswered,
            twice,
            reordered,
            disconnects,
            ..
        } = self;
        [lost, unanswered, twice, reordered, disconnects] == [&0; 5]
    }
}

/// How long events waited for their answers, shortest first.
#[derive(Debug)]
pub struct Delays(Vec<Duration>);

impl Delays {
    pub fn of<'a>(lives: &'a [Life], wanted: impl Fn(&Said, Instant) -> bool + 'a) -> Delays {
        let said = lives.iter().flat_map(|life| &life.said);
        let delays = said.filter_map(|said| {
            let (answered, _) = said.answered.as_ref()?;
            wanted(said, *answered).then(|| answered.saturating_duration_since(said.due))
        });
        let mut delays: Vec<Duration> = delays.collect();
        delays.sort_unstable();
        Delays(delays)
    }

    /// Of those events that were under way at this moment, or due within `window` behind it.
    pub fn around(lives: &[Life], moment: Instant, window: Duration) -> Delays {
        Delays::of(lives, |said, answered| {
            answered > moment && said.due < moment + window
        })
    }

    /// So many of a thousand are shorter.
    pub fn permille(&self, permille: usize) -> Duration {
        let at = (self.0.len() * permille / 1_000).min(self.0.len().saturating_sub(1));
        self.0.get(at).copied().unwrap_or_default()
    }
}

/// Appends a line to the file that `WORKERS_RECORD` names: `what` and numbers.
pub fn keep(what: &str, numbers: &[(&str, f64)]) {
    let words = numbers
        .iter()
        .map(|(name, value)| format!("{name}={value}"));
    let line = format!("{what} {}\n", words.collect::<Vec<_>>().join(" "));
    eprint!("{line}");
    let Some(path) = std::env::var_os("WORKERS_RECORD") else {
        return;
    };
    let file = File::options().create(true).append(true).open(path);
    let written = file.and_then(|mut file| file.write_all(line.as_bytes()));
    written.expect("write the record");
}
