//! Owns the sampling of the measured server's processes, once a second.

use crate::clock::now_ns;
use crate::process::{Process, Thread};
use anyhow::{Context, Result};
use outcome::ServerProcess;
use std::collections::BTreeMap;

#[derive(Debug)]
pub struct Watch {
    watched: Vec<Watched>,
    sampled_ns: u64,
}

#[derive(Debug)]
struct Watched {
    process: Process,
    told: ServerProcess,
    cpu_start_ns: u64,
    cpu_ns: u64,
    threads: BTreeMap<u64, Thread>,
}

/// All processes together at one moment.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    /// Of each process, since the start.
    pub cpu_ns: Vec<u64>,
    pub rss_bytes: u64,
    /// Share of the time since the last sample that the thread worst off was ready and had no core.
    pub waited: f64,
}

impl Watch {
    pub fn begin(pids: &[u32]) -> Result<Watch> {
        let watched = pids.iter().map(|&pid| {
            let process = Process { pid };
            let context = || format!("cannot watch process {pid}: is it running?");
            let cpu_ns = process.cpu_ns().with_context(context)?;
            let rss = process.rss_bytes().with_context(context)?;
            let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            Ok(Watched {
                process,
                told: ServerProcess {
                    pid,
                    name: name.trim().to_owned(),
                    rss_before_bytes: rss,
                    rss_peak_bytes: rss,
                    rss_after_bytes: rss,
                    ..ServerProcess::default()
                },
                cpu_start_ns: cpu_ns,
                cpu_ns,
                threads: process.threads().unwrap_or_default(),
            })
        });
        Ok(Watch {
            watched: watched.collect::<Result<_>>()?,
            sampled_ns: now_ns(),
        })
    }

    /// Reads all processes; `None` when none is watched. One that has ended keeps its CPU time.
    pub fn sample(&mut self) -> Option<Sample> {
        let now_ns = now_ns();
        let since_ns = now_ns.saturating_sub(self.sampled_ns).max(1);
        self.sampled_ns = now_ns;
        let mut waited_ns = 0;
        for watched in &mut self.watched {
            waited_ns = waited_ns.max(watched.waited_ns());
            if let Ok(cpu_ns) = watched.process.cpu_ns() {
                watched.cpu_ns = watched.cpu_ns.max(cpu_ns);
            }
            // The exact figure walks the page tables and would disturb the server each second.
            watched.resident(watched.process.rss_bytes_at_hand().unwrap_or(0));
        }
        let sample = Sample {
            cpu_ns: (self.watched.iter())
                .map(|w| w.cpu_ns - w.cpu_start_ns)
                .collect(),
            rss_bytes: self.watched.iter().map(|w| w.told.rss_after_bytes).sum(),
            waited: (waited_ns as f64 / since_ns as f64).min(1.0),
        };
        (!self.watched.is_empty()).then_some(sample)
    }

    /// Exact memory while connections are held, of all processes: taken once, at the end of a phase.
    pub fn note_exact_memory(&mut self) -> Option<u64> {
        let mut all = None;
        for watched in &mut self.watched {
            if let Ok(rss) = watched.process.rss_bytes() {
                watched.resident(rss);
                *all.get_or_insert(0) += rss;
            }
        }
        all
    }

    /// The processes that are not there any more; one that nobody has waited for has no memory left.
    pub fn ended(&self) -> Vec<u32> {
        let is_gone = |w: &&Watched| w.process.rss_bytes_at_hand().unwrap_or(0) == 0;
        let gone = self.watched.iter().filter(is_gone);
        gone.map(|w| w.process.pid).collect()
    }

    /// Figures by process, the work being spread evenly over all of them.
    pub fn finish(mut self, connections: u64, deliveries: u64) -> Vec<ServerProcess> {
        self.sample();
        let count = self.watched.len().max(1) as u64;
        let processes = self.watched.into_iter().map(|watched| {
            let mut told = watched.told;
            told.cpu_s = (watched.cpu_ns - watched.cpu_start_ns) as f64 / 1e9;
            let exact = watched.process.rss_bytes();
            told.rss_after_bytes = exact.unwrap_or(told.rss_after_bytes);
            told.settle(connections / count, deliveries / count);
            told
        });
        processes.collect()
    }
}

impl Watched {
    /// It has so much memory now.
    fn resident(&mut self, rss_bytes: u64) {
        self.told.rss_after_bytes = rss_bytes;
        self.told.rss_peak_bytes = self.told.rss_peak_bytes.max(rss_bytes);
    }

    /// How long the thread worst off was ready without a core since the last time.
    fn waited_ns(&mut self) -> u64 {
        let threads = self.process.threads().unwrap_or_default();
        let before = std::mem::replace(&mut self.threads, threads);
        let waits = self.threads.iter().map(|(id, thread)| {
            let before = before.get(id).copied().unwrap_or_default();
            thread.wait_ns.saturating_sub(before.wait_ns)
        });
        waits.max().unwrap_or(0)
    }
}
