//! Lists of sockets while clients come, go and move, letters are lost and nodes die.

use super::*;

const STEPS: usize = 120;

struct Person {
    node: usize,
    client: Client,
    id: String,
    is_in: bool,
}

/// A question that has no answer yet.
struct Asked {
    /// These were in the room all the time, and these for some of it.
    throughout: BTreeSet<String>,
    ever: BTreeSet<String>,
    /// Something was lost, or a node died, since it was asked.
    spoilt: bool,
}

struct Story<'a> {
    script: &'a Script,
    lister: Lister,
    nodes: Nodes,
    count: usize,
    people: Vec<Person>,
    open: BTreeMap<u64, Asked>,
    asked: u64,
    whole: usize,
    dead: BTreeSet<usize>,
}

impl Story<'_> {
    fn tell(&self, what: impl FnOnce() -> String) {
        self.script.tell(what);
    }

    fn step(&mut self, dice: &mut Rng, losses: bool) {
        let node = dice.usize(..self.count);
        match dice.u32(..100) {
            0..12 => self.ask(dice),
            12..20 => self.moves(dice),
            20..50 => {
                let routes = self.nodes.net(node).routes();
                if let Some(route) = dice.choice(routes) {
                    self.nodes.net(node).carry_one(route);
                }
            }
            50..80 => self.nodes.carry_from(node),
            80..96 => self.nodes.resume(node),
            96..98 if losses => {
                self.tell(|| format!("what node {node} says is lost"));
                self.nodes.loses(node);
                self.spoil();
            }
            98..100 if losses => self.dies_or_returns(node),
            _ => {
                let ms = dice.u64(1..6);
                (0..self.count).for_each(|node| self.nodes.net(node).pass(ms));
            }
        }
        self.hear();
    }

    fn spoil(&mut self) {
        self.open.values_mut().for_each(|asked| asked.spoilt = true);
    }

    fn ask(&mut self, dice: &mut Rng) {
        let Some(person) = dice.choice(&self.people) else {
            return;
        };
        self.asked += 1;
        let (token, node, client) = (self.asked, person.node, person.client);
        self.tell(|| format!("node {node} is asked for list {token}"));
        let present = self.people.iter().filter(|person| person.is_in);
        let present: BTreeSet<String> = present.map(|person| person.id.clone()).collect();
        let asked = Asked {
            throughout: present.clone(),
            ever: present,
            spoilt: !self.dead.is_empty(),
        };
        self.open.insert(token, asked);
        self.nodes
            .net(node)
            .say(client, &format!("42[\"fetch\",{token}]"));
    }

    /// Somebody leaves the room or comes back to it, or goes for good.
    fn moves(&mut self, dice: &mut Rng) {
        if self.people.is_empty() {
            return;
        }
        let at = dice.usize(..self.people.len());
        let person = &mut self.people[at];
        let (node, client, id) = (person.node, person.client, person.id.clone());
        let goes = dice.u32(..3) == 0;
        let left = goes || person.is_in;
        person.is_in = !left;
        if goes {
            self.people.swap_remove(at);
            self.nodes.net(node).break_off(client);
        } else {
            let word = if left { "leave" } else { "join" };
            self.nodes.net(node).say(client, &format!("42[\"{word}\"]"));
        }
        self.tell(|| format!("{id} of node {node}: {left} {goes}"));
        for asked in self.open.values_mut() {
            if left {
                asked.throughout.remove(&id);
            } else {
                asked.ever.insert(id.clone());
            }
        }
        if !left {
            // Other nodes know that this one has members again.
            self.nodes.settle();
        }
    }

    fn dies_or_returns(&mut self, node: usize) {
        self.spoil();
        if self.dead.remove(&node) {
            self.tell(|| format!("node {node} is heard again"));
            self.nodes.comes_back(node);
        } else if self.dead.is_empty() {
            self.tell(|| format!("node {node} is not heard any more"));
            self.dead.insert(node);
            self.nodes.dies(node);
        }
    }

    fn hear(&mut self) {
        for (token, found) in self.lister.lists() {
            let asked = self.open.remove(&token).expect("each is answered once");
            let ids = ids(&found);
            self.tell(|| format!("list {token}: {} sockets, {}", ids.len(), found.complete));
            let unknown = ids.iter().find(|id| !asked.ever.contains(**id));
            assert_eq!(unknown, None, "list {token}: it was not there");
            if found.complete {
                let missing = asked
                    .throughout
                    .iter()
                    .find(|id| !ids.contains(id.as_str()));
                assert_eq!(missing, None, "list {token}: it was there all the time");
                self.whole += 1;
            }
            assert!(
                found.complete || asked.spoilt,
                "list {token}: nothing was lost"
            );
        }
    }

    /// Everything arrives, and each hub has turns until it has no lists to make.
    fn settle(&mut self) {
        for _ in 0..200 {
            self.nodes.settle();
            (0..self.count).for_each(|node| self.nodes.resume(node));
        }
        self.hear();
    }

    fn end(&mut self, losses: bool) {
        self.settle();
        let late: Vec<u64> = self.open.keys().copied().collect();
        assert!(losses || late.is_empty(), "they wait for nobody: {late:?}");
        self.nodes.pass(TIMEOUT_MS + 1);
        self.settle();
        let late: Vec<u64> = self.open.keys().copied().collect();
        assert!(late.is_empty(), "they wait for ever: {late:?}");
        self.nodes.pass(TIMEOUT_MS + 1);
        for node in 0..self.count {
            self.nodes.resume(node);
            assert_eq!(kept(self.nodes.net(node)), 0, "node {node} keeps something");
        }
    }
}

/// How many lists were whole.
fn play(script: &Script, losses: bool) -> usize {
    let mut dice = script.opening();
    let lister = Lister::with_data(DATA_BYTES);
    let count = dice.usize(2..4);
    let mut nodes = nodes(&lister, count as u16, 8 << 20);
    let mut people = Vec::new();
    for node in 0..count {
        for _ in 0..dice.usize(1..30) {
            let client = nodes.client(node, dice.usize(..2));
            let id = lister.last_came();
            let is_in = true;
            people.push(Person {
                node,
                client,
                id,
                is_in,
            });
        }
    }
    nodes.settle();
    let mut story = Story {
        script,
        lister,
        nodes,
        count,
        people,
        open: BTreeMap::new(),
        asked: 0,
        whole: 0,
        dead: BTreeSet::new(),
    };
    for step in 0..STEPS {
        if let Some(mut dice) = script.dice(step) {
            story.step(&mut dice, losses);
        }
    }
    story.end(losses);
    story.whole
}

#[test]
fn each_socket_that_stays_is_listed_once() {
    let whole = seeds::play("pages", 100, STEPS, |script| play(script, false));
    assert!(whole.iter().sum::<usize>() >= whole.len(), "lists are made");
}

#[test]
fn nobody_waits_for_ever_for_pages_that_are_lost() {
    let whole = seeds::play("lost pages", 100, STEPS, |script| play(script, true));
    assert!(
        whole.iter().sum::<usize>() >= whole.len() / 2,
        "lists are made"
    );
}
