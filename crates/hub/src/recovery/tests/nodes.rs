//! Several nodes: links that keep order and take any time, what each knows of the others' members, nodes that die.

use super::*;
use crate::recovery::circle::{Door, Post, To as Receiver};
use crate::recovery::ways::Abroad;
use crate::tables::id;
use wire::base64url::Id20;

/// Something on its way to another node.
#[derive(Debug)]
pub(super) enum Letter {
    Event {
        number: usize,
        to: Rc<To>,
        stamp: Stamp,
    },
    Command(Rc<To>, Mail),
    Step(Door, Step),
    /// Members of this are there now, or none any more; its place among such news.
    Wants(Membership, bool, u64),
    /// All up to this place is known.
    Known(u64),
    /// It knows what the other wants up to this place.
    Up(u64),
    Down,
}

#[derive(Debug, Default)]
pub(super) struct Node {
    dead: bool,
    /// What its shards want.
    wants: BTreeSet<Membership>,
    /// Place of the last change of that.
    position: u64,
    /// How far others know it.
    acked: BTreeMap<usize, u64>,
    /// Those that it takes for there, with what they want.
    known: BTreeMap<usize, BTreeSet<Membership>>,
    /// Asked to let sockets join these rooms.
    expected: BTreeSet<(usize, Membership)>,
}

#[derive(Debug)]
pub(super) struct Nodes {
    all: Vec<Node>,
    links: Vec<Vec<VecDeque<Letter>>>,
}

impl Nodes {
    pub(super) fn new(count: usize) -> Self {
        let links = || (0..count).map(|_| VecDeque::new()).collect();
        Self {
            all: (0..count).map(|_| Node::default()).collect(),
            links: (0..count).map(|_| links()).collect(),
        }
    }

    pub(super) fn full_links(&self) -> Vec<(usize, usize)> {
        let links = self.links.iter().enumerate().flat_map(|(from, links)| {
            let full = links.iter().enumerate();
            let full = full.filter(|(_, link)| !link.is_empty());
            full.map(move |(to, _)| (from, to))
        });
        links.collect()
    }

    pub(super) fn position(&self, node: usize) -> u64 {
        self.all[node].position
    }

    /// To all others that are there.
    fn flood(&mut self, from: usize, letter: impl Fn() -> Letter) {
        for to in 0..self.all.len() {
            if to != from && !self.all[to].dead {
                self.links[from][to].push_back(letter());
            }
        }
    }
}

