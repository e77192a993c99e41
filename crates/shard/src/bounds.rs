//! All bounds of this crate that no setting changes.

/// Streams that others serve on a shard's thread. Those beyond are not taken.
pub(crate) const GUESTS_MAX: usize = 1_024;
/// Walks through a table that wait for their turn. More get no answer; those who ask bound themselves well below it.
pub(crate) const WALKS_MAX: usize = 64;
/// Rounds of mail after which shards that still write to each other are left alone, where a process hands over.
pub(crate) const ROUNDS_MAX: usize = 200;
/// Bytes of a TLS record: plaintext, what encryption may add, and the header (RFC 5246 §6.2.3; those of TLS 1.3 are smaller).
pub(crate) const RECORD_BYTES_MAX: usize = 16_384 + 2_048 + 5;
/// Bytes of the kernel's answer about one connection: a page, of which it fills a part.
#[cfg(target_os = "linux")]
pub(crate) const KERNEL_ANSWER_BYTES_MAX: usize = 4_096;
