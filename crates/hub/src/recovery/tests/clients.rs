//! Clients: they come, are cut, come back and give up.

use super::*;

impl World<'_> {
    /// A client without a socket gets a new one, on any shard.
    pub(super) fn connect(&mut self, client: usize) {
        let shard = self.any_shard();
        self.transports += 1;
        self.begin(client, shard, self.transports);
    }

    /// A new socket on this transport.
    pub(super) fn begin(&mut self, client: usize, shard: usize, transport: u64) {
        let user = USERS[client % USERS.len()];
        self.trace(|| format!("client {client} has a new socket on {shard}"));
        let slot = &mut self.shards[shard];
        let pid = Pid::draw(&mut slot.ids);
        let socket = slot.ids.socket(self.now_ms);
        let names = [
            Membership::new(Kind::Everyone, ""),
            Membership::new(Kind::Room, &socket.to_string()),
            Membership::new(Kind::User, user),
        ];
        let members: Members = names.into_iter().collect();
        let begun = slot.recovery.journal.head();
        let record = Record {
            pid,
            socket,
            namespace: NAMESPACE.into(),
            members: members.clone(),
            uid: Some(user.into()),
            data: None,
            life: Life::new(begun),
        };
        slot.live.push(Live {
            client,
            transport,
            record,
        });
        let life = self.lives.len();
        let former = self.clients[client].life;
        if let Some(former) = self.lives.get_mut(former)
            && !self.clients[client].got.is_empty()
        {
            former.ended = true;
        }
        if self.clients[client].pid.is_some() {
            self.end_life(client);
        }
        self.lives.push(LifeTruth {
            born: self.step,
            members,
            events: Vec::new(),
            ended: false,
            known: BTreeSet::new(),
        });
        let offset = self.clients[client].offset;
        self.clients[client] = Client {
            shard,
            shard_of_life: shard,
            transport,
            connected: true,
            pid: Some(pid),
            // The stock client keeps it over the end of a socket.
            offset,
            life,
            ..Client::default()
        };
        self.settle(shard);
    }

    /// A life ends without the last of its events; what it got must be right all the same.
    pub(super) fn end_life(&mut self, client: usize) {
        let life = self.clients[client].life;
        self.lives[life].ended = true;
        self.check(client, false);
    }

    /// Some of what is on its way arrives.
    pub(super) fn receive(&mut self, client: usize, max: usize) {
        let client = &mut self.clients[client];
        for (at, number) in client.wire.drain(..max.min(client.wire.len())) {
            client.offset = Some(at);
            client.got.push(number);
        }
    }

    /// The transport breaks with what is on its way. The shard may not know.
    pub(super) fn cut(&mut self, client: usize) {
        self.trace(|| format!("client {client} is cut"));
        let slot = &mut self.clients[client];
        slot.connected = false;
        slot.wire.clear();
    }

    /// A shard finds out that a transport is gone.
    pub(super) fn park_dead(&mut self, shard: usize) {
        let clients = &self.clients;
        let is_dead = |live: &Live| {
            let client = &clients[live.client];
            !client.connected || client.transport != live.transport
        };
        let dead = self.shards[shard].live.iter().position(is_dead);
        if let Some(dead) = dead {
            self.park(shard, dead);
            self.settle(shard);
        }
    }

    pub(super) fn park(&mut self, shard: usize, live: usize) {
        let deadline_ms = self.now_ms + self.setting.window_ms;
        let slot = &mut self.shards[shard];
        let live = slot.live.swap_remove(live);
        let client = live.client;
        slot.recovery.parked.park(live.record, deadline_ms);
        self.trace(|| format!("{shard} parks client {client}"));
    }

    /// The one that has this `pid`, wherever its transport leads.
    pub(super) fn park_named(&mut self, shard: usize, pid: Pid) {
        let mut live = self.shards[shard].live.iter();
        if let Some(named) = live.position(|live| live.record.pid == pid) {
            self.park(shard, named);
        }
    }

    /// A client comes back on a new transport, to any shard.
    pub(super) fn come_back(&mut self, client: usize) {
        let Some(pid) = self.clients[client].pid else {
            return self.connect(client);
        };
        let shard = self.any_shard();
        self.transports += 1;
        let transport = self.transports;
        let slot = &mut self.clients[client];
        (slot.shard, slot.transport, slot.connected) = (shard, transport, true);
        let comer = Comer {
            pid,
            offset: slot.offset,
            number: None,
            uid: Some(USERS[client % USERS.len()]),
        };
        self.trace(|| format!("client {client} comes back on {shard}"));
        self.park_named(shard, pid);
        let home = self.home_shard();
        let recovery = &mut self.shards[shard].recovery;
        let asked = match recovery.take(comer) {
            Err(NotRecovered::Unknown | NotRecovered::Claimed) => {
                let circle = recovery.ways.circle(&NAMESPACE.into(), home);
                recovery.ask(comer, circle, self.now_ms)
            }
            here => return self.answer(shard, (client, transport), here),
        };
        match asked {
            Err(why) => self.answer(shard, (client, transport), Err(why)),
            Ok(number) => {
                let waiting = &mut self.shards[shard].waiting;
                waiting.insert(number, (client, transport));
                self.settle(shard);
            }
        }
    }

    /// The hub finds out that a client that waits is gone.
    pub(super) fn give_up(&mut self, shard: usize) {
        let clients = &self.clients;
        let slot = &mut self.shards[shard];
        let gone = slot.waiting.iter().find(|(_, (client, transport))| {
            let client = &clients[*client];
            !client.connected || client.transport != *transport
        });
        if let Some(number) = gone.map(|(number, _)| *number) {
            self.trace(|| format!("{shard} gives up claim {number}"));
            let slot = &mut self.shards[shard];
            slot.waiting.remove(&number);
            slot.recovery.give_up(number);
            self.settle(shard);
        }
    }

    pub(super) fn verdict(&mut self, shard: usize, verdict: Verdict) {
        let waits = self.shards[shard].waiting.remove(&verdict.number);
        if let (Some((client, _)), Ok(back)) = (waits, &verdict.result) {
            let from = self.clients[client].shard_of_life;
            let crossed = self.node_of(from) != self.node_of(shard);
            self.counts.abroad += usize::from(crossed);
            self.trace(|| format!("{:?} is at {shard}", back.record.pid));
        }
        self.answer(shard, waits.expect("it waits"), verdict.result);
    }

    pub(super) fn answer(
        &mut self,
        shard: usize,
        (client, transport): (usize, u64),
        result: Result<Box<Back>, NotRecovered>,
    ) {
        let is_there =
            self.clients[client].connected && self.clients[client].transport == transport;
        match result {
            Ok(back) => {
                let Back {
                    record,
                    missed,
                    read,
                } = *back;
                assert!(read >= missed.len());
                self.counts.replayed += missed.len();
                self.counts.recovered += usize::from(is_there);
                let birth = record.pid.birth();
                self.counts.elsewhere += usize::from(birth != self.place(shard));
                self.clients[client].shard_of_life = shard;
                let live = self.shards[shard].live.len();
                self.shards[shard].live.push(Live {
                    client,
                    transport,
                    record,
                });
                for (at, said) in missed {
                    let number = said.event().args.parse().expect("a number");
                    self.deliver(shard, live, at, number);
                }
            }
            Err(why) => {
                let refused = &mut self.counts.refused;
                *match why {
                    NotRecovered::Unknown => &mut refused.unknown,
                    NotRecovered::Claimed => &mut refused.claimed,
                    NotRecovered::Trimmed => &mut refused.trimmed,
                    NotRecovered::Disconnected => &mut refused.disconnected,
                    NotRecovered::Late => &mut refused.late,
                    NotRecovered::Nodes => &mut refused.nodes,
                    NotRecovered::OtherUser | NotRecovered::TooMuch => {
                        panic!("{why:?}: nobody shows another user, and records are taken whole")
                    }
                } += 1;
                if is_there {
                    self.begin(client, shard, transport);
                }
            }
        }
        self.settle(shard);
    }
}
