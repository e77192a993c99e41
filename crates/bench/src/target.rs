//! The server that a benchmark measures.

/// The server under test.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Target {
    /// Its name in tables.
    pub name: String,
    /// `http://host:port`; connections are spread over several.
    pub urls: Vec<String>,
    /// Its processes, for CPU and memory.
    pub pids: Vec<u32>,
}
