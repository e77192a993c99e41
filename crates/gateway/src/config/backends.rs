//! `[backends.NAME]`: what is promised for each backend.

use super::keys::Backend;
use super::problem::Problem;
use super::raw::Layer;
use super::rules::{names_below, problem};
use backend::Settings;
use control::admin::keys::ApiKeys;
use control::backend::Kitchen;
use std::collections::BTreeMap;
use std::time::Duration;

/// Reads the tables of all backends.
pub fn read(layer: &Layer) -> (BTreeMap<String, Kitchen>, Vec<Problem>) {
    let mut problems = Vec::new();
    let mut kitchens = BTreeMap::new();
    for name in names_below(layer, &["backends"]) {
        let keys = Backend::of(layer, name);
        let api_keys = ApiKeys::parse(&keys.api_keys).and_then(|parsed| match parsed.is_empty() {
            true => Err(
                "no worker could attach: `sockeye api-key NAME` makes a key and its entry"
                    .to_owned(),
            ),
            false => Ok(parsed),
        });
        let api_keys = api_keys.unwrap_or_else(|message| {
            problems.push(problem(layer, &keys.api_keys.path, message));
            ApiKeys::default()
        });
        let kitchen = Kitchen {
            keys: api_keys,
            settings: settings(&keys),
        };
        kitchens.insert(name.to_owned(), kitchen);
    }
    (kitchens, problems)
}

fn settings(keys: &Backend) -> Settings {
    Settings {
        connect_timeout_ms: millis(*keys.connect_timeout),
        rehome_after_ms: millis(*keys.rehome_after),
        silent_after_ms: millis(*keys.silent_after),
        answer_timeout_ms: millis(*keys.answer_timeout),
        slow_after_ms: millis(*keys.slow_after),
        park_timeout_ms: millis(*keys.park_timeout),
        close_when_absent: *keys.close_when_absent,
        window_bytes: keys.window.get(),
        queue_bytes_max: keys.queue_max.get(),
        socket_bytes_max: keys.socket_max.get(),
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
