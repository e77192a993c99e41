//! The books: bytes that are kept for workers, for sockets and for nobody's in particular.

#[derive(Debug)]
pub(crate) struct Ledger {
    bytes: usize,
    bytes_max: usize,
}

impl Ledger {
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self {
            bytes: 0,
            bytes_max,
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// A worker that asks and does not read gets its answers without what is in them.
    pub(crate) fn is_full(&self) -> bool {
        !self.has_room(0)
    }

    pub(crate) fn has_room(&self, bytes: usize) -> bool {
        self.bytes + bytes <= self.bytes_max
    }

    /// Ends that wait for a worker to come, and requests of strangers, take no room that events need.
    pub(crate) fn has_spare_room(&self, bytes: usize) -> bool {
        self.bytes + bytes <= self.bytes_max / 2
    }

    pub(crate) fn take(&mut self, bytes: usize) {
        self.bytes += bytes;
    }

    pub(crate) fn release(&mut self, bytes: usize) {
        self.bytes -= bytes;
    }
}
