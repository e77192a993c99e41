//! What is measured.

/// The server under test.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Target {
    /// What tables call it.
    pub name: String,
    /// `http://host:port`; connections are spread over several.
    pub urls: Vec<String>,
    /// Its processes, for CPU and memory.
    pub pids: Vec<u32>,
}
