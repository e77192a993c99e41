//! Long lists of sockets come in pages: what is said to clients does not wait for them, and each socket that was there all the time is listed
//! once.

mod histories;

use crate::rig::net::{Client, Net};
use crate::rig::nodes::Nodes;
use fastrand::Rng;
use hub::config::Config;
use hub::foreign::{Deed, ELSEWHERE, Overheard, What, overhear};
use hub::{
    ConnectRequest, Context, Decision, Emit, Event, Fetched, Found, Handler, Piece, Response,
    SocketKey,
};
use seeds::Script;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What the handlers of all shards heard.
#[derive(Default)]
struct Notes {
    /// Sockets in the order in which they came.
    came: Vec<String>,
    lists: Vec<(u64, Found)>,
}

/// Puts each socket into a room, with so much data.
#[derive(Clone, Default)]
struct Lister {
    notes: Arc<Mutex<Notes>>,
    data_bytes: usize,
}

impl Lister {
    fn with_data(data_bytes: usize) -> Self {
        let notes = Arc::default();
        Self { notes, data_bytes }
    }

    fn lists(&self) -> Vec<(u64, Found)> {
        std::mem::take(&mut self.notes.lock().expect("nobody panicked").lists)
    }

    /// The only list since the last call.
    fn list(&self) -> Option<Found> {
        let mut lists = self.lists();
        assert!(lists.len() <= 1, "{} lists", lists.len());
        lists.pop().map(|(_, found)| found)
    }

    fn last_came(&self) -> String {
        let notes = self.notes.lock().expect("nobody panicked");
        notes.came.last().expect("somebody came").clone()
    }
}

const TIMEOUT_MS: u64 = 5_000;

impl Handler for Lister {
    fn connecting(&mut self, _: &mut Context<'_>, _: &ConnectRequest<'_>) -> Decision {
        Decision::Admit
    }

    fn connected(&mut self, cx: &mut Context<'_>, socket: SocketKey, _: &str) {
        let mut socket = cx.socket(socket);
        socket.join("room").expect("a good name");
        if self.data_bytes > 0 {
            socket.set_data(&format!("\"{}\"", "x".repeat(self.data_bytes)));
        }
        let id = socket.id().expect("it is here").to_string();
        self.notes.lock().expect("nobody panicked").came.push(id);
    }

    fn event(&mut self, cx: &mut Context<'_>, socket: SocketKey, event: Event<'_>) {
        match event.name {
            "fetch" => {
                let token = event.args.parse().expect("a number");
                let timeout = Duration::from_millis(TIMEOUT_MS);
                cx.of("/").to(&["room"]).fetch(timeout, token);
            }
            "leave" => cx.socket(socket).leave("room"),
            "join" => cx.socket(socket).join("room").expect("a good name"),
            _ => cx.socket(socket).emit(&Emit::new("echo", event.args)),
        }
    }

    fn found(&mut self, _: &mut Context<'_>, token: u64, found: Found) {
        self.notes
            .lock()
            .expect("nobody panicked")
            .lists
            .push((token, found));
    }
}

fn ids(found: &Found) -> BTreeSet<&str> {
    let ids: BTreeSet<&str> = found
        .sockets
        .iter()
        .map(|socket| socket.id.as_str())
        .collect();
    assert_eq!(ids.len(), found.sockets.len(), "a socket is listed twice");
    ids
}

/// Of all shards of a node.
fn kept(net: &Net) -> u64 {
    let cells = net.cells.iter().flat_map(|cells| &cells.kept);
    cells.map(|bytes| bytes.load(Ordering::Relaxed)).sum()
}

fn nodes(lister: &Lister, count: u16, bytes_max: usize) -> Nodes {
    let build = || Box::new(lister.clone()) as Box<dyn Handler>;
    let mut nodes = Nodes::with_room(bytes_max, count, &Config::default(), build);
    (0..usize::from(count)).for_each(|node| nodes.net(node).checks = false);
    nodes
}

/// So many clients come to a shard of a node.
fn crowd(nodes: &mut Nodes, (node, at): (usize, usize), count: usize) {
    for _ in 0..count {
        nodes.net(node).client(at);
    }
}

/// Pages of so many sockets, and of so many bytes.
const PAGE: usize = 256;
const PAGE_BYTES: usize = 64 << 10;
/// A few sockets with so much are a page.
const DATA_BYTES: usize = 20 << 10;
/// Sockets that a turn describes of lists, beside the first page of a question.
const SHARE: usize = 1_024;

