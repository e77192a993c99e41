//! Rooms, users, rounds and joins over several processes. The second shard of each node is there to be missed.

use crate::heard::{Heard, Notes};
use crate::rig::net::Client;
use crate::rig::nodes::{JOIN_WAIT_MS, Nodes, UPLINK_BYTES_MAX};
use hub::config::Config;
use hub::{
    Collected, ConnectRequest, Context, Decision, Emit, Event, Form, Found, Handler, Keeping,
    Keeps, Reach, ServerEvent, SocketKey,
};
use std::sync::Arc;
use std::time::Duration;

/// Does what clients say: the event's name is the verb, its first argument the room.
#[derive(Clone, Default)]
pub(crate) struct Obedient(pub(crate) Notes, Kept);

/// What rooms keep.
type Kept = Option<Keeps>;

fn news() -> Kept {
    let others = Form::Bare;
    let keeps = Keeps::default();
    Some(Keeps { others, ..keeps })
}

impl Handler for Obedient {
    fn connecting(&mut self, _: &mut Context<'_>, _: &ConnectRequest<'_>) -> Decision {
        Decision::Admit
    }

    fn keeping(&self) -> Arc<Keeping> {
        Arc::new(Keeping::new([("/".to_owned(), self.1.clone())]))
    }

    fn event(&mut self, cx: &mut Context<'_>, socket: SocketKey, event: Event<'_>) {
        let room = event.args.trim_matches('"');
        let (news, second) = (Emit::new("news", "1"), Duration::from_secs(1));
        let mut socket = cx.socket(socket);
        let id = socket.id().expect("it is here").to_string();
        match event.name {
            "join" => {
                socket.join(room).expect("a good name");
                if let Some(ack) = event.ack {
                    cx.ack(ack, "", &[]);
                }
            }
            "join and hear" => {
                socket.join(room).expect("a good name");
                socket.replay(room);
            }
            "answer" => cx.ack(event.ack.expect("a question"), "", &[]),
            "is an id" => self.0.note(Heard::IsId(cx.is_socket_id(room))),
            "leave" => socket.leave(room),
            "be" => socket.set_user(room).expect("it is here"),
            "to" => self.0.note(Heard::Reached(socket.to(&[room]).emit(&news))),
            "all" => self.0.note(Heard::Reached(cx.of("/").emit(&news))),
            "user" => self
                .0
                .note(Heard::Reached(cx.of("/").to_users(&[room]).emit(&news))),
            "tell" => self
                .0
                .note(Heard::Reached(cx.of("/").to(&[room]).emit(&news))),
            "tell but the second" => {
                let reach = cx.of("/").to(&[room]).without(&[2]).emit(&news);
                self.0.note(Heard::Reached(reach));
            }
            "collect" => cx.of("/").to(&[room]).collect(&news, second, 1),
            "fetch" => cx.of("/").to(&[room]).fetch(second, 2),
            "take along" => drop(cx.of("/").to(&[room]).join(&["annex"])),
            "send away" => drop(cx.of("/").to(&[room]).leave(&[room])),
            "end" => drop(cx.of("/").to(&[room]).except(&[&id]).disconnect(false)),
            "tell servers" => cx.servers("/").emit(&news),
            "take servers for connections" => {
                let name = "connection";
                cx.servers("/").emit(&Emit { name, ..news });
            }
            "ask servers" => cx.servers("/").ask(&news, second, 3),
            "count servers" => self.0.note(Heard::Servers(cx.servers("/").count())),
            "collect here" => cx.of("/").to(&[room]).local().collect(&news, second, 1),
            "fetch here" => cx.of("/").to(&[room]).local().fetch(second, 2),
            "take along here" => drop(cx.of("/").to(&[room]).local().join(&["annex"])),
            "end here" => drop(cx.of("/").to(&[room]).local().disconnect(false)),
            "all here" => drop(cx.of("/").local().emit(&news)),
            other => panic!("{other}?"),
        }
    }

