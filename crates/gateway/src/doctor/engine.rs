//! The engine between nodes: whether it answers, what it is, and how it is set up.

use super::finding::Finding;
use crate::cluster;
use crate::config::{Loaded, Problems};
use nodes::redis::inspect::{Remark, judge};

/// Nothing for a node that is alone.
pub fn examine(loaded: &Result<Loaded, Problems>) -> Vec<Finding> {
    let loaded = loaded.as_ref().ok();
    let Some(cluster) = loaded.and_then(|loaded| loaded.resolved.cluster.as_ref()) else {
        return Vec::new();
    };
    match cluster::look(cluster) {
        Ok(server) => judge(&server).into_iter().map(finding).collect(),
        Err(problem) => {
            let finding = Finding::new("cluster.urls", "the engine between nodes");
            let finding = finding.value("no answer").needed("an answer");
            vec![finding.fail(format!("{problem:#}"))]
        }
    }
}

fn finding(remark: Remark) -> Finding {
    let finding = Finding::new(remark.about, "the engine between nodes").value(remark.value);
    match remark.wanted {
        None => finding,
        Some(wanted) => finding.needed(&wanted).warn(remark.fix).note(remark.why),
    }
}
