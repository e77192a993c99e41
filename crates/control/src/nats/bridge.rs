//! The bridge to NATS as the process has it.

use super::{In, Mode, Out, Settings};
use crate::bridge::{
    Answered, Asked, Bridge, Carry, Counted, Figures, Outline, Reader, Readers, answer, counted,
    figures, settled, unwritten,
};
use ::bridge::{Failure, Failures};
use ::nats::{
    Credentials, Delivery, Fault, InFigures, Inlet, Kind, OutFigures, Outlet, Past, Pattern,
    Reading, Source, Tls, Unhandled, overlap,
};
use rules::bridge::{Record, Recorder, Unwritten, Waits};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::runtime::Handle;

/// Events out, commands in.
pub(super) struct Nats {
    settings: Settings,
    out: Option<Arc<Outgoing>>,
    readers: Readers<Inlet>,
    /// Of each inlet, what its readers handed over.
    pasts: Vec<Past>,
    partial: Counted,
    failures: Arc<Failures>,
    runtime: Handle,
}

/// The way out.
struct Outgoing {
    outlet: Outlet,
    outline: Outline,
    waits: Option<Waits>,
    /// Events that never came here.
    refused: AtomicU64,
    asked: Asked<Delivery>,
}

impl Reader for Inlet {
    fn figures(&self) -> InFigures {
        Inlet::figures(self)
    }

    fn stop(self) -> bool {
        Inlet::stop(self)
    }
}

/// Whether the client takes the settings. Nothing is asked of a server.
pub(super) fn check(settings: &Settings) -> Result<(), String> {
    checked(settings).map_err(|fault| fault.to_string())
}

fn checked(settings: &Settings) -> Result<(), Fault> {
    client(settings)?;
    let out = settings.out.as_ref();
    let out = out.map(|out| Pattern::new(&out.subject)).transpose()?;
    let written = out.map(|pattern| pattern.wildcard());
    for (at, inlet) in settings.inlets.iter().enumerate() {
        reading(inlet).check()?;
        if let Some(written) = &written
            && overlap(written, &inlet.subject)
        {
            return Err(wrong(format!(
                "{:?} is read, and events are published to {written:?}: what clients say would be carried out; use another subject",
                inlet.subject
            )));
        }
        for (other, next) in settings.inlets.iter().enumerate() {
            if at < other && overlap(&inlet.subject, &next.subject) {
                return Err(wrong(format!(
                    "{:?} and {:?} are read by two tables: a message of both would be carried out twice, with the rights of each; use other subjects",
                    inlet.subject, next.subject
                )));
            }
            if let Some(dead) = &inlet.reads.dead_letters
                && overlap(dead, &next.subject)
            {
                return Err(wrong(format!(
                    "{dead:?} is read as {:?}: its letters would come back for ever; use another subject",
                    next.subject
                )));
            }
        }
    }
    Ok(())
}

fn wrong(text: String) -> Fault {
    Fault::new(Kind::Settings, text)
}

impl Nats {
    pub(super) fn start(settings: &Settings) -> Result<Self, String> {
        let text = |fault: Fault| fault.to_string();
        let failures = Arc::default();
        let client = client(settings).map_err(text)?.noting(&failures);
        let out = settings.out.as_ref();
        let out = out.map(|out| Outgoing::start(&client, out)).transpose();
        Ok(Self {
            settings: settings.clone(),
            out: out.map_err(text)?.map(Arc::new),
            readers: Readers::new("NATS"),
            pasts: settings.inlets.iter().map(|_| Past::default()).collect(),
            partial: Counted::default(),
            failures,
            runtime: Handle::current(),
        })
    }
}

impl Bridge for Nats {
    fn recorder(&self) -> Option<Arc<dyn Recorder>> {
        let out = Arc::clone(self.out.as_ref()?);
        Some(out)
    }

    fn open(&self, carry: &Carry) -> Result<(), String> {
        for (inlet, past) in self.settings.inlets.iter().zip(&self.pasts) {
            let mut carry = counted(carry, &self.partial, format!("nats:{}", inlet.reads.group));
            let hand =
                move |place: Option<::nats::Place<'_>>, command: ::nats::Command<'_>| match carry(
                    place, command,
                )?
                .is_done()
                {
                    true => Ok(()),
                    false => Err(Unhandled::Later),
                };
            let started = client(&self.settings)
                .map(|client| client.noting(&self.failures))
                .and_then(|client| Inlet::go_on(&client, reading(inlet), past, hand))
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
        let deadline = Instant::now() + within;
        let Some(out) = &self.out else {
            return true;
        };
        let taken = settled(within, || out.outlet.figures().waiting == 0);
        let left = deadline.saturating_duration_since(Instant::now());
        taken && self.runtime.block_on(out.outlet.flush(left))
    }

    fn close(&self, within: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async move {
            if let Some(out) = &self.out {
                out.outlet.close(within).await;
            }
        })
    }

    fn ask(&self, number: u64, answered: Answered) {
        let delivery = self.out.as_ref().and_then(|out| out.asked.take(number));
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

impl Outgoing {
    fn start(client: &::nats::Settings, out: &Out) -> Result<Self, Fault> {
        let writes = &out.writes;
        let mode = match out.mode {
            Mode::Core => ::nats::Mode::Core,
            Mode::JetStream => ::nats::Mode::JetStream,
        };
        Ok(Self {
            outlet: Outlet::start(client, Pattern::new(&out.subject)?, mode, writes.limits()),
            outline: Outline::new(writes),
            waits: writes.waits(),
            refused: AtomicU64::new(0),
            asked: Asked::default(),
        })
    }

    fn figures(&self) -> OutFigures {
        let figures = self.outlet.figures();
        OutFigures {
            refused: figures.refused + self.refused.load(Ordering::Relaxed),
            ..figures
        }
    }
}

impl Recorder for Outgoing {
    fn write(&self, record: &Record<'_>, asked: Option<u64>) -> Result<(), Unwritten> {
        let sent = self.outline.tell(record, |event| self.outlet.send(event));
        let delivery = sent.map_err(|fault| {
            tracing::debug!(%fault, "an event is not taken for NATS");
            unwritten(&fault)
        })?;
        self.asked.keep(asked, delivery);
        Ok(())
    }

    fn reads_rooms(&self) -> bool {
        self.outline.reads_rooms()
    }

    fn waits(&self) -> Option<Waits> {
        self.waits
    }

    fn refused(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }
}

fn client(settings: &Settings) -> Result<::nats::Settings, Fault> {
    let credentials = match (
        &settings.credentials_file,
        &settings.user,
        &settings.password_file,
    ) {
        (Some(file), ..) => Credentials::File(file.clone()),
        (None, Some(user), Some(file)) => Credentials::Password {
            user: user.clone(),
            file: file.clone(),
        },
        _ => Credentials::None,
    };
    let tls = Tls {
        required: settings.tls,
        ca_file: settings.ca_file.clone(),
        own: settings.own_cert.clone(),
    };
    ::nats::Settings::new(&settings.urls, credentials, tls)
}

fn reading(inlet: &In) -> Reading {
    let reads = &inlet.reads;
    let group = reads.group.clone();
    Reading {
        subject: inlet.subject.clone(),
        source: match inlet.stream.clone() {
            None => Source::Subject { group },
            Some(stream) => Source::Stream {
                stream,
                durable: group,
                pending_max: inlet.pending_max,
            },
        },
        namespaces: reads.namespaces.clone(),
        operators: reads.operators(),
        dead_letters: reads.dead_letters.clone(),
        value_bytes_max: reads.value_bytes_max,
    }
}