    fn collected(&mut self, _: &mut Context<'_>, _: u64, collected: Collected) {
        self.0.note(Heard::Collected(collected));
    }

    fn counts_nodes(&self) -> bool {
        true
    }

    fn room_count_changed(&mut self, _: &mut Context<'_>, _: &str, room: &str, count: u64) {
        if room == "counted" {
            self.0.note(Heard::Count(count));
        }
    }

    fn server_event(&mut self, cx: &mut Context<'_>, event: ServerEvent<'_>) {
        let text = format!("{} {}({})", event.namespace, event.name, event.args);
        self.0.note(Heard::Server(text, event.ack.is_some()));
        if let Some(ack) = event.ack {
            cx.answer_server(ack, "\"here\"", &[]);
        }
    }

    fn found(&mut self, _: &mut Context<'_>, _: u64, found: Found) {
        self.0.note(Heard::Found(found));
    }
}

const NEWS: &str = "42[\"news\",1]";

/// Two clients on different shards of each of so many nodes, all in `room`.
pub(crate) fn world(count: u16) -> (Obedient, Nodes, Vec<(usize, Client)>) {
    world_of(count, None)
}

fn world_of(count: u16, kept: Kept) -> (Obedient, Nodes, Vec<(usize, Client)>) {
    let handler = Obedient(Notes::default(), kept);
    let mut nodes = Nodes::new(count, &Config::default(), || Box::new(handler.clone()));
    let mut clients = Vec::new();
    for node in 0..usize::from(count) {
        for at in 0..2 {
            let client = nodes.client(node, at);
            nodes.say(node, client, "42[\"join\",\"room\"]");
            clients.push((node, client));
        }
    }
    (handler, nodes, clients)
}

fn texts(nodes: &mut Nodes, clients: &[(usize, Client)]) -> Vec<Vec<String>> {
    let clients = clients.iter();
    clients
        .map(|(node, client)| nodes.texts(*node, *client))
        .collect()
}

#[test]
fn a_room_is_one_room_on_all_nodes() {
    let (handler, mut nodes, clients) = world(3);
    let (node, sender) = clients[3];
    nodes.say(node, sender, "42[\"to\",\"room\"]");
    let none: &[&str] = &[];
    let expected = [0, 1, 2, 3, 4, 5].map(|at| if at == 3 { none } else { &[NEWS] });
    assert_eq!(texts(&mut nodes, &clients), expected);
    nodes.say(node, sender, "42[\"all\"]");
    assert_eq!(texts(&mut nodes, &clients), [[NEWS]; 6]);
    assert_eq!(handler.0.heard().len(), 2);
    nodes.say(0, clients[0].1, "42[\"leave\",\"room\"]");
    nodes.say(node, sender, "42[\"to\",\"room\"]");
    assert_eq!(texts(&mut nodes, &clients[..2]), [none, &[NEWS]]);
}

#[test]
fn a_user_is_one_user_on_all_nodes() {
    let (_, mut nodes, clients) = world(2);
    for (node, client) in [clients[1], clients[2]] {
        nodes.say(node, client, "42[\"be\",\"ann\"]");
    }
    let (node, sender) = clients[3];
    nodes.say(node, sender, "42[\"user\",\"ann\"]");
    let none: &[&str] = &[];
    assert_eq!(texts(&mut nodes, &clients), [none, &[NEWS], &[NEWS], none]);
}

/// The id of a socket is a room that no node announces: the id names the node.
#[test]
fn a_socket_is_found_by_its_id() {
    let (handler, mut nodes, clients) = world(2);
    nodes.say(0, clients[0].1, "42[\"fetch\",\"room\"]");
    let [Heard::Found(found)] = &handler.0.heard()[..] else {
        panic!("one list")
    };
    for socket in &found.sockets {
        let ask = format!("42[\"is an id\",\"{}\"]", socket.id);
        nodes.say(0, clients[0].1, &ask);
        assert_eq!(handler.0.heard().last(), Some(&Heard::IsId(true)));
        nodes.say(0, clients[0].1, &format!("42[\"to\",\"{}\"]", socket.id));
    }
    // Not to itself.
    let none: &[&str] = &[];
    assert_eq!(
        texts(&mut nodes, &clients),
        [none, &[NEWS], &[NEWS], &[NEWS]]
    );
}

