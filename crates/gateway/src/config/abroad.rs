//! Whether clients of a namespace may come back to another node.

use super::raw::{Layer, Path};
use super::value::Value;

/// Why they may not, if there is a cluster; `Ok(false)`: there is none.
pub fn may_come_back(layer: &Layer, namespace: &str) -> Result<bool, String> {
    if layer.value("cluster.adapter") == Some(&Value::Text("memory".to_owned())) {
        return Ok(false);
    }
    if hears_others(layer) {
        let why = "clients come back to their own node only, while other Socket.IO servers are heard: what those say has no place in the \
                   order of our nodes. If there are none, set compat.enabled = false, or cluster.secret";
        return Err(why.to_owned());
    }
    match backend_of(layer, namespace) {
        Some(backend) if !has_endpoint(layer, backend) => Err(format!(
            "clients come back to their own node only: workers of backend {backend:?} speak to each node by itself, and what they say has no \
             place in the order of the nodes"
        )),
        _ => Ok(true),
    }
}

fn setting<'a>(layer: &'a Layer, path: &[&str]) -> Option<&'a Value> {
    layer.settings.get(&Path::new(path)).map(|own| &own.value)
}

/// Servers of other kinds are heard, unless somebody says otherwise or there is a secret.
fn hears_others(layer: &Layer) -> bool {
    let secret = match layer.value("cluster.secret") {
        Some(Value::Secret(secret)) => !secret.reveal().is_empty(),
        _ => false,
    };
    match layer.value("compat.enabled") {
        Some(Value::Bool(enabled)) => *enabled,
        _ => !secret,
    }
}

fn backend_of<'a>(layer: &'a Layer, namespace: &str) -> Option<&'a str> {
    match setting(layer, &["namespaces", namespace, "backend"]) {
        Some(Value::Text(name)) if !name.is_empty() => Some(name),
        _ => None,
    }
}

fn has_endpoint(layer: &Layer, backend: &str) -> bool {
    matches!(setting(layer, &["backends", backend, "url"]), Some(Value::Text(url)) if !url.is_empty())
}
