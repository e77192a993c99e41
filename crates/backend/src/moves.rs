//! What becomes of a socket without its worker's doing: others move it into rooms, its client changes the transport, its node is gone.

use crate::entry::Entry;
use crate::home::{Home, Introduction, Phase};
use crate::name::Name;
use crate::proto;
use crate::proto::item::What;
use crate::state::{Backend, NODES_GONE_MAX};

impl Backend {
    /// The worker that moved it knows, and an endpoint is not told. The next worker of a socket hears of its rooms by `Resume`. One that has
    /// too much to do already hears of them at the end.
    pub(crate) fn on_moved(
        &mut self,
        now_ms: u64,
        name: Name,
        room: String,
        joined: bool,
        by: u64,
    ) {
        let Some(home) = self.homes.get(&name) else {
            return;
        };
        let own = by != 0 && home.worker == Some(by - 1);
        if own || home.worker.is_none() || home.phase == Phase::Gone || self.calls.is_some() {
            return;
        }
        let socket = name.as_str().to_owned();
        let (joined, left) = match joined {
            true => (vec![room], Vec::new()),
            false => (Vec::new(), vec![room]),
        };
        let what = What::Moved(proto::Moved {
            socket,
            joined,
            left,
        });
        let entry = Entry::new(Some(name), what, now_ms);
        if self.bytes() + entry.bytes <= self.settings.queue_bytes_max {
            self.push(name, entry);
        } else {
            self.counts.refused_busy += 1;
        }
    }

    /// `Resume` says what these said, and it is newer.
    pub(crate) fn drop_moves(&mut self, name: Name) {
        let Some(home) = self.homes.get_mut(&name) else {
            return;
        };
        let is_said =
            |entry: &Entry| matches!(entry.what(), Some(What::Moved(_) | What::Upgraded(_)));
        let said: usize = home
            .take_held(is_said)
            .iter()
            .map(|entry| entry.bytes)
            .sum();
        self.release_bytes(said);
    }

    /// An endpoint is not told.
    pub(crate) fn on_upgraded(&mut self, now_ms: u64, name: Name) {
        let home = self.homes.get_mut(&name);
        let Some(home) = home.filter(|home| home.phase != Phase::Gone) else {
            return;
        };
        let mut connect = home.introduction.open();
        "websocket".clone_into(&mut connect.transport);
        home.introduction = Introduction::of(&connect);
        if self.calls.is_none() {
            let socket = name.as_str().to_owned();
            let what = What::Upgraded(proto::Upgraded { socket });
            self.push(name, Entry::new(Some(name), what, now_ms));
        }
    }

    /// All workers are told. For an endpoint the node is like a socket that has nothing but its end.
    pub(crate) fn on_node_gone(&mut self, now_ms: u64, gone: proto::NodeGone) {
        if self.calls.is_none() {
            let workers: Vec<u64> = self.workers.keys().copied().collect();
            if workers.is_empty() {
                self.keep_node_gone(gone);
            }
            for worker in workers {
                self.reply(now_ms, worker, What::NodeGone(gone));
            }
            return;
        }
        let name = Name::of_node(gone.node, gone.life);
        let mut home = Home::new(Introduction::default(), now_ms);
        home.phase = Phase::Gone;
        self.homes.entry(name).or_insert(home);
        let mut entry = self.entry(name, What::NodeGone(gone), now_ms);
        entry.bytes += Home::BYTES;
        self.push_news(name, entry);
    }

    /// For the next worker that attaches, and for those that come soon after it.
    pub(crate) fn keep_node_gone(&mut self, gone: proto::NodeGone) {
        if let Some((_, told)) = self.nodes_gone.iter_mut().find(|(kept, _)| *kept == gone) {
            // The one that was told is lost, and may not have read it.
            *told = None;
            return;
        }
        if self.nodes_gone.len() >= NODES_GONE_MAX {
            self.nodes_gone.pop_front();
        }
        self.nodes_gone.push_back((gone, None));
    }

    /// Tells a worker that begins.
    pub(crate) fn tell_nodes_gone(&mut self, now_ms: u64, worker: u64) {
        let kept_ms = self.settings.park_timeout_ms;
        self.nodes_gone
            .retain(|(_, told)| told.is_none_or(|told_ms| now_ms < told_ms + kept_ms));
        for (_, told) in &mut self.nodes_gone {
            told.get_or_insert(now_ms);
        }
        for at in 0..self.nodes_gone.len() {
            let (gone, _) = self.nodes_gone[at];
            self.reply(now_ms, worker, What::NodeGone(gone));
        }
    }
}