/// A list was described in one turn, however long.
#[test]
fn nobody_was_served_before_a_list_was_whole() {
    const SOCKETS: usize = 5_000;
    let lister = Lister::default();
    let mut net = Net::new(1, &Config::default(), |_| Box::new(lister.clone()));
    net.checks = false;
    let clients: Vec<Client> = (0..SOCKETS).map(|_| net.client(0)).collect();
    net.say(clients[0], "42[\"fetch\",7]");
    let mut turns = 0;
    while lister.list().is_none_or(|found| {
        assert_eq!((found.sockets.len(), found.complete), (SOCKETS, true));
        assert_eq!(ids(&found).len(), SOCKETS);
        false
    }) {
        turns += 1;
        assert!(
            net.hub(0)
                .next_deadline()
                .is_some_and(|due_ms| due_ms <= 1_000),
            "it goes on at once"
        );
        net.say(clients[1], &format!("42[\"say\",{turns}]"));
        assert_eq!(net.texts(clients[1]), [format!("42[\"echo\",{turns}]")]);
        assert!(turns < 50, "it comes to an end");
    }
    assert_eq!(
        turns,
        (SOCKETS - PAGE).div_ceil(SHARE) - 1,
        "the first turn made its share, too"
    );
    net.resume(0);
    assert_eq!(kept(&net), 0);
}

/// Lists of one shard are made one after the other: each is kept half made for a short time only.
#[test]
fn many_lists_at_once_take_bounded_memory_and_are_whole() {
    let lister = Lister::default();
    let mut net = Net::new(1, &Config::default(), |_| Box::new(lister.clone()));
    net.checks = false;
    let clients: Vec<Client> = (0..2_000).map(|_| net.client(0)).collect();
    let asks = (0..60).map(|n| format!("42[\"fetch\",{n}]"));
    net.say_all(clients[0], asks);
    let (mut lists, mut most) = (lister.lists(), 0);
    for _ in 0..200 {
        net.resume(0);
        most = most.max(kept(&net));
        lists.extend(lister.lists());
    }
    assert!(
        lists
            .iter()
            .all(|(_, found)| found.complete && ids(found).len() == 2_000)
    );
    assert_eq!(
        lists
            .iter()
            .map(|(token, _)| *token)
            .collect::<BTreeSet<_>>()
            .len(),
        60
    );
    assert!(most < 6 << 20, "{most} bytes");
    assert_eq!(kept(&net), 0);
}

/// Lists of a shard that was alone were made however many answers were waited for.
#[test]
fn lists_of_a_lone_shard_were_not_counted() {
    const ASKED: usize = 30;
    let lister = Lister::default();
    let mut config = Config::default();
    config.limits.acks_outstanding_max = 10;
    let mut net = Net::new(1, &config, |_| Box::new(lister.clone()));
    net.checks = false;
    let clients: Vec<Client> = (0..2_000).map(|_| net.client(0)).collect();
    let asks = (0..ASKED).map(|n| format!("42[\"fetch\",{n}]"));
    net.say_all(clients[0], asks);
    (0..100).for_each(|_| net.resume(0));
    let lists = lister.lists();
    assert_eq!(lists.len(), ASKED);
    let (whole, begun): (Vec<_>, Vec<_>) = lists.iter().partition(|(_, found)| found.complete);
    assert!(
        !whole.is_empty() && !begun.is_empty(),
        "{} are whole",
        whole.len()
    );
    assert!(whole.iter().all(|(_, found)| found.sockets.len() == 2_000));
    // A turn makes the first pages of some lists only.
    let lengths: Vec<usize> = begun.iter().map(|(_, found)| found.sockets.len()).collect();
    assert!(lengths.contains(&0), "{lengths:?}");
    assert!(lengths.iter().all(|length| [0, PAGE].contains(length)));
    assert_eq!(kept(&net), 0);
}

/// The rest of a list for which its asker had no room was kept until the deadline.
#[test]
fn what_an_asker_has_no_room_for_is_not_kept() {
    const SOCKETS: usize = 1_200;
    let lister = Lister::with_data(DATA_BYTES);
    let mut nodes = nodes(&lister, 2, 32 << 20);
    let asker = nodes.client(0, 0);
    crowd(&mut nodes, (1, 0), SOCKETS);
    nodes.settle();
    nodes.say(0, asker, "42[\"fetch\",1]");
    let found = lister.list().expect("a list of what found room");
    assert!(!found.complete && found.sockets.len() < SOCKETS);
    nodes.settle();
    assert_eq!(kept(nodes.net(1)), 0);
}

