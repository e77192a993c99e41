//! Clients that come back to another node: two shards each, real hubs, and letters as bytes between them.

use crate::rig::net::Client;
use crate::rig::nodes::Nodes;
use hub::config::{Config, Offsets, Recover, Recovery};
use hub::{ConnectRequest, Context, Decision, Emit, Event, Handler, Keeping, Keeps, SocketKey};
use std::sync::Arc;
use std::time::Duration;

/// Does what clients say, to the room or the socket that they name.
struct Obedient;

impl Handler for Obedient {
    fn connecting(&mut self, _: &mut Context<'_>, _: &ConnectRequest<'_>) -> Decision {
        Decision::Admit
    }

    fn keeping(&self) -> Arc<Keeping> {
        Arc::new(Keeping::new([("/".to_owned(), Some(Keeps::default()))]))
    }

    fn event(&mut self, cx: &mut Context<'_>, socket: SocketKey, event: Event<'_>) {
        let mut words = event.args.split(',').map(|word| word.trim_matches('"'));
        let (name, text) = (words.next().unwrap_or_default(), words.next());
        let text = format!("\"{}\"", text.unwrap_or_default());
        match event.name {
            "join" => cx.socket(socket).join(name).expect("a good name"),
            "tell" => drop(cx.of("/").to(&[name]).emit(&Emit::new("news", &text))),
            "say apart" => {
                cx.speaks_apart("/");
                let _ = cx
                    .of("/")
                    .to(&[name])
                    .local()
                    .emit(&Emit::new("news", &text));
            }
            // As a worker does by its link to the first node, when the second has one, too.
            "lead apart" => {
                cx.speaks_apart("/");
                let _ = cx
                    .of("/")
                    .to(&[name])
                    .without(&[2])
                    .emit(&Emit::new("news", &text));
            }
            "take along" => drop(cx.of("/").to(&[name]).join(&[text.trim_matches('"')])),
            "send away" => drop(cx.of("/").to(&[name]).leave(&[text.trim_matches('"')])),
            "end" => drop(cx.of("/").to(&[name]).disconnect(false)),
            other => panic!("{other}?"),
        }
    }
}

fn config() -> Config {
    let recover = Recover {
        window: Duration::from_secs(60),
        offsets: Offsets::All,
        goes_abroad: true,
        chronicle: false,
        replicas: 0,
    };
    Config {
        recovery: Recovery {
            namespaces: [("/".to_owned(), Some(recover))].into(),
        },
        ..Config::default()
    }
}

fn nodes(count: u16) -> Nodes {
    Nodes::new(count, &config(), || Box::new(Obedient))
}

/// A client of a shard of a node, and what it needs to come back.
struct Guest {
    node: usize,
    client: Client,
    sid: String,
    pid: String,
    offset: Option<String>,
}

fn member(reply: &str, name: &str) -> String {
    let (_, rest) = reply.split_once(&format!("\"{name}\":\"")).expect(reply);
    rest.split('"').next().unwrap_or_default().to_owned()
}

impl Guest {
    fn new(nodes: &mut Nodes, node: usize, at: usize) -> Self {
        let client = nodes.net(node).websocket(at, "");
        nodes.say(node, client, "40");
        let reply = nodes.texts(node, client).join(" ");
        Self {
            node,
            client,
            sid: member(&reply, "sid"),
            pid: member(&reply, "pid"),
            offset: None,
        }
    }

    fn say(&self, nodes: &mut Nodes, event: &str) {
        nodes.say(self.node, self.client, &format!("42[{event}]"));
    }

    fn is_cut(&self, nodes: &mut Nodes) {
        nodes.net(self.node).break_off(self.client);
        nodes.settle();
    }

    /// The texts of the news that it got, and its offset moves.
    fn news(&mut self, nodes: &mut Nodes) -> Vec<String> {
        let texts = nodes.texts(self.node, self.client);
        self.read(&texts)
    }

    fn read(&mut self, texts: &[String]) -> Vec<String> {
        let news = texts.iter().filter(|text| text.starts_with("42"));
        let news = news.map(|text| {
            let mut words = text.split('"');
            let (said, offset) = (words.nth(3), words.nth(1));
            self.offset = offset.map(str::to_owned);
            said.expect("a text").to_owned()
        });
        news.collect()
    }

