//! How to reach the brokers, and which of librdkafka's properties may be set.

use bridge::{Failures, Fault, Kind};
use rdkafka::ClientConfig;
use std::fmt;
use std::sync::Arc;

/// Whatever decides about promises of the bridge is not among them (`acks`, `enable.idempotence`, commits). Neither is
/// `group.instance.id`: all members of a process, and all nodes with the same file, would have the same one and put each other out.
const PROPERTIES: [&str; 21] = [
    "auto.offset.reset",
    "batch.num.messages",
    "batch.size",
    "broker.address.family",
    "client.id",
    "client.rack",
    "compression.type",
    "fetch.max.bytes",
    "fetch.min.bytes",
    "fetch.wait.max.ms",
    "heartbeat.interval.ms",
    "linger.ms",
    "metadata.max.age.ms",
    "partition.assignment.strategy",
    "queued.max.messages.kbytes",
    "reconnect.backoff.max.ms",
    "reconnect.backoff.ms",
    "session.timeout.ms",
    "socket.keepalive.enable",
    "socket.timeout.ms",
    "topic.metadata.refresh.interval.ms",
];

/// Ours in place of librdkafka's.
const DEFAULTS: [(&str, &str); 5] = [
    ("client.id", "sockeye"),
    ("reconnect.backoff.max.ms", "2000"),
    ("socket.keepalive.enable", "true"),
    // A topic that is made later is found within this time.
    ("topic.metadata.refresh.interval.ms", "10000"),
    // Figures: lag, retries.
    ("statistics.interval.ms", "1000"),
];

/// Brokers and properties.
#[derive(Clone)]
pub struct Settings {
    brokers: String,
    properties: Vec<(String, String)>,
    failures: Arc<Failures>,
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("brokers", &self.brokers)
            .finish_non_exhaustive()
    }
}

impl Settings {
    /// `brokers`: `host:port`, separated by commas. `properties`: names and values of librdkafka.
    ///
    /// # Errors
    /// There is no broker, or a property may not be set.
    pub fn new(
        brokers: &str,
        properties: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Self, Fault> {
        if brokers.trim().is_empty() {
            let text = "cannot use Kafka: no broker is named: give host:port";
            return Err(Fault::new(Kind::Settings, text));
        }
        let properties: Vec<_> = properties.into_iter().collect();
        properties.iter().try_for_each(|(name, _)| allowed(name))?;
        let brokers = brokers.to_owned();
        Ok(Self {
            brokers,
            properties,
            failures: Arc::default(),
        })
    }

    /// Whoever is made with these settings notes what fails here.
    #[must_use]
    pub fn noting(self, failures: &Arc<Failures>) -> Self {
        let failures = Arc::clone(failures);
        Self { failures, ..self }
    }

    pub(crate) fn failures(&self) -> &Arc<Failures> {
        &self.failures
    }

    /// Whether librdkafka takes the values of the properties. No broker is asked.
    ///
    /// # Errors
    /// One has a value that it does not take.
    pub fn check(&self) -> Result<(), Fault> {
        let native = self.client().create_native_config();
        native.map(drop).map_err(|error| {
            Fault::new(
                Kind::Settings,
                format!("cannot use the properties: {error}"),
            )
        })
    }

    pub(crate) fn client(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        let own = DEFAULTS.map(|(name, value)| (name.to_owned(), value.to_owned()));
        for (name, value) in own.into_iter().chain(self.properties.iter().cloned()) {
            config.set(name, value);
        }
        config.set("bootstrap.servers", &self.brokers);
        config
    }
}

fn allowed(name: &str) -> Result<(), Fault> {
    if PROPERTIES.contains(&name) {
        return Ok(());
    }
    let secured = ["security.", "ssl.", "sasl.", "enable.ssl"];
    let text = if secured.iter().any(|start| name.starts_with(start)) {
        format!(
            "cannot set the property {name}: this build speaks to Kafka without TLS and SASL; use a listener without them, or a tunnel"
        )
    } else {
        format!(
            "cannot set the property {name}: allowed are {}",
            PROPERTIES.join(", ")
        )
    };
    Err(Fault::new(Kind::Settings, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &str) -> Result<Settings, Fault> {
        Settings::new("127.0.0.1:9092", [(name.to_owned(), "1".to_owned())])
    }

    #[test]
    fn what_promises_rest_on_cannot_be_set() {
        assert!(of("linger.ms").is_ok());
        for name in [
            "acks",
            "enable.idempotence",
            "enable.auto.commit",
            "bootstrap.servers",
            "",
        ] {
            let fault = of(name).expect_err(name);
            assert_eq!(fault.kind(), Kind::Settings);
            assert!(
                fault.to_string().contains("allowed are auto.offset.reset,"),
                "{fault}"
            );
        }
    }

    #[test]
    fn values_are_those_of_the_client() {
        let of = |value: &str| {
            let property = ("linger.ms".to_owned(), value.to_owned());
            Settings::new("127.0.0.1:9092", [property]).and_then(|settings| settings.check())
        };
        assert!(of("20").is_ok());
        let fault = of("soon").expect_err("no number").to_string();
        assert!(fault.contains("linger.ms"), "{fault}");
    }

    #[test]
    fn tls_is_refused_with_the_reason() {
        let fault = of("sasl.password").expect_err("no SASL");
        assert!(fault.to_string().contains("without TLS and SASL"));
        assert!(Settings::new(" ", []).is_err());
    }
}
