//! The keys of `[admin]` and `[pages]`: HTTP outside the data plane.

use super::EMPTY_LIST;
use crate::config::typed::{Whole, section};
use hub::config::Rate;

section! {
    /// The operators' listener.
    Admin = "admin." {
        api_keys: Vec<String> = EMPTY_LIST
            => live(),
            "API keys as `NAME:SHA256` or `NAME:SHA256:ALLOWED`; `sockeye api-key NAME` makes one. With any, all operators' paths but \
             `/health`, `/ready`, `/metrics` and `/v1/openapi.json` ask for one (`Authorization: Bearer KEY` or `X-API-Key: KEY`). \
             `ALLOWED` is a list of scopes (`emit`, `members`, `disconnect`, `read`, `operate`) and namespaces, such as `emit,/chat`.";
        api_rate: Rate = "1000/1s",
            "Calls of the server API (`/v1`, gRPC) with one key. Responses carry RateLimit headers, and 429 follows when it is used up.";
        metrics_need_key: bool = "false",
            "`/metrics` asks for one too.";
        conns_max: Whole<1, 1_024> = "64",
            "Connections of operators at once. One more takes the place of one that has shown no key, of these the one that was silent for \
             longest; if all have shown one, of the most silent of all.";
    }
}

section! {
    /// What the public port serves besides realtime.
    Pages = "pages." {
        rate_limited: bool = "true",
            "Whether `rate` is enforced: responses carry RateLimit headers, and 429 follows when it is used up. Health \
             checks and the files of pages (scripts, styles, the client) do not count.";
        rate: Rate = "100/15m",
            "Requests for pages by one address (IPv6: one /64).";
        rate_loopback: bool = "false",
            "This machine's own requests count too.";
    }
}