    /// Asks for its socket elsewhere.
    fn asks(&mut self, nodes: &mut Nodes, node: usize, at: usize) {
        self.node = node;
        self.client = nodes.net(node).websocket(at, "");
        let offset = self.offset.as_ref();
        let offset = offset.map_or_else(String::new, |at| format!(",\"offset\":\"{at}\""));
        let connect = format!("40{{\"pid\":\"{}\"{offset}}}", self.pid);
        nodes.say(node, self.client, &connect);
    }

    /// Comes back to a shard of a node: whether it is the same socket, and what it missed.
    fn comes_back(&mut self, nodes: &mut Nodes, node: usize, at: usize) -> (bool, Vec<String>) {
        self.asks(nodes, node, at);
        let texts = nodes.texts(node, self.client);
        let reply = texts.iter().find(|text| text.starts_with("40"));
        let reply = reply.expect("an answer");
        let same = member(reply, "sid") == self.sid && member(reply, "pid") == self.pid;
        (same, self.read(&texts))
    }
}

#[test]
fn a_client_that_comes_back_to_another_node_has_missed_nothing() {
    for (home, elsewhere) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        let mut nodes = nodes(3);
        let mut guest = Guest::new(&mut nodes, 0, home);
        let other = Guest::new(&mut nodes, 2, 0);
        guest.say(&mut nodes, "\"join\",\"room\"");
        other.say(&mut nodes, "\"tell\",\"room\",\"before\"");
        assert_eq!(guest.news(&mut nodes), ["before"]);
        guest.is_cut(&mut nodes);
        other.say(&mut nodes, "\"tell\",\"room\",\"one\"");
        let near = Guest::new(&mut nodes, 0, 1 - home);
        near.say(&mut nodes, "\"tell\",\"room\",\"two\"");
        let there = Guest::new(&mut nodes, 1, elsewhere);
        there.say(&mut nodes, "\"tell\",\"room\",\"three\"");
        other.say(&mut nodes, &format!("\"tell\",\"{}\",\"four\"", guest.sid));
        let back = guest.comes_back(&mut nodes, 1, elsewhere);
        assert_eq!(
            back,
            (
                true,
                ["one", "two", "three", "four"].map(str::to_owned).to_vec()
            )
        );
        for speaker in [&other, &near, &there] {
            speaker.say(&mut nodes, "\"tell\",\"room\",\"live\"");
            speaker.say(&mut nodes, &format!("\"tell\",\"{}\",\"to it\"", guest.sid));
        }
        let live = ["live", "to it"].repeat(3);
        assert_eq!(guest.news(&mut nodes), live);
    }
}

/// It was on the first node, goes to the second and to the third, and back to the first.
#[test]
fn a_socket_goes_around_and_is_reached_wherever_it_is() {
    let mut nodes = nodes(3);
    let mut guest = Guest::new(&mut nodes, 0, 0);
    guest.say(&mut nodes, "\"join\",\"room\"");
    let other = Guest::new(&mut nodes, 2, 1);
    for (at, node) in [1, 2, 0, 1].into_iter().enumerate() {
        guest.is_cut(&mut nodes);
        let missed = format!("missed {at}");
        other.say(&mut nodes, &format!("\"tell\",\"room\",\"{missed}\""));
        let back = guest.comes_back(&mut nodes, node, at % 2);
        assert_eq!(back, (true, vec![missed]), "to node {node}");
        other.say(&mut nodes, &format!("\"tell\",\"{}\",\"hello\"", guest.sid));
        assert_eq!(guest.news(&mut nodes), ["hello"]);
    }
    // Commands of any node reach it while it is away, by its id.
    guest.is_cut(&mut nodes);
    other.say(
        &mut nodes,
        &format!("\"take along\",\"{}\",\"annex\"", guest.sid),
    );
    other.say(
        &mut nodes,
        &format!("\"send away\",\"{}\",\"room\"", guest.sid),
    );
    other.say(&mut nodes, "\"tell\",\"room\",\"not for it\"");
    other.say(&mut nodes, "\"tell\",\"annex\",\"for it\"");
    let back = guest.comes_back(&mut nodes, 2, 0);
    assert_eq!(back, (true, vec!["for it".to_owned()]));
    guest.is_cut(&mut nodes);
    other.say(&mut nodes, &format!("\"end\",\"{}\"", guest.sid));
    let (same, _) = guest.comes_back(&mut nodes, 0, 0);
    assert!(!same, "it was disconnected");
}

