//! `[workers]`, `[backends]` and `[traces]`, for the control plane.

use super::Resolver;
use crate::config::{backends, edges};
use std::net::SocketAddr;
use workers::Config;

impl Resolver<'_> {
    pub(super) fn backends(&mut self) -> Option<Config> {
        let limits = &self.settings.limits;
        let (verdict_timeout, room_name) = (limits.handshake_timeout, limits.room_name_bytes_max);
        let (kitchens, problems) = backends::read(self.layer, verdict_timeout, room_name);
        self.problems.extend(problems);
        let mut all = kitchens.iter();
        let attended = all.find(|(_, kitchen)| kitchen.webhook.is_none());
        let listen = self.workers_address(attended.map(|(name, _)| name.as_str()));
        let conns_max = self.settings.workers.conns_max.get();
        let config = Config {
            listen,
            conns_max,
            kitchens,
        };
        (listen.is_some() || !config.kitchens.is_empty()).then_some(config)
    }

    /// `attended`: a backend that needs workers.
    fn workers_address(&mut self, attended: Option<&str>) -> Option<SocketAddr> {
        let keys = &self.settings.workers;
        if *keys.listen == "off" {
            if let Some(name) = attended {
                let message = format!(
                    "no worker of [backends.{name}] can attach: set an address, such as \"127.0.0.1:9091\""
                );
                self.problem(&keys.listen, message);
            }
            return None;
        }
        let Some(listen) = edges::address(&keys.listen) else {
            let message = format!("{}, or \"off\"", edges::needs_addr(&keys.listen));
            self.problem(&keys.listen, message);
            return None;
        };
        if !listen.ip().is_loopback() && keys.cert.is_empty() && !*keys.plaintext {
            let message = "workers attach without TLS, so this must be a loopback address: set workers.cert and workers.key, or, in a \
                           network that nobody listens to, workers.plaintext";
            self.problem(&keys.listen, message);
        }
        Some(listen)
    }
}

impl Resolver<'_> {
    pub(super) fn traces(&mut self) -> Option<control::traces::Settings> {
        let keys = &self.settings.traces;
        let settings = control::traces::Settings {
            endpoint: (*keys.endpoint).clone()?,
            header: (*keys.header).clone(),
            one_in: keys.one_in.get(),
            trust_clients: *keys.trust_clients,
            service: keys.service.clone(),
        };
        if let Err(message) = settings.check() {
            self.problem(&keys.endpoint, message);
        }
        Some(settings)
    }
}
