//! The events that shards publish, and the cards and letters by which it gets to others.

use super::*;

impl World {
    /// Lists a shard for what its live sockets and its records want, before its messages leave.
    pub(super) fn settle(&mut self, shard: usize) {
        let slot = &mut self.shards[shard];
        for news in slot.recovery.take_news() {
            assert_eq!(&*news.namespace, NAMESPACE);
            let fresh = match news.came {
                true => slot.wanted.insert(news.member),
                false => slot.wanted.remove(&news.member),
            };
            assert!(fresh, "told twice");
        }
        for shards in self.cards.values_mut() {
            shards.remove(&shard);
        }
        let live = slot.live.iter().flat_map(|live| live.record.members.iter());
        for name in live.chain(&slot.wanted) {
            let shards = self.cards.entry(name.clone()).or_default();
            shards.insert(shard);
        }
        for (to, message) in slot.recovery.take_posts() {
            if self.rng.u32(0..100) >= self.setting.lost {
                self.mail[shard][usize::from(to.shard)].push_back(Mail::Word(message));
            }
        }
        let open: BTreeSet<(usize, u64)> = self
            .shards
            .iter()
            .enumerate()
            .flat_map(|(n, shard)| shard.waiting.keys().map(move |number| (n, *number)))
            .collect();
        self.tainted.retain(|claim| open.contains(claim));
    }

    /// Shards that may have somebody who is meant.
    pub(super) fn shards_of(&self, to: &To) -> BTreeSet<usize> {
        let expected = self
            .commands
            .iter()
            .filter(|(copies, _)| *copies > 0)
            .flat_map(|(_, rooms)| rooms);
        let expected: BTreeSet<&str> = expected.map(|room| &**room).collect();
        let all = || (0..self.shards.len()).collect();
        if to.rooms.iter().any(|room| expected.contains(&**room)) {
            return all();
        }
        to.with(|aim| {
            let cards = aim
                .headings()
                .filter_map(|heading| self.cards.get(&Membership::new(heading.kind, heading.name)));
            cards.flatten().copied().collect()
        })
    }

    pub(super) fn publish(&mut self, from: usize, to: To) {
        let number = self.events.len();
        self.trace(|| format!("{from} publishes {number} to {to:?}"));
        let clean = from == COMMANDER || !self.is_commanded();
        self.events.push(EventTruth {
            from,
            copies: 1,
            settled: None,
            clean,
        });
        for life in self.lives.iter_mut().filter(|life| !life.ended) {
            let meant = to.with(|aim| life.members.are_meant(aim));
            life.events.push((number, meant));
        }
        let stamp = self.shards[from].recovery.stamp();
        let to = Rc::new(to);
        for shard in self.shards_of(&to) {
            if shard != from {
                self.events[number].copies += 1;
                let to = Rc::clone(&to);
                self.mail[from][shard].push_back(Mail::Event { number, to, stamp });
            }
        }
        self.hear_event(from, number, &to, stamp);
    }

    pub(super) fn hear_event(&mut self, shard: usize, number: usize, to: &To, stamp: Stamp) {
        self.trace(|| format!("{shard} hears event {number} {stamp:?}"));
        let moment = Moment {
            now_ms: self.now_ms,
            stamp: Some(stamp),
        };
        let slot = &mut self.shards[shard];
        let args = number.to_string();
        let (recovery, live) = (&mut slot.recovery, &slot.live);
        let meant: Vec<(usize, u64)> = to.with(|aim| {
            let at = recovery.say(moment, aim, &Emit::new("e", &args), |heading| {
                is_listed(live, heading)
            });
            let meant = live.iter().enumerate();
            let meant = meant.filter(|(_, live)| live.record.members.are_meant(aim));
            meant.map(|(n, _)| (n, at)).collect()
        });
        for (n, at) in meant {
            self.deliver(shard, n, at, number);
        }
        self.events[number].copies -= 1;
        if self.events[number].copies == 0 {
            self.events[number].settled = Some(self.step);
        }
    }

