//! The items of one socket that no worker has in its hands: some wait for one, some for the words that clients wait for.

use crate::entry::Entry;
use crate::open::Open;
use crate::proto::item::What;
use std::collections::VecDeque;

#[derive(Debug, Default)]
pub(crate) struct Items {
    /// Those that wait while the socket has no worker.
    held: VecDeque<Entry>,
    /// Handled ones whose clients still wait for the answer: they come again if the worker is lost.
    owed: Vec<Entry>,
    /// Numbers of the answers that the client waits for.
    open: Open,
    /// Bytes kept for the socket, here and with its worker.
    bytes: usize,
    /// The number of its life.
    life: u64,
    /// Number of the last item.
    sequence: u64,
}

impl Items {
    // ---- for the next process ---------------------------------------------------------------------------------------------------

    /// Its items are booked by the one who knows all of them.
    pub(crate) fn restored(
        life: u64,
        held: VecDeque<Entry>,
        owed: Vec<Entry>,
        sequence: u64,
    ) -> Self {
        Self {
            life,
            held,
            owed,
            sequence,
            ..Self::default()
        }
    }

    pub(crate) fn live(&mut self, life: u64) {
        self.life = life;
    }

    pub(crate) fn life(&self) -> u64 {
        self.life
    }

    pub(crate) fn sequence(&self) -> u64 {
        self.sequence
    }

    pub(crate) fn owed(&self) -> &[Entry] {
        &self.owed
    }

    // ---- the books ----------------------------------------------------------------------------------------------------------

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// One more: it gets its number.
    pub(crate) fn book(&mut self, entry: &mut Entry) {
        self.sequence += 1;
        entry.sequence = self.sequence;
        self.book_beside(entry);
    }

    /// The same for one that has no place among them.
    pub(crate) fn book_beside(&mut self, entry: &mut Entry) {
        entry.life = self.life;
        self.take(entry.bytes);
    }

    pub(crate) fn take(&mut self, bytes: usize) {
        self.bytes += bytes;
    }

    pub(crate) fn release(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_sub(bytes);
    }

    /// Bytes of those that are here.
    pub(crate) fn bytes_here(&self) -> usize {
        let here = self.held.iter().chain(&self.owed);
        here.map(|entry| entry.bytes).sum()
    }

    // ---- those that wait ----------------------------------------------------------------------------------------------------

    pub(crate) fn hold(&mut self, entry: Entry) {
        self.held.push_back(entry);
    }

    pub(crate) fn hold_first(&mut self, entry: Entry) {
        self.held.push_front(entry);
    }

    pub(crate) fn hold_all(&mut self, mut entries: VecDeque<Entry>) {
        self.held.append(&mut entries);
    }

    pub(crate) fn take_all(&mut self) -> VecDeque<Entry> {
        std::mem::take(&mut self.held)
    }

    pub(crate) fn held(&self) -> &VecDeque<Entry> {
        &self.held
    }

    pub(crate) fn pop_first(&mut self) -> Option<Entry> {
        self.held.pop_front()
    }

    /// Events wait.
    pub(crate) fn hold_events(&self) -> bool {
        self.held.iter().any(Entry::is_event)
    }

    /// So many.
    pub(crate) fn events_held(&self) -> usize {
        self.held.iter().filter(|entry| entry.is_event()).count()
    }

    /// Takes such entries out of those that wait, wherever they stand among them.
    pub(crate) fn take_held(&mut self, is_meant: impl Fn(&Entry) -> bool) -> Vec<Entry> {
        if !self.held.iter().any(&is_meant) {
            return Vec::new();
        }
        let held = std::mem::take(&mut self.held).into_iter();
        let (taken, kept): (Vec<Entry>, Vec<Entry>) = held.partition(is_meant);
        self.held = kept.into();
        let bytes: usize = taken.iter().map(|entry| entry.bytes).sum();
        self.release(bytes);
        taken
    }

    /// A lost worker had handled its items in any order: the next one gets them in theirs.
    pub(crate) fn sort(&mut self) {
        self.held
            .make_contiguous()
            .sort_by_key(|entry| entry.sequence);
    }

    /// One entry comes still: the last.
    pub(crate) fn shrink(&mut self) {
        let last = self.held.len() + 1;
        self.held.reserve_exact(1);
        self.held.shrink_to(last);
    }

    /// The end that waits costs so much beside its message, from now on. Returns by how much that is more than it was.
    pub(crate) fn weigh_end(&mut self, beside: usize) -> usize {
        let end = self.held.iter_mut().find(|entry| entry.is_gone());
        let more = end.map_or(0, |end| end.weigh(beside));
        self.take(more);
        more
    }

    /// Rooms of the socket at its end.
    pub(crate) fn last_rooms(&self) -> Vec<String> {
        let last = self.held.iter().rev().find_map(|entry| match entry.what() {
            Some(What::Gone(gone)) => Some(gone.rooms.clone()),
            _ => None,
        });
        last.unwrap_or_default()
    }

    // ---- answers ------------------------------------------------------------------------------------------------------------

    /// The client waits for this answer.
    pub(crate) fn await_answer(&mut self, ack: u64) {
        self.open.insert(ack);
    }

    pub(crate) fn awaits(&self, ack: u64) -> bool {
        self.open.contains(ack)
    }

    /// The client waits for it no more. Returns whether it did.
    pub(crate) fn end_wait(&mut self, ack: u64) -> bool {
        self.open.remove(ack)
    }

    /// The client is gone, and waits for nothing. Returns what that frees.
    pub(crate) fn end_waits(&mut self) -> usize {
        self.open.clear();
        let freed = self.owed.drain(..).map(|entry| entry.bytes).sum();
        self.release(freed);
        freed
    }

    /// An answer came or will not come: nothing of the event is kept. `None`: nobody waits for it.
    pub(crate) fn settle(&mut self, ack: u64) -> Option<usize> {
        if !self.open.remove(ack) {
            return None;
        }
        Some(self.pay(|entry| entry.ack() == Some(ack)))
    }

    /// A handled item whose client waits. Most sockets have one at a time, and many have none for long.
    pub(crate) fn owe(&mut self, entry: Entry) {
        if self.owed.capacity() == 0 {
            self.owed.reserve_exact(1);
        }
        self.owed.push(entry);
    }

    /// Takes the item that is meant off the books. Returns its bytes.
    fn pay(&mut self, is_meant: impl Fn(&Entry) -> bool) -> usize {
        let at = self.owed.iter().position(is_meant);
        let freed = at.map_or(0, |at| self.owed.remove(at).bytes);
        if self.owed.is_empty() && self.owed.capacity() > 1 {
            self.owed = Vec::new();
        }
        self.release(freed);
        freed
    }

    /// The decision about the client came: nothing of its CONNECT is kept. Returns what that frees.
    pub(crate) fn admit(&mut self) -> usize {
        let freed = self.pay(Entry::introduces);
        self.owed.shrink_to_fit();
        freed
    }

    /// The client waits for what becomes of this handled item.
    pub(crate) fn owes(&self, sequence: u64) -> bool {
        self.owed.iter().any(|entry| entry.sequence == sequence)
    }

    pub(crate) fn owe_any(&self) -> bool {
        !self.owed.is_empty()
    }

    pub(crate) fn take_owed(&mut self) -> Vec<Entry> {
        std::mem::take(&mut self.owed)
    }
}
