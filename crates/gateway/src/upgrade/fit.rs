//! What must be the same in both processes, and what cannot be handed over yet.

use crate::config::Resolved;
use handoff::Fit;

/// The configuration as a successor must have it.
pub fn of(config: &Resolved) -> Fit {
    let server = &config.server;
    let secure = config.tls.iter().flat_map(|tls| &tls.listen);
    Fit {
        node: u32::from(server.node.unwrap_or_default()),
        shards: server.shards as u32,
        listen: server.listen.iter().map(ToString::to_string).collect(),
        secure: secure.map(ToString::to_string).collect(),
        unix: server
            .unix
            .iter()
            .map(|path| path.display().to_string())
            .collect(),
        admin: server
            .admin
            .map_or("off".to_owned(), |addr| addr.to_string()),
    }
}

/// The part of the configuration that keeps this process from handing anything over; `None`: nothing does.
pub fn obstacle(config: &Resolved) -> Option<&'static str> {
    let parts = [
        (config.cluster.is_some(), "[cluster]"),
        (config.backends.is_some(), "[backends]"),
        (config.kafka.is_some(), "[kafka]"),
        (config.nats.is_some(), "[nats]"),
        (config.history.is_some(), "[history]"),
        (config.bodies.is_some(), "[large]"),
    ];
    parts.into_iter().find(|(is, _)| *is).map(|(_, name)| name)
}
