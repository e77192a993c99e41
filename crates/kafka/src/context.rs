//! What librdkafka says about itself, for the log and for figures.

use bridge::{Failures, Quiet};
use rdkafka::Statistics;
use rdkafka::config::RDKafkaLogLevel;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Of one client.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    lag: AtomicU64,
    retried: AtomicU64,
    told: Quiet,
    pub(crate) failures: Arc<Failures>,
}

impl Watch {
    pub(crate) fn new(failures: &Arc<Failures>) -> Self {
        Self {
            failures: Arc::clone(failures),
            ..Self::default()
        }
    }

    /// Trouble that passes by itself: told once a minute.
    pub(crate) fn trouble(&self, what: impl std::fmt::Display) {
        if self.told.is_due() {
            self.failures.note("trouble", &what.to_string());
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