fn answer(nodes: &mut Nodes, (node, client): (usize, Client)) {
    let texts = nodes.texts(node, client);
    let [text] = &texts[..] else {
        panic!("one question, not {texts:?}")
    };
    let id = text
        .strip_prefix("42")
        .and_then(|text| text.split_once('['));
    let (id, _) = id.expect("a question");
    nodes.say(node, client, &format!("43{id}[\"yes\"]"));
}

#[test]
fn a_round_counts_answers_of_all_nodes() {
    let (handler, mut nodes, clients) = world(3);
    nodes.say(1, clients[2].1, "42[\"collect\",\"room\"]");
    clients
        .iter()
        .for_each(|client| answer(&mut nodes, *client));
    let collected = handler.0.collected();
    assert!(collected.complete, "{collected:?}");
    assert_eq!((collected.acked, collected.answers.len()), (6, 6));
}

/// A node without members has left the room since: nobody there answers, and nobody waits for it.
#[test]
fn a_round_does_not_wait_for_nodes_without_members() {
    let (handler, mut nodes, clients) = world(2);
    for (node, client) in &clients[2..] {
        nodes.say(*node, *client, "42[\"leave\",\"room\"]");
    }
    nodes.say(0, clients[0].1, "42[\"collect\",\"room\"]");
    clients[..2]
        .iter()
        .for_each(|client| answer(&mut nodes, *client));
    assert!(handler.0.collected().complete);
}

#[test]
fn a_node_that_dies_counts_as_gone() {
    let (handler, mut nodes, clients) = world(3);
    nodes.say(0, clients[0].1, "42[\"collect\",\"room\"]");
    clients[..5]
        .iter()
        .for_each(|client| answer(&mut nodes, *client));
    assert_eq!(handler.0.heard(), []);
    nodes.dies(2);
    let collected = handler.0.collected();
    assert_eq!((collected.acked, collected.gone), (5, 1));
    assert!(!collected.complete);
}

/// Before it said how many sockets it asked: nobody knows how many are missing, and the result says so.
#[test]
fn a_node_that_dies_before_it_answers_leaves_a_round_incomplete() {
    let (handler, mut nodes, clients) = world(2);
    nodes.cut_off(1, true);
    nodes.say(0, clients[0].1, "42[\"fetch\",\"room\"]");
    assert_eq!(handler.0.heard(), []);
    nodes.dies(1);
    let [Heard::Found(found)] = &handler.0.heard()[..] else {
        panic!("one list")
    };
    assert_eq!((found.sockets.len(), found.complete), (2, false));
}

#[test]
fn sockets_of_all_nodes_join_leave_and_end() {
    let (handler, mut nodes, clients) = world(2);
    nodes.say(0, clients[0].1, "42[\"take along\",\"room\"]");
    nodes.say(1, clients[3].1, "42[\"to\",\"annex\"]");
    let none: &[&str] = &[];
    let expected: [&[&str]; 4] = [&[NEWS], &[NEWS], &[NEWS], none];
    assert_eq!(texts(&mut nodes, &clients), expected);
    nodes.say(1, clients[2].1, "42[\"send away\",\"annex\"]");
    nodes.say(1, clients[3].1, "42[\"to\",\"annex\"]");
    assert_eq!(texts(&mut nodes, &clients), [none; 4]);
    nodes.say(0, clients[0].1, "42[\"end\",\"room\"]");
    assert_eq!(
        texts(&mut nodes, &clients),
        [none, &["41"], &["41"], &["41"]]
    );
    assert_eq!(handler.0.heard().len(), 2);
}

