//! The operators' listener of a node, and the server API that it has.

use crate::bridges;
use crate::cluster;
use crate::config::Resolved;
use crate::config::show::InForce;
use crate::credentials::Credentials;
use crate::errands::Errands;
use crate::inside::Seen;
use anyhow::{Context, Result};
use control::admin::{Gate, Nodes};
use control::api::{self, Api};
use control::debug::Debugging;
use control::listening::Doorway;
use control::metrics::Exporter;
use control::metrics::node::Node as Facts;
use hub::Places;
use nodes::Member;
use nodes::ledger::Ledger;
use rules::RulesFactory;
use shard::Shards;
use std::any::Any;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use tokio::runtime::Runtime;
use tokio::task::AbortHandle;

/// What serves operators; nothing does where they have no address.
#[derive(Debug, Default)]
pub struct Service {
    pub addr: Option<SocketAddr>,
    pub listener: Option<TcpListener>,
    pub task: Option<AbortHandle>,
}

/// Their listener before it is served, and a copy for a process that takes over.
#[derive(Debug, Default)]
pub struct Front {
    addr: Option<SocketAddr>,
    copy: Option<TcpListener>,
    listener: Option<tokio::net::TcpListener>,
}

impl Front {
    /// Called within the runtime. Nobody is let in yet.
    pub fn of(listener: Option<TcpListener>) -> Result<Self> {
        let Some(listener) = listener else {
            return Ok(Self::default());
        };
        let place = "cannot open the operators' listener";
        Ok(Self {
            addr: Some(listener.local_addr().context(place)?),
            copy: Some(listener.try_clone().context(place)?),
            listener: Some(tokio::net::TcpListener::from_std(listener).context(place)?),
        })
    }
}

/// The server API, by HTTP and gRPC.
fn server_api(
    config: &Resolved,
    credentials: &Credentials,
    (shards, rules): (&Shards, &RulesFactory),
    facts: &Facts,
    ledger: Option<Arc<Ledger>>,
) -> Api {
    let settings = api::Settings {
        ledger,
        history: facts.history.get().cloned(),
        chronicle: facts.chronicle.get().cloned(),
        keeping: rules.keeping(),
        audit: Arc::clone(&facts.audit),
        large: config.large.clone(),
        bodies: facts.bodies.get().cloned(),
        keys: credentials.of_operators(),
        rate: config.admin.api_rate,
        room_name_bytes_max: config.hub.limits.room_name_bytes_max,
        namespaces: cluster::whole_world(config),
        readiness: facts.readiness.clone(),
        past: facts.take_past(),
    };
    Api::new(settings, Errands::of(shards))
}

/// The server API, which topics and subjects reach from now on, and the conditions of the operators' listener.
pub fn gate(
    config: &Resolved,
    credentials: &Credentials,
    nodes: Nodes,
    (shards, rules, places, member): (&Shards, &RulesFactory, &Arc<Places>, Option<&Member>),
    facts: &Arc<Facts>,
) -> Result<(Arc<Api>, Gate)> {
    let ledger = cluster::ledger(config.cluster.as_ref().zip(member), facts)?;
    let room = (shards, rules);
    let api = Arc::new(server_api(config, credentials, room, facts, ledger));
    // Nobody else sets it.
    let _ = facts.api.set(Arc::clone(&api));
    bridges::open(facts, &api)?;
    let bring = shards.doorway();
    let bring = Box::new(move |stream, client| {
        let place = bring(stream, client)?;
        Some(Box::new(place) as Box<dyn Any + Send>)
    });
    let _ = facts
        .doorway
        .set(Doorway::new(bring, &config.hub.socketio_path));
    let gate = Gate {
        keys: credentials.of_operators(),
        metrics_need_key: config.admin.access.metrics_need_key,
        conns_max: config.admin.conns_max,
        places: Arc::clone(places),
        nodes,
        api: Arc::clone(&api),
        node: Arc::clone(facts),
    };
    Ok((api, gate))
}

/// Serves operators from now on.
pub fn serve(
    runtime: &Runtime,
    front: Front,
    (shards, settings, seen): (&Shards, &Arc<InForce>, Seen),
    facts: &Arc<Facts>,
    gate: Gate,
) -> Service {
    let Some(listener) = front.listener else {
        return Service::default();
    };
    let exporter = Arc::new(Exporter::new(shards.metrics(), Arc::clone(facts)));
    let readiness = facts.readiness.clone();
    let debugging = Debugging::new(seen.inside);
    let pulse = facts.vitals.pulse("the operators' listener");
    let settings: Arc<dyn control::inside::Settings> = Arc::<InForce>::clone(settings);
    let (shown, live) = ((debugging, settings), (seen.desk, seen.relays));
    let task = runtime.spawn(async move {
        let _pulse = pulse;
        let served = control::admin::serve(listener, exporter, readiness, gate, shown, live);
        if let Err(error) = served.await {
            tracing::error!(%error, "the admin listener ended");
        }
    });
    Service {
        addr: front.addr,
        listener: front.copy,
        task: Some(task.abort_handle()),
    }
}
