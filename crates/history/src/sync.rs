//! How durable what is stored on disk is.

/// When files are written through to the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sync {
    /// With each batch: what is stored survives a power cut.
    Always,
    /// Every second.
    Second,
    /// When the operating system does.
    Os,
}
