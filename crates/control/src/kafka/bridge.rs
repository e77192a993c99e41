//! The bridge to Kafka as the process has it.

use super::outgoing::Outgoing;
use super::{In, Settings};
use crate::bridge::{
    Answered, Bridge, Carry, Counted, Figures, Reader, Readers, answer, counted, figures, settled,
};
use ::bridge::{Failure, Failures};
use ::kafka::{Delivery, Fault, InFigures, Inlet, Past, Reading, Topic};
use rules::bridge::Recorder;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;

/// Events out, commands in.
pub(super) struct Kafka {
    settings: Settings,
    out: Option<Arc<Outgoing>>,
    readers: Readers<Inlet>,
    /// Of each inlet, what its readers handed over.
    pasts: Vec<Past>,
    partial: Counted,
    failures: Arc<Failures>,
    runtime: Handle,
}

impl Reader for Inlet {
    fn figures(&self) -> InFigures {
        Inlet::figures(self)
    }

    fn stop(self) -> bool {
        Inlet::stop(self)
    }
}

/// Whether librdkafka takes the settings. Nothing is asked of a broker.
pub(super) fn check(settings: &Settings) -> Result<(), String> {
    let text = |fault: Fault| fault.to_string();
    client(settings)
        .and_then(|client| client.check())
        .map_err(text)?;
    for inlet in &settings.inlets {
        reading(inlet).map_err(text)?;
    }
    Ok(())
}

impl Kafka {
    /// Brokers may be away: they are looked for in the background. Within a runtime.
    pub(super) fn start(settings: &Settings) -> Result<Self, String> {
        let failures = Arc::default();
        let client = client(settings).map_err(|fault| fault.to_string())?;
        let client = client.noting(&failures);
        let out = settings.out.clone();
        let out = out.map(|out| Outgoing::start(client, out)).transpose();
        Ok(Self {
            settings: settings.clone(),
            out: out.map_err(|fault| fault.to_string())?,
            readers: Readers::new("Kafka"),
            pasts: settings.inlets.iter().map(|_| Past::default()).collect(),
            partial: Counted::default(),
            failures,
            runtime: Handle::current(),
        })
    }
}

impl Bridge for Kafka {
    fn recorder(&self) -> Option<Arc<dyn Recorder>> {
        let out = Arc::clone(self.out.as_ref()?);
        Some(out)
    }

    fn open(&self, carry: &Carry) -> Result<(), String> {
        for (inlet, past) in self.settings.inlets.iter().zip(&self.pasts) {
            let mut carry = counted(carry, &self.partial, format!("kafka:{}", inlet.reads.group));
            let hand = move |place: ::kafka::Place<'_>, command: ::kafka::Command<'_>| {
                carry(Some(place), command)
            };
            let started = client(&self.settings)
                .map(|client| client.noting(&self.failures))
                .and_then(|client| Inlet::go_on(&client, reading(inlet)?, past, hand))
                .map_err(|fault| fault.to_string())?;
            self.readers.add(started);
        }
        Ok(())
    }

    fn stop_reading(&self) -> bool {
        self.readers.stop()
    }

    fn has_stopped(&self) -> bool {
        self.readers.have_stopped()
    }

    fn settle(&self, within: Duration) -> bool {
        settled(within, || {
            let out = self.out.as_ref();
            out.is_none_or(|out| out.figures().waiting == 0)
        })
    }

    fn close(&self, within: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async move {
            if let Some(out) = &self.out {
                out.close(within).await;
            }
        })
    }

    fn ask(&self, number: u64, answered: Answered) {
        let delivery = self.out.as_ref().and_then(|out| out.take(number));
        answer(&self.runtime, delivery.map(Delivery::answer), answered);
    }

    fn failures(&self) -> Vec<Failure> {
        self.failures.newest()
    }

    fn pass_time(&self) {
        self.failures.pass_time();
    }

    fn figures(&self) -> Figures {
        let out = self.out.as_ref().map(|out| out.figures());
        figures(&self.readers, &self.partial, out)
    }
}

fn client(settings: &Settings) -> Result<::kafka::Settings, Fault> {
    ::kafka::Settings::new(&settings.brokers.join(","), settings.properties.clone())
}

fn reading(inlet: &In) -> Result<Reading, Fault> {
    let reads = &inlet.reads;
    let operators = reads.operators();
    let topics = inlet.topics.iter();
    let topics = topics.map(|name| Topic::new(name, reads.namespaces.clone(), operators.clone()));
    Ok(Reading {
        group: reads.group.clone(),
        topics: topics.collect::<Result<_, _>>()?,
        dead_letters: reads.dead_letters.clone(),
        value_bytes_max: reads.value_bytes_max,
    })
}
