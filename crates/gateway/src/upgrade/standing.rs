//! All parts of the process come to rest and then stand still, so that another process can go on from there. Whatever is dropped before the
//! word goes on as if nothing had been.

use super::backends::DRIVER;
use super::line::Broken;
use super::parts::Parts;
use super::seat::NODE;
use crate::bridges;
use control::bridge::Paused;
use nodes::Stopped;
use nodes::chronicle;
use rules::bridge::Bus;
use shard::{Frozen, Unquiet};
use std::time::{Duration, Instant};
use workers::{HeldCalls, Still};

/// The answer of a shard that lives as ever.
const SHARD: Duration = Duration::from_secs(5);
/// Until no message is under way between shards.
const QUIET: Duration = Duration::from_secs(5);
/// Those who store what was said last take it within this time.
const STORES: Duration = Duration::from_millis(500);
/// Calls of endpoints that are under way have so long.
const CALLS: Duration = Duration::from_secs(3);
/// Newcomers about whom workers decide are waited for so long.
const DECISIONS: Duration = Duration::from_millis(150);
/// Large events are on their way to their store for so long. What comes behind them is with this process alone.
const LARGE: Duration = Duration::from_secs(1);
const LOOK_INTERVAL: Duration = Duration::from_millis(5);
/// Times that shards and drivers are brought to a stand.
const TRIES: usize = 5;

/// Parts that begin nothing new, while clients are served as ever.
pub struct Rest {
    reads: Paused,
    _calls: HeldCalls,
}

impl Rest {
    /// No command is read from buses, and no call of an endpoint is under way.
    pub fn of(parts: &Parts) -> Result<Self, Broken> {
        let reads = parts.bridges.pause().map_err(|bus| {
            refused(format!(
                "{} has not acknowledged the last commands in time: try again when it answers",
                bridges::name(bus)
            ))
        })?;
        let calls = parts.workers.drivers.hold_calls(CALLS);
        Ok(Self {
            reads,
            _calls: calls.map_err(refused)?,
        })
    }

    /// Another process goes on.
    pub fn commit(self) {
        self.reads.commit();
    }
}

/// Shards, drivers of backends, the thread for the cluster and the streams of recovery, where nothing moves.
pub struct Stand {
    pub frozen: Frozen,
    pub drivers: Still,
    pub node: Option<Stopped>,
    pub streams: Option<chronicle::Still>,
}

impl Stand {
    /// For a successor that takes these ([`handoff::takes`]).
    pub fn bring(parts: &Parts, takes: u64) -> Result<Self, Broken> {
        for _ in 0..TRIES {
            if let Some(stand) = Self::try_once(parts, takes)? {
                catch_up(parts, STORES)?;
                return Ok(stand);
            }
        }
        Err(Broken::Strange(format!(
            "after {TRIES} tries shards still have news for backends or other nodes"
        )))
    }

    /// `None`: in the last moment there was something new.
    fn try_once(parts: &Parts, takes: u64) -> Result<Option<Self>, Broken> {
        let paused = parts.givers.pause();
        // What clients said last: the answers of those who store it reach the shards before these freeze.
        catch_up(parts, STORES)?;
        wait_for_answers(parts, takes)?;
        let drivers = parts.workers.drivers.stand_still();
        let drivers = drivers.map_err(Broken::Strange)?;
        let node = parts.seat.as_ref().map(|seat| seat.stop.stand_still());
        let node = node.transpose().map_err(Broken::Strange)?;
        let streams = parts.recovery.as_ref().and_then(|acks| acks.streams());
        let streams = streams.map(|streams| streams.stand_still(STORES));
        let streams = streams.transpose().map_err(refused)?;
        let round = || {
            let worked = node.as_ref().map_or(Ok(0), |node| node.round(NODE));
            let worked = worked.and_then(|worked| Ok(worked + drivers.round(DRIVER)?));
            worked.map_err(Unquiet)
        };
        let frozen = paused.freeze(takes, QUIET, round)?;
        // A shard may have told of a silent client in the moment before it froze.
        if round()? > 0 {
            return Ok(None);
        }
        Ok(Some(Self {
            frozen,
            drivers,
            node,
            streams,
        }))
    }

    /// The word was said: all is another process's.
    pub fn commit(self) {
        // First: what the node wrote of its clients outside stays there.
        self.node.iter().for_each(Stopped::note_handed);
        self.frozen.commit();
        self.drivers.commit();
        if let Some(node) = self.node {
            node.commit();
        }
        if let Some(streams) = self.streams {
            streams.commit();
        }
    }
}

fn refused(why: String) -> Broken {
    Broken::Refused(why)
}

/// What the next process stores comes behind what this one stored.
pub fn store(parts: &Parts, within: Duration) -> Result<(), Broken> {
    match &parts.history {
        Some(history) if !history.catch_up(within) => Err(Broken::Strange(
            "events wait for the store of history: try again when it takes them (sockeye_history_waiting_bytes)".to_owned(),
        )),
        _ => Ok(()),
    }
}

/// The same of all that takes what clients say. While they speak, there is no end of it.
fn catch_up(parts: &Parts, within: Duration) -> Result<(), Broken> {
    store(parts, within)?;
    let streams = parts.recovery.as_ref().and_then(|acks| acks.streams());
    if streams.is_some_and(|streams| !streams.catch_up(within)) {
        return Err(refused(
            "events wait for Redis (recovery.level = \"cluster\"): try again when it takes them"
                .to_owned(),
        ));
    }
    parts.bridges.settle(within).map_err(|bus| {
        refused(match bus {
            Bus::Kafka => "events wait for Kafka: try again when it takes them (sockeye_kafka_waiting_bytes)",
            Bus::Nats => "events wait for NATS: try again when it takes them (sockeye_nats_waiting_bytes)",
        }.to_owned())
    })
}

/// Clients about whom somebody is being asked, and those whose rooms other nodes do not know yet, cannot go. Both are mostly quick.
fn wait_for_answers(parts: &Parts, takes: u64) -> Result<(), Broken> {
    let begun = Instant::now();
    loop {
        let census = parts.givers.census(takes, SHARD)?;
        let waits_long = parts.stores_large && census.outside > 0;
        if !waits_long && (census.undecided() == 0 || begun.elapsed() >= DECISIONS) {
            return Ok(());
        }
        if waits_long && begun.elapsed() >= LARGE {
            return Err(refused(format!(
                "{} large events (or pages of history) are on their way for more than {} s: try again when their store answers sooner",
                census.outside,
                LARGE.as_secs()
            )));
        }
        std::thread::sleep(LOOK_INTERVAL);
    }
}
