//! `[workers]`, `[backends]` and `[traces]`, for the control plane.

use super::Resolver;
use crate::config::edges::Listen;
use crate::config::{backends, edges};
use workers::Config;

impl Resolver<'_> {
    /// Where workers attach, and for what.
    pub(super) fn backends(&mut self) -> (Option<Listen>, Option<Config>) {
        let limits = &self.settings.limits;
        let (verdict_timeout, room_name) = (limits.handshake_timeout, limits.room_name_bytes_max);
        let (kitchens, problems) = backends::read(self.layer, verdict_timeout, room_name);
        self.problems.extend(problems);
        let mut all = kitchens.iter();
        let attended = all.find(|(_, kitchen)| kitchen.webhook.is_none());
        let listen = self.workers_address(attended.map(|(name, _)| name.as_str()));
        let conns_max = self.settings.workers.conns_max.get();
        let config = Config {
            conns_max,
            kitchens,
        };
        let is_wanted = listen.is_some() || !config.kitchens.is_empty();
        (listen, is_wanted.then_some(config))
    }

    /// `attended`: a backend that needs workers.
    fn workers_address(&mut self, attended: Option<&str>) -> Option<Listen> {
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
        let told = |message: String| self.problem(&keys.listen, format!("{message}, or \"off\""));
        let listen = edges::listen(&keys.listen).map_err(told).ok()?;
        let Some(addr) = listen.tcp() else {
            if !keys.cert.is_empty() {
                let message = "a Unix socket has no TLS: nobody else on this host reads it";
                self.problem(&keys.cert, message);
            }
            return Some(listen);
        };
        if !addr.ip().is_loopback() && keys.cert.is_empty() && !*keys.plaintext {
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
