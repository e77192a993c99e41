//! `[admin]` and `[pages]`, for the control plane.

use super::Resolver;
use crate::config::value::Value;
use control::admin::Access;
use control::admin::keys::ApiKeys;
use control::page::PageRate;

#[derive(Clone, Debug, PartialEq)]
pub struct Admin {
    pub access: Access,
    pub conns_max: usize,
}

impl Resolver<'_> {
    pub(super) fn admin_access(&mut self) -> Admin {
        let key = "admin.api_keys";
        let keys = ApiKeys::parse(&self.list(key)).unwrap_or_else(|problem| {
            self.problem(key, problem);
            ApiKeys::default()
        });
        let metrics_need_key = self.on("admin.metrics_need_key");
        if metrics_need_key && self.list(key).is_empty() {
            let message = "there is no key: set admin.api_keys";
            self.problem("admin.metrics_need_key", message.to_owned());
        }
        Admin {
            access: Access {
                keys,
                metrics_need_key,
            },
            conns_max: usize::try_from(self.number("admin.conns_max")).unwrap_or(1),
        }
    }

    pub(super) fn page_rate(&self) -> Option<PageRate> {
        let Some(Value::Rate(rate)) = self.layer.value("pages.rate") else {
            return None;
        };
        self.on("pages.rate_limited").then(|| PageRate {
            rate: *rate,
            loopback: self.on("pages.rate_loopback"),
        })
    }
}