/// What was published right after a join was told reached all nodes but the one that did not know of the join yet.
#[test]
fn a_join_is_told_when_other_nodes_know_of_it() {
    let (_, mut nodes, clients) = world(2);
    let (node, client) = clients[0];
    nodes.cut_off(node, true);
    nodes.say(node, client, "421[\"join\",\"new\"]");
    nodes.say(node, clients[1].1, "422[\"join\",\"new\"]");
    nodes.say(node, clients[1].1, "423[\"join\",\"room\"]");
    let none: &[&str] = &[];
    assert_eq!(texts(&mut nodes, &clients[..2]), [none, none]);
    nodes.cut_off(node, false);
    nodes.settle();
    let told = texts(&mut nodes, &clients[..2]);
    assert_eq!(told, [vec!["431[]"], vec!["432[]", "433[]"]]);
    nodes.say(node, client, "424[\"join\",\"room\"]");
    assert_eq!(nodes.texts(node, client), ["434[]"], "it is known");
}

/// What another node said to all right behind the CONNECT of a node's first client did not reach it.
#[test]
fn a_client_is_told_of_its_connect_when_other_nodes_know_of_it() {
    let handler = Obedient::default();
    let mut nodes = Nodes::new(2, &Config::default(), || Box::new(handler.clone()));
    let speaker = nodes.client(1, 0);
    nodes.cut_off(0, true);
    let client = nodes.comer(0, 0);
    nodes.say(0, client, "421[\"join\",\"room\"]");
    nodes.say(1, speaker, "42[\"all\"]");
    assert!(nodes.texts(0, client).is_empty(), "nobody knows of it");
    nodes.cut_off(0, false);
    nodes.settle();
    nodes.say(1, speaker, "42[\"all\"]");
    let told = nodes.texts(0, client);
    let told: Vec<&str> = told.iter().map(|text| &text[..3]).collect();
    assert_eq!(told, ["40{", "431", "42["], "in this order");
    let other = nodes.comer(0, 0);
    assert_eq!(nodes.texts(0, other).len(), 1, "it is known");
}

/// The client hears that it is in all the same, and all behind that in its order.
#[test]
fn a_connect_that_nobody_confirms_is_told_late() {
    let handler = Obedient::default();
    let mut nodes = Nodes::new(2, &Config::default(), || Box::new(handler.clone()));
    nodes.cut_off(0, true);
    let client = nodes.comer(0, 0);
    nodes.say(0, client, "42[\"all here\"]");
    nodes.pass(JOIN_WAIT_MS - 1);
    assert!(nodes.texts(0, client).is_empty());
    nodes.pass(1);
    let told = nodes.texts(0, client);
    assert!(
        told[0].starts_with("40{") && told[1..] == [NEWS],
        "{told:?}"
    );
}

const POLL: &str = "GET /socket.io/?EIO=4&transport=polling";

/// A client that polls, whose CONNECT other nodes do not know of; `&sid=` with its id.
fn poller(nodes: &mut Nodes) -> String {
    nodes.cut_off(0, true);
    let open = nodes.request(0, 0, &format!("{POLL} HTTP/1.1\r\nHost: x\r\n\r\n"));
    let open = String::from_utf8(nodes.net(0).raw(open)).expect("text");
    let (_, sid) = open.split_once("\"sid\":\"").expect("a session");
    let sid = format!("&sid={}", &sid[..20]);
    let post = POLL.replace("GET", "POST");
    let post = format!("{post}{sid} HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n40");
    let post = nodes.request(0, 0, &post);
    assert!(nodes.net(0).raw(post).ends_with(b"ok"));
    sid
}

#[test]
fn a_client_that_polls_is_told_of_its_connect_when_other_nodes_know_of_it() {
    let handler = Obedient::default();
    let mut nodes = Nodes::new(2, &Config::default(), || Box::new(handler.clone()));
    let sid = poller(&mut nodes);
    let request = format!("{POLL}{sid} HTTP/1.1\r\nHost: x\r\n\r\n");
    let poll = nodes.request(0, 0, &request);
    assert!(nodes.net(0).raw(poll).is_empty(), "nobody knows of it");
    nodes.cut_off(0, false);
    nodes.settle();
    let answer = String::from_utf8(nodes.net(0).raw(poll)).expect("text");
    assert!(answer.contains("\r\n\r\n40{\"sid\""), "{answer}");
}

