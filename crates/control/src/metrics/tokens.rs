//! Metrics of tokens and access.

use super::row::{Metric, counter, gauge};
use super::{Samples, View, load};
use identity::{Figures, RESULTS};

pub(super) const AUTH: &[Metric] = &[
    counter(
        "sockeye_auth_tokens_total",
        "Tokens checked: accepted, or why not.",
        |v| Samples::Labelled(tokens(v)),
    )
    .by("result"),
    gauge(
        "sockeye_auth_keys",
        "Keys that tokens are checked with.",
        |v| Samples::One(figures(v).map(|figures| figures.keys as f64)),
    ),
    counter(
        "sockeye_auth_jwks_fetches_total",
        "Fetches of the key set from `auth.jwks_url`.",
        |v| {
            let (good, failed) = figures(v).map(|figures| figures.fetches).unwrap_or_default();
            let counts = [("success", good), ("failure", failed)];
            Samples::Labelled(counts.map(|(name, count)| (name.to_owned(), count as f64)).into())
        },
    )
    .by("result"),
    gauge(
        "sockeye_auth_jwks_age_seconds",
        "Seconds since the key set was fetched last.",
        |v| Samples::One(figures(v).and_then(|figures| figures.age_s)),
    ),
    counter(
        "sockeye_http_refused_total",
        "Requests refused outside the data plane: to operators' paths without a valid API key, for pages above `pages.rate`, and streams of workers \
         without the key of their backend.",
        |v| {
            let refused = &v.node.refused;
            let counts = [
                ("admin", &refused.admin),
                ("pages", &refused.pages),
                ("workers", &v.node.workers.refused),
            ];
            Samples::Labelled(counts.map(|(name, cell)| (name.to_owned(), load(cell) as f64)).into())
        },
    )
    .by("part"),
    counter(
        "sockeye_displaced_total",
        "Connections that gave their place to a newcomer, because all were taken: those of operators (`admin.conns_max`), of workers \
         (`workers.conns_max`), and those that other nodes have yet to show their secret on (`cluster.relay_listen`).",
        |v| {
            let displaced = &v.node.displaced;
            let counts = [
                ("admin", &displaced.admin),
                ("workers", &v.node.workers.displaced),
                ("relay", &v.node.relay.displaced),
            ];
            Samples::Labelled(counts.map(|(name, cell)| (name.to_owned(), load(cell) as f64)).into())
        },
    )
    .by("part"),
];

fn figures(view: &View<'_>) -> Option<Figures> {
    view.node.verifier.get().map(|verifier| verifier.figures())
}

/// All results, also while nothing checks tokens.
fn tokens(view: &View<'_>) -> Vec<(String, f64)> {
    let counts = figures(view).map(|figures| figures.results);
    let counts = counts.unwrap_or_else(|| RESULTS.map(|name| (name, 0)).into());
    counts
        .into_iter()
        .map(|(name, count)| (name.to_owned(), count as f64))
        .collect()
}
