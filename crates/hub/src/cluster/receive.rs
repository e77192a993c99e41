//! What a hub does with a letter of another hub.

use crate::cluster::relay::{Broadcast, Relay, RoundId, Target, borrowed};
use crate::hub::Hub;
use crate::rooms::fanout::Outgoing;

impl Hub {
    /// A letter from another hub.
    pub(crate) fn relay(&mut self, relay: &Relay) {
        match relay {
            Relay::Broadcast(broadcast) => self.relayed_broadcast(broadcast, None),
            Relay::Ask(broadcast, round) => self.relayed_broadcast(broadcast, Some(*round)),
            Relay::Join { of, rooms, .. } => {
                of.with(|target| self.core.join_selected(target, &borrowed(rooms)));
            }
            Relay::Leave { of, rooms } => {
                of.with(|target| self.core.leave_selected(target, &borrowed(rooms)));
            }
            Relay::Disconnect { of, close } => {
                of.with(|target| self.core.disconnect_selected(target, *close));
            }
            Relay::Fetch { of, round } => of.with(|target| self.core.fetched(target, *round)),
            Relay::Response(round, response) => self.core.response(*round, response),
            Relay::Append(broadcast, kept) => broadcast.to.with(|target| {
                let event = broadcast.event();
                self.core.append(target, &event, kept.as_deref());
            }),
            Relay::Replay {
                namespace,
                room,
                shard,
                socket,
                ticket,
            } => self.core.replay(namespace, room, *shard, *socket, *ticket),
            Relay::Replayed {
                room,
                socket,
                ticket,
                events,
            } => self.core.replayed(room, socket, *ticket, events),
            Relay::RoomChanged { namespace, room } => self.core.room_changed(namespace, room),
        }
        self.settle();
    }

    fn relayed_broadcast(&mut self, relayed: &Broadcast, round: Option<RoundId>) {
        relayed.to.with(|target: &Target<'_>| {
            let event = relayed.event();
            let mut out = Outgoing::event(target, &event);
            out.at = relayed.at;
            match round {
                Some(round) => self.core.take_part(target, &mut out, round),
                None => self.core.fan_out(target, &mut out),
            }
        });
    }
}
