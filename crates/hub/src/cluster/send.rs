//! Where letters go: to the shards that hold somebody a target may mean.

use crate::cluster::letter::{Letter, Target};
use crate::parts::Parts;
use crate::rooms::directory::RoomName;
use crate::rooms::room::RoomKind;
use crate::seam::effect::Effect;
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

    pub(crate) fn other_shards(&self) -> ShardSet {
        let mut set = ShardSet::first(self.ids.me.shards);
        set.remove(self.ids.me.shard);
        set
    }
}