/// All that the shards of a node had to say left at once, before what clients published then.
#[test]
fn pages_leave_one_by_one_when_they_are_asked_for() {
    const SOCKETS: usize = 3_000;
    let lister = Lister::default();
    let mut nodes = nodes(&lister, 2, 32 << 20);
    let asker = nodes.client(0, 0);
    crowd(&mut nodes, (1, 0), SOCKETS);
    nodes.settle();
    nodes.net(0).say(asker, "42[\"fetch\",1]");
    nodes.carry_from(0);
    let mut pages = 0;
    while nodes.waiting(1) > 0 {
        pages += 1;
        assert!(
            nodes.waiting(1) <= PAGE_BYTES + 1_024,
            "{}",
            nodes.waiting(1)
        );
        nodes.resume(1);
        nodes.resume(1);
        assert!(
            nodes.waiting(1) <= PAGE_BYTES + 1_024,
            "no page that nobody asked for"
        );
        nodes.carry_from(1);
        nodes.net(0).settle();
        nodes.carry_from(0);
    }
    let found = lister.list().expect("a list");
    assert_eq!((found.sockets.len(), found.complete), (SOCKETS + 1, true));
    assert!(pages >= SOCKETS / PAGE, "{pages}");
    for node in 0..2 {
        nodes.resume(node);
        assert_eq!(kept(nodes.net(node)), 0);
    }
}

/// A page waits while much waits for other nodes; a list came without its content.
#[test]
fn a_page_waits_for_room_on_its_way() {
    let lister = Lister::default();
    let mut nodes = nodes(&lister, 2, 1 << 20);
    let asker = nodes.client(0, 0);
    crowd(&mut nodes, (1, 0), 1_000);
    nodes.settle();
    nodes.engine_holds(1, 600 << 10);
    nodes.say(0, asker, "42[\"fetch\",1]");
    for _ in 0..20 {
        nodes.pass(5);
        assert!(lister.list().is_none());
    }
    nodes.engine_holds(1, 0);
    nodes.pass(5);
    let found = lister.list().expect("a list");
    assert_eq!((found.sockets.len(), found.complete), (1_001, true));
    nodes.engine_holds(1, 600 << 10);
    nodes.say(0, asker, "42[\"fetch\",2]");
    nodes.pass(TIMEOUT_MS);
    let found = lister.list().expect("it is not waited for without end");
    assert_eq!((found.sockets.len(), found.complete), (1, false));
    nodes.resume(1);
    assert_eq!(kept(nodes.net(1)), 0, "what nobody waits for is not kept");
}

/// The asker, or one that has more to say, is gone.
#[test]
fn a_list_ends_with_its_node() {
    let lister = Lister::default();
    let mut nodes = nodes(&lister, 2, 32 << 20);
    let asker = nodes.client(0, 0);
    crowd(&mut nodes, (1, 0), 1_000);
    nodes.settle();
    let begin = |nodes: &mut Nodes| {
        nodes.net(0).say(asker, "42[\"fetch\",1]");
        nodes.carry_from(0);
        nodes.carry_from(1);
        assert!(lister.list().is_none());
    };
    begin(&mut nodes);
    nodes.dies(1);
    let found = lister.list().expect("nobody waits for a node that is gone");
    assert_eq!((found.sockets.len(), found.complete), (1 + PAGE, false));
    assert_eq!(kept(nodes.net(0)), 0);
    nodes.comes_back(1);
    nodes.pass(2 * TIMEOUT_MS);
    begin(&mut nodes);
    assert!(kept(nodes.net(1)) > 0);
    nodes.dies(0);
    nodes.resume(1);
    assert_eq!(kept(nodes.net(1)), 0, "a list whose asker is gone");
}

/// A question of a node before pages: its shard has a small number, which is one byte.
fn without_pages(letter: &[u8]) -> Vec<u8> {
    const FETCH: u8 = 7;
    let mut letter = letter.to_vec();
    if letter[0] == FETCH {
        let flagged = |bytes: &[u8]| bytes[0] & 0x7f < 2 && bytes[1..] == [0x80, 0x02];
        let at = letter
            .windows(3)
            .position(flagged)
            .expect("a shard that asks for pages");
        let shard = letter[at] & 0x7f;
        letter.splice(at..at + 3, [shard]);
    }
    letter
}

