//! Publishing: one batch behind the other, each with an echo behind it.

use super::Trouble;
use super::echo::Done;
use super::keeper::Line;
use super::parts::split;
use bytes::Bytes;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::{oneshot, watch};

/// Bytes that count as waiting while this stands.
pub(super) struct Room {
    waiting: Arc<AtomicUsize>,
    bytes: usize,
}

impl Room {
    pub(super) fn new(waiting: Arc<AtomicUsize>, bytes: usize) -> Self {
        Self { waiting, bytes }
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.waiting.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// A batch.
pub(super) struct Parcel {
    messages: Vec<(String, Arc<[u8]>)>,
    done: Done,
    _room: Room,
}

impl Parcel {
    pub(super) fn new(messages: Vec<(String, Arc<[u8]>)>, done: Done, room: Room) -> Self {
        Self {
            messages,
            done,
            _room: room,
        }
    }
}

/// What publishes.
pub(super) struct Mouth {
    parcels: UnboundedReceiver<Parcel>,
    line: watch::Receiver<Option<Line>>,
    /// Of bodies that go in parts; others cannot have the same.
    number: u64,
}

impl Mouth {
    pub(super) fn new(
        parcels: UnboundedReceiver<Parcel>,
        line: watch::Receiver<Option<Line>>,
    ) -> Self {
        Self {
            parcels,
            line,
            number: fresh(),
        }
    }

    /// Ends with the last handle.
    pub(super) async fn run(mut self) {
        while let Some(mut parcel) = self.parcels.recv().await {
            let line = tokio::select! {
                // Whoever waited has given up, and publishes it again.
                () = parcel.done.closed() => continue,
                line = self.line.wait_for(Option::is_some) => match line {
                    Ok(line) => Line::clone_of(&line),
                    Err(_) => return,
                },
            };
            let Some(line) = line else {
                continue;
            };
            let mut changed = self.line.clone();
            changed.mark_unchanged();
            tokio::select! {
                () = self.say(&line, parcel) => {}
                // A connection that has ended may take nothing for long.
                _ = changed.changed() => {}
            }
        }
    }

    async fn say(&mut self, line: &Line, parcel: Parcel) {
        if parcel.done.is_closed() {
            return;
        }
        for (subject, body) in parcel.messages {
            self.number = self.number.wrapping_add(1);
            if let Err(why) = say_one(line, &subject, body, self.number).await {
                let _ = parcel.done.send(Err(why));
                return;
            }
        }
        // Of an error, the connection's end tells.
        let _ = line.echo(parcel.done).await;
    }
}

async fn say_one(line: &Line, subject: &str, body: Arc<[u8]>, number: u64) -> Result<(), Trouble> {
    let body = Bytes::from_owner(body);
    for (headers, part) in split(&body, line.client.max_payload(), number) {
        let subject = subject.to_owned();
        let said = match headers {
            None => line.client.publish(subject, part).await,
            Some(headers) => {
                let client = &line.client;
                client.publish_with_headers(subject, headers, part).await
            }
        };
        said.map_err(|why| Trouble::new(format!("cannot publish to NATS: {why}")))?;
    }
    Ok(())
}

/// A number that no other process begins with.
fn fresh() -> u64 {
    use std::hash::{BuildHasher, Hasher, RandomState};
    RandomState::new().build_hasher().finish()
}

impl Line {
    /// Sends an echo behind all that was published.
    pub(super) async fn echo(&self, done: Done) -> Result<(), Trouble> {
        let number = self.echo.expect(done);
        let body = Bytes::from(number.to_string());
        let said = self.client.publish(self.echo.subject.clone(), body).await;
        said.map_err(|why| Trouble::new(format!("cannot publish to NATS: {why}")))
    }

    /// Waits until the server has taken all that was sent by this connection.
    pub(super) async fn settle(&self) -> Result<(), Trouble> {
        let (done, taken) = oneshot::channel();
        self.echo(done).await?;
        let ended = || Trouble::new("the connection to NATS has ended");
        taken.await.unwrap_or_else(|_| Err(ended()))
    }
}
