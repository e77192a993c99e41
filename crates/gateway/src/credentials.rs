//! Keys and secrets of all doors over time.

use crate::config::Resolved;
use crate::workers::Counter;
use identity::keys::Keyring;
use std::net::IpAddr;

#[derive(Debug)]
pub struct Credentials {
    operators: Keyring,
    operators_address: Option<IpAddr>,
    backends: workers::Credentials,
}

impl Credentials {
    pub fn start(config: &Resolved, workers: Option<&Counter>) -> Self {
        let credentials = Self {
            operators: Keyring::default(),
            operators_address: config.server.admin.map(|address| address.ip()),
            backends: workers.map(Counter::credentials).unwrap_or_default(),
        };
        credentials.apply(config);
        credentials
    }

    /// Of operators, and of callers of the server API.
    pub fn of_operators(&self) -> Keyring {
        self.operators.clone()
    }

    /// Takes those of a later configuration. Only callers whose own key is gone notice.
    pub fn apply(&self, later: &Resolved) {
        let is_private = |address: IpAddr| address.is_loopback();
        if later.admin.access.keys.is_empty() && !self.operators_address.is_none_or(is_private) {
            tracing::warn!(
                "anyone who reaches server.admin can read it: set admin.api_keys, or bind it to 127.0.0.1"
            );
        }
        self.operators.set(later.admin.access.keys.clone());
        if let Some(backends) = &later.backends {
            self.backends.set(&backends.kitchens);
        }
    }
}