/// It takes an answer for all that a shard has to say.
#[test]
fn a_node_before_pages_gets_a_long_list_in_one_piece() {
    const SOCKETS: usize = 3_000;
    let lister = Lister::default();
    let mut nodes = nodes(&lister, 2, 32 << 20);
    let asker = nodes.client(0, 1);
    crowd(&mut nodes, (1, 0), SOCKETS);
    nodes.settle();
    nodes.reads_as(1, without_pages);
    nodes.net(0).say(asker, "42[\"fetch\",1]");
    nodes.carry_from(0);
    let mut turns = 0;
    while nodes.waiting(1) == 0 {
        turns += 1;
        assert!(turns < 10, "it is made");
        nodes.resume(1);
    }
    assert_eq!(
        turns,
        (SOCKETS - PAGE).div_ceil(SHARE) - 1,
        "but in no turn more than a share"
    );
    nodes.carry_from(1);
    let found = lister.list().expect("one answer was enough");
    assert_eq!((found.sockets.len(), found.complete), (SOCKETS + 1, true));
    assert_eq!(ids(&found).len(), SOCKETS + 1);
}

/// A server of another kind gets pages without asking, and puts a list together by itself.
#[test]
fn a_server_of_another_kind_hears_a_list_in_pages() {
    const SOCKETS: usize = 1_000;
    let lister = Lister::default();
    let mut nodes = nodes(&lister, 1, 32 << 20);
    crowd(&mut nodes, (0, 1), SOCKETS);
    let deed = Deed {
        namespace: "/".to_owned(),
        rooms: vec!["room".to_owned()],
        users: Vec::new(),
        except: Vec::new(),
        what: What::Fetch {
            round: 5,
            timeout_ms: TIMEOUT_MS,
        },
    };
    let read = nodes.inbox(0).deed(deed);
    let shards: Vec<u16> = read.shards().collect();
    shards
        .iter()
        .for_each(|shard| nodes.net(0).deliver(*shard, &read.letter));
    let (mut listed, mut pages, mut ends) = (BTreeSet::new(), 0, 0);
    for _ in 0..10 {
        for parcel in nodes.net(0).parcels() {
            for piece in parcel.pieces() {
                let Piece::Letter { nodes, bytes, .. } = piece else {
                    continue;
                };
                assert_eq!(nodes, [u64::from(ELSEWHERE)]);
                let Ok(Overheard::Response {
                    round: 5,
                    parts: 1,
                    response,
                }) = overhear(bytes)
                else {
                    panic!("an answer")
                };
                let sockets = match response {
                    Response::Page(page) => {
                        pages += 1;
                        page.sockets
                    }
                    Response::Sockets(end) => {
                        ends += 1;
                        assert!(end.complete);
                        end.sockets
                    }
                    other => panic!("{other:?}"),
                };
                assert!(sockets.len() <= PAGE);
                listed.extend(sockets.into_iter().map(|socket| socket.id));
            }
        }
        nodes.resume(0);
    }
    assert_eq!((listed.len(), pages, ends), (SOCKETS, SOCKETS / PAGE, 1));
}

/// A list of such a server with 50,000 sockets was copied in one turn.
#[test]
fn a_list_of_a_server_of_another_kind_is_taken_in_by_pages() {
    let lister = Lister::default();
    let mut nodes = nodes(&lister, 1, 32 << 20);
    let asker = nodes.client(0, 0);
    nodes.net(0).say(asker, "42[\"fetch\",1]");
    let parcels = nodes.net(0).parcels();
    let rounds = parcels.iter().flat_map(|parcel| parcel.pieces());
    let rounds = rounds.filter_map(|piece| match piece {
        Piece::Letter { round, .. } => round,
        _ => None,
    });
    let round = rounds.last().expect("a question");
    let socket = |n: usize| Fetched {
        id: format!("s{n}"),
        rooms: vec!["room".to_owned()],
        data: "{}".to_owned(),
    };
    let sockets = (0..10_000).map(socket).collect();
    let complete = true;
    let found = Response::Sockets(Found { sockets, complete });
    let posted = hub::Letter::from(hub::Tidings::Posted {
        round,
        nodes: vec![ELSEWHERE],
    });
    nodes.net(0).deliver(0, &posted);
    let reads = nodes.inbox(0).response(0, round, 1, found);
    assert_eq!(reads.len(), 10_000usize.div_ceil(PAGE));
    for read in &reads {
        assert!(lister.list().is_none(), "not before the last");
        assert!(read.letter.bytes() < 2 * PAGE_BYTES);
        nodes.net(0).deliver(0, &read.letter);
    }
    assert_eq!(nodes.net(0).parcels().len(), 0, "no page is asked for");
    let found = lister.list().expect("a list");
    assert_eq!((ids(&found).len(), found.complete), (10_001, true));
}
