//! What must be the same in both processes, and what cannot be handed over yet.

use crate::config::{Cluster, Resolved};
use backend::Scope;
use handoff::Fit;
use std::net::SocketAddr;

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
        workers: config
            .workers
            .as_ref()
            // A build that knows no such field says the same.
            .map_or(String::new(), |addr| addr.to_string()),
        backends: backends(config),
        cluster: config.cluster.as_ref().map_or(String::new(), |cluster| {
            let relay = cluster.relay.as_ref().map_or("off".to_owned(), |relay| {
                let text = |addr: Option<SocketAddr>| {
                    addr.map_or("auto".to_owned(), |addr| addr.to_string())
                };
                format!("{} as {}", text(relay.on), text(relay.advertise))
            });
            let adapter = format!("{:?}", cluster.adapter).to_lowercase();
            format!("{adapter}, prefix {}, relay {relay}", cluster.prefix)
        }),
    }
}

/// Each with its namespaces: sockets go on with the workers that they have.
fn backends(config: &Resolved) -> Vec<String> {
    let all = config.backends.iter().flat_map(|all| &all.kitchens);
    let all = all.map(|(name, kitchen)| {
        let namespaces = match &kitchen.settings.scope {
            Scope::All => "all".to_owned(),
            Scope::Only(names) => names.join(" "),
            Scope::Except(names) => format!("all but {}", names.join(" ")),
        };
        let called = if kitchen.webhook.is_some() {
            " (called)"
        } else {
            ""
        };
        format!("{name}{called}: {namespaces}")
    });
    all.collect()
}

/// Nobody else knows the addresses of bodies that it gave to clients.
fn signs_for_itself(config: &Resolved) -> bool {
    let bodies = config.bodies.as_ref();
    bodies.is_some_and(|bodies| bodies.secret.is_none())
}

/// Nobody would hear these commands between two processes.
fn reads_a_subject(config: &Resolved) -> bool {
    let nats = config.nats.as_ref();
    nats.is_some_and(|nats| nats.inlets.iter().any(|inlet| inlet.stream.is_none()))
}

/// The part of the configuration that keeps this process from handing anything over; `None`: nothing does.
pub fn obstacle(config: &Resolved) -> Option<&'static str> {
    let cluster = config.cluster.as_ref();
    let is_kept = |is: fn(&Cluster) -> bool| cluster.is_some_and(is);
    let parts = [
        (is_kept(|all| all.compat.is_wanted()), "[compat]"),
        (is_kept(|all| !all.feeds.is_empty()), "[feeds]"),
        (reads_a_subject(config), "[nats.in] without a stream"),
        (signs_for_itself(config), "[large] without a secret"),
    ];
    parts.into_iter().find(|(is, _)| *is).map(|(_, name)| name)
}
