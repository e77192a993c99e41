//! An event stream, and what it has heard.

use crate::listener::Listener;

pub(crate) struct Stream {
    pub(crate) listener: Listener,
    /// Where it is, was last, and by which life its last id was given.
    pub(crate) life: usize,
    pub(crate) was_slow: bool,
    pub(crate) id_by: Option<usize>,
    /// What other nodes say from then on must come: they know of it as long as it stays.
    pub(crate) since: Option<u64>,
}

impl Stream {
    /// A block of the stream, when the last number was this one.
    pub(crate) fn take(&mut self, block: &str, number: u64, (seed, at): (u64, usize)) {
        let field = |name| block.lines().find_map(|line| line.strip_prefix(name));
        if let Some(data) = field("data: ") {
            let is_resumed = data.contains("\"resumed\":true");
            assert!(
                !is_resumed || self.id_by == Some(self.life),
                "seed {seed}: event stream {at} was told that it resumes on life {}, with the id of {:?}",
                self.life,
                self.id_by
            );
            let taken = self.listener.take(data, number);
            taken.unwrap_or_else(|broken| panic!("seed {seed}: event stream {at} {broken}"));
        }
        if let Some(id) = field("id: ") {
            id.clone_into(&mut self.listener.last_id);
            self.id_by = Some(self.life);
            if id.matches('=').count() == self.listener.rooms.len() {
                self.since = self.since.or(Some(number));
                for heard in self.listener.rooms.values_mut() {
                    heard.since = heard.since.or(Some(number));
                }
            }
        }
    }
}
