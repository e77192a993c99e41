//! WebTransport, if the configuration offers it: the carrier listens by UDP where TLS listens by TCP, with the same certificates.

use crate::config::Resolved;
use crate::tls::Rotation;
use anyhow::{Result, anyhow};
use control::metrics::node::Node as Facts;
use control::webtransport::{self, Settings};
use hub::heartbeat::Step;
use rustls::ServerConfig;
use shard::Shards;
use std::any::Any;
use std::sync::Arc;

/// Threads for QUIC: its work is encryption, so one for each shard, up to this many.
const THREADS_MAX: usize = 8;

/// Brings streams to the shards from now on.
pub fn start(
    config: &Resolved,
    takes_over: bool,
    certificates: Option<&Rotation>,
    shards: &Shards,
    facts: &Facts,
) -> Result<()> {
    let hub = &config.hub;
    let Some(certificates) = certificates.filter(|_| hub.transports.webtransport) else {
        return Ok(());
    };
    let paths = [Some(hub.socketio_path.clone()), hub.engineio_path.clone()];
    let settings = Settings {
        listen: shards.tls_addrs().to_vec(),
        takes_over,
        paths: paths.into_iter().flatten().collect(),
        opening_timeout: hub.limits.handshake_timeout,
        // A client that lives answers a heartbeat in this time.
        idle_timeout: hub.ping_interval(Step::LAST) + hub.ping_timeout,
        close_timeout: hub.limits.close_timeout,
        threads: config.server.shards.min(THREADS_MAX),
    };
    let listen = format!("{:?}", settings.listen);
    let bring = shards.carrier();
    let bring = Box::new(move |stream, client| {
        let place = bring(stream, client)?;
        Some(Box::new(place) as Box<dyn Any + Send>)
    });
    match webtransport::start(settings, &certificates.config(), bring) {
        Ok(carrier) => {
            tracing::info!(listen, "WebTransport");
            // Nobody else sets it.
            let _ = facts.carrier.set(carrier);
            Ok(())
        }
        // All sessions of the process before are here already.
        Err(why) if takes_over => {
            tracing::error!(
                listen,
                "cannot offer WebTransport until the next start: {why}"
            );
            Ok(())
        }
        Err(why) => Err(anyhow!("cannot offer WebTransport: {why}")),
    }
}

/// Handshakes use these certificates from now on.
pub fn renew(facts: &Facts, tls: &Arc<ServerConfig>) {
    if let Some(carrier) = facts.carrier.get()
        && let Err(message) = carrier.renew(tls)
    {
        tracing::error!(%message, "cannot use new certificates for WebTransport: the old ones stay");
    }
}

/// Lets nobody in any more: the shards' clients are told to go.
pub fn stop(facts: &Facts) {
    if let Some(carrier) = facts.carrier.get() {
        carrier.stop();
    }
}

/// The shards have ended its sessions: their clients have so long to hear of it.
pub fn close(config: &Resolved, facts: &Facts) {
    if let Some(carrier) = facts.carrier.get() {
        carrier.close(config.hub.limits.close_timeout);
    }
}
