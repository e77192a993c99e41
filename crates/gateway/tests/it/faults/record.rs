//! What one history came to, as a line of a table.

use super::fault::Outage;
use super::traffic::Came;
use std::fs::File;
use std::io::Write;
use std::time::Duration;

/// Whether the file that `FAULT_RECORD` names has this history, with nothing lost, twice or out of order.
pub fn has(fault: &str, seed: u64) -> bool {
    let path = std::env::var_os("FAULT_RECORD");
    let text = path.and_then(|path| std::fs::read_to_string(path).ok());
    let is_it = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        words.starts_with(&[fault, &seed.to_string()]) && words.get(4..7) == Some(&["0"; 3])
    };
    text.is_some_and(|text| text.lines().any(is_it))
}

#[derive(Debug)]
pub struct Record {
    fault: String,
    seed: u64,
    came: Came,
    /// Service was interrupted for so long.
    outage: Duration,
    /// From the end of the outage until no message was late any more.
    repair: Duration,
}

impl Record {
    pub fn new(fault: String, seed: u64, outage: Outage, came: Came) -> Record {
        let late = came.last_late;
        Record {
            fault,
            seed,
            outage: outage.ended - outage.began,
            repair: late.map_or(Duration::ZERO, |late| {
                late.saturating_duration_since(outage.ended)
            }),
            came,
        }
    }

    pub fn is_clean(&self) -> bool {
        self.came.lost == 0 && self.is_in_order() && self.came.came > self.came.sent
    }

    pub fn is_in_order(&self) -> bool {
        (self.came.duplicated, self.came.reordered) == (0, 0)
    }

    /// What each member on this node missed.
    pub fn lost_at(&self, node: usize) -> &[u64] {
        &self.came.lost_at[node]
    }

    /// Appends a line to the file that `FAULT_RECORD` names.
    pub fn keep(&self) {
        let Some(path) = std::env::var_os("FAULT_RECORD") else {
            return;
        };
        let file = File::options().create(true).append(true).open(path);
        let came = &self.came;
        let line = format!(
            "{} {} {} {} {} {} {} {} {} {}\n",
            self.fault,
            self.seed,
            came.sent,
            came.came,
            came.lost,
            came.duplicated,
            came.reordered,
            self.outage.as_millis(),
            came.silence.as_millis(),
            self.repair.as_millis(),
        );
        let mut file = file.expect("a file for the record");
        file.write_all(line.as_bytes()).expect("write the record");
    }
}
