//! Spans on their way to a collector (OTLP over HTTP). Shards leave them in a bounded queue; one task sends them in batches.
//! Spans that do not fit, and those that no collector takes, are dropped and counted.

mod otlp;

use aws_lc_rs::rand;
use identity::Secret;
use otlp::{Ended, Resource};
use process::causes;
use prost::Message;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, StatusCode, Url, redirect};
use rules::{Doing, Span, TraceParent, Tracer};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::sync::mpsc::{Receiver, Sender, channel};

/// Spans that wait to be sent.
const QUEUE: usize = 8_192;
const BATCH: usize = 512;
/// A batch that is not full leaves after this.
const BATCH_DELAY: Duration = Duration::from_secs(1);
const TIMEOUT: Duration = Duration::from_secs(10);
/// A batch is sent this often at most, with pauses between.
const ATTEMPTS: u32 = 4;
const RETRY: Duration = Duration::from_millis(500);

/// `[traces]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Where spans are sent to, such as `http://127.0.0.1:4318/v1/traces`.
    pub endpoint: String,
    /// A header line for it, `Name: value`.
    pub header: Option<Secret>,
    /// Of so many connects and events without a trace, one begins a trace; 0 = none does.
    pub one_in: u64,
    /// Clients may have their doings recorded.
    pub trust_clients: bool,
    /// Name of this service.
    pub service: String,
}

/// Counters of spans.
#[derive(Debug, Default)]
pub struct Stats {
    pub sent: AtomicU64,
    pub dropped: AtomicU64,
}

/// Records spans. A random number decides which.
pub struct Traces {
    spans: Sender<Ended>,
    one_in: u64,
    trust_clients: bool,
    /// From it come ids and chance: nobody must guess them, they must only differ.
    seed: u64,
    drawn: AtomicU64,
    stats: Arc<Stats>,
}

impl fmt::Debug for Traces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Traces").finish_non_exhaustive()
    }
}

impl Settings {
    /// Says what is wrong with them.
    ///
    /// # Errors
    /// The message is for people.
    pub fn check(&self) -> Result<(), String> {
        self.collector().map(drop)
    }

    fn collector(&self) -> Result<(Url, HeaderMap), String> {
        let refuse = |why: &str| format!("cannot use {:?}: {why}", self.endpoint);
        let url = Url::parse(&self.endpoint).map_err(|error| refuse(&error.to_string()))?;
        if !matches!(url.scheme(), "http" | "https") || url.path() == "/" {
            return Err(refuse(
                "an address with its path is needed, such as http://127.0.0.1:4318/v1/traces",
            ));
        }
        let mut headers = HeaderMap::new();
        headers.insert(
            CONTENT_TYPE,
            HeaderValue::from_static("application/x-protobuf"),
        );
        if let Some(header) = &self.header {
            let wrong = || "the header is no `Name: value`".to_owned();
            let (name, value) = header.reveal().split_once(':').ok_or_else(wrong)?;
            let name: HeaderName = name.trim().parse().map_err(|_| wrong())?;
            let mut value: HeaderValue = value.trim().parse().map_err(|_| wrong())?;
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        Ok((url, headers))
    }
}

impl Traces {
    /// Sends what is recorded, in the runtime that this is called in.
    ///
    /// # Errors
    /// The collector's address or header cannot be used.
    pub fn start(settings: &Settings, stats: Arc<Stats>) -> Result<Self, String> {
        let (url, headers) = settings.collector()?;
        let client = Client::builder()
            .timeout(TIMEOUT)
            .redirect(redirect::Policy::none())
            .default_headers(headers)
            .user_agent(concat!("sockeye/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|error| format!("cannot prepare TLS: {}", causes(&error)))?;
        let mut seed = [0; 8];
        rand::fill(&mut seed).map_err(|_| "the system gives no random numbers")?;
        let (spans, received) = channel(QUEUE);
        let exporter = Exporter {
            url,
            client,
            resource: Resource::new(&settings.service),
            stats: Arc::clone(&stats),
        };
        tokio::spawn(exporter.run(received));
        Ok(Self {
            spans,
            one_in: settings.one_in,
            trust_clients: settings.trust_clients,
            seed: u64::from_ne_bytes(seed),
            drawn: AtomicU64::new(0),
            stats,
        })
    }

    /// Splitmix64: different for each draw, and never 0.
    fn draw(&self) -> u64 {
        let step = self.drawn.fetch_add(1, Ordering::Relaxed);
        let mut mixed = self
            .seed
            .wrapping_add(step.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)).max(1)
    }

    /// The trace, and the span above.
    fn place(&self, parent: Option<TraceParent>, doing: Doing) -> Option<(u128, u64)> {
        let from_client = matches!(doing, Doing::Connect | Doing::Event);
        match parent {
            Some(parent) if !from_client || self.trust_clients => {
                parent.sampled.then_some((parent.trace, parent.span))
            }
            _ if !from_client || self.one_in == 0 => None,
            _ => {
                let chosen = self.draw().is_multiple_of(self.one_in);
                let trace = u128::from(self.draw()) << 64 | u128::from(self.draw());
                chosen.then_some((trace, 0))
            }
        }
    }
}

fn now_ns() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    u64::try_from(now.unwrap_or_default().as_nanos()).unwrap_or(u64::MAX)
}

impl Tracer for Traces {
    fn begin(&self, parent: Option<TraceParent>, doing: Doing, name: &str) -> Option<Span> {
        let (trace, above) = self.place(parent, doing)?;
        Some(Span {
            context: TraceParent {
                trace,
                span: self.draw(),
                sampled: true,
            },
            parent: above,
            doing,
            name: name.to_owned(),
            began_ns: now_ns(),
            failed: false,
        })
    }