#[test]
fn a_client_that_upgrades_meanwhile_is_told_of_its_connect_there() {
    let handler = Obedient::default();
    let mut nodes = Nodes::new(2, &Config::default(), || Box::new(handler.clone()));
    let sid = poller(&mut nodes);
    let client = nodes.net(0).websocket(0, &sid);
    nodes.say(0, client, "2probe");
    nodes.say(0, client, "5");
    assert_eq!(nodes.texts(0, client), ["3probe"], "nobody knows of it");
    nodes.cut_off(0, false);
    nodes.settle();
    let told = nodes.texts(0, client);
    assert!(told.len() == 1 && told[0].starts_with("40{"), "{told:?}");
}

/// Two sockets joined, and only the ack of the one that joined last waited.
#[test]
fn an_ack_behind_the_join_of_another_socket_did_not_wait() {
    let (_, mut nodes, clients) = world(2);
    let (node, client) = clients[0];
    let other = nodes.client(node, client.at);
    nodes.cut_off(node, true);
    nodes.say(node, client, "42[\"join\",\"new\"]");
    nodes.say(node, other, "42[\"join\",\"newer\"]");
    nodes.say(node, client, "421[\"answer\"]");
    nodes.say(node, other, "422[\"answer\"]");
    assert!(nodes.texts(node, client).is_empty() && nodes.texts(node, other).is_empty());
    nodes.cut_off(node, false);
    nodes.settle();
    assert_eq!(nodes.texts(node, client), ["431[]"]);
    assert_eq!(nodes.texts(node, other), ["432[]"]);
}

/// Other nodes cannot be reached: the client does not wait for ever.
#[test]
fn a_join_that_nobody_confirms_is_told_late() {
    let (_, mut nodes, clients) = world(2);
    let (node, client) = clients[0];
    nodes.cut_off(node, true);
    nodes.say(node, client, "421[\"join\",\"new\"]");
    nodes.pass(JOIN_WAIT_MS - 1);
    assert!(nodes.texts(node, client).is_empty());
    nodes.pass(1);
    assert_eq!(nodes.texts(node, client), ["431[]"]);
}

#[test]
fn too_much_that_waits_for_other_nodes_is_refused_and_local_members_are_served() {
    let (handler, mut nodes, clients) = world(2);
    nodes.cut_off(0, true);
    let reaches = |nodes: &mut Nodes| {
        nodes.say(0, clients[0].1, "42[\"to\",\"room\"]");
        let heard = handler.0.heard();
        assert_eq!(nodes.texts(0, clients[1].1), [NEWS]);
        heard == [Heard::Reached(Reach::Everyone)]
    };
    let sent = (0..1_000).take_while(|_| reaches(&mut nodes)).count();
    assert!((10..UPLINK_BYTES_MAX / 10).contains(&sent), "{sent}");
    nodes.say(0, clients[0].1, "42[\"collect\",\"room\"]");
    clients[..2]
        .iter()
        .for_each(|client| answer(&mut nodes, *client));
    let collected = handler.0.collected();
    assert_eq!((collected.acked, collected.complete), (2, false));
    nodes.cut_off(0, false);
    nodes.settle();
    assert_eq!(
        nodes.texts(1, clients[2].1).len(),
        sent,
        "all that was taken"
    );
    assert!(reaches(&mut nodes));
}

