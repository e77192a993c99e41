//! Listening to one subject of one connection.

use super::parts::Parts;
use super::{News, Told};
use async_nats::{Client, Subscriber};
use futures_util::StreamExt;
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::JoinHandle;

/// Ends with its handle.
pub(super) struct Ear(JoinHandle<()>);

impl Drop for Ear {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Ear {
    /// `ended` hears that nothing comes any more. `None`: the connection takes no subscription.
    pub(super) async fn listen(
        client: &Client,
        subject: &str,
        told: Told,
        ended: UnboundedSender<String>,
    ) -> Option<Self> {
        let heard = client.subscribe(subject.to_owned()).await.ok()?;
        Some(Self(tokio::spawn(hear(
            heard,
            subject.to_owned(),
            told,
            ended,
        ))))
    }

    pub(super) fn of(task: JoinHandle<()>) -> Self {
        Self(task)
    }
}

async fn hear(mut heard: Subscriber, subject: String, told: Told, ended: UnboundedSender<String>) {
    let mut parts = Parts::default();
    while let Some(message) = heard.next().await {
        if let Some(body) = parts.join(message.headers.as_ref(), message.payload) {
            let subject = subject.clone();
            told(News::Message { subject, body });
        }
    }
    // Also if the client's task has failed.
    let _ = ended.send("the connection to NATS has ended".to_owned());
}
