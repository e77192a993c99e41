//! The driver's place in the cluster as a record for another process, and a driver that goes on with one.

use super::{Driver, LAST_BATCHES};
use crate::standing::{Order, Orders};
use std::time::Instant;
use tokio::time::timeout_at;

impl Driver {
    /// Stands still until it is let go (`false`), or another process has its place (`true`). The engine's messages wait in the feed.
    pub(super) async fn stand(&mut self, mut orders: Orders) -> bool {
        while let Some(order) = orders.recv().await {
            // Whoever asked may have given up.
            match order {
                Order::Round(answer) => drop(answer.send(self.take_parcels())),
                Order::Record(answer) => drop(answer.send(self.record().await)),
                Order::Commit => return true,
            }
        }
        false
    }

    /// All that shards have said; how much that was.
    pub(super) fn take_parcels(&mut self) -> u64 {
        let mut taken = 0;
        while let Ok(parcel) = self.rig.parcels.try_recv() {
            taken += 1;
            self.on_parcel(parcel);
        }
        self.send();
        taken
    }

    async fn record(&mut self) -> Result<Vec<u8>, String> {
        let away = || {
            "the engine of the cluster does not answer, or other nodes were not heard yet: try again when sockeye_cluster_up is 1".to_owned()
        };
        let deadline = Instant::now() + LAST_BATCHES;
        while !self.batches.is_empty() {
            let batch = timeout_at(deadline.into(), self.batches.join_next()).await;
            if let Some(batch) = batch.map_err(|_| away())? {
                self.on_batch(batch);
            }
        }
        self.take_parcels();
        while let Ok(order) = self.rig.orders.try_recv() {
            self.on_order(order);
        }
        if !self.up || !self.is_met {
            return Err(away());
        }
        if !self.waiting.is_empty() {
            return Err("letters wait for the engine of the cluster: try again when it takes them (sockeye_cluster_queued_bytes)".to_owned());
        }
        let place = self.node.record();
        let place = place
            .map_err(|why| format!("the place in the cluster cannot be written down: {why}"))?;
        Ok(place)
    }

    /// The place is another process's; this one goes on with it. What shards said so far is about members who were there before.
    pub(super) fn go_on(&mut self) {
        self.is_met = true;
        // Shards ask all of them for the numbers of members: they know none.
        self.gone.extend(self.node.neighbours().heard());
        self.take_parcels();
        self.node.settle();
        self.tell_up();
        self.renew();
    }
}