/// Lists for another node took all that may wait, and clients could not publish until they were gone.
#[test]
fn lists_for_another_node_kept_clients_from_publishing() {
    let (handler, mut nodes, clients) = world(2);
    for (node, client) in &clients[2..] {
        for n in 0..60 {
            let room = format!("{}{n}", "x".repeat(100));
            nodes.say(*node, *client, &format!("42[\"join\",\"{room}\"]"));
        }
    }
    nodes.mute(1, true);
    nodes.say(0, clients[0].1, "42[\"fetch\",\"room\"]");
    nodes.say(1, clients[2].1, "42[\"to\",\"room\"]");
    assert_eq!(handler.0.heard(), [Heard::Reached(Reach::Everyone)]);
    nodes.mute(1, false);
    nodes.settle();
    let [Heard::Found(found)] = &handler.0.heard()[..] else {
        panic!("one list")
    };
    assert!(!found.complete, "{found:?}");
    assert_eq!(nodes.texts(0, clients[0].1), [NEWS]);
    // Shorter ones leave whole.
    for (node, client) in &clients[2..] {
        for n in 10..60 {
            let room = format!("{}{n}", "x".repeat(100));
            nodes.say(*node, *client, &format!("42[\"leave\",\"{room}\"]"));
        }
    }
    nodes.say(0, clients[0].1, "42[\"fetch\",\"room\"]");
    let [Heard::Found(found)] = &handler.0.heard()[..] else {
        panic!("one list")
    };
    assert_eq!((found.sockets.len(), found.complete), (4, true));
}

/// Each node keeps what its members got, in the order in which they got it.
#[test]
fn an_event_that_a_room_keeps_is_kept_on_each_node() {
    let (_, mut nodes, clients) = world_of(2, news());
    nodes.say(0, clients[0].1, "42[\"tell\",\"room\"]");
    assert_eq!(texts(&mut nodes, &clients), [[NEWS]; 4]);
    for (node, at) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        let late = nodes.client(node, at);
        nodes.say(node, late, "42[\"join and hear\",\"room\"]");
        let told = nodes.texts(node, late);
        assert_eq!(
            told,
            ["42[\"history\",{\"room\":\"room\",\"messages\":[1]}]"]
        );
    }
}

/// On its way to another shard's home an event lost the nodes that were to be left out.
#[test]
fn nodes_that_are_left_out_are_left_out_of_a_kept_event_too() {
    for publisher in [0, 1] {
        let (_, mut nodes, clients) = world_of(3, news());
        let (node, client) = clients[publisher];
        nodes.say(node, client, "42[\"tell but the second\",\"room\"]");
        let (none, news): (&[&str], &[&str]) = (&[], &[NEWS]);
        let expected = [news, news, none, none, news, news];
        assert_eq!(texts(&mut nodes, &clients), expected);
    }
}

#[test]
fn servers_tell_each_other_once_and_not_themselves() {
    let (handler, mut nodes, clients) = world(3);
    handler.0.heard();
    let (node, client) = clients[0];
    nodes.say(node, client, "42[\"tell servers\"]");
    let told = || Heard::Server("/ news(1)".to_owned(), false);
    assert_eq!(handler.0.heard(), [told(), told()]);
    // Node's servers would take it for a connection.
    nodes.say(node, client, "42[\"take servers for connections\"]");
    assert_eq!(handler.0.heard(), []);
}

#[test]
fn a_server_that_asks_the_others_gets_an_answer_of_each() {
    let (handler, mut nodes, clients) = world(3);
    handler.0.heard();
    let (node, client) = clients[1];
    nodes.say(node, client, "42[\"ask servers\"]");
    let mut heard = handler.0.heard();
    let Some(Heard::Collected(collected)) = heard.pop() else {
        panic!("{heard:?}")
    };
    let asked = || Heard::Server("/ news(1)".to_owned(), true);
    assert_eq!(heard, [asked(), asked()]);
    assert_eq!((collected.acked, collected.complete), (2, true));
    assert!(
        collected
            .answers
            .iter()
            .all(|answer| answer.args == "\"here\"")
    );
    // One that dies owes its answer no longer.
    nodes.dies(2);
    nodes.say(node, client, "42[\"ask servers\"]");
    nodes.pass(1_500);
    let mut heard = handler.0.heard();
    let Some(Heard::Collected(collected)) = heard.pop() else {
        panic!("{heard:?}")
    };
    assert_eq!((collected.acked, collected.complete), (1, false));
}

