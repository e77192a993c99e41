//! `[auth]`: what is asked of clients, for the hub, and how tokens are checked, for the control plane.

use super::Resolver;
use crate::config::layer::Path;
use crate::config::typed::Field;
use identity::{self, Algorithm, Secret, Settings};
use std::path::PathBuf;
use std::time::Duration;

#[derive(Clone, Debug, PartialEq)]
pub struct Auth {
    /// What the hubs are told.
    pub hub: hub::config::Auth,
    /// For `identity::Verifier::new`; `None`: no key is configured, so no token can be checked.
    pub verifier: Option<Settings>,
}

impl Resolver<'_> {
    pub(super) fn auth(&mut self) -> Auth {
        let keys = &self.settings.demands;
        let required = *keys.required;
        let settings = self.verifier_settings();
        let has_keys = settings.has_keys();
        if required && !has_keys {
            let message = "tokens cannot be checked without a key: set auth.secret, auth.secret_file, \
                           auth.public_key_file, auth.jwks_file or auth.jwks_url";
            self.problem(&keys.required, message);
        }
        if let (true, Err(error)) = (has_keys, identity::check(&settings)) {
            self.problem_at(&Path::fixed(error.key), error.message);
        }
        self.auth_times();
        Auth {
            hub: hub::config::Auth {
                enabled: has_keys,
                required,
                style: *keys.style,
                query_parameter: keys.query_parameter.clone(),
                timeout: *keys.timeout,
                warn_before: *keys.warn_before,
            },
            verifier: has_keys.then_some(settings),
        }
    }

    fn verifier_settings(&mut self) -> Settings {
        let all = self.settings;
        let (sources, checks, claims, limits) =
            (&all.sources, &all.checks, &all.claims, &all.limits);
        let secret = sources.secret.clone();
        Settings {
            secret: secret.filter(|secret: &Secret| !secret.reveal().is_empty()),
            secret_file: self.file(&sources.secret_file),
            public_key_file: self.file(&sources.public_key_file),
            jwks_file: self.file(&sources.jwks_file),
            jwks_url: sources.jwks_url.clone().filter(|url| !url.is_empty()),
            jwks_refresh: *sources.jwks_refresh,
            algorithms: self.algorithms(),
            issuer: checks.issuer.clone(),
            audience: checks.audience.clone(),
            leeway: *checks.leeway,
            require_expiry: *checks.require_expiry,
            uid_claim: self.claim(&claims.uid_claim),
            rooms_claim: self.claim(&claims.rooms_claim),
            permissions_claim: self.claim(&claims.permissions_claim),
            label_claim: (*all.kafka_out.claim).clone(),
            rooms_max: limits.rooms_per_socket_max,
            room_name_bytes_max: limits.room_name_bytes_max,
        }
    }

    /// A file, found from the folder of the configuration.
    fn file(&self, key: &Option<String>) -> Option<PathBuf> {
        let name = key.as_ref().filter(|name| !name.is_empty())?;
        Some(self.machine.folder.join(name))
    }

    fn algorithms(&mut self) -> Vec<Algorithm> {
        let key = &self.settings.checks.algorithms;
        let mut algorithms = Vec::new();
        for name in key.iter() {
            match identity::algorithm(name) {
                Some(algorithm) => algorithms.push(algorithm),
                None => {
                    let known = "such as \"HS256\", \"RS256\", \"ES256\" or \"EdDSA\"";
                    let message = format!("cannot use algorithm {name:?}: one is needed {known}");
                    self.problem(key, message);
                }
            }
        }
        algorithms
    }

    fn claim(&mut self, key: &Field<String>) -> String {
        if key.is_empty() {
            self.problem(key, "the name of a claim is needed");
        }
        key.to_string()
    }

    fn auth_times(&mut self) {
        let all = self.settings;
        let (timeout, refresh) = (&all.demands.timeout, &all.sources.jwks_refresh);
        if timeout.is_zero() {
            self.problem(timeout, "must be longer than zero");
        }
        if **refresh < REFRESH_MIN {
            let message = "must be 1s or longer: the set is fetched over the network";
            self.problem(refresh, message);
        }
        if *all.checks.leeway > LEEWAY_MAX {
            let message = "clocks that differ by more than 5m should be set instead";
            self.problem(&all.checks.leeway, message);
        }
    }
}

const REFRESH_MIN: Duration = Duration::from_secs(1);
const LEEWAY_MAX: Duration = Duration::from_secs(300);
