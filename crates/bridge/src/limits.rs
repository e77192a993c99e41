//! Bounds of what waits for a bus.

use std::time::Duration;

/// Of what waits.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Of all records that wait: key or subject, headers, value and 512 bytes for each.
    pub waiting_bytes_max: usize,
    /// Of one record. Servers have a limit of their own, 1 MiB by default.
    pub record_bytes_max: usize,
    /// How long a record waits.
    pub time: Duration,
}