/// Its old node has not noticed that it is gone.
#[test]
fn a_client_takes_its_socket_from_its_old_connection_at_another_node() {
    let mut nodes = nodes(2);
    let mut guest = Guest::new(&mut nodes, 0, 1);
    let old = guest.client;
    guest.say(&mut nodes, "\"join\",\"room\"");
    let other = Guest::new(&mut nodes, 1, 1);
    let (same, _) = guest.comes_back(&mut nodes, 1, 0);
    assert!(same);
    other.say(&mut nodes, "\"tell\",\"room\",\"once\"");
    assert_eq!(guest.news(&mut nodes), ["once"]);
    let texts = nodes.texts(0, old);
    assert!(texts.iter().all(|text| !text.contains("once")), "{texts:?}");
}

#[test]
fn in_doubt_it_is_a_new_socket_and_everybody_is_answered() {
    // The node that has it is gone, and nobody knows yet.
    let mut nodes = nodes(2);
    let mut guest = Guest::new(&mut nodes, 0, 0);
    nodes.cut_off(0, true);
    guest.asks(&mut nodes, 1, 0);
    assert!(
        nodes
            .texts(1, guest.client)
            .iter()
            .all(|text| !text.starts_with("40"))
    );
    nodes.pass(5_001);
    let texts = nodes.texts(1, guest.client).join(" ");
    assert!(
        texts.contains("40{") && !texts.contains(&guest.sid),
        "{texts}"
    );
    // It is known to be gone while somebody waits for it.
    let mut waits = Guest::new(&mut nodes, 1, 1);
    waits.pid = guest.pid.clone();
    waits.asks(&mut nodes, 1, 1);
    nodes.dies(0);
    let texts = nodes.texts(1, waits.client).join(" ");
    assert!(
        texts.contains("40{") && !texts.contains(&guest.sid),
        "{texts}"
    );
}

/// A process that goes on for another one is told of all nodes: who had come in the moment before was told to be somebody new.
#[test]
fn news_of_a_node_that_is_there_ended_claims_that_had_just_begun() {
    let mut nodes = nodes(2);
    let mut guest = Guest::new(&mut nodes, 0, 0);
    guest.say(&mut nodes, "\"join\",\"room\"");
    guest.is_cut(&mut nodes);
    let other = Guest::new(&mut nodes, 0, 1);
    other.say(&mut nodes, "\"tell\",\"room\",\"once\"");
    nodes.mute(1, true);
    guest.asks(&mut nodes, 1, 0);
    nodes.comes_back(0);
    nodes.mute(1, false);
    nodes.settle();
    let texts = nodes.texts(1, guest.client);
    let reply = texts.iter().find(|text| text.starts_with("40"));
    assert_eq!(member(reply.expect("an answer"), "sid"), guest.sid);
    assert_eq!(guest.read(&texts), ["once"]);
}

/// Its node went over to another process while it waited. Its socket was kept for a claim that nobody made any more, until it ended.
#[test]
fn a_claim_of_the_process_before_kept_a_socket_from_its_client() {
    // The answer of its owner comes too late; or all of it, up to the socket.
    for muted in [0, 2] {
        let mut nodes = nodes(3);
        let mut guest = Guest::new(&mut nodes, 0, 0);
        guest.say(&mut nodes, "\"join\",\"room\"");
        guest.is_cut(&mut nodes);
        nodes.mute(muted, true);
        guest.asks(&mut nodes, 1, 0);
        let told = nodes.texts(1, guest.client).join(" ");
        assert!(!told.contains("40{"), "it waits: {told}");
        nodes.upgrade(1, &config(), || Box::new(Obedient));
        nodes.mute(muted, false);
        nodes.settle();
        let speaker = Guest::new(&mut nodes, 2, 1);
        speaker.say(&mut nodes, "\"tell\",\"room\",\"once\"");
        let (is_back, missed) = guest.comes_back(&mut nodes, 1, 1);
        assert!(is_back, "node {muted} was late");
        assert_eq!(missed, ["once"]);
    }
}

