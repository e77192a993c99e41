//! `[admin]` and `[pages]`, for the control plane.

use super::Resolver;
use control::admin::Access;
use control::page::PageRate;
use hub::config::Rate;
use identity::keys::ApiKeys;

#[derive(Clone, Debug, PartialEq)]
pub struct Admin {
    pub access: Access,
    pub conns_max: usize,
    /// Calls of the server API with one key.
    pub api_rate: Rate,
}

impl Resolver<'_> {
    pub(super) fn admin_access(&mut self) -> Admin {
        let admin = &self.settings.admin;
        let keys = ApiKeys::parse(&admin.api_keys).unwrap_or_else(|problem| {
            self.problem(&admin.api_keys, problem);
            ApiKeys::default()
        });
        let metrics_need_key = *admin.metrics_need_key;
        if metrics_need_key && admin.api_keys.is_empty() {
            let message = "there is no key: set admin.api_keys";
            self.problem(&admin.metrics_need_key, message);
        }
        Admin {
            access: Access {
                keys,
                metrics_need_key,
            },
            conns_max: admin.conns_max.get(),
            api_rate: *admin.api_rate,
        }
    }

    pub(super) fn page_rate(&self) -> Option<PageRate> {
        let pages = &self.settings.pages;
        pages.rate_limited.then(|| PageRate {
            rate: *pages.rate,
            loopback: *pages.rate_loopback,
        })
    }
}