    pub(super) fn deliver(&mut self, shard: usize, live: usize, at: u64, number: usize) {
        let slot = &self.shards[shard];
        let live = &slot.live[live];
        self.trace(|| format!("{shard} sends {number} at {at} to client {}", live.client));
        let at = slot.recovery.journal.position(at);
        let client = &mut self.clients[live.client];
        if client.connected && client.transport == live.transport {
            client.wire.push_back((at, number));
        }
    }

    pub(super) fn is_commanded(&self) -> bool {
        !self.tainted.is_empty() || self.commands.iter().any(|(copies, _)| *copies > 0)
    }

    pub(super) fn command(&mut self, to: To, action: Action) {
        let number = self.commands.len();
        self.trace(|| format!("command {number}: {action:?} of {to:?}"));
        for event in &mut self.events {
            event.clean &= event.from == COMMANDER || event.settled.is_some();
        }
        for (n, shard) in self.shards.iter().enumerate() {
            let open = shard.waiting.keys().map(|claim| (n, *claim));
            self.tainted.extend(open);
        }
        for life in self.lives.iter_mut().filter(|life| !life.ended) {
            if to.with(|aim| life.members.are_meant(aim)) {
                match &action {
                    Action::Join(rooms) => rooms.iter().for_each(|room| {
                        life.members.join(Kind::Room, room);
                    }),
                    Action::Leave(rooms) => rooms.iter().for_each(|room| {
                        life.members.leave(Kind::Room, room);
                    }),
                    Action::Disconnect => life.ended = true,
                }
            }
        }
        let joins = match &action {
            Action::Join(rooms) => rooms.clone(),
            _ => Vec::new(),
        };
        let receivers = self.shards_of(&to);
        self.commands.push((1, joins));
        let stamp = self.shards[COMMANDER].recovery.stamp();
        let (to, action) = (Rc::new(to), Rc::new(action));
        for shard in receivers {
            if shard != COMMANDER {
                self.commands[number].0 += 1;
                let mail = Mail::Command {
                    number,
                    to: Rc::clone(&to),
                    action: Rc::clone(&action),
                    stamp,
                };
                self.mail[COMMANDER][shard].push_back(mail);
            }
        }
        self.hear_command(COMMANDER, number, &to, &action, stamp);
    }

    pub(super) fn hear_command(
        &mut self,
        shard: usize,
        number: usize,
        to: &To,
        action: &Action,
        stamp: Stamp,
    ) {
        self.trace(|| format!("{shard} hears command {number} {stamp:?}"));
        let now_ms = self.now_ms;
        let moment = Moment {
            now_ms,
            stamp: Some(stamp),
        };
        let slot = &mut self.shards[shard];
        let Shard { recovery, live, .. } = slot;
        to.with(|aim| {
            recovery.command(moment, aim, action);
            live.retain_mut(|live| {
                let meant = live.record.members.are_meant(aim);
                !meant || carry_out(recovery, &mut live.record, action, now_ms)
            });
        });
        self.commands[number].0 -= 1;
        self.settle(shard);
    }
}

/// A live socket carries out a command; `false`: it was its end.
fn carry_out(recovery: &mut Recovery, record: &mut Record, action: &Action, now_ms: u64) -> bool {
    let (rooms, joins) = match action {
        Action::Join(rooms) => (rooms, true),
        Action::Leave(rooms) => (rooms, false),
        Action::Disconnect => return false,
    };
    for room in rooms {
        let changed = match joins {
            true => record.members.join(Kind::Room, room),
            false => record.members.leave(Kind::Room, room),
        };
        if changed {
            let member = Membership::new(Kind::Room, room);
            let socket = record.socket.to_string();
            let own = (NAMESPACE, &*socket);
            recovery.journal.change(now_ms, own, joins, member);
        }
    }
    true
}
