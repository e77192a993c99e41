//! Ends of other nodes: all workers are told of each.

use crate::bounds::NODES_GONE_MAX;
use crate::home::{Home, Introduction, Phase};
use crate::name::Name;
use crate::proto;
use crate::proto::item::What;
use crate::queue::Queue;
use std::collections::VecDeque;

/// Those that came while no worker was there, and when the first one heard of each.
#[derive(Debug, Default)]
pub(crate) struct NodesGone(VecDeque<(proto::NodeGone, Option<u64>)>);

impl NodesGone {
    /// For an endpoint the node is like a socket that has nothing but its end.
    pub(crate) fn on_gone(&mut self, queue: &mut Queue, gone: proto::NodeGone) {
        if !queue.is_called() {
            if queue.workers.is_empty() {
                self.keep(gone);
            }
            for worker in queue.workers.with(|_| true) {
                queue.reply(worker, What::NodeGone(gone));
            }
            return;
        }
        let name = Name::of_node(gone.node, gone.life);
        if !queue.homes.has(&name) {
            let home = Home::new(Introduction::default(), Phase::Gone, queue.now_ms);
            queue.homes.begin(name, home);
        }
        let mut entry = queue.entry(name, What::NodeGone(gone));
        entry.bytes += Home::BYTES;
        queue.push_news(name, entry);
    }

    /// For the next worker that attaches, and for those that come soon after it.
    pub(crate) fn keep(&mut self, gone: proto::NodeGone) {
        if let Some((_, told)) = self.0.iter_mut().find(|(kept, _)| *kept == gone) {
            // The one that was told is lost, and may not have read it.
            *told = None;
            return;
        }
        if self.0.len() >= NODES_GONE_MAX {
            self.0.pop_front();
        }
        self.0.push_back((gone, None));
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &proto::NodeGone> {
        self.0.iter().map(|(gone, _)| gone)
    }

    /// Tells a worker that begins.
    pub(crate) fn tell(&mut self, queue: &mut Queue, worker: u64) {
        let kept_ms = queue.settings.park_timeout_ms;
        self.0
            .retain(|(_, told)| told.is_none_or(|told_ms| queue.now_ms < told_ms + kept_ms));
        for (gone, told) in &mut self.0 {
            told.get_or_insert(queue.now_ms);
            queue.reply(worker, What::NodeGone(*gone));
        }
    }
}
