//! What a hub does with a letter of another hub.

use crate::cluster::asking;
use crate::cluster::letter::{
    Broadcast, ByHome, Letter, Order, RoomNews, RoundId, Target, borrowed,
};
use crate::cluster::listing;
use crate::cluster::send;
use crate::life::{chronicling, ending, returning};
use crate::parts::Parts;
use crate::rooms::outgoing::Outgoing;
use crate::seam::orders;
use crate::seam::publish;
use crate::tables::shards::ShardSet;

/// A letter from another hub.
pub(crate) fn letter(parts: &mut Parts, read: &Letter) {
    match read {
        Letter::Order(order) => asked(parts, order),
        Letter::Response(reply) => asking::take_response(parts, reply),
        Letter::More(more) => listing::more(&mut parts.rounds, more),
        Letter::Uplink(tidings) => {
            asking::on_tidings(parts, tidings);
            returning::on_tidings(parts, tidings);
        }
        Letter::Room(news) => room_news(parts, news),
        Letter::Return(step) => returning::heard(parts, step),
        Letter::Chronicle(news) => chronicling::heard(parts, &news.0),
        Letter::ByHome(ByHome {
            shards,
            letter: inner,
        }) => {
            let shards = shards.union(listed_since(parts, inner));
            let mut others = shards;
            others.remove(parts.ids.me.shard);
            send::hand_on(parts, others, inner);
            // The call does not come back here: nobody wraps a letter twice.
            if others != shards {
                letter(parts, inner);
            }
        }
    }
}

/// Shards that are listed for the sockets of an order when their home passes it on. A shard that takes such a socket from another got its
/// fence from here, and may have been listed since the letter was read. Orders with rounds are left out: they count their shards, and are
/// about no socket that is on its way.
fn listed_since(parts: &Parts, letter: &Letter) -> ShardSet {
    let Letter::Order(order) = letter else {
        return ShardSet::default();
    };
    let (Order::Join { of, .. } | Order::Leave { of, .. } | Order::Disconnect { of, .. }) = order
    else {
        return ShardSet::default();
    };
    let mut shards = of.with(|to| send::shards_of(parts, to));
    shards.insert(parts.ids.me.shard);
    shards
}

fn asked(parts: &mut Parts, order: &Order) {
    match order {
        Order::Broadcast(broadcast, round) => on_broadcast(parts, broadcast, *round),
        Order::Join { of, rooms, .. } => {
            of.with(|target| orders::join_selected(parts, target, &borrowed(rooms), 0));
        }
        Order::Leave { of, rooms } => {
            of.with(|target| orders::leave_selected(parts, target, &borrowed(rooms), 0));
        }
        Order::Disconnect { of, close } => {
            of.with(|target| ending::disconnect_selected(parts, target, *close));
        }
        Order::Fetch { of, round } => of.with(|target| listing::fetched(parts, target, *round)),
        Order::Server(what, round) => asking::server_asked(parts, what, *round),
    }
}

fn room_news(parts: &mut Parts, news: &RoomNews) {
    match news {
        RoomNews::Publish(broadcast) => broadcast.to.with(|target| {
            publish::append(parts, target, &broadcast.event(), broadcast.stamp);
        }),
        RoomNews::Replay {
            namespace,
            room,
            shard,
            socket,
            ticket,
            after,
        } => publish::replay(parts, namespace, room, *shard, *socket, *ticket, *after),
        RoomNews::Replayed {
            room,
            socket,
            ticket,
            kept,
        } => publish::replayed(parts, room, socket, *ticket, kept),
        RoomNews::Forget { namespace, rooms } => {
            parts.rooms.kept.forget(namespace, &borrowed(rooms));
        }
        RoomNews::Elsewhere {
            to,
            from,
            members,
            asks,
        } => to.with(|to| {
            for room in to.rooms {
                let room = (to.namespace, *room);
                parts
                    .rooms
                    .counted_elsewhere(&parts.people, room, *from, *members, *asks);
            }
        }),
        RoomNews::Present { to, from, word } => to.with(|to| {
            publish::present_elsewhere(parts, to, *from, word);
        }),
        RoomNews::Changed { namespace, room } => {
            parts
                .rooms
                .changed_elsewhere(&parts.people, namespace, room);
        }
    }
}

fn on_broadcast(parts: &mut Parts, broadcast: &Broadcast, round: Option<RoundId>) {
    broadcast.to.with(|target: &Target<'_>| {
        if publish::is_repeat(parts, target, broadcast.spot.as_ref(), broadcast.stamp) {
            return;
        }
        let event = broadcast.event();
        let mut out = Outgoing::event(target, &event);
        out.at = broadcast.at;
        out.stamp = broadcast.stamp;
        match round {
            Some(round) => asking::take_part(parts, target, &mut out, round),
            None => parts.audience().fan_out(target, &mut out),
        }
    });
}
