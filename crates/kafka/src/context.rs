//! What librdkafka says about itself, for the log and for figures.

use rdkafka::Statistics;
use rdkafka::config::RDKafkaLogLevel;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How often the log is told of trouble that lasts.
const TELL_AGAIN: Duration = Duration::from_secs(60);

/// Of one client.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    lag: AtomicU64,
    retried: AtomicU64,
    told: Mutex<Option<Instant>>,
}

impl Watch {
    /// Trouble that passes by itself: told once a minute.
    pub(crate) fn trouble(&self, what: impl std::fmt::Display) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.is_none_or(|told| told.elapsed() >= TELL_AGAIN) {
            *told = Some(Instant::now());
            tracing::warn!("Kafka: {what}: it is tried again");
        }
    }

    pub(crate) fn log(&self, level: RDKafkaLogLevel, facility: &str, text: &str) {
        // Errors come as trouble as well.
        tracing::debug!(?level, facility, "librdkafka: {text}");
    }

    pub(crate) fn statistics(&self, statistics: &Statistics) {
        let partitions = statistics
            .topics
            .values()
            .flat_map(|topic| topic.partitions.values());
        // Negative: not read here, or not known yet.
        let lag =
            partitions.filter_map(|partition| u64::try_from(partition.consumer_lag_stored).ok());
        self.lag.store(lag.sum(), Ordering::Relaxed);
        let retried = statistics.brokers.values().map(|broker| broker.txretries);
        self.retried.store(retried.sum(), Ordering::Relaxed);
    }

    pub(crate) fn lag(&self) -> u64 {
        self.lag.load(Ordering::Relaxed)
    }

    pub(crate) fn retried(&self) -> u64 {
        self.retried.load(Ordering::Relaxed)
    }
}
