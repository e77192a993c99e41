//! The bridge as the process has it: started before the rules are made, opened for commands when shards are there, closed at the end.

use super::outgoing::{Outgoing, unwritten};
use super::{Carry, Figures, In, Settings, orders};
use ::kafka::{Fault, Inlet, Operator, Reading, Topic};
use rules::kafka::{Recorder, read_question, write_answer};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};
use tokio::runtime::Handle;

/// Brokers have so long for the last commit.
const STOP_TIME: Duration = Duration::from_secs(3);

/// Events out, commands in.
pub struct Bridge {
    out: Option<Arc<Outgoing>>,
    inlets: Mutex<Vec<Inlet>>,
    /// Of inlets that were stopped.
    stopped: Mutex<Figures>,
    partial: Arc<AtomicU64>,
    runtime: Handle,
}

impl fmt::Debug for Bridge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bridge").finish_non_exhaustive()
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

impl Bridge {
    /// Brokers may be away: they are looked for in the background. Within a runtime.
    pub fn start(settings: &Settings) -> Result<Arc<Self>, String> {
        let client = client(settings).map_err(|fault| fault.to_string())?;
        let out = settings.out.clone();
        let out = out.map(|out| Outgoing::start(client, out)).transpose();
        Ok(Arc::new(Self {
            out: out.map_err(|fault| fault.to_string())?,
            inlets: Mutex::default(),
            stopped: Mutex::default(),
            partial: Arc::default(),
            runtime: Handle::current(),
        }))
    }

    /// The way of records out.
    pub fn recorder(&self) -> Option<Arc<dyn Recorder>> {
        let out = Arc::clone(self.out.as_ref()?);
        Some(out)
    }

    /// Begins to read commands.
    pub fn open(&self, settings: &Settings, carry: &Carry) -> Result<(), String> {
        for inlet in &settings.inlets {
            let (carry, partial) = (Arc::clone(carry), Arc::clone(&self.partial));
            let hand = move |command: ::kafka::Command<'_>| {
                let carried = orders::carry_out(&command, &carry)?;
                if !carried.everywhere {
                    partial.fetch_add(1, Ordering::Relaxed);
                }
                Ok(())
            };
            let started = client(settings)
                .and_then(|client| Inlet::start(&client, reading(inlet)?, hand))
                .map_err(|fault| fault.to_string())?;
            lock(&self.inlets).push(started);
        }
        Ok(())
    }

    /// Stops to read commands: those at hand are carried out, and all are committed. Blocks for that time, and not for long: brokers may be
    /// away.
    pub fn stop_reading(&self) {
        let inlets = std::mem::take(&mut *lock(&self.inlets));
        let (told, ends) = mpsc::channel();
        let count = inlets.len();
        for inlet in inlets {
            let told = told.clone();
            add(&mut lock(&self.stopped), &inlet);
            std::thread::spawn(move || {
                inlet.stop();
                // Nobody may listen any more.
                let _ = told.send(());
            });
        }
        let deadline = Instant::now() + STOP_TIME;
        for _ in 0..count {
            let left = deadline.saturating_duration_since(Instant::now());
            if ends.recv_timeout(left).is_err() {
                tracing::warn!(
                    "Kafka does not answer at the end: commands that were handed over last may be read again"
                );
                return;
            }
        }
    }

    /// Writes what waits, for at most so long.
    pub async fn close(&self, within: Duration) {
        if let Some(out) = &self.out {
            out.close(within).await;
        }
    }

    /// Answers a shard's question about a record.
    pub fn ask(&self, question: &[u8], answered: impl FnOnce(Option<Box<[u8]>>) + Send + 'static) {
        let number = read_question(question);
        let delivery = number.and_then(|number| self.out.as_ref()?.take(number));
        let Some(delivery) = delivery else {
            // It was not taken, and its client knows.
            return answered(None);
        };
        self.runtime.spawn(async move {
            let written = delivery.answer().await;
            let answer = written.map(drop).map_err(|fault| unwritten(&fault));
            answered(Some(write_answer(answer)));
        });
    }

    pub(crate) fn figures(&self) -> Figures {
        let mut figures = Figures {
            // Others read these partitions by now.
            lag: 0,
            ..*lock(&self.stopped)
        };
        lock(&self.inlets)
            .iter()
            .for_each(|inlet| add(&mut figures, inlet));
        figures.partial = self.partial.load(Ordering::Relaxed);
        if let Some(out) = &self.out {
            let out = out.figures();
            figures.produced = out.produced;
            figures.failed = out.failed;
            figures.refused = out.refused;
            figures.retried = out.retried;
            figures.waiting_bytes = out.waiting_bytes;
        }
        figures
    }
}

fn add(figures: &mut Figures, inlet: &Inlet) {
    let read = inlet.figures();
    figures.handed += read.handed;
    figures.repeated += read.repeated;
    figures.dead += read.dead;
    figures.lost += read.lost;
    figures.lag += read.lag;
}

fn client(settings: &Settings) -> Result<::kafka::Settings, Fault> {
    ::kafka::Settings::new(&settings.brokers.join(","), settings.properties.clone())
}

fn reading(inlet: &In) -> Result<Reading, Fault> {
    let words = inlet.operators.iter();
    let operators: Vec<Operator> = words.filter_map(|word| Operator::from_word(word)).collect();
    let topics = inlet.topics.iter();
    let topics = topics.map(|name| Topic::new(name, inlet.namespaces.clone(), operators.clone()));
    Ok(Reading {
        group: inlet.group.clone(),
        topics: topics.collect::<Result<_, _>>()?,
        dead_letters: inlet.dead_letters.clone(),
        value_bytes_max: inlet.value_bytes_max,
    })
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
