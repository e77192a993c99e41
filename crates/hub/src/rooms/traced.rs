//! An event to many that somebody may follow: lines for followed sockets among its receivers, for its rooms and for its name.

use crate::books::metrics::Counts;
use crate::clients::followed;
use crate::clients::speaker::Speaker;
use crate::clients::trace::{self, TraceDecision};
use crate::clients::traces::{NOT_READY, Passing};
use crate::rooms::fanout::Audience;
use crate::rooms::outgoing::Outgoing;
use crate::rooms::room::RoomKind;
use crate::rooms::target::Target;
use crate::tables::slot::{NamespaceId, SocketId};

impl Audience<'_> {
    #[cold]
    #[inline(never)]
    pub(super) fn fan_out_traced(&mut self, target: &Target<'_>, out: &mut Outgoing<'_>) {
        let before = delivered(&self.speaker.books.counts);
        // What was missed before belongs to other events.
        self.speaker.traces.take_missed();
        self.speaker.traces.spoken(target.rooms);
        let namespace = self.speaker.people.namespaces.find(target.namespace);
        let followed = namespace.map(|namespace| self.followed(namespace, target));
        self.give(target, out);
        let to = delivered(&self.speaker.books.counts) - before;
        let Speaker { people, traces, .. } = &mut self.speaker;
        let missed = traces.take_missed();
        let followed = followed.unwrap_or_default();
        let mut followers = traces.of_event(target.namespace, out.event.name);
        let is_meant = |room: &str| target.rooms.contains(&room);
        followers.extend(traces.of_rooms(target.namespace, is_meant));
        if followed.is_empty() && followers.is_empty() {
            return;
        }
        let by = followed::speaker_name(people, out.event.author);
        let rooms = trace::rooms(target.rooms);
        for index in followed {
            // The mark is that of this fan-out: it tells receivers from others.
            if people.is_marked(index) {
                let decision = match missed.contains(&index) {
                    true => NOT_READY,
                    false => TraceDecision::Delivered {
                        to: 1,
                        by: by.clone(),
                    },
                };
                traces.delivery(
                    people,
                    index,
                    &out.event,
                    &decision,
                    (rooms.clone(), out.ack),
                );
            }
        }
        let passing = Passing {
            namespace: namespace.and_then(|namespace| people.namespaces.label(namespace).cloned()),
            rooms,
            ack: out.ack,
            ..Passing::event(&out.event)
        };
        let decision = TraceDecision::Delivered { to, by };
        traces.tell(&followers, &passing, &decision);
    }

    /// Followed sockets that the target does not leave out.
    fn followed(&self, namespace: NamespaceId, target: &Target<'_>) -> Vec<SocketId> {
        let people = &*self.speaker.people;
        let mut found = self.speaker.traces.followed(people, namespace);
        found.retain(|index| {
            let Some(socket) = people.sockets.get(*index) else {
                return false;
            };
            let id = socket.id.encode();
            !target.except.iter().any(|name| {
                let room = self.rooms.table.find(namespace, RoomKind::Named, name);
                let is_in = room.is_some_and(|room| {
                    let mut rooms = socket.rooms.iter();
                    rooms.any(|membership| membership.room == room)
                });
                is_in || name.as_bytes() == id
            })
        });
        found
    }
}

fn delivered(counts: &Counts) -> u64 {
    counts.delivered.iter().sum()
}