#[test]
fn a_server_that_is_alone_asks_nobody_and_gets_a_whole_answer() {
    let (handler, mut nodes, clients) = world(1);
    handler.0.heard();
    let (node, client) = clients[0];
    nodes.say(node, client, "42[\"ask servers\"]");
    let collected = handler.0.collected();
    assert_eq!((collected.acked, collected.complete), (0, true));
    nodes.say(node, client, "42[\"count servers\"]");
    assert_eq!(handler.0.heard(), [Heard::Servers(1)]);
}

#[test]
fn what_is_for_the_clients_of_one_node_reaches_all_its_shards_and_no_other_node() {
    let (_, mut nodes, clients) = world(2);
    texts(&mut nodes, &clients);
    let (node, client) = clients[0];
    nodes.say(node, client, "42[\"all here\"]");
    let heard = texts(&mut nodes, &clients);
    assert_eq!(heard, [vec![NEWS], vec![NEWS], vec![], vec![]]);
}

#[test]
fn what_is_done_with_the_sockets_of_one_node_concerns_no_other() {
    let (handler, mut nodes, clients) = world(2);
    let (node, client) = clients[0];
    nodes.say(node, client, "42[\"fetch here\",\"room\"]");
    let [Heard::Found(found)] = &handler.0.heard()[..] else {
        panic!("one list")
    };
    assert_eq!((found.sockets.len(), found.complete), (2, true));
    nodes.say(node, client, "42[\"collect here\",\"room\"]");
    clients[..2]
        .iter()
        .for_each(|client| answer(&mut nodes, *client));
    let collected = handler.0.collected();
    assert_eq!((collected.acked, collected.complete), (2, true));
    nodes.say(node, client, "42[\"take along here\",\"room\"]");
    nodes.say(1, clients[3].1, "42[\"to\",\"annex\"]");
    let none: &[&str] = &[];
    assert_eq!(
        texts(&mut nodes, &clients),
        [&[NEWS], &[NEWS], none, none] as [&[&str]; 4]
    );
    nodes.say(node, client, "42[\"end here\",\"room\"]");
    assert_eq!(
        texts(&mut nodes, &clients),
        [&["41"], &["41"], none, none] as [&[&str]; 4]
    );
}

/// It was said in the middle of an order that concerned one node, and the asker on another waited for its whole time.
#[test]
fn sockets_that_one_node_ends_are_gone_for_those_that_asked_from_another() {
    let (handler, mut nodes, clients) = world(2);
    nodes.say(1, clients[2].1, "42[\"collect\",\"room\"]");
    clients[2..]
        .iter()
        .for_each(|client| answer(&mut nodes, *client));
    assert_eq!(handler.0.heard(), []);
    nodes.say(0, clients[0].1, "42[\"end here\",\"room\"]");
    let collected = handler.0.collected();
    assert_eq!((collected.acked, collected.gone), (2, 2));
}

/// Fills the way to other nodes, as far as its door lets something in.
pub(crate) fn fill(nodes: &mut Nodes, (node, client): (usize, Client)) {
    for _ in 0..1_000 {
        nodes.say(node, client, "42[\"to\",\"room\"]");
    }
}

/// Its publisher was told that other nodes would not get it, and it was sent to them all the same, however much waited already.
#[test]
fn an_event_that_is_kept_passed_a_closed_door() {
    let (handler, mut nodes, clients) = world_of(2, news());
    nodes.cut_off(0, true);
    fill(&mut nodes, clients[0]);
    handler.0.heard();
    let full = nodes.waiting(0);
    for room in ["room", "a", "b", "c"] {
        nodes.say(0, clients[1].1, &format!("42[\"join\",\"{room}\"]"));
        let before = nodes.texts(0, clients[1].1).len();
        let held = nodes.waiting(0);
        nodes.say(0, clients[0].1, &format!("42[\"tell\",\"{room}\"]"));
        assert_eq!(handler.0.heard(), [Heard::Reached(Reach::ThisNode)]);
        assert_eq!(nodes.waiting(0), held, "{full} {before}");
        assert_eq!(nodes.texts(0, clients[1].1), [NEWS], "members here get it");
    }
}
