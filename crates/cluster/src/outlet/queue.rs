//! Frames that wait for the engine, and those that are under way to it.

use crate::frame::NodeId;
use handoff::cluster as record;
use std::collections::VecDeque;
use std::sync::Arc;

/// Frames that the engine did not take wait so long for the next try, and with them all others of their channel.
pub(super) const PAUSE_US: u64 = 50_000;

/// The channel of the engine that a frame is published to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Channel {
    /// A node's own channel.
    Inbox(NodeId),
    /// The channel that all nodes read.
    Flood,
}

/// A message for the engine.
#[derive(Clone, Debug)]
pub struct Publish {
    /// Where to.
    pub channel: Channel,
    /// The frame.
    pub frame: Arc<[u8]>,
    /// Its place in the order of publishing.
    pub(super) number: u64,
    pub(super) worth: Worth,
}

/// The fate of a frame that the engine did not take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Worth {
    /// It is published again.
    Kept,
    /// Nothing: a later one says more.
    Once,
    /// Nothing: it was sent again, and is asked for again.
    Repair,
}

#[derive(Debug, Default)]
pub(crate) struct Queue {
    waiting: VecDeque<Publish>,
    /// Of all frames that the engine has not taken yet.
    bytes: usize,
    bytes_max: usize,
    /// Frames that were ever queued.
    numbered: u64,
    under_way: usize,
    /// Channels whose frames the engine did not take, until when.
    paused: Vec<(Channel, u64)>,
    /// Batches taken, and how many there were at the last heartbeat.
    taken: u64,
    beaten: Option<u64>,
}

impl Queue {
    pub(super) fn new(bytes_max: usize) -> Self {
        Self {
            bytes_max,
            ..Self::default()
        }
    }

    /// Whether a letter of so many bytes keeps the bound. Its sender asks before: here nothing is refused, so nothing that was let in
    /// gets lost. A letter larger than the bound has room when nothing else waits: it could never be sent otherwise.
    pub(crate) fn has_room(&self, bytes: usize) -> bool {
        self.bytes == 0 || self.bytes + bytes <= self.bytes_max
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// A heartbeat is about to be queued. `false`: nothing has left since the last one.
    pub(crate) fn moved_since_beat(&mut self) -> bool {
        let before = self.beaten.replace(self.taken);
        before != Some(self.taken) || self.waiting.is_empty()
    }

    /// The number that the frame gets.
    pub(crate) fn push(
        &mut self,
        channel: Channel,
        frame: impl Into<Arc<[u8]>>,
        worth: Worth,
    ) -> u64 {
        let frame = frame.into();
        self.bytes += frame.len();
        self.numbered += 1;
        self.waiting.push_back(Publish {
            channel,
            frame,
            number: self.numbered,
            worth,
        });
        self.numbered
    }

    /// Nothing is under way.
    pub(super) fn is_idle(&self) -> bool {
        self.under_way == 0
    }

    pub(super) fn take(&mut self, batch: &mut Vec<Publish>, now_us: u64) {
        self.paused.retain(|(_, until_us)| now_us < *until_us);
        let before = batch.len();
        if self.paused.is_empty() {
            batch.extend(self.waiting.drain(..));
        } else {
            let all = std::mem::take(&mut self.waiting).into_iter();
            let (wait, go): (Vec<_>, Vec<_>) = all.partition(|one| self.is_paused(one.channel));
            self.waiting = wait.into();
            batch.extend(go);
        }
        if batch.len() > before {
            self.under_way += 1;
            self.taken += 1;
        }
    }

    fn is_paused(&self, channel: Channel) -> bool {
        self.paused.iter().any(|(paused, _)| *paused == channel)
    }

    /// A batch ended. What the engine did not take, and is worth it, comes before all others of its channel.
    pub(super) fn ended(
        &mut self,
        batch: Vec<Publish>,
        taken: impl Fn(usize) -> bool,
        now_us: u64,
    ) {
        self.under_way -= 1;
        let mut failed = false;
        for (at, publish) in batch.into_iter().enumerate() {
            let is_taken = taken(at);
            if !is_taken {
                self.paused.retain(|(paused, _)| *paused != publish.channel);
                self.paused.push((publish.channel, now_us + PAUSE_US));
            }
            if is_taken || publish.worth != Worth::Kept {
                self.bytes -= publish.frame.len();
            } else {
                failed = true;
                self.waiting.push_back(publish);
            }
        }
        if failed {
            // Another batch may have failed before: the oldest frame comes first again.
            let waiting = self.waiting.make_contiguous();
            waiting.sort_by_key(|publish| publish.number);
        }
    }

    /// When something may leave.
    pub(super) fn due_us(&self, now_us: u64) -> Option<u64> {
        if (self.waiting.iter()).any(|publish| !self.is_paused(publish.channel)) {
            return Some(now_us);
        }
        let paused = self.paused.iter().filter(|_| !self.waiting.is_empty());
        paused.map(|(_, until_us)| *until_us).min()
    }

    /// The frames that the next process is to publish.
    ///
    /// # Errors
    /// Some are under way to the engine: nobody knows of them.
    pub(super) fn record(&self) -> Result<Vec<record::Queued>, &'static str> {
        if self.under_way > 0 {
            return Err("frames are under way to the engine");
        }
        let kept = self.waiting.iter().filter(|one| one.worth == Worth::Kept);
        let queued = kept.map(|publish| record::Queued {
            node: match publish.channel {
                Channel::Flood => None,
                Channel::Inbox(node) => Some(u32::from(node.0)),
            },
            frame: publish.frame.to_vec(),
        });
        Ok(queued.collect())
    }
}