/// It had asked at another node and left before it was answered. Its socket went there all the same, and died with that node.
#[test]
fn a_socket_went_to_a_node_that_its_client_had_left() {
    // The owner's answer is late; or the claim, so that its client is back at its own node by then.
    for muted in [0, 1] {
        let mut nodes = nodes(2);
        let speaker = Guest::new(&mut nodes, 0, 1);
        let mut guest = Guest::new(&mut nodes, 0, 0);
        guest.say(&mut nodes, "\"join\",\"room\"");
        guest.is_cut(&mut nodes);
        nodes.mute(muted, true);
        guest.asks(&mut nodes, 1, 0);
        guest.is_cut(&mut nodes);
        if muted == 1 {
            assert!(guest.comes_back(&mut nodes, 0, 0).0);
        }
        nodes.mute(muted, false);
        nodes.settle();
        nodes.dies(1);
        speaker.say(&mut nodes, "\"tell\",\"room\",\"once\"");
        let back = guest.comes_back(&mut nodes, 0, 0);
        assert_eq!(back, (true, vec!["once".to_owned()]), "{muted} was muted");
    }
}

/// A claim that nobody speaks of any more ends with its time, and not with its record.
#[test]
fn a_claim_that_is_lost_ends_with_its_time() {
    let mut nodes = nodes(2);
    let mut guest = Guest::new(&mut nodes, 0, 0);
    guest.is_cut(&mut nodes);
    nodes.mute(0, true);
    guest.asks(&mut nodes, 1, 0);
    // Neither its answer nor the word that gives it back arrives.
    nodes.loses(0);
    nodes.net(1).pass(5_001);
    nodes.loses(1);
    nodes.mute(0, false);
    let is_kept = !guest.comes_back(&mut nodes, 0, 1).0;
    assert!(is_kept, "for the claim");
    nodes.pass(5_001);
    assert!(guest.comes_back(&mut nodes, 0, 1).0);
}

/// A node of the version before is there: sockets stay where they are, and nobody is asked.
#[test]
fn with_a_node_that_takes_no_part_nothing_goes_from_node_to_node() {
    let mut nodes = nodes(2);
    let mut guest = Guest::new(&mut nodes, 0, 0);
    guest.say(&mut nodes, "\"join\",\"room\"");
    (0..2).for_each(|node| nodes.recovers(node, false));
    let other = Guest::new(&mut nodes, 1, 0);
    guest.is_cut(&mut nodes);
    let (same, _) = Guest {
        pid: guest.pid.clone(),
        sid: guest.sid.clone(),
        offset: None,
        ..Guest::new(&mut nodes, 1, 1)
    }
    .comes_back(&mut nodes, 1, 1);
    assert!(!same);
    other.say(&mut nodes, "\"tell\",\"room\",\"plain\"");
    let back = guest.comes_back(&mut nodes, 0, 1);
    assert_eq!(back, (true, vec!["plain".to_owned()]), "at its own node");
}

/// Letters of another node are lost, which it hears of: it must not be told that it missed nothing.
#[test]
fn a_socket_that_was_away_when_letters_were_lost_is_not_given_back() {
    let mut nodes = nodes(2);
    let mut guest = Guest::new(&mut nodes, 0, 0);
    guest.say(&mut nodes, "\"join\",\"room\"");
    guest.is_cut(&mut nodes);
    let other = Guest::new(&mut nodes, 1, 0);
    nodes.cut_off(0, true);
    other.say(&mut nodes, "\"tell\",\"room\",\"lost\"");
    nodes.cut_off(0, false);
    nodes.missed(0, 1);
    let (same, _) = guest.comes_back(&mut nodes, 0, 0);
    assert!(!same);
    // Whoever comes after that loses nothing.
    let mut next = Guest::new(&mut nodes, 0, 1);
    next.is_cut(&mut nodes);
    let (same, _) = next.comes_back(&mut nodes, 1, 1);
    assert!(same);
}

