//! Where a command goes.

use super::item::{Item, Place};
use super::lane::Lane;
use super::topology::Topology;

#[derive(Debug, Default)]
pub(super) struct Routes {
    lanes: Vec<Lane>,
    topology: Topology,
}

impl Routes {
    /// With a lane for each server of the topology, in its order.
    pub(super) fn new(lanes: Vec<Lane>, topology: Topology) -> Self {
        Self { lanes, topology }
    }

    pub(super) fn lanes(&self) -> &[Lane] {
        &self.lanes
    }

    pub(super) fn owner(&self, slot: u16) -> usize {
        self.topology.owner(slot)
    }

    /// Without a lane the item is dropped, and answers its asker.
    pub(super) fn send(&self, item: Item) {
        let index = match item.place {
            Place::Slot(slot) => self.owner(slot),
            Place::Server(index) => index,
        };
        if let Some(lane) = self.lanes.get(index) {
            lane.send(item);
        }
    }
}
