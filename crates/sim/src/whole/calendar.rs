//! What will happen, by its time. Things of one time happen in the order in which they were noted.

use std::collections::BTreeMap;

#[derive(Debug)]
pub(crate) struct Calendar<T> {
    entries: BTreeMap<(u64, u64), T>,
    noted: u64,
}

impl<T> Calendar<T> {
    pub(crate) fn new() -> Self {
        Self {
            entries: BTreeMap::new(),
            noted: 0,
        }
    }

    pub(crate) fn note(&mut self, at_us: u64, what: T) {
        self.noted += 1;
        self.entries.insert((at_us, self.noted), what);
    }

    /// Takes all that is of a kind, by its time.
    pub(crate) fn take(&mut self, is_it: impl Fn(&T) -> bool) -> Vec<T> {
        let taken = self.entries.extract_if(.., |_, what| is_it(what));
        taken.map(|(_, what)| what).collect()
    }

    /// The next thing that happens until then, and its time.
    pub(crate) fn next(&mut self, until_us: u64) -> Option<(u64, T)> {
        let first = self.entries.first_entry()?;
        let at_us = first.key().0;
        (at_us <= until_us).then(|| (at_us, first.remove()))
    }
}
