//! Owns the measurements at a constant rate: latency of a room, and many connections held while
//! messages flow. Latency counts from when a message was due, so a stall cannot hide itself.

use super::{Bench, GRACE_MS, Mark, Sample};
use crate::fleet::Fleet;
use crate::server::Server;
use crate::swarm::load::{Load, Pace, PublishLoad};
use anyhow::Result;
use std::thread::sleep;
use std::time::Duration;

/// A rate needs a longer look than a saturated server: 20 messages a second are few.
const SPAN_FACTOR: u32 = 2;

/// Members, rooms and pace of a constant-rate run.
#[derive(Clone, Copy, Debug)]
struct Paced {
    members: u32,
    rooms: u32,
    per_second: f64,
    span: Duration,
}

impl Bench {
    pub(super) fn latency(
        &self,
        server: &mut Server,
        members: u32,
        deliveries_per_second: u32,
    ) -> Result<Sample> {
        let per_second = f64::from(deliveries_per_second) / f64::from(members);
        let span = self.effort.span * SPAN_FACTOR;
        self.paced(
            server,
            Paced {
                members,
                rooms: 1,
                per_second,
                span,
            },
        )
    }

    pub(super) fn hold(
        &self,
        server: &mut Server,
        connections: u32,
        per_second: u32,
        rooms: u32,
        seconds: u32,
    ) -> Result<Sample> {
        let span = Duration::from_secs(seconds.into());
        let per_second = f64::from(per_second);
        let paced = Paced {
            members: connections,
            rooms,
            per_second,
            span,
        };
        self.paced(server, paced)
    }

    fn paced(&self, server: &mut Server, paced: Paced) -> Result<Sample> {
        let Paced {
            members,
            rooms,
            per_second,
            span,
        } = paced;
        let mut fleet = Fleet::for_connections(&self.launcher, members, self.quiet)?;
        let target = server.target.clone();
        let connected = fleet.connect(&target, members, self.effort.in_flight, rooms)?;
        let payload_bytes = self.payload_bytes(target.protocol);
        let pace = Pace::PerSecond(per_second);
        let load = PublishLoad {
            rooms,
            publishers: rooms,
            pace,
            payload_bytes,
        };
        fleet.start(&Load::Publish(load))?;
        sleep(self.effort.warm_up);
        let begin = Mark::take(&mut fleet, server.process, true)?;
        sleep(span);
        let end = Mark::take(&mut fleet, server.process, false)?;
        let files = server.process.open_files()?;
        let span = begin.until(&end);
        let mut sample = span.per_operation(span.deliveries, server.process)?;
        let report = fleet.finish(GRACE_MS)?;
        sample.check_connected(&connected);
        sample.settle(&report);
        sample.cpu_us = Some(sample.value);
        sample.value = sample.latency.map_or(0.0, |latency| latency.p99_ms);
        if end.counters.open != u64::from(members) || files < members as usize {
            let open = end.counters.open;
            let problem = format!("{open} of {members} connections open, {files} server files");
            sample.problems.push(problem);
        }
        Ok(sample)
    }
}