    fn end(&self, span: Span) {
        let ended = Ended {
            span,
            ended_ns: now_ns(),
        };
        if self.spans.try_send(ended).is_err() {
            self.stats.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

struct Exporter {
    url: Url,
    client: Client,
    resource: Resource,
    stats: Arc<Stats>,
}

impl Exporter {
    async fn run(self, mut spans: Receiver<Ended>) {
        let mut batch = Vec::with_capacity(BATCH);
        let mut well = true;
        while spans.recv_many(&mut batch, BATCH).await > 0 {
            let more = async { while batch.len() < BATCH && next(&mut spans, &mut batch).await {} };
            let _ = tokio::time::timeout(BATCH_DELAY, more).await;
            let count = batch.len() as u64;
            let body = self.resource.request(batch.drain(..)).encode_to_vec();
            let sent = self.send(body).await;
            let stat = match sent {
                Ok(()) => &self.stats.sent,
                Err(_) => &self.stats.dropped,
            };
            stat.fetch_add(count, Ordering::Relaxed);
            let was_well = std::mem::replace(&mut well, sent.is_ok());
            match sent {
                Err(cause) if was_well => {
                    tracing::warn!(url = %self.url, cause, spans = count, "cannot send traces: these are dropped");
                }
                Ok(()) if !was_well => tracing::info!("traces are taken again"),
                _ => {}
            }
        }
    }

    async fn send(&self, body: Vec<u8>) -> Result<(), String> {
        let mut pause = RETRY;
        let mut attempt = 1;
        loop {
            let answer = self
                .client
                .post(self.url.clone())
                .body(body.clone())
                .send()
                .await;
            let (cause, again) = match answer {
                Ok(answer) if answer.status().is_success() => return Ok(()),
                Ok(answer) => {
                    let status = answer.status();
                    (format!("the answer is {status}"), is_passing(status))
                }
                Err(error) => (causes(&error), true),
            };
            if !again || attempt == ATTEMPTS {
                return Err(cause);
            }
            attempt += 1;
            tokio::time::sleep(pause).await;
            pause *= 2;
        }
    }
}

async fn next(spans: &mut Receiver<Ended>, batch: &mut Vec<Ended>) -> bool {
    let room = BATCH - batch.len();
    spans.recv_many(batch, room).await > 0
}

/// Those after which a batch is sent again (OTLP specification, "Retryable Response Codes").
fn is_passing(status: StatusCode) -> bool {
    matches!(status.as_u16(), 429 | 502 | 503 | 504)
}
