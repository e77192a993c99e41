//! The events that shards publish, and the cards and letters by which it gets to others.

use super::*;

impl World<'_> {
    /// Lists a shard for what its live sockets and its records want, before its messages leave.
    pub(super) fn settle(&mut self, shard: usize) {
        let slot = &mut self.shards[shard];
        for news in slot.recovery.parked.take_news() {
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
        self.list_node(shard);
        if self.shards[shard].recovery.takings.waits_for_ticket() {
            let ticket = self.nodes.position(self.node_of(shard));
            self.shards[shard].recovery.listed(ticket);
        }
        for post in self.shards[shard].recovery.ways.take_posts() {
            self.leave(shard, post);
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

    /// Those of them on one node.
    pub(super) fn shards_on(&self, node: usize, to: &To) -> Vec<usize> {
        let all = self.shards_of(to).into_iter();
        all.filter(|shard| self.node_of(*shard) == node).collect()
    }

    pub(super) fn publish(&mut self, from: usize, to: To) {
        let number = self.events.len();
        let from = match self.setting.nodes {
            1 => from,
            _ => self.home(self.node_of(from)),
        };
        self.trace(|| format!("{from} publishes {number} to {to:?}"));
        let clean = from == self.commander() || !self.is_commanded();
        self.events.push(EventTruth {
            from,
            copies: 1,
            settled: None,
            clean,
        });
        for life in 0..self.lives.len() {
            if !self.lives[life].ended {
                let meant = self.is_meant(self.node_of(from), life, &to);
                self.lives[life].events.push((number, meant));
            }
        }
        let stamp = self.shards[from].recovery.stamps.give(None);
        let to = Rc::new(to);
        self.send_abroad(from, number, &to, stamp);
        self.spread(from, number, &to, stamp);
    }

    /// To the shards of the node, this one among them.
    pub(super) fn spread(&mut self, from: usize, number: usize, to: &Rc<To>, stamp: Stamp) {
        self.shards[from].recovery.stamps.give(Some(stamp));
        for shard in self.shards_on(self.node_of(from), to) {
            if shard != from {
                self.events[number].copies += 1;
                let to = Rc::clone(to);
                self.mail[from][shard].push_back(Mail::Event { number, to, stamp });
            }
        }
        self.hear_event(from, number, to, stamp);
    }

    pub(super) fn hear_event(&mut self, shard: usize, number: usize, to: &To, stamp: Stamp) {
        self.trace(|| format!("{shard} hears event {number} {stamp:?}"));
        let moment = Moment {
            now_ms: self.now_ms,
            stamp: Some(stamp),
            kept: false,
            number: 0,
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
        let (number, commander) = (self.commands.len(), self.commander());
        self.trace(|| format!("command {number}: {action:?} of {to:?}"));
        for event in &mut self.events {
            event.clean &= event.from == commander || event.settled.is_some();
        }
        for (n, shard) in self.shards.iter().enumerate() {
            let open = shard.waiting.keys().map(|claim| (n, *claim));
            self.tainted.extend(open);
        }
        let reached = self.lives_reached(&to);
        for life in reached {
            let life = &mut self.lives[life];
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
        let receivers = self.shards_on(0, &to);
        self.commands.push((1, joins));
        let stamp = self.shards[commander].recovery.stamps.give(None);
        let (to, action) = (Rc::new(to), Rc::new(action));
        let mail = |to: &Rc<To>| Mail::Command {
            number,
            to: Rc::clone(to),
            action: Rc::clone(&action),
            stamp,
        };
        for shard in receivers {
            if shard != commander {
                self.commands[number].0 += 1;
                self.mail[commander][shard].push_back(mail(&to));
            }
        }
        self.command_abroad(number, &to, mail(&to));
        self.hear_command(commander, number, &to, &action, stamp);
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
            kept: false,
            number: 0,
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