impl World<'_> {
    pub(super) fn node_of(&self, shard: usize) -> usize {
        shard / usize::from(self.setting.shards)
    }

    pub(super) fn place(&self, shard: usize) -> Place {
        let shards = usize::from(self.setting.shards);
        Place {
            node: 1 + (shard / shards) as u16,
            shard: (shard % shards) as u16,
        }
    }

    fn shards_at(&self, node: usize) -> std::ops::Range<usize> {
        let shards = usize::from(self.setting.shards);
        node * shards..(node + 1) * shards
    }

    /// The home of the namespace at each node. With one node anybody publishes.
    pub(super) fn home_shard(&self) -> u16 {
        match self.setting.nodes {
            1 => 0,
            _ => self.setting.shards - 1,
        }
    }

    pub(super) fn home(&self, node: usize) -> usize {
        self.shards_at(node).start + usize::from(self.home_shard())
    }

    /// Of a node that is alive.
    pub(super) fn any_shard(&mut self) -> usize {
        loop {
            let shard = self.rng.usize(0..self.shards.len());
            if !self.nodes.all[self.node_of(shard)].dead {
                return shard;
            }
        }
    }

    /// All nodes know each other.
    pub(super) fn meet(&mut self) {
        let nodes = self.nodes.all.len();
        for node in 0..nodes {
            for other in (0..nodes).filter(|other| *other != node) {
                self.nodes.all[node].known.insert(other, BTreeSet::new());
                self.nodes.all[node].acked.insert(other, 0);
            }
        }
        (0..nodes).for_each(|node| self.note_nodes(node));
    }

    /// The shards of a node see which others are there.
    fn note_nodes(&mut self, node: usize) {
        let others = self.nodes.all[node].known.keys();
        let mut all: Vec<u16> = others.chain([&node]).map(|node| *node as u16 + 1).collect();
        all.sort_unstable();
        let abroad = match &all[..] {
            [_] => Abroad::Nobody,
            all => Abroad::Nodes(all.into()),
        };
        for shard in self.shards_at(node) {
            self.shards[shard].recovery.ways.abroad = abroad.clone();
        }
    }

    // ---- what nodes want ----------------------------------------------------------------------------------------------

    /// What the shards of a node want changed: the others will hear of it.
    pub(super) fn list_node(&mut self, shard: usize) {
        let node = self.node_of(shard);
        let shards = self.shards_at(node);
        let listed = |all: &BTreeSet<usize>| all.iter().any(|shard| shards.contains(shard));
        let wants = self.cards.iter().filter(|(_, all)| listed(all));
        let wants: BTreeSet<Membership> = wants.map(|(member, _)| member.clone()).collect();
        let before = std::mem::replace(&mut self.nodes.all[node].wants, wants.clone());
        let changes = wants.symmetric_difference(&before);
        for member in changes.cloned().collect::<Vec<_>>() {
            let came = wants.contains(&member);
            self.nodes.all[node].position += 1;
            let at = self.nodes.all[node].position;
            self.nodes
                .flood(node, || Letter::Wants(member.clone(), came, at));
        }
    }

    /// What is kept for a client is wanted by its node, whoever publishes it.
    fn check_wants(&self, shard: usize) {
        let slot = &self.shards[shard];
        let wants = &self.nodes.all[self.node_of(shard)].wants;
        for member in &slot.wanted {
            assert!(
                wants.contains(member),
                "{member:?} is not wanted at {shard}"
            );
        }
    }

    /// Where the socket of a life is, if anywhere.
    fn node_of_life(&self, life: usize) -> Option<usize> {
        let client = self.clients.iter().find(|client| client.life == life)?;
        let pid = client.pid?;
        let holds = |slot: &Shard| {
            let mut live = slot.live.iter();
            live.any(|live| live.record.pid == pid) || slot.recovery.parked.keeps(pid)
        };
        let shard = self.shards.iter().position(holds)?;
        Some(self.node_of(shard))
    }

    /// Nodes that know of a membership know it until it ends, wherever the socket goes.
    pub(super) fn note_known(&mut self) {
        if self.setting.nodes == 1 {
            return;
        }
        (0..self.shards.len()).for_each(|shard| self.check_wants(shard));
        for life in 0..self.lives.len() {
            if self.lives[life].ended {
                continue;
            }
            let Some(at) = self.node_of_life(life) else {
                continue;
            };
            let truth = &mut self.lives[life];
            let members = &truth.members;
            let stays = |known: &(usize, Membership)| members.has(known.1.kind, &known.1.name);
            truth.known.retain(stays);
            for (from, node) in self.nodes.all.iter().enumerate() {
                let Some(known) = node.known.get(&at) else {
                    continue;
                };
                // What it is told next may be that the last member before went.
                let told = |member: &Membership| {
                    let mut coming = self.nodes.links[at][from].iter();
                    !coming
                        .any(|letter| matches!(letter, Letter::Wants(next, ..) if next == member))
                };
                let members = truth.members.iter();
                let fresh = members.filter(|member| known.contains(*member) && told(member));
                let fresh: Vec<Membership> = fresh.cloned().collect();
                truth
                    .known
                    .extend(fresh.into_iter().map(|member| (from, member)));
            }
        }
    }

    /// Whether an event of a node is for a life; `None`: the node had not heard of it yet.
    pub(super) fn is_meant(&self, from: usize, life: usize, to: &To) -> Option<bool> {
        let truth = &self.lives[life];
        if !to.with(|aim| truth.members.are_meant(aim)) {
            return Some(false);
        }
        if self.setting.nodes == 1 {
            return Some(true);
        }
        let at = self.node_of_life(life)?;
        let sure = to.with(|aim| {
            let own = aim.headings();
            let mut own = own.filter(|heading| truth.members.has(heading.kind, heading.name));
            own.any(|heading| {
                let member = Membership::new(heading.kind, heading.name);
                let known = self.knows(from, at, &member);
                at == from || known || truth.known.contains(&(from, member))
            })
        });
        sure.then_some(true)
    }

    // ---- what leaves --------------------------------------------------------------------------------------------------

    /// Nodes that want something of a target, as another knows them.
    pub(super) fn nodes_of(&self, from: usize, to: &To) -> Vec<usize> {
        let node = &self.nodes.all[from];
        let all = node.known.keys().copied().filter(|at| {
            to.with(|aim| {
                let mut headings = aim.headings();
                headings.any(|heading| {
                    let member = Membership::new(heading.kind, heading.name);
                    self.knows(from, *at, &member)
                })
            })
        });
        all.collect()
    }

    /// Lives on nodes that hear a command.
    pub(super) fn lives_reached(&self, to: &To) -> Vec<usize> {
        let mut nodes = self.nodes_of(0, to);
        nodes.push(0);
        let lives = (0..self.lives.len()).filter(|life| !self.lives[*life].ended);
        let one = self.setting.nodes == 1;
        let reached = lives.filter(|life| {
            let at = self.node_of_life(*life);
            one || at.is_some_and(|at| nodes.contains(&at))
        });
        reached.collect()
    }

    /// Whether a node knows that another wants something.
    fn knows(&self, from: usize, at: usize, member: &Membership) -> bool {
        let node = &self.nodes.all[from];
        let known = node
            .known
            .get(&at)
            .is_some_and(|known| known.contains(member));
        // The id of a socket names the node where it began.
        let id = Id20::decode(member.name.as_bytes());
        let birth = id.map(|id| usize::from(id::socket_owner(&id).node) - 1);
        known || birth == Some(at) || node.expected.contains(&(at, member.clone()))
    }

    pub(super) fn send_abroad(&mut self, from: usize, number: usize, to: &Rc<To>, stamp: Stamp) {
        let from = self.node_of(from);
        for node in self.nodes_of(from, to) {
            self.events[number].copies += 1;
            let to = Rc::clone(to);
            self.nodes.links[from][node].push_back(Letter::Event { number, to, stamp });
        }
    }

    pub(super) fn command_abroad(&mut self, number: usize, to: &Rc<To>, mail: Mail) {
        let Mail::Command { action, stamp, .. } = mail else {
            panic!("no command")
        };
        for node in self.nodes_of(0, to) {
            self.commands[number].0 += 1;
            if let Action::Join(rooms) = &*action {
                let rooms = rooms
                    .iter()
                    .map(|room| (node, Membership::new(Kind::Room, room)));
                self.nodes.all[0].expected.extend(rooms);
            }
            let mail = Mail::Command {
                number,
                to: Rc::clone(to),
                action: Rc::clone(&action),
                stamp,
            };
            let letter = Letter::Command(Rc::clone(to), mail);
            self.nodes.links[0][node].push_back(letter);
        }
    }

    /// A message about a claim leaves a shard.
    pub(super) fn leave(&mut self, shard: usize, post: Post) {
        let step = Step {
            from: self.place(shard),
            namespace: post.namespace,
            message: post.message,
        };
        let is_lost = self.rng.u32(0..100) < self.setting.lost;
        match post.to {
            Receiver::Shard(to) => {
                let to = self.shards_at(self.node_of(shard)).start + usize::from(to);
                if !is_lost || self.setting.nodes > 1 {
                    self.mail[shard][to].push_back(Mail::Word(step));
                }
            }
            Receiver::Node(node, door) => {
                let (from, to) = (self.node_of(shard), usize::from(node) - 1);
                if !is_lost && self.nodes.all[from].known.contains_key(&to) {
                    self.nodes.links[from][to].push_back(Letter::Step(door, step));
                }
            }
        }
    }

    // ---- what arrives -------------------------------------------------------------------------------------------------

    /// To a shard, from its node's way to others.
    fn hand_in(&mut self, node: usize, shard: usize, mail: Mail) {
        let row = self.shards.len() + node;
        self.mail[row][shard].push_back(mail);
    }

    pub(super) fn pass_link(&mut self, (from, to): (usize, usize)) {
        let letter = self.nodes.links[from][to].pop_front();
        let letter = letter.expect("a letter");
        self.trace(|| format!("node {to} hears node {from}: {letter:?}"));
        let home = self.home(to);
        match letter {
            Letter::Event {
                number,
                to: aim,
                stamp,
            } => {
                let to_home = Mail::Publish {
                    number,
                    to: aim,
                    stamp,
                };
                self.hand_in(to, home, to_home);
            }
            Letter::Command(aim, mail) => {
                let shards = self.shards_on(to, &aim);
                let Mail::Command { number, .. } = mail else {
                    panic!("no command")
                };
                self.commands[number].0 += shards.len();
                self.commands[number].0 -= 1;
                self.hand_in(to, home, Mail::ByHome(shards, Rc::new(mail)));
            }
            Letter::Step(door, step) => self.step_arrives(to, door, step),
            Letter::Wants(member, came, at) => {
                if let Some(known) = self.nodes.all[to].known.get_mut(&from) {
                    match came {
                        true => drop(known.insert(member)),
                        false => drop(known.remove(&member)),
                    }
                }
                if !self.nodes.all[from].dead {
                    self.nodes.links[to][from].push_back(Letter::Known(at));
                }
            }
            Letter::Known(at) => {
                self.nodes.all[to].acked.insert(from, at);
                self.tell_confirmed(to);
            }
            Letter::Up(known) => {
                // Its wants stand behind this.
                self.nodes.all[to].known.insert(from, BTreeSet::new());
                self.nodes.all[to].acked.insert(from, known);
                self.note_nodes(to);
            }
            Letter::Down => {
                self.nodes.all[to].known.remove(&from);
                self.nodes.all[to].acked.remove(&from);
                self.note_nodes(to);
                for shard in self.shards_at(to) {
                    self.hand_in(to, shard, Mail::Down(from as u16 + 1));
                }
                self.tell_confirmed(to);
            }
        }
    }

    fn step_arrives(&mut self, node: usize, door: Door, step: Step) {
        let first = self.shards_at(node).start;
        let home = self.home(node);
        match door {
            Door::All => {
                for shard in self.shards_at(node) {
                    self.hand_in(node, shard, Mail::Word(step.clone()));
                }
            }
            Door::Home => self.hand_in(node, home, Mail::Word(step)),
            Door::Shard(shard) => {
                self.hand_in(node, first + usize::from(shard), Mail::Word(step));
            }
            Door::ByHome(shard) => {
                let shards = vec![first + usize::from(shard)];
                let letter = Rc::new(Mail::Word(step));
                self.hand_in(node, home, Mail::ByHome(shards, letter));
            }
        }
    }

    /// The home passes a letter of another node on, behind what it published.
    pub(super) fn pass_on(&mut self, home: usize, shards: &[usize], letter: &Mail) {
        let mut shards: BTreeSet<usize> = shards.iter().copied().collect();
        if let Mail::Command { number, to, .. } = letter {
            let before = shards.len();
            // Some may have been listed since.
            shards.extend(self.shards_on(self.node_of(home), to));
            self.commands[*number].0 += shards.len() - before;
        }
        for shard in &shards {
            let copy = match letter {
                Mail::Word(step) => Mail::Word(step.clone()),
                Mail::Command {
                    number,
                    to,
                    action,
                    stamp,
                } => Mail::Command {
                    number: *number,
                    to: Rc::clone(to),
                    action: Rc::clone(action),
                    stamp: *stamp,
                },
                _ => panic!("it does not go by the home"),
            };
            match *shard == home {
                true => self.open(home, copy),
                false => self.mail[home][*shard].push_back(copy),
            }
        }
    }

    fn tell_confirmed(&mut self, node: usize) {
        let acked = self.nodes.all[node].acked.values().min();
        let upto = acked.copied().unwrap_or(self.nodes.position(node));
        for shard in self.shards_at(node) {
            self.hand_in(node, shard, Mail::Confirmed(upto));
        }
    }

    // ---- life and death -----------------------------------------------------------------------------------------------

    /// One of the nodes that give no commands dies, or the dead one's number has a new life.
    pub(super) fn kill_or_revive(&mut self) {
        let dead = self.nodes.all.iter().position(|node| node.dead);
        match dead {
            Some(node) => self.revive(node),
            None => {
                let node = self.rng.usize(1..self.nodes.all.len());
                self.kill(node);
            }
        }
    }

    fn kill(&mut self, node: usize) {
        self.trace(|| format!("node {node} dies"));
        self.nodes.all[node].dead = true;
        for client in 0..CLIENTS {
            let slot = &self.clients[client];
            let (shard, life) = (slot.shard, slot.life);
            if self.node_of_life(life) == Some(node) {
                // Nobody gets that socket again.
                self.end_life(client);
            }
            if self.node_of(shard) == node && self.clients[client].connected {
                self.cut(client);
            }
        }
        let row = self.shards.len() + node;
        for shard in self.shards_at(node) {
            self.shards[shard] = Shard::new(self.setting, shard, &mut self.rng);
            for listed in self.cards.values_mut() {
                listed.remove(&shard);
            }
            self.mail[shard].iter_mut().for_each(VecDeque::clear);
            self.mail.iter_mut().for_each(|lanes| lanes[shard].clear());
        }
        self.mail[row].iter_mut().for_each(VecDeque::clear);
        for other in (0..self.nodes.all.len()).filter(|other| *other != node) {
            self.nodes.links[other][node].clear();
            self.nodes.links[node][other].push_back(Letter::Down);
        }
        let position = self.nodes.position(node);
        self.nodes.all[node] = Node {
            dead: true,
            position,
            ..Node::default()
        };
        // Commands that were on their way to it are carried out by nobody.
        self.count_commands();
        self.lives
            .iter_mut()
            .for_each(|life| life.known.retain(|(from, _)| *from != node));
    }

    /// Copies of commands that are under way.
    fn count_commands(&mut self) {
        self.commands.iter_mut().for_each(|command| command.0 = 0);
        let mut add = |mail: &Mail, copies: usize| {
            if let Mail::Command { number, .. } = mail {
                self.commands[*number].0 += copies;
            }
        };
        for mail in self.mail.iter().flatten().flatten() {
            match mail {
                Mail::ByHome(shards, inner) => add(inner, shards.len()),
                mail => add(mail, 1),
            }
        }
        for letter in self.nodes.links.iter().flatten().flatten() {
            if let Letter::Command(_, mail) = letter {
                add(mail, 1);
            }
        }
    }

    fn revive(&mut self, node: usize) {
        // The others have taken note of its death by then: it listens before it has a number.
        let all = 0..self.nodes.all.len();
        let mut others = all.filter(|other| *other != node);
        if others
            .clone()
            .any(|other| self.nodes.all[other].known.contains_key(&node))
        {
            return;
        }
        self.trace(|| format!("node {node} is there again"));
        self.nodes.all[node].dead = false;
        for other in others.by_ref() {
            let wants = self.nodes.all[other].wants.clone();
            self.nodes.all[node].known.insert(other, wants);
            let position = self.nodes.position(node);
            self.nodes.all[node].acked.insert(other, position);
            self.nodes.links[node][other].push_back(Letter::Up(position));
        }
        self.note_nodes(node);
    }
}
