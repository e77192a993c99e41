//! Limits that hold for all nodes together: `limits.conns_per_address_scope` and `rates.*_scope`.

use super::Resolver;
use crate::config::keys::{Adapter, LimitScope};
use crate::config::typed::Field;
use hub::config::ClusterScope;
use nodes::name_key;

impl Resolver<'_> {
    pub(super) fn cluster_scope(&mut self) -> ClusterScope {
        let (limits, policies) = (&self.settings.limits, &self.settings.policies);
        let (rates, cluster) = (&self.settings.rates, &self.settings.cluster);
        let conns = limits.conns_per_address_max > 0;
        ClusterScope {
            conns_per_address: self.is_shared(
                &policies.conns_per_address_scope,
                ("limits.conns_per_address_max", conns),
            ),
            connects: self.is_shared(
                &rates.connects_scope,
                ("rates.connects", rates.connects.is_some()),
            ),
            user: self.is_shared(&rates.user_scope, ("rates.user", rates.user.is_some())),
            address: self.is_shared(
                &rates.address_scope,
                ("rates.address", rates.address.is_some()),
            ),
            secret: name_key(cluster.secret.as_ref().map(|secret| secret.reveal())),
        }
    }

    /// Whether nodes share a limit, which may be set or not.
    fn is_shared(&mut self, scope: &Field<LimitScope>, (limit, is_set): (&str, bool)) -> bool {
        if **scope == LimitScope::Node {
            return false;
        }
        if *self.settings.cluster.adapter == Adapter::Memory {
            let message =
                "\"cluster\" needs other nodes: set cluster.adapter = \"redis\" or \"nats\"";
            self.problem(scope, message);
        }
        if !is_set {
            self.problem(scope, format!("nothing uses it: set {limit}"));
        }
        true
    }
}
