//! Certificates of all listeners over time.

use crate::carrier;
use crate::config::Resolved;
use crate::tls::{Files, Rotation};
use anyhow::{Context, Result};
use control::metrics::node::Node as Facts;
use shard::Shards;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use workers::Secured;

#[derive(Debug)]
pub struct Certificates {
    clients: Option<Rotation>,
    workers: Option<(Rotation, Secured)>,
    facts: Arc<Facts>,
}

impl Certificates {
    pub fn start(config: &Resolved, facts: &Arc<Facts>) -> Result<Self> {
        let start = |files: Option<&Files>| files.map(Rotation::start).transpose();
        let clients = start(config.tls.as_ref().map(|tls| &tls.files));
        let workers = start(config.workers_tls.as_ref());
        let workers = workers.context("cannot set up TLS for workers")?;
        let certificates = Self {
            clients: clients.context("cannot set up TLS")?,
            workers: workers.map(|rotation| {
                let secured = Secured::new(rotation.config());
                (rotation, secured)
            }),
            facts: Arc::clone(facts),
        };
        certificates.note_expiry();
        Ok(certificates)
    }

    pub fn of_clients(&self) -> Option<&Rotation> {
        self.clients.as_ref()
    }

    pub fn of_workers(&self) -> Option<Secured> {
        self.workers.as_ref().map(|(_, secured)| secured.clone())
    }

    /// Takes up what has changed in the files, if it is time to look.
    pub fn look(&mut self, shards: &Shards) {
        self.renew(shards, |rotation, _| rotation.look());
    }

    /// Takes another configuration and reads the files it names.
    pub fn apply(&mut self, config: &Resolved, shards: &Shards) {
        let clients = config.tls.as_ref().map(|tls| &tls.files);
        let workers = config.workers_tls.as_ref();
        if self.workers.is_some() != workers.is_some() {
            tracing::warn!(
                "workers attach with TLS, or without it, as when this process began: restart it to change that (workers.cert)"
            );
        }
        self.renew(shards, |rotation, is_public| {
            rotation.apply(if is_public { clients } else { workers }?)
        });
    }

    fn renew(
        &mut self,
        shards: &Shards,
        mut renewed: impl FnMut(&mut Rotation, bool) -> Option<Arc<rustls::ServerConfig>>,
    ) {
        let clients = self.clients.as_mut();
        let public = clients.and_then(|rotation| renewed(rotation, true));
        if let Some(config) = &public {
            shards.set_tls(config);
            carrier::renew(&self.facts, config);
        }
        if let Some((rotation, secured)) = &mut self.workers
            && let Some(config) = renewed(rotation, false)
        {
            secured.set(config);
        }
        self.note_expiry();
    }

    fn note_expiry(&self) {
        let workers = self.workers.iter().map(|(rotation, _)| rotation);
        let all = self.clients.iter().chain(workers);
        let first = all.filter_map(Rotation::first_expiry).min();
        let expiry = &self.facts.certificate_expiry;
        expiry.store(first.unwrap_or(0), Ordering::Relaxed);
    }
}
