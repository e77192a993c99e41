//! Owns the measurements at full speed: acknowledged events and deliveries to one room.

use super::{Bench, GRACE_MS, Mark, Sample, Span};
use crate::fleet::{Fleet, FleetReport};
use crate::server::Server;
use crate::swarm::load::{Load, Pace, PublishLoad};
use anyhow::Result;
use std::thread::sleep;

impl Bench {
    pub(super) fn ack(&self, server: &mut Server, connections: u32, depth: u32) -> Result<Sample> {
        let payload_bytes = self.payload_bytes(server.target.protocol);
        let load = Load::Echo {
            depth,
            payload_bytes,
        };
        let (span, report, mut problems) = self.saturate(server, connections, 0, &load)?;
        let mut sample = span.per_operation(span.acks, server.process)?;
        sample.settle(&report);
        sample.problems.append(&mut problems);
        Ok(sample)
    }

    pub(super) fn delivery(
        &self,
        server: &mut Server,
        members: u32,
        window: u32,
    ) -> Result<Sample> {
        let payload_bytes = self.payload_bytes(server.target.protocol);
        let pace = Pace::Window(window);
        let load = Load::Publish(PublishLoad {
            rooms: 1,
            publishers: 1,
            pace,
            payload_bytes,
        });
        let (span, report, mut problems) = self.saturate(server, members, 1, &load)?;
        let mut sample = span.per_operation(span.deliveries, server.process)?;
        sample.settle(&report);
        sample.problems.append(&mut problems);
        Ok(sample)
    }

    /// Connect, warm up, measure, settle.
    fn saturate(
        &self,
        server: &mut Server,
        connections: u32,
        rooms: u32,
        load: &Load,
    ) -> Result<(Span, FleetReport, Vec<String>)> {
        let mut fleet = Fleet::for_connections(&self.launcher, connections, self.quiet)?;
        let target = server.target.clone();
        let connected = fleet.connect(&target, connections, self.effort.in_flight, rooms)?;
        let failures = connected.failures.iter();
        let problems = failures.map(|(reason, n)| format!("{n} connections failed: {reason}"));
        fleet.start(load)?;
        sleep(self.effort.warm_up);
        let begin = Mark::take(&mut fleet, server.process, true)?;
        sleep(self.effort.span);
        let end = Mark::take(&mut fleet, server.process, false)?;
        let report = fleet.finish(GRACE_MS)?;
        Ok((begin.until(&end), report, problems.collect()))
    }
}
