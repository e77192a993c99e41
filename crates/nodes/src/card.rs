//! A node's description of itself, beside its number: the payload of its lease, as JSON.

use hub::metrics::Cells;
use process::health::Readiness;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{SystemTime, UNIX_EPOCH};

/// A name of a host has 253 characters at most (RFC 1035 §2.3.4), and a number comes with it.
const TEXT_CHARS_MAX: usize = 300;

/// The description of a node, for others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Card {
    /// Host and process.
    pub name: String,
    /// A random number of this process: two containers may have one name, and each must see that a lease is the other's.
    pub life: u64,
    pub version: String,
    /// Where requests for its sessions are relayed to.
    pub relay: Option<SocketAddr>,
    /// It reads events with stamps, and takes part when a socket goes from one node to another. In the lease this is `lives`: builds that wrote
    /// `returns` had stamps without the life of their shard.
    pub returns: bool,
    /// It reads where an event stands on a bus.
    pub spots: bool,
    /// Seconds since 1970.
    pub started_s: u64,
    pub sessions: u64,
    /// A word for people, such as `ready`.
    pub state: String,
    /// Sessions that are still to go to other nodes; 0: no rebalance is under way.
    pub leaving: u64,
    /// Another process is started for it, or takes over from this one.
    pub upgrading: bool,
}

impl Card {
    pub(super) fn text(&self) -> String {
        self.json().to_string()
    }

    /// As operators read it.
    pub fn json(&self) -> Value {
        json!({
            "name": self.name,
            "life": self.life,
            "version": self.version,
            "relay": self.relay.map(|address| address.to_string()),
            "lives": self.returns,
            "spots": self.spots,
            "started": self.started_s,
            "sessions": self.sessions,
            "state": self.state,
            "leaving": self.leaving,
            "upgrading": self.upgrading,
        })
    }

    /// A payload that is no card is a name.
    pub(super) fn read(payload: &str) -> Self {
        let json: Value = serde_json::from_str(payload).unwrap_or_default();
        let text = |member: &str| clipped(json[member].as_str().unwrap_or_default());
        let named = json["name"].as_str();
        Self {
            name: clipped(named.unwrap_or(payload)),
            life: json["life"].as_u64().unwrap_or_default(),
            version: text("version"),
            relay: text("relay").parse().ok(),
            returns: json["lives"].as_bool().unwrap_or_default(),
            spots: json["spots"].as_bool().unwrap_or_default(),
            started_s: json["started"].as_u64().unwrap_or_default(),
            sessions: json["sessions"].as_u64().unwrap_or_default(),
            state: text("state"),
            leaving: json["leaving"].as_u64().unwrap_or_default(),
            upgrading: json["upgrading"].as_bool().unwrap_or_default(),
        }
    }
}

/// A text of a card is no longer: whoever can write to the engine writes what he likes.
fn clipped(text: &str) -> String {
    text.chars().take(TEXT_CHARS_MAX).collect()
}

/// Sessions of a process. Shards that were stopped at the end of a drain leave their last numbers.
pub fn sessions(shards: &[Arc<Cells>], readiness: &Readiness) -> u64 {
    if readiness.is_drained() {
        return 0;
    }
    let of_shard = |cells: &Arc<Cells>| cells.sessions.load(Ordering::Relaxed);
    shards.iter().map(of_shard).sum()
}

/// Seconds since 1970.
pub fn unix_seconds() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_card_is_read_as_it_was_written_and_a_word_is_a_name() {
        let card = Card {
            name: "a/1".to_owned(),
            life: 3,
            version: "1.0".to_owned(),
            relay: "10.0.0.1:7".parse().ok(),
            returns: true,
            spots: true,
            started_s: 5,
            sessions: 6,
            state: "ready".to_owned(),
            leaving: 3,
            upgrading: true,
        };
        assert_eq!(Card::read(&card.text()), card);
        assert_eq!(Card::read("host/12").name, "host/12");
        assert_eq!(Card::read(&"x".repeat(2_000)).name.len(), 300);
        assert_eq!(Card::read("{\"name\":\"x\",\"relay\":7}").relay, None);
    }

    /// Its stamps had no lives, and it takes ours for something unreadable.
    #[test]
    fn a_node_whose_stamps_have_no_lives_takes_part_in_no_return() {
        let before = "{\"name\":\"a/1\",\"returns\":true,\"spots\":true}";
        assert!(!Card::read(before).returns && Card::read(before).spots);
        let ours = Card {
            returns: true,
            ..Card::default()
        };
        let json: Value = serde_json::from_str(&ours.text()).expect("JSON");
        assert_eq!(json["returns"], Value::Null);
    }
}
