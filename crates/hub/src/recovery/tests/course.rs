//! The choice of the next step.

use super::*;

impl World<'_> {
    /// One letter arrives, if any is under way.
    pub(super) fn pass_mail(&mut self) -> bool {
        let full = self.mail.iter().enumerate().flat_map(|(from, lanes)| {
            let lanes = lanes.iter().enumerate();
            let full = lanes.filter(|(_, lane)| !lane.is_empty());
            full.map(move |(to, _)| (from, to))
        });
        let full: Vec<(usize, usize)> = full.collect();
        let links = self.nodes.full_links();
        let at = self.rng.usize(0..(full.len() + links.len()).max(1));
        let Some((from, to)) = full.get(at).copied() else {
            let link = links.get(at - full.len()).copied();
            link.into_iter().for_each(|link| self.pass_link(link));
            return link.is_some();
        };
        let letter = self.mail[from][to].pop_front().expect("a letter");
        self.open(to, letter);
        true
    }

    /// A shard hears a letter.
    pub(super) fn open(&mut self, to: usize, letter: Mail) {
        match letter {
            Mail::Event {
                number,
                to: aim,
                stamp,
            } => self.hear_event(to, number, &aim, stamp),
            Mail::Publish {
                number,
                to: aim,
                stamp,
            } => self.spread(to, number, &aim, stamp),
            Mail::ByHome(shards, letter) => self.pass_on(to, &shards, &letter),
            Mail::Confirmed(position) => {
                self.shards[to].recovery.confirmed(position);
                self.settle(to);
            }
            Mail::Down(node) => {
                let recovery = &mut self.shards[to].recovery;
                recovery.parked.forget_claims_of(node);
                for verdict in recovery.break_claims(node) {
                    self.verdict(to, verdict);
                }
                self.settle(to);
            }
            Mail::Command {
                number,
                to: aim,
                action,
                stamp,
            } => self.hear_command(to, number, &aim, &action, stamp),
            Mail::Word(step) => {
                self.trace(|| format!("{to} hears {step:?}"));
                if let Message::Claim { pid, .. } = &step.message {
                    self.park_named(to, *pid);
                }
                let by = Sender {
                    place: step.from,
                    parts: self.setting.shards,
                    namespace: step.namespace.as_ref(),
                    home: self.home_shard(),
                };
                let recovery = &mut self.shards[to].recovery;
                let verdict = recovery.hear(by, step.message, self.now_ms);
                match verdict {
                    Some(verdict) => self.verdict(to, verdict),
                    None => self.settle(to),
                }
            }
        }
    }

    pub(super) fn tick(&mut self, ms: u64) {
        self.now_ms += ms;
        for shard in 0..self.shards.len() {
            for verdict in self.shards[shard].recovery.tick(self.now_ms) {
                self.verdict(shard, verdict);
            }
            self.settle(shard);
        }
    }

    /// A pong: all that was written before its ping is there.
    pub(super) fn confirm(&mut self, client: usize) {
        let slot = &self.clients[client];
        if !slot.connected || !slot.wire.is_empty() {
            return;
        }
        let transport = slot.transport;
        let shard = &mut self.shards[slot.shard];
        let confirmed = shard.recovery.journal.before(self.now_ms);
        let own = shard.live.iter_mut();
        for live in { own }.filter(|live| live.transport == transport) {
            live.record.life.confirm(confirmed);
        }
    }

    pub(super) fn any_to(&mut self) -> To {
        let mut to = To::default();
        match self.rng.u32(0..10) {
            0 => {}
            1 => to.users.push(self.any_user()),
            2 => {
                to.rooms.push(self.any_socket());
                to.users.push(self.any_user());
            }
            3..=4 => to.rooms.push(self.any_socket()),
            5..=7 => to.rooms.push(self.any_room()),
            _ => to.rooms.extend([self.any_room(), self.any_room()]),
        }
        match self.rng.u32(0..4) {
            0 => to.except.push(self.any_socket()),
            1 => to.except.push(self.any_room()),
            _ => {}
        }
        to
    }

    pub(super) fn any_user(&mut self) -> String {
        self.rng.choice(USERS).expect("a user").to_owned()
    }

    pub(super) fn any_room(&mut self) -> String {
        self.rng.choice(ROOMS).expect("a room").to_owned()
    }

    /// The id of a client's socket: it names a room that holds it alone.
    pub(super) fn any_socket(&mut self) -> String {
        let life = self.clients[self.rng.usize(0..CLIENTS)].life;
        let members = self.lives[life].members.iter();
        let own = { members }.find(|member| member.kind == Kind::Room && member.name.len() == 20);
        own.map_or_else(String::new, |member| member.name.to_string())
    }

    pub(super) fn any_command(&mut self) {
        let mut to = To::default();
        match self.rng.u32(0..4) {
            0 => to.rooms.push(self.any_room()),
            _ => to.rooms.push(self.any_socket()),
        }
        if self.rng.u32(0..6) == 0 {
            to.except.push(self.any_room());
        }
        let action = match self.rng.u32(0..40) {
            0 => Action::Disconnect,
            1..=22 => Action::Join(vec![self.any_room().into()]),
            _ => Action::Leave(vec![self.any_room().into()]),
        };
        self.command(to, action);
    }

    pub(super) fn act(&mut self) {
        self.step += 1;
        self.note_known();
        if self.setting.kills && self.rng.u32(0..150) == 0 {
            self.kill_or_revive();
        }
        let rarely = if self.setting.nodes > 1 { 15 } else { 80 };
        if self.setting.upgrades && self.rng.u32(0..rarely) == 0 {
            self.upgrade();
        }
        if self.setting.nodes > 1 {
            // A claim between nodes takes many letters.
            let letters = self.rng.u32(0..8);
            for _ in 0..letters {
                self.pass_mail();
            }
        }
        let client = self.rng.usize(0..CLIENTS);
        let shard = self.any_shard();
        match self.rng.u32(0..100) {
            0..=19 => {
                let to = self.any_to();
                self.publish(shard, to);
            }
            20..=29 => {
                let to = self.any_to();
                self.publish(self.commander(), to);
            }
            30..=37 => self.any_command(),
            38..=44 if self.clients[client].connected => self.cut(client),
            38..=52 if !self.clients[client].connected => self.come_back(client),
            53..=56 => self.park_dead(shard),
            57 => self.give_up(shard),
            58..=64 => self.receive(client, 3),
            65..=66 => self.confirm(client),
            67..=68 => {
                let ms = self.rng.u64(0..50);
                self.tick(ms);
            }
            _ => {
                self.pass_mail();
            }
        }
    }

    /// All that is under way arrives, and every client is there in the end.
    pub(super) fn finish(&mut self) {
        self.setting.lost = 0;
        for _ in 0..50 {
            self.step += 1;
            while self.pass_mail() {}
            for shard in 0..self.shards.len() {
                self.give_up(shard);
            }
            self.tick(self.setting.bounds.parked.claim_ms + 1);
            while self.pass_mail() {}
            for client in 0..CLIENTS {
                if !self.clients[client].connected {
                    self.come_back(client);
                }
            }
        }
        for client in 0..CLIENTS {
            self.receive(client, usize::MAX);
            let slot = &self.clients[client];
            let live = self.shards[slot.shard].live.iter();
            let lives = { live }.any(|live| live.transport == slot.transport);
            self.check(client, lives && !self.lives[slot.life].ended);
        }
    }
}
