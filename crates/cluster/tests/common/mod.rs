//! Nodes whose engine loses nothing.

use cluster::node::Node;

/// Time goes by for all; what each publishes reaches all.
pub fn run(nodes: &mut [&mut Node], now_us: &mut u64, for_us: u64) {
    record(nodes, now_us, for_us);
}

/// Everything that nodes published, in order.
pub fn record(nodes: &mut [&mut Node], now_us: &mut u64, for_us: u64) -> Vec<Vec<u8>> {
    let (until_us, mut said) = (*now_us + for_us, Vec::new());
    while *now_us < until_us {
        *now_us += 10_000;
        for at in 0..nodes.len() {
            let mut batch = Vec::new();
            nodes[at].begin(*now_us);
            nodes[at].take(&mut batch);
            for node in &mut *nodes {
                batch
                    .iter()
                    .for_each(|one| node.arrived(one.frame.to_vec()));
            }
            said.extend(batch.iter().map(|one| one.frame.to_vec()));
            if !batch.is_empty() {
                nodes[at].ended(batch, |_| true);
            }
        }
    }
    said
}
