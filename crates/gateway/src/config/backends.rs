//! `[backends.NAME]`: what is promised for each backend.

use super::keys::{Backend, Namespace};
use super::layer::Layer;
use super::problem::Problem;
use super::rules::{names_below, problem};
use backend::{Calling, Scope, Settings};
use identity::keys::ApiKeys;
use std::collections::BTreeMap;
use std::time::Duration;
use workers::{Kitchen, Webhook};

/// Reads the tables of all backends. `verdict_timeout`: a request for a session waits so long.
pub fn read(
    layer: &Layer,
    verdict_timeout: Duration,
    room_name_bytes_max: usize,
) -> (BTreeMap<String, Kitchen>, Vec<Problem>) {
    let mut problems = Vec::new();
    let mut kitchens = BTreeMap::new();
    for name in names_below(layer, &["backends"]) {
        let keys = Backend::of(layer, name);
        let webhook = webhook(&keys);
        let api_keys = api_keys(&keys, webhook.is_some()).unwrap_or_else(|message| {
            problems.push(problem(layer, &keys.api_keys.path, message));
            ApiKeys::default()
        });
        if let Some(Err(message)) = webhook.as_ref().map(Webhook::check) {
            problems.push(problem(layer, &keys.url.path, message));
        }
        if *keys.openings && webhook.is_some() {
            let message = "an endpoint cannot decide about requests for sessions, so no client could come: remove it, or url";
            problems.push(problem(layer, &keys.openings.path, message.to_owned()));
        }
        let kitchen = Kitchen {
            keys: api_keys,
            settings: Settings {
                scope: scope(layer, name),
                opening_timeout_ms: millis(verdict_timeout),
                room_name_bytes_max,
                ..settings(&keys)
            },
            webhook,
        };
        kitchens.insert(name.to_owned(), kitchen);
    }
    (kitchens, problems)
}

fn api_keys(keys: &Backend, called: bool) -> Result<ApiKeys, String> {
    let parsed = ApiKeys::parse(&keys.api_keys)?;
    match (called, parsed.is_empty()) {
        (false, true) => Err(
            "no worker could attach: `sockeye api-key NAME` makes a key and its entry; or set url"
                .to_owned(),
        ),
        (true, false) => {
            Err("no worker attaches to a backend with url: remove one of the two".to_owned())
        }
        _ => Ok(parsed),
    }
}

fn webhook(keys: &Backend) -> Option<Webhook> {
    let secrets = [&*keys.secret, &*keys.secret_old];
    let secrets = secrets.into_iter().flatten().cloned();
    Some(Webhook {
        url: (*keys.url).clone()?,
        secrets: secrets
            .filter(|secret| !secret.reveal().is_empty())
            .collect(),
        private: *keys.private_addresses,
        timeout: *keys.call_timeout,
        calling: Calling {
            decides: *keys.decides,
            batch_max: keys.batch_max.get(),
            batch_delay_ms: millis(*keys.batch_delay),
            calls_max: keys.calls_max.get(),
            retry_min_ms: millis(*keys.retry_min),
            retry_max_ms: millis(*keys.retry_max),
            keep_ms: millis(*keys.keep_news),
        },
    })
}

/// The namespaces that the configuration gives to this backend.
fn scope(layer: &Layer, backend: &str) -> Scope {
    let names = names_below(layer, &["namespaces"]);
    let is_own = |name: &&str| {
        let given = (*Namespace::of(layer, name).backend).clone();
        given.as_deref() == Some(backend)
    };
    let (own, others): (Vec<&str>, Vec<&str>) = names.into_iter().partition(is_own);
    let owned = |names: Vec<&str>| names.into_iter().map(str::to_owned).collect();
    match own.contains(&"*") {
        true => Scope::Except(owned(others)),
        false => Scope::Only(owned(own)),
    }
}

fn settings(keys: &Backend) -> Settings {
    Settings {
        // Known when the backend is served.
        shards: 1,
        connect_timeout_ms: millis(*keys.connect_timeout),
        rehome_after_ms: millis(*keys.rehome_after),
        silent_after_ms: millis(*keys.silent_after),
        answer_timeout_ms: millis(*keys.answer_timeout),
        slow_after_ms: millis(*keys.slow_after),
        stalled_after_ms: millis(*keys.stalled_after),
        park_timeout_ms: millis(*keys.park_timeout),
        close_when_absent: *keys.close_when_absent,
        window_bytes: keys.window.get(),
        queue_bytes_max: keys.queue_max.get(),
        socket_bytes_max: keys.socket_max.get(),
        openings: *keys.openings,
        ..Settings::default()
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
