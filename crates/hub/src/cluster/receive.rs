//! What a hub does with a letter of another hub.

use crate::cluster::letter::{Broadcast, Letter, Order, RoomNews, RoundId, Target, borrowed};
use crate::hub::Hub;
use crate::rooms::outgoing::Outgoing;

impl Hub {
    /// A letter from another hub.
    pub(crate) fn letter(&mut self, letter: &Letter) {
        match letter {
            Letter::Order(order) => self.asked(order),
            Letter::Response(round, response) => self.parts.response(*round, response),
            Letter::Room(news) => self.room_news(news),
        }
        self.settle();
    }

    fn asked(&mut self, order: &Order) {
        match order {
            Order::Broadcast(broadcast, round) => self.broadcast(broadcast, *round),
            Order::Join { of, rooms, .. } => {
                of.with(|target| self.parts.join_selected(target, &borrowed(rooms)));
            }
            Order::Leave { of, rooms } => {
                of.with(|target| self.parts.leave_selected(target, &borrowed(rooms)));
            }
            Order::Disconnect { of, close } => {
                of.with(|target| self.parts.disconnect_selected(target, *close));
            }
            Order::Fetch { of, round } => of.with(|target| self.parts.fetched(target, *round)),
        }
    }

    fn room_news(&mut self, news: &RoomNews) {
        match news {
            RoomNews::Append(broadcast, kept) => broadcast.to.with(|target| {
                let event = broadcast.event();
                self.parts.append(target, &event, kept.as_deref());
            }),
            RoomNews::Replay {
                namespace,
                room,
                shard,
                socket,
                ticket,
                after,
            } => self
                .parts
                .replay(namespace, room, *shard, *socket, *ticket, *after),
            RoomNews::Replayed {
                room,
                socket,
                ticket,
                kept,
            } => self.parts.replayed(room, socket, *ticket, kept),
            RoomNews::Changed { namespace, room } => {
                let parts = &mut self.parts;
                parts
                    .rooms
                    .changed_elsewhere(&parts.people, namespace, room);
            }
        }
    }

    fn broadcast(&mut self, broadcast: &Broadcast, round: Option<RoundId>) {
        broadcast.to.with(|target: &Target<'_>| {
            let event = broadcast.event();
            let mut out = Outgoing::event(target, &event);
            out.at = broadcast.at;
            match round {
                Some(round) => self.parts.take_part(target, &mut out, round),
                None => self.parts.fan_out(target, &mut out),
            }
        });
    }
}
