//! Where letters go: to the shards that hold somebody a target may mean.

use crate::cluster::joins::Parked;
use crate::cluster::letter::{Letter, Response, RoundId, Target};
use crate::cluster::wire::Ask;
use crate::parts::Parts;
use crate::rooms::directory::RoomName;
use crate::rooms::publish::Reach;
use crate::rooms::room::RoomKind;
use crate::seam::effect::Effect;
use crate::seam::event::AckTo;
use crate::tables::id;
use crate::tables::shards::ShardSet;
use std::sync::Arc;
use wire::base64url::Id20;

impl Parts {
    /// Other shards that hold somebody the target may mean.
    pub(crate) fn shards_of(&self, target: &Target<'_>) -> ShardSet {
        let mut set = ShardSet::default();
        if self.ids.me.shards == 1 {
            return set;
        }
        if target.rooms.is_empty() && target.users.is_empty() {
            set = self.members_elsewhere(target.namespace, RoomKind::All, "");
        }
        for name in target.rooms {
            set = set.union(self.members_elsewhere(target.namespace, RoomKind::Named, name));
            if let Some(id) = Id20::decode(name.as_bytes()) {
                let owner = id::socket_owner(&id);
                if owner.node == self.ids.me.node && owner.shard < self.ids.me.shards {
                    set.insert(owner.shard);
                }
            }
        }
        if !target.users.is_empty() {
            // A user's few sockets may be anywhere, and their shards tell nobody: asking all costs less than knowing.
            return self.other_shards();
        }
        set.remove(self.ids.me.shard);
        set
    }

    fn members_elsewhere(&self, namespace: &str, kind: RoomKind, name: &str) -> ShardSet {
        let room = RoomName {
            namespace,
            kind,
            name,
        };
        self.rooms
            .shards_of(self.people.find_namespace(namespace), room)
    }

    pub(crate) fn send(&mut self, shard: u16, letter: impl Into<Letter>) {
        let mut one = ShardSet::default();
        one.insert(shard);
        self.send_all(one, letter);
    }

    /// Every letter to another shard goes through here: it is charged to the turn, and its sender waits for long mailboxes.
    pub(crate) fn send_all(&mut self, shards: ShardSet, letter: impl Into<Letter>) {
        let letter = Arc::new(letter.into());
        let bytes = letter.bytes();
        for shard in shards.iter() {
            self.books.counts.relayed += 1;
            self.line.budget.post(bytes);
            if self.intake.loads.is_long(shard, &self.books.config.limits) {
                self.intake.wait_for(shard);
            }
            self.outbound.effects.push(Effect::Send {
                shard,
                letter: Arc::clone(&letter),
            });
        }
    }

    // ---- other nodes ------------------------------------------------------------------------------------------------------

    /// There may be other nodes.
    pub(crate) fn has_away(&self) -> bool {
        self.away.is_some()
    }

    /// Who a publication gets to.
    pub(crate) fn reach(&self) -> Reach {
        match &self.away {
            Some(away) if away.is_full() => Reach::ThisNode,
            _ => Reach::Everyone,
        }
    }

    /// Asks the sockets that a target means on other nodes for something. `false`: too much waits for them already.
    pub(crate) fn send_away(&mut self, to: &Target<'_>, ask: Ask<'_>) -> bool {
        let Some(away) = &mut self.away else {
            return true;
        };
        // At a room's home the publisher's shard has asked already, and told the publisher.
        if away.is_full() && !matches!(ask, Ask::Kept(..)) {
            self.books.counts.away_refused += 1;
            return false;
        }
        let bytes = away.ask(to, ask, self.clock.now.wall_ms);
        self.line.budget.post(bytes);
        self.books.counts.sent_away += 1;
        true
    }

    /// An answer to another node always leaves: its asker waits, and there are no more answers than were asked for.
    pub(crate) fn respond_away(&mut self, of: RoundId, response: &Response) {
        if let Some(away) = &mut self.away {
            let bytes = away.respond(of, response);
            self.line.budget.post(bytes);
            self.books.counts.sent_away += 1;
        }
    }

    /// What the turn has for other nodes leaves.
    pub(crate) fn post_parcel(&mut self) {
        self.note_interest();
        if let Some(parcel) = self.away.as_mut().and_then(|away| away.take()) {
            self.outbound.effects.push(Effect::Away(parcel));
        }
    }

    /// Other nodes will be told whom this hub has members for.
    fn note_interest(&mut self) {
        if let Some(away) = &mut self.away {
            away.note(self.people.interest.take());
        }
    }

    /// Answers an event, once the room that its client joined before is known to other nodes.
    pub(crate) fn ack(&mut self, to: AckTo, args: &str, attachments: &[Vec<u8>]) {
        self.note_interest();
        if let Some(away) = &mut self.away
            && away.joins.parks(to.socket)
        {
            let now_ms = self.clock.now.mono_ms;
            return away.joins.park(to, args, attachments, now_ms);
        }
        self.speaker().say_ack(to.socket, to.id, args, attachments);
    }

    pub(crate) fn joins_confirmed(&mut self, ticket: u64) {
        if let Some(away) = &mut self.away {
            let ready = away.joins.confirmed(ticket);
            self.say_acks(&ready);
        }
    }

    /// Acks of joins that other nodes have not confirmed in time.
    pub(crate) fn late_joins(&mut self) {
        if let Some(away) = &mut self.away {
            let late = away.joins.due(self.clock.now.mono_ms);
            self.books.counts.joins_unconfirmed += late.len() as u64;
            self.say_acks(&late);
        }
    }

    pub(crate) fn next_late_join(&self) -> Option<u64> {
        self.away.as_ref()?.joins.next_due_ms()
    }

    fn say_acks(&mut self, acks: &[Parked]) {
        for ack in acks {
            self.speaker()
                .say_ack(ack.to.socket, ack.to.id, &ack.args, &ack.attachments);
        }
    }

    pub(crate) fn other_shards(&self) -> ShardSet {
        let mut set = ShardSet::first(self.ids.me.shards);
        set.remove(self.ids.me.shard);
        set
    }
}
