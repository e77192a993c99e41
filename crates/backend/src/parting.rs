//! A worker that leaves. Its sockets move a few at a time, as fast as others take them: no client waits until all have moved.

use crate::entry::Entry;
use crate::home::{Bond, Home, Phase};
use crate::links::Link;
use crate::name::Name;
use crate::proto;
use crate::proto::item::What;
use crate::state::Backend;
use crate::worker::Worker;

/// So many sockets are between two workers, and one more for each [`SHARE`] that the leaving one still has.
const MOVING: usize = 64;
const SHARE: usize = 64;
/// A worker that has nothing left but questions waits so long for the answers.
const QUESTIONS_MS: u64 = 5_000;

impl Backend {
    /// Sockets leave with their workers, and workers without sockets may go.
    pub(crate) fn let_go(&mut self, now_ms: u64) {
        let leaving = self.workers.iter();
        let leaving = leaving.filter(|(_, worker)| worker.leaving && worker.link.is_some());
        let leaving: Vec<u64> = leaving.map(|(id, _)| *id).collect();
        for id in leaving {
            self.move_out(now_ms, id);
            self.choose_next(id);
            // Where nothing is under way, nothing has to be waited for.
            self.move_out(now_ms, id);
            self.say_goodbye(now_ms, id);
        }
    }

    /// Those of which the worker has nothing left to handle or to answer. What came since then waits for the next worker.
    fn move_out(&mut self, now_ms: u64, id: u64) {
        let Some(worker) = self.workers.get(&id) else {
            return;
        };
        let homes = &self.homes;
        let holds =
            |home: &Home| matches!(home.bond, Bond::Ending | Bond::Over) || !home.owed.is_empty();
        let owes = |name: &Name| homes.get(name).is_some_and(holds);
        let done = |name: &&Name| !worker.is_busy_with(name) && !owes(name);
        let done: Vec<Name> = worker.parting.iter().filter(done).copied().collect();
        for name in done {
            match self.homes.get(&name).map(|home| home.bond) {
                Some(Bond::Parting) => self.move_one(now_ms, name),
                _ => self.tell_to_part(now_ms, id, name),
            }
        }
    }

    /// Only the worker knows whether its handlers have heard of the socket's end: it is asked, and the socket moves when it has handled that.
    fn tell_to_part(&mut self, now_ms: u64, id: u64, name: Name) {
        let (Some(home), Some(worker)) = (self.homes.get_mut(&name), self.workers.get_mut(&id))
        else {
            return;
        };
        home.bond = Bond::Parting;
        let socket = name.as_str().to_owned();
        let entry = Entry::new(Some(name), What::Part(proto::Part { socket }), now_ms);
        let bytes = entry.bytes;
        home.bytes += bytes;
        worker.enqueue(entry);
        self.ready.extend(worker.link);
        self.take_bytes(bytes);
    }

    /// The worker's handlers have heard of the end of a socket from which it is to part.
    pub(crate) fn note_over(&mut self, id: u64, socket: &str) -> Result<(), &'static str> {
        let name = Name::parse(socket).ok_or("ended.socket is no socket's id")?;
        let home = self.homes.get_mut(&name);
        let parts = |home: &&mut Home| home.worker == Some(id) && home.bond == Bond::Parting;
        let Some(home) = home.filter(parts) else {
            self.counts.late += 1;
            return Ok(());
        };
        home.bond = Bond::Over;
        if home.phase == Phase::Gone {
            self.forget(name);
        }
        Ok(())
    }

    fn move_one(&mut self, now_ms: u64, name: Name) {
        let Some(home) = self.homes.get_mut(&name) else {
            return;
        };
        if let Some(worker) = home.worker.take().and_then(|id| self.workers.get_mut(&id)) {
            worker.sockets.remove(&name);
            worker.parting.remove(&name);
        }
        home.bond = Bond::Whole;
        home.since_ms = now_ms;
        home.describing = false;
        self.homeless.insert(name);
        self.look_by(name, now_ms);
        self.settle(now_ms, name);
    }

    /// A socket that ends while it is to move has its worker to the end, unless that was told to part from it: that one knows it, and no other needs to.
    pub(crate) fn keep_to_the_end(&mut self, name: Name) {
        let home = self.homes.get_mut(&name);
        let Some(home) = home.filter(|home| home.bond != Bond::Parting) else {
            return;
        };
        if let Some(worker) = home.worker.and_then(|id| self.workers.get_mut(&id))
            && worker.parting.remove(&name)
        {
            let held = std::mem::take(&mut home.held);
            held.into_iter().for_each(|entry| worker.enqueue(entry));
        }
    }

    fn choose_next(&mut self, id: u64) {
        let takers = self.workers.values();
        let mut takers = takers.filter(|worker| worker.takes_sockets()).peekable();
        let anybody = takers.peek().is_some();
        let coming: usize = takers.map(Worker::newcomers).sum();
        let between = self.homeless.len() + coming;
        let Some(worker) = self.workers.get_mut(&id) else {
            return;
        };
        let most = MOVING + worker.sockets.len() / SHARE;
        let room = match anybody {
            true => most.saturating_sub(between + worker.parting.len()),
            false => worker.sockets.len(),
        };
        let next = worker.sockets.difference(&worker.parting).take(room);
        let next: Vec<Name> = next.copied().collect();
        worker.parting.extend(next);
    }

    fn say_goodbye(&mut self, now_ms: u64, id: u64) {
        let asks = self.queries.values().any(|query| query.worker == id) || self.asks_servers(id);
        let Some(worker) = self.workers.get_mut(&id) else {
            return;
        };
        if !worker.sockets.is_empty() || worker.has_items() {
            return;
        }
        let since_ms = *worker.free_to_go_ms.get_or_insert(now_ms);
        let waits = asks || worker.has_queue();
        if !waits || now_ms >= since_ms + QUESTIONS_MS {
            self.farewells.extend(worker.link);
            self.bury(now_ms, id);
        }
    }

    /// Links whose workers have nothing left: each is told `goodbye` and ends.
    pub fn take_farewells(&mut self) -> Vec<Link> {
        std::mem::take(&mut self.farewells)
    }
}
