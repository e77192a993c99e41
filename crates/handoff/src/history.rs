//! What rooms said, where only the process knows it.

use prost::Message;

/// Some events, in the order of their places.
#[derive(Clone, PartialEq, Message)]
pub struct Events {
    #[prost(message, repeated, tag = "1")]
    pub events: Vec<Event>,
}

/// One of them.
#[derive(Clone, PartialEq, Message)]
pub struct Event {
    /// Its place.
    #[prost(uint64, tag = "1")]
    pub at: u64,
    #[prost(string, tag = "2")]
    pub namespace: String,
    #[prost(string, tag = "3")]
    pub room: String,
    #[prost(string, tag = "4")]
    pub name: String,
    /// Raw JSON elements, separated by commas.
    #[prost(string, tag = "5")]
    pub args: String,
    #[prost(string, optional, tag = "6")]
    pub user: Option<String>,
    /// In ms since 1970.
    #[prost(uint64, tag = "7")]
    pub time_ms: u64,
}
