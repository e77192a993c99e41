//! A backend as another process goes on with it.

use super::Play;
use backend::Backend;
use std::collections::HashSet;

impl Play<'_> {
    /// Another process goes on with what this one knows. What workers have said and nobody has read is lost.
    pub(super) fn upgrade(&mut self) {
        self.carry_out();
        let record = self.backend.record(self.now);
        let mut heir = Backend::new(self.settings.clone());
        heir.arrive(self.now, &record, &HashSet::new())
            .expect("a good record");
        let all = |bytes: &[u8]| {
            let mut all = handoff::backend::Backend::read(bytes).expect("a record");
            all.homes
                .sort_by(|one, other| one.socket.cmp(&other.socket));
            all.later.sort_by_key(|home| home.life);
            all
        };
        let again = heir.record(self.now);
        assert_eq!(all(&again), all(&record), "seed {}", self.seed);
        self.events += self.backend.counts().events;
        self.backend = heir;
        for at in 0..self.processes.len() {
            let process = &mut self.processes[at];
            if process.link.take().is_none() {
                continue;
            }
            process.up.clear();
            let down = process.down.len();
            process.down.truncate(self.rng.usize(..=down));
            while let Some((_, message)) = self.processes[at].down.pop_front() {
                self.get(at, message);
            }
            self.processes[at].back_at = self.now + self.rng.u64(..300);
        }
    }
}
