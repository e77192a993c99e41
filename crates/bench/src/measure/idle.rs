//! Owns the measurements around connecting: memory that idle connections hold, CPU to make one.

use super::{Bench, Mark, Sample};
use crate::dialect::Protocol;
use crate::fleet::Fleet;
use crate::server::Server;
use anyhow::Result;
use std::thread::sleep;

/// Connects before the counted ones, so that just-in-time compilers are warm.
const WARM_UP_CONNECTS: u32 = 1_000;

impl Bench {
    /// The slope leaves out what the process needs with no connection at all.
    pub(super) fn idle(
        &self,
        server: &mut Server,
        low: u32,
        high: u32,
        plain: bool,
    ) -> Result<Sample> {
        let target = match plain {
            true => server.target_as(Protocol::Plain),
            false => server.target.clone(),
        };
        let mut fleet = Fleet::for_connections(&self.launcher, high, self.quiet)?;
        let begin = Mark::take(&mut fleet, server.process, false)?;
        let first = fleet.connect(&target, low, self.effort.in_flight, 0)?;
        sleep(self.effort.settle);
        let low_rss = server.process.rss_bytes()?;
        let second = fleet.connect(&target, high - low, self.effort.in_flight, 0)?;
        sleep(self.effort.settle);
        let end = Mark::take(&mut fleet, server.process, false)?;
        let mut sample = begin.until(&end).sample(server.process)?;
        sample.value = (sample.rss_bytes as f64 - low_rss as f64) / f64::from(high - low);
        sample.check_connected(&first);
        sample.check_connected(&second);
        if end.counters.open != u64::from(high) {
            sample
                .problems
                .push(format!("{} of {high} connections open", end.counters.open));
        }
        Ok(sample)
    }

    pub(super) fn connect(&self, server: &mut Server, connections: u32) -> Result<Sample> {
        let target = server.target.clone();
        let mut fleet =
            Fleet::for_connections(&self.launcher, WARM_UP_CONNECTS + connections, self.quiet)?;
        let warm_up = fleet.connect(&target, WARM_UP_CONNECTS, self.effort.in_flight, 0)?;
        let begin = Mark::take(&mut fleet, server.process, false)?;
        let report = fleet.connect(&target, connections, self.effort.in_flight, 0)?;
        let end = Mark::take(&mut fleet, server.process, false)?;
        let span = begin.until(&end);
        let mut sample = span.per_operation(f64::from(report.ready), server.process)?;
        sample.latency = report.latency.percentiles();
        sample.check_connected(&warm_up);
        sample.check_connected(&report);
        Ok(sample)
    }
}