/// They stayed, and may have missed anything: each is told, once, and comes back as somebody new before it has proved that it heard so.
#[test]
fn clients_that_stayed_while_letters_were_lost_are_told() {
    let mut nodes = nodes(2);
    let mut guests = [0, 1].map(|at| Guest::new(&mut nodes, 0, at));
    for guest in &guests {
        guest.say(&mut nodes, "\"join\",\"room\"");
    }
    let other = Guest::new(&mut nodes, 1, 0);
    nodes.cut_off(0, true);
    other.say(&mut nodes, "\"tell\",\"room\",\"lost\"");
    nodes.cut_off(0, false);
    nodes.missed(0, 1);
    for guest in &mut guests {
        let texts = nodes.texts(0, guest.client);
        let told = texts.iter().filter(|text| text.contains("sockeye:gap"));
        let told: Vec<&String> = told.collect();
        assert_eq!(told.len(), 1, "{texts:?}");
        assert!(told[0].contains("{\"rooms\":null}"), "{texts:?}");
        guest.is_cut(&mut nodes);
    }
    let [mut here, mut elsewhere] = guests;
    assert!(!here.comes_back(&mut nodes, 0, 0).0);
    assert!(!elsewhere.comes_back(&mut nodes, 1, 0).0);
    let texts = nodes.texts(1, other.client);
    assert!(!texts.iter().any(|text| text.contains("sockeye:gap")));
}

/// Somebody speaks to each node by itself: nobody can tell what of it a socket has that goes from one to another.
#[test]
fn what_is_said_to_each_node_apart_holds_sockets_at_their_nodes() {
    const TEN_MINUTES_MS: u64 = 600_000;
    let mut nodes = nodes(2);
    // The note is made before the claim, or while it is under way: at the owner, or at the claimer.
    for speaks_before in [true, false] {
        for at in [0, 1] {
            let speaker = Guest::new(&mut nodes, at, 0);
            let mut guest = Guest::new(&mut nodes, 0, 1);
            guest.say(&mut nodes, "\"join\",\"room\"");
            guest.is_cut(&mut nodes);
            let part = "\"say apart\",\"room\",\"a part\"";
            if speaks_before {
                speaker.say(&mut nodes, part);
                guest.asks(&mut nodes, 1, 1);
            } else {
                nodes.mute(0, true);
                guest.asks(&mut nodes, 1, 1);
                speaker.say(&mut nodes, part);
                nodes.mute(0, false);
                nodes.settle();
            }
            let texts = nodes.texts(1, guest.client).join(" ");
            assert!(
                texts.contains("40{") && !texts.contains(&guest.sid),
                "{texts}"
            );
            // At its own node it comes back, unless the claimer had it already.
            if speaks_before || speaker.node == 0 {
                let (_, news) = guest.comes_back(&mut nodes, 0, 0);
                assert!(news.len() <= 1, "{news:?}");
            }
            nodes.pass(TEN_MINUTES_MS);
        }
    }
    let mut guest = Guest::new(&mut nodes, 0, 1);
    guest.is_cut(&mut nodes);
    assert!(guest.comes_back(&mut nodes, 1, 1).0);
}

/// A worker has links to the first and the second node: the first speaks to the third as well, which makes no note itself.
#[test]
fn what_one_node_says_for_those_without_a_link_holds_sockets_too() {
    const TEN_MINUTES_MS: u64 = 600_000;
    let mut nodes = nodes(3);
    for (owner, claimer) in [(2, 1), (1, 2)] {
        // It leads before the claim; or before its fence, or behind that and before its flush.
        for muted in [None, Some(owner), Some(0)] {
            let speaker = Guest::new(&mut nodes, 0, 0);
            let other = Guest::new(&mut nodes, 1, 0);
            let mut guest = Guest::new(&mut nodes, owner, 1);
            guest.say(&mut nodes, "\"join\",\"room\"");
            guest.is_cut(&mut nodes);
            let part = "\"lead apart\",\"room\",\"a part\"";
            match muted {
                None => {
                    speaker.say(&mut nodes, part);
                    guest.asks(&mut nodes, claimer, 1);
                }
                Some(node) => {
                    nodes.mute(node, true);
                    guest.asks(&mut nodes, claimer, 1);
                    speaker.say(&mut nodes, part);
                    nodes.mute(node, false);
                    nodes.settle();
                }
            }
            let texts = nodes.texts(claimer, guest.client).join(" ");
            assert!(
                texts.contains("40{") && !texts.contains(&guest.sid),
                "{owner} to {claimer}, {muted:?}: {texts}"
            );
            other.say(&mut nodes, "\"say apart\",\"room\",\"a part\"");
            nodes.pass(TEN_MINUTES_MS);
        }
    }
    let mut guest = Guest::new(&mut nodes, 2, 1);
    guest.is_cut(&mut nodes);
    assert!(guest.comes_back(&mut nodes, 1, 1).0);
}
