//! The other nodes of the cluster, as one of them follows something there. Lines come by the door for relayed connections, which lets in
//! nobody but nodes with the cluster's secret.

use super::line;
use super::order::Order;
use crate::admin::nodes::Nodes;
use nodes::relay::Relays;
use std::collections::HashMap;
use std::io;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio::time::{Instant, timeout};

/// Nodes that come, and those that were lost, are looked for so often.
const LOOK_AGAIN: Duration = Duration::from_secs(2);
/// A line of another node.
const LINE_BYTES_MAX: u64 = 64 * 1024;
/// A node says something this often, or it is lost.
const SILENCE_MAX: Duration = Duration::from_secs(20);
/// Lines of other nodes that wait for the one who reads. Above it those nodes wait, and count what they drop.
const WAITING_MAX: usize = 64;

/// The nodes that are followed.
pub(super) struct Others {
    nodes: Nodes,
    relays: Option<Relays>,
    order: Order,
    until: Instant,
    looked: Option<Instant>,
    open: HashMap<u16, AbortHandle>,
    /// Nodes whose trouble was told.
    told: HashMap<u16, String>,
    sender: mpsc::Sender<String>,
    lines: mpsc::Receiver<String>,
}

impl Drop for Others {
    fn drop(&mut self) {
        self.open.values().for_each(AbortHandle::abort);
    }
}

impl Others {
    pub(super) fn new(nodes: Nodes, relays: Option<Relays>, order: &Order) -> Self {
        let (sender, lines) = mpsc::channel(WAITING_MAX);
        Self {
            nodes,
            relays,
            until: Instant::now() + order.time(),
            order: order.clone(),
            looked: None,
            open: HashMap::new(),
            told: HashMap::new(),
            sender,
            lines,
        }
    }

    /// The next line of another node.
    pub(super) async fn next(&mut self) -> String {
        // The sender is here: the channel stays open.
        self.lines.recv().await.unwrap_or_default()
    }

    /// Follows nodes that are new or were lost. Says who cannot be followed, once for each reason.
    pub(super) fn look(&mut self, out: &mut String) {
        let now = Instant::now();
        let is_soon = |looked: Instant| now - looked < LOOK_AGAIN;
        if self.order.local || self.looked.is_some_and(is_soon) {
            return;
        }
        self.looked = Some(now);
        self.open.retain(|_, task| !task.is_finished());
        let rows = self.nodes.others();
        self.told
            .retain(|node, _| rows.iter().any(|row| row.number == *node));
        for row in rows {
            let why = match (&self.relays, row.heard, row.card.relay) {
                (None, ..) => {
                    "this node reaches no others: set cluster.secret and cluster.relay_listen"
                }
                (_, false, _) => "it has a number, and its heartbeats do not come",
                (.., None) => "it takes nothing of other nodes: its cluster.relay_listen is off",
                (Some(relays), true, Some(_)) => {
                    self.told.remove(&row.number);
                    if !self.open.contains_key(&row.number) {
                        let relays = relays.clone();
                        let task = self.follow(row.number, relays);
                        self.open.insert(row.number, task);
                    }
                    continue;
                }
            };
            let said = self.told.insert(row.number, why.to_owned());
            if said.is_none_or(|said| said != why) {
                line::write(out, &line::node(row.number, "not followed", Some(why)));
            }
        }
    }

    fn follow(&self, node: u16, relays: Relays) -> AbortHandle {
        let left = self.until.saturating_duration_since(Instant::now());
        let (order, sender) = (self.order.text(left), self.sender.clone());
        let task = tokio::spawn(async move {
            let ended = listen(node, &relays, &order, &sender).await;
            let why = ended.err().map(|error| error.to_string());
            let why = why.as_deref().unwrap_or("it has ended its part");
            let mut lost = String::new();
            line::write(&mut lost, &line::node(node, "lost", Some(why)));
            // The one who reads may be gone.
            let _ = sender.send(lost).await;
            // It is tried again, and not at once.
            tokio::time::sleep(LOOK_AGAIN).await;
        });
        task.abort_handle()
    }
}

async fn listen(
    node: u16,
    relays: &Relays,
    order: &str,
    sender: &mpsc::Sender<String>,
) -> io::Result<()> {
    let mut stream = relays.follow(node).await?;
    stream.write_all(order.as_bytes()).await?;
    stream.flush().await?;
    let mut lines = BufReader::new(stream);
    let mut is_first = true;
    loop {
        let mut text = String::new();
        let mut one = (&mut lines).take(LINE_BYTES_MAX);
        let read = timeout(SILENCE_MAX, one.read_line(&mut text)).await;
        let read = read.map_err(|_| io::Error::other("it has said nothing for 20 s"))??;
        if read == 0 {
            return Ok(());
        }
        if !text.ends_with('\n') {
            return Err(io::Error::other("its line is too long, or broke off"));
        }
        let is_alive = text.starts_with("{\"kind\":\"alive\"");
        // One that has no room says so instead.
        if std::mem::take(&mut is_first) && is_alive {
            let mut hello = String::new();
            line::write(&mut hello, &line::node(node, "followed", None));
            let _ = sender.send(hello).await;
        }
        // The one who reads is told by this node that it is there.
        if !is_alive {
            let _ = sender.send(text).await;
        }
    }
}
