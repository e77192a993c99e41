//! A connection to the servers that somebody always looks after: one that ends has a successor, and whoever needs one waits for it.

use crate::settings::Settings;
use async_nats::connection::State;
use async_nats::jetstream::{Context, ContextBuilder};
use async_nats::{Client, Event};
use bridge::Quiet;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

/// Before servers that were away are asked again.
const PAUSE: Duration = Duration::from_millis(500);
/// How often the connection is looked at.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);
/// A server that does not answer for so long is as good as gone.
const ANSWER_TIME: Duration = Duration::from_secs(5);
/// Looks at a connection between two questions to its server.
const LOOKS: u32 = 10;

/// A stream acknowledges within this time, or is asked again.
const ACK_TIME: Duration = Duration::from_secs(3);

/// One connection.
#[derive(Clone)]
pub(crate) struct Line {
    pub(crate) client: Client,
    pub(crate) streams: Context,
}

/// The connection of a link.
pub(crate) struct LineNow(watch::Receiver<Option<Line>>);

impl LineNow {
    /// If there is one.
    pub(crate) fn get(&self) -> Option<Line> {
        self.0.borrow().clone()
    }
}

/// Ends with its handle.
pub(crate) struct Link {
    now: watch::Receiver<Option<Line>>,
    task: JoinHandle<()>,
}

impl Drop for Link {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Link {
    /// Servers may be away: they are looked for in the background. Within a runtime.
    pub(crate) fn start(settings: Settings, slow: impl Fn() + Send + Sync + 'static) -> Self {
        let (told, now) = watch::channel(None);
        let slow = Arc::new(slow);
        let task = tokio::spawn(async move {
            let quiet = Arc::new(Quiet::default());
            loop {
                match connect(&settings, &slow, &quiet).await {
                    Ok(client) => {
                        let streams = ContextBuilder::new().timeout(ACK_TIME);
                        let streams = streams.build(client.clone());
                        let line = Line {
                            client: client.clone(),
                            streams,
                        };
                        told.send_replace(Some(line));
                        until_it_ends(&client).await;
                        told.send_replace(None);
                    }
                    Err(why) => {
                        trouble(&quiet, &why);
                        sleep(PAUSE).await;
                    }
                }
            }
        });
        Self { now, task }
    }

    /// A connection, as soon as there is one.
    pub(crate) async fn line(&self) -> Line {
        let mut now = self.now.clone();
        loop {
            if let Some(line) = &*now.borrow_and_update() {
                return line.clone();
            }
            if now.changed().await.is_err() {
                // The process ends.
                std::future::pending::<()>().await;
            }
        }
    }

    /// For one who does not wait for it.
    pub(crate) fn line_now(&self) -> LineNow {
        LineNow(self.now.clone())
    }

    /// Whether there is one now.
    pub(crate) fn is_up(&self) -> bool {
        self.now.borrow().is_some()
    }
}

async fn connect<F>(
    settings: &Settings,
    slow: &Arc<F>,
    quiet: &Arc<Quiet>,
) -> Result<Client, String>
where
    F: Fn() + Send + Sync + 'static,
{
    let (slow, quiet) = (Arc::clone(slow), Arc::clone(quiet));
    let told = move |event| match event {
        Event::SlowConsumer(_) => slow(),
        Event::Connected => tracing::info!("connected to NATS"),
        Event::Disconnected => tracing::warn!("the connection to NATS has ended"),
        other => trouble(&quiet, &other.to_string()),
    };
    let options = settings.options(told).await?;
    let connected = options.connect(settings.urls()).await;
    connected.map_err(|error| {
        let why = std::error::Error::source(&error).map(|source| format!(": {source}"));
        format!("cannot connect: {error}{}", why.unwrap_or_default())
    })
}

fn trouble(quiet: &Quiet, what: &str) {
    if quiet.is_due() {
        tracing::warn!("NATS: {what}: it is tried again");
    }
}

/// It has ended by itself, its server does not answer, or its task has failed.
async fn until_it_ends(client: &Client) {
    let mut away = 0;
    loop {
        for _ in 0..LOOKS {
            sleep(LOOK_INTERVAL).await;
            // It tries once by itself.
            away = match client.connection_state() {
                State::Connected => 0,
                State::Pending | State::Disconnected => away + 1,
            };
            if away >= LOOKS {
                return;
            }
        }
        match timeout(ANSWER_TIME, client.flush()).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) | Err(_) => return,
        }
    }
}
