//! The keys of `[admin]` and `[pages]`: HTTP outside the data plane.

use super::{EMPTY_LIST, Key};
use crate::config::value::Kind;

pub fn keys() -> Vec<Key> {
    vec![
        Key::new(
            "admin.api_keys",
            Kind::List,
            EMPTY_LIST,
            "API keys as `NAME:SHA256`; `sockeye api-key NAME` makes one. With any, all operators' paths but \
             `/health`, `/ready` and `/metrics` ask for one (`Authorization: Bearer KEY` or `X-API-Key: KEY`).",
        ),
        Key::new(
            "admin.metrics_need_key",
            Kind::Bool,
            "false",
            "`/metrics` asks for one too.",
        ),
        Key::new(
            "admin.conns_max",
            Kind::Integer { min: 1, max: 1_024 },
            "64",
            "Connections of operators at once; one more takes the place of the one that was silent for longest.",
        ),
        Key::new(
            "pages.rate_limited",
            Kind::Bool,
            "true",
            "Whether `rate` is enforced: responses carry RateLimit headers, and 429 follows when it is used up. Health \
             checks and the files of pages (scripts, styles, the client) do not count.",
        ),
        Key::new(
            "pages.rate",
            Kind::Rate,
            "100/15m",
            "Requests for pages by one address (IPv6: one /64).",
        ),
        Key::new(
            "pages.rate_loopback",
            Kind::Bool,
            "false",
            "This machine's own requests count too.",
        ),
    ]
}
