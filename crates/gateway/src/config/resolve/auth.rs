//! `[auth]`: what is asked of clients, for the hub, and how tokens are checked, for the control plane.

use super::Resolver;
use crate::config::value::Value;
use control::identity::{self, Algorithm, Secret, Settings};
use hub::config::AuthStyle;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Clone, Debug, PartialEq)]
pub struct Auth {
    /// What the hubs are told.
    pub hub: hub::config::Auth,
    /// For `control::identity::Verifier::new`; `None`: no key is configured, so no token can be checked.
    pub verifier: Option<Settings>,
}

impl Resolver<'_> {
    pub(super) fn auth(&mut self) -> Auth {
        let required = self.on("auth.required");
        let settings = self.verifier_settings();
        let has_keys = settings.has_keys();
        if required && !has_keys {
            let message = "tokens cannot be checked without a key: set auth.secret, auth.secret_file, \
                           auth.public_key_file, auth.jwks_file or auth.jwks_url";
            self.problem("auth.required", message.to_owned());
        }
        if let (true, Err(error)) = (has_keys, identity::check(&settings)) {
            self.problem(error.key, error.message);
        }
        self.auth_times();
        Auth {
            hub: hub::config::Auth {
                enabled: has_keys,
                required,
                style: match self.text("auth.style").as_str() {
                    "chat" => AuthStyle::Chat,
                    _ => AuthStyle::Strict,
                },
                query_parameter: self.text("auth.query_parameter"),
                timeout: self.duration("auth.timeout"),
                warn_before: self.duration("auth.warn_before"),
            },
            verifier: has_keys.then_some(settings),
        }
    }

    fn verifier_settings(&mut self) -> Settings {
        let secret = match self.layer.value("auth.secret") {
            Some(Value::Secret(secret)) => Some(secret.clone()),
            _ => None,
        };
        let limits = self.limits();
        Settings {
            secret: secret.filter(|secret: &Secret| !secret.reveal().is_empty()),
            secret_file: self.file("auth.secret_file"),
            public_key_file: self.file("auth.public_key_file"),
            jwks_file: self.file("auth.jwks_file"),
            jwks_url: Some(self.text("auth.jwks_url")).filter(|url| !url.is_empty()),
            jwks_refresh: self.duration("auth.jwks_refresh"),
            algorithms: self.algorithms(),
            issuer: self.list("auth.issuer"),
            audience: self.list("auth.audience"),
            leeway: self.duration("auth.leeway"),
            require_expiry: self.on("auth.require_expiry"),
            uid_claim: self.claim("auth.uid_claim"),
            rooms_claim: self.claim("auth.rooms_claim"),
            permissions_claim: self.claim("auth.permissions_claim"),
            rooms_max: limits.rooms_per_socket_max,
            room_name_bytes_max: limits.room_name_bytes_max,
        }
    }

    /// A file, found from the folder of the configuration.
    fn file(&self, key: &str) -> Option<PathBuf> {
        let name = Some(self.text(key)).filter(|name| !name.is_empty())?;
        Some(self.machine.folder.join(name))
    }

    fn algorithms(&mut self) -> Vec<Algorithm> {
        let key = "auth.algorithms";
        let mut algorithms = Vec::new();
        for name in self.list(key) {
            match identity::algorithm(&name) {
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

    fn claim(&mut self, key: &str) -> String {
        let name = self.text(key);
        if name.is_empty() {
            self.problem(key, "the name of a claim is needed".to_owned());
        }
        name
    }

    fn auth_times(&mut self) {
        if self.duration("auth.timeout").is_zero() {
            self.problem("auth.timeout", "must be longer than zero".to_owned());
        }
        if self.duration("auth.jwks_refresh") < REFRESH_MIN {
            let message = "must be 1s or longer: the set is fetched over the network";
            self.problem("auth.jwks_refresh", message.to_owned());
        }
        if self.duration("auth.leeway") > LEEWAY_MAX {
            let message = "clocks that differ by more than 5m should be set instead";
            self.problem("auth.leeway", message.to_owned());
        }
    }
}

const REFRESH_MIN: Duration = Duration::from_secs(1);
const LEEWAY_MAX: Duration = Duration::from_secs(300);
