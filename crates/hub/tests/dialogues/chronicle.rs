//! Sockets of level `cluster`, as the store sees them: what is stored when, what clients hear before it, and what a pong proves.

mod histories;

use crate::rig::net::{Client, Net};
use hub::config::{Config, Offsets, Recover, Recovery, SlowConsumer, SlowEvents};
use hub::{
    Adoption, Author, Chronicle, ChronicleMail, ChronicleQuestion, ChronicleWord, ConnectRequest,
    Context, Decision, Emit, Event, Handler, Process, Reach, Saving, SocketKey, Stored, Uplink,
};
use std::sync::Arc;
use std::time::Duration;

const WINDOW: Duration = Duration::from_secs(60);
const NUMBER: u64 = 7 << 20;

struct Hall;

impl Handler for Hall {
    fn connecting(&mut self, _: &mut Context<'_>, _: &ConnectRequest<'_>) -> Decision {
        Decision::Admit
    }

    fn event(&mut self, cx: &mut Context<'_>, socket: SocketKey, event: Event<'_>) {
        let said = Emit {
            author: Author::Client(socket),
            ..Emit::new("said", event.args)
        };
        match event.name {
            "say" => assert_eq!(cx.of("/").emit(&said), Reach::Everyone),
            "local" => {
                assert_eq!(cx.of("/").local().emit(&said), Reach::Nobody);
                assert_eq!(cx.of("/").local().join(&["there"]), Reach::Everyone);
            }
            "join" => assert_eq!(cx.of("/").join(&["there"]), Reach::Everyone),
            _ => cx.socket(socket).emit(&Emit::new("error", event.args)),
        }
        if let Some(ack) = event.ack {
            cx.ack(ack, "1", &[]);
        }
    }
}

struct Store {
    net: Net,
    chronicle: Arc<Chronicle>,
    mail: ChronicleMail,
}

impl Store {
    fn new() -> Self {
        let recover = Recover {
            window: WINDOW,
            offsets: Offsets::All,
            goes_abroad: false,
            chronicle: true,
            replicas: 0,
        };
        let names = ["/".to_owned(), "/b".to_owned()];
        let named = names.clone().map(|name| (name, Some(recover)));
        let slow = SlowEvents {
            policy: SlowConsumer::DropOldest,
            key: None,
        };
        let config = Config {
            recovery: Recovery {
                namespaces: named.into(),
            },
            slow_consumers: [("/".to_owned(), slow)].into(),
            ..Config::default()
        };
        let chronicle = Arc::new(Chronicle::new(names.clone(), 1 << 20));
        names.iter().for_each(|name| chronicle.is_away(name, false));
        let mut process = Process::new(&config.rates);
        process.uplink = Some(Arc::new(Uplink::new(1 << 20, Duration::ZERO)));
        process.outlets.chronicle = Some(Arc::clone(&chronicle));
        Self {
            net: Net::in_cluster(1, &config, 1, &process, |_| Box::new(Hall)),
            mail: ChronicleMail::new(&process, 1),
            chronicle,
        }
    }

    fn words(&self) -> Vec<ChronicleWord> {
        let all = self.chronicle.namespaces();
        let words = all.flat_map(|name| std::iter::from_fn(|| self.chronicle.next(name)));
        words.collect()
    }

    fn savings(&self) -> Vec<Saving> {
        let words = self.words().into_iter();
        let savings = words.filter_map(|word| match word {
            ChronicleWord::Saving(saving) => Some(saving),
            _ => None,
        });
        savings.collect()
    }

    /// The store has what one of these waits for.
    fn stored(&mut self, saving: &Saving) {
        let mail = &self.mail;
        let read = mail.saved(saving.shard, &saving.namespace, saving.ticket);
        self.net.deliver(0, &read.letter);
        self.net.pass(1);
    }

    fn all_stored(&mut self) {
        for saving in self.savings() {
            self.stored(&saving);
        }
    }

    fn passed(&mut self, number: u64) {
        let read = self.mail.passed("/", number);
        self.net.deliver(0, &read.letter);
        self.net.settle();
    }

    /// Redis failed over.
    fn loses(&mut self, era: u64) {
        let read = self.mail.lost("/", NUMBER, era);
        self.net.deliver(0, &read.letter);
        self.net.settle();
    }

    fn connects(&mut self, auth: &str) -> (Client, String) {
        let client = self.net.websocket(0, "");
        self.net.say(client, &format!("40{auth}"));
        self.all_stored();
        let texts = self.net.texts(client);
        let welcome = texts.iter().find(|text| text.starts_with("40"));
        let (_, rest) = welcome
            .and_then(|text| text.split_once("\"pid\":\""))
            .expect("a pid");
        let pid = rest.split('"').next().unwrap_or_default().to_owned();
        (client, pid)
    }

    /// A ping leaves.
    fn pings(&mut self, client: Client) {
        self.net
            .pass(Config::default().ping_interval.as_millis() as u64 + 10);
        let texts = self.net.texts(client);
        assert!(texts.contains(&"2".to_owned()), "{texts:?}");
    }

    /// The numbers up to which clients have all.
    fn arrived(&self) -> Vec<u64> {
        let words = self.words().into_iter();
        let arrived = words.filter_map(|word| match word {
            ChronicleWord::Arrived { number, .. } => Some(number),
            _ => None,
        });
        arrived.collect()
    }
}

/// All sockets of a turn waited for the ticket of the last, so the first that was stored released them all.
#[test]
fn a_client_was_told_when_another_socket_was_stored() {
    let mut store = Store::new();
    let client = store.net.websocket(0, "");
    let both = ["40".to_owned(), "40/b,".to_owned()];
    store.net.say_all(client, both.into_iter());
    let savings = store.savings();
    assert_eq!(savings.len(), 2);
    assert!(savings[0].ticket < savings[1].ticket, "{savings:?}");
    store.stored(&savings[0]);
    let welcomed = |texts: Vec<String>| texts.iter().filter(|text| text.starts_with("40")).count();
    assert_eq!(welcomed(store.net.texts(client)), 0);
    store.stored(&savings[1]);
    assert_eq!(welcomed(store.net.texts(client)), 2);
}

/// A socket that comes and goes in one turn is not stored: what else its client waits for must not wait with it.
#[test]
fn a_socket_that_is_gone_at_the_end_of_its_turn_holds_nobody_up() {
    let mut store = Store::new();
    let client = store.net.websocket(0, "");
    let all = ["40", "40/b,", "41/b,"].map(str::to_owned);
    store.net.say_all(client, all.into_iter());
    let savings = store.savings();
    assert_eq!(savings.len(), 1, "{savings:?}");
    store.stored(&savings[0]);
    let texts = store.net.texts(client);
    assert!(
        texts.iter().any(|text| text.starts_with("40{")),
        "{texts:?}"
    );
}

/// The ping of a session comes before it is in the namespace; its pong confirmed what was sent in between.
#[test]
fn a_pong_confirmed_a_replay_that_came_after_its_ping() {
    let mut store = Store::new();
    let client = store.net.websocket(0, "");
    store.passed(NUMBER);
    store.pings(client);
    store.net.say(client, "40");
    store.all_stored();
    store.net.say(client, "3");
    assert_eq!(store.arrived(), [0; 0]);
    store.pings(client);
    store.net.say(client, "3");
    assert_eq!(store.arrived(), [NUMBER]);
}

/// Where nothing was said there were no marks: no pong was told of, and records ended while their clients were there.
#[test]
fn idle_clients_of_a_silent_namespace_were_forgotten() {
    let mut store = Store::new();
    let (client, _) = store.connects("");
    store.pings(client);
    store.net.say(client, "3");
    assert_eq!(store.arrived(), [0]);
}

/// The store takes nothing for longer than it keeps records.
#[test]
fn a_socket_of_which_nothing_was_told_for_long_is_stored_anew() {
    let mut store = Store::new();
    let (client, _) = store.connects("");
    store.passed(NUMBER);
    store.chronicle.is_away("/", true);
    for _ in 0..6 {
        store.pings(client);
        store.net.say(client, "3");
        assert_eq!(store.words().len(), 0);
    }
    store.chronicle.is_away("/", false);
    store.pings(client);
    store.net.say(client, "3");
    assert_eq!(store.savings().len(), 1);
    store.pings(client);
    store.net.say(client, "3");
    assert_eq!(store.arrived(), [NUMBER]);
}

/// The offset of the first word of a replay lacked the number when it was the gateway's own.
#[test]
fn a_replay_that_begins_with_a_notice_says_where_its_client_is() {
    let mut store = Store::new();
    let (client, pid) = store.connects("");
    store.passed(NUMBER);
    store.net.say(client, "42[\"fails\",\"why\"]");
    let live = store.net.texts(client);
    store.net.break_off(client);
    let back = store.net.websocket(0, "");
    store.net.say(back, &format!("40{{\"pid\":\"{pid}\"}}"));
    store.all_stored();
    let texts = store.net.texts(back);
    let notice = |texts: &[String]| {
        let mut texts = texts.iter();
        texts.find(|text| text.starts_with("42[\"error\"")).cloned()
    };
    let offset = notice(&live).expect("a notice");
    assert!(offset.len() > 40, "{offset}");
    assert_eq!(notice(&texts), Some(offset), "{texts:?}");
}

/// What stands in the stream goes to all nodes, and to sockets of dead ones.
#[test]
fn what_is_for_one_node_went_to_all() {
    let mut store = Store::new();
    let (client, _) = store.connects("");
    store.net.say(client, "42[\"local\",1]");
    let is_said = |word: &ChronicleWord| matches!(word, ChronicleWord::Said { .. });
    assert!(!store.words().iter().any(is_said));
    store.net.say(client, "42[\"join\",1]");
    assert!(store.words().iter().any(is_said));
}

/// The ack of an event left while the event waited for the store, and a node that died then took it along.
#[test]
fn an_ack_left_before_its_event_was_stored() {
    let mut store = Store::new();
    let (client, _) = store.connects("");
    store.net.say(client, "421[\"say\",1]");
    let words = store.words();
    let [ChronicleWord::Said { .. }, ChronicleWord::Saving(saving)] = &words[..] else {
        panic!("{words:?}");
    };
    assert_eq!(store.net.texts(client), [""; 0]);
    store.stored(saving);
    assert_eq!(store.net.texts(client), ["431[1]"]);
    store.net.say(client, "422[\"fails\",1]");
    let texts = store.net.texts(client);
    assert_eq!(
        texts.last().map(|text| &**text),
        Some("432[1]"),
        "it said nothing"
    );
}

/// A request of a client that polls; what it is answered.
fn polls(store: &mut Store, line: &str, body: &str) -> String {
    let (line, query) = (line, "/socket.io/?EIO=4&transport=polling");
    let (method, sid) = line.split_once(' ').expect("a method");
    let len = body.len();
    let head =
        format!("{method} {query}{sid} HTTP/1.1\r\nHost: x\r\nContent-Length: {len}\r\n\r\n");
    let conn = store.net.request(0, &format!("{head}{body}"));
    String::from_utf8(store.net.raw(conn)).expect("text")
}

/// Says something long, which comes back from the stream. What else is stored meanwhile.
fn says_long(store: &mut Store, speaker: Client, number: u64) -> Vec<Saving> {
    let text = "x".repeat(100_000);
    store.net.say(speaker, &format!("42[\"say\",\"{text}\"]"));
    let mut savings = Vec::new();
    for word in store.words() {
        match word {
            ChronicleWord::Said { letter, .. } => {
                let read = store.mail.said("/", number, &letter).expect("an event");
                store.net.deliver(0, &read.letter);
                store.net.settle();
            }
            ChronicleWord::Saving(saving) => savings.push(saving),
            _ => {}
        }
    }
    store.net.texts(speaker);
    savings
}

/// A node that was killed took the notice of a gap along: its client came back from the store as if it had all.
#[test]
fn who_may_not_know_what_it_lost_came_back_from_the_store() {
    let mut store = Store::new();
    let opened = polls(&mut store, "GET ", "");
    let (_, rest) = opened.split_once("\"sid\":\"").expect("an open packet");
    let sid = format!("&sid={}", &rest[..20]);
    polls(&mut store, &format!("POST {sid}"), "40");
    store.all_stored();
    let (speaker, _) = store.connects("");
    let mut savings: Vec<Saving> = (0..30)
        .flat_map(|n| says_long(&mut store, speaker, NUMBER + n))
        .collect();
    store.net.pass(10);
    savings.extend(store.savings());
    let [saving] = &savings[..] else {
        panic!("{} times", savings.len());
    };
    let comes_back = |saving: &Saving| {
        let stored = Stored {
            namespace: "/",
            pid: &saving.pid,
            uid: None,
            body: &saving.body,
            fence: saving.fence,
            confirmed: 0,
            written: 0,
        };
        let adoption = Adoption::new(stored, Some(NUMBER + 29), 1 << 20);
        !adoption.expect("a socket").is_over()
    };
    assert!(!comes_back(saving));
    // It takes all that waits, with two notices, and answers a ping.
    for _ in 0..3 {
        store
            .net
            .pass(Config::default().ping_interval.as_millis() as u64 + 10);
        polls(&mut store, &format!("GET {sid}"), "");
        polls(&mut store, &format!("POST {sid}"), "3");
    }
    store.net.pass(10);
    let last = store.savings().pop().expect("stored anew");
    assert!(last.pid == saving.pid && comes_back(&last));
}

/// A namespace whose Redis was away ended the sockets of all others that joined something meanwhile.
#[test]
fn what_one_namespace_waits_for_another_did_not_get() {
    let mut store = Store::new();
    let (other, own) = (store.net.websocket(0, ""), store.net.websocket(0, ""));
    store.net.say(other, "40/b,");
    store.net.say(own, "40");
    let savings = store.savings();
    let [first, second] = &savings[..] else {
        panic!("{savings:?}");
    };
    assert_eq!((&*first.namespace, &*second.namespace), ("/", "/b"));
    store.stored(first);
    assert!(store.net.texts(own)[0].starts_with("40"));
    store.net.pass(5_001);
    assert!(!store.net.has_ended(own), "it has all that it waits for");
    assert!(store.net.has_ended(other), "its session ends");
}

/// It said what it had kept for that moment, and was cut: all of it was lost.
#[test]
fn a_client_whose_socket_was_not_stored_was_told_that_it_is_in() {
    let mut store = Store::new();
    let client = store.net.websocket(0, "");
    store.net.say(client, "40");
    store.net.pass(5_001);
    assert!(store.net.has_ended(client));
    assert_eq!(store.net.texts_before_end(client), [""; 0]);
    let opened = polls(&mut store, "GET ", "");
    let (_, rest) = opened.split_once("\"sid\":\"").expect("an open packet");
    let sid = format!("&sid={}", &rest[..20]);
    polls(&mut store, &format!("POST {sid}"), "40");
    let query = "/socket.io/?EIO=4&transport=polling";
    let poll = format!("GET {query}{sid} HTTP/1.1\r\nHost: x\r\n\r\n");
    let poll = store.net.request(0, &poll);
    store.net.pass(5_001);
    let told = String::from_utf8(store.net.raw(poll)).expect("text");
    assert!(
        told.starts_with("HTTP/1.1 200"),
        "it hears of the end: {told}"
    );
    assert!(!told.contains("\"pid\""), "{told}");
}

/// An ack left unstored behind another socket that had waited for too long.
#[test]
fn an_ack_left_with_the_late_one() {
    let mut store = Store::new();
    let [(late, _), (mine, _)] = [(); 2].map(|()| store.connects(""));
    store.net.say(late, "421[\"say\",1]");
    store.net.pass(4_000);
    store.net.say(mine, "422[\"say\",1]");
    store.net.pass(1_001);
    assert!(store.net.has_ended(late));
    assert_eq!(store.net.texts(mine), [""; 0], "it waits for its own");
    store.all_stored();
    assert_eq!(store.net.texts(mine), ["432[1]"]);
}

/// After a failover a node stored all its sockets in one turn: what found no room ended.
#[test]
fn many_sockets_are_stored_anew_in_shares() {
    const SOCKETS: usize = 1_000;
    let mut store = Store::new();
    store.net.checks = false;
    let clients: Vec<Client> = (0..SOCKETS).map(|_| store.connects("").0).collect();
    store.loses(1);
    let first = store.savings();
    assert!((1..SOCKETS).contains(&first.len()), "{}", first.len());
    assert!(first.iter().all(|saving| saving.era == 1));
    let mut stored = first.len();
    for _ in 0..100 {
        store.net.pass(10);
        stored += store.savings().len();
    }
    assert_eq!(stored, SOCKETS, "each once");
    assert!(clients.iter().all(|client| !store.net.has_ended(*client)));
}

/// While the store takes nothing, sockets that are to be stored anew wait for it: they were ended.
#[test]
fn sockets_that_are_stored_anew_leave_room_for_others() {
    let mut store = Store::new();
    store.net.checks = false;
    let clients: Vec<Client> = (0..600).map(|_| store.connects("").0).collect();
    for era in 1..=20 {
        store.loses(era);
        (0..20).for_each(|_| store.net.pass(10));
    }
    assert!(clients.iter().all(|client| !store.net.has_ended(*client)));
    assert_eq!(store.chronicle.dropped(), 0);
}

/// Clients that cannot come back heard nothing of what was lost before they got it.
#[test]
fn all_of_a_namespace_know_that_something_is_missing() {
    let mut store = Store::new();
    let (able, _) = store.connects("");
    store.chronicle.is_away("/", true);
    let unable = store.net.websocket(0, "");
    store.net.say(unable, "40");
    let elsewhere = store.net.websocket(0, "");
    store.chronicle.is_away("/b", true);
    store.net.say(elsewhere, "40/b,");
    let read = store.mail.missed("/", NUMBER);
    store.net.deliver(0, &read.letter);
    store.net.settle();
    let open = [able, unable, elsewhere].map(|client| !store.net.has_ended(client));
    assert_eq!(open, [false, false, true]);
}

/// The first node still had the socket when its client came back from another, and told again what the client had got there. One that has
/// more than the node would get that once more, too: its socket comes from the store.
#[test]
fn a_client_that_had_been_elsewhere_got_again_what_it_had() {
    for is_ahead in [false, true] {
        let mut store = Store::new();
        let (client, pid) = store.connects("");
        let (speaker, _) = store.connects("");
        store.net.break_off(client);
        store.net.say(speaker, "42[\"say\",7]");
        let said = store.words().into_iter().find_map(|word| match word {
            ChronicleWord::Said { letter, .. } => Some(letter),
            _ => None,
        });
        let read = store.mail.said("/", NUMBER, &said.expect("it was said"));
        store.net.deliver(0, &read.expect("an event").letter);
        let texts = store.net.texts(speaker);
        let offset = texts[0].rsplit('"').nth(1).expect("an offset");
        // The journal is another's. The number is the same, or the next.
        let more = if is_ahead { "B" } else { "A" };
        assert!(offset.ends_with('A'), "{offset}");
        let offset = format!("AAAAAAAA{}{more}", &offset[8..27]);
        let back = store.net.websocket(0, "");
        store.net.say(
            back,
            &format!("40{{\"pid\":\"{pid}\",\"offset\":\"{offset}\"}}"),
        );
        let words = store.words();
        let question = store.chronicle.next_question();
        let claims = matches!(question, Some(ChronicleQuestion::Claiming(_)));
        assert_eq!(claims, is_ahead, "{question:?}");
        for word in words {
            if let ChronicleWord::Saving(saving) = word {
                store.stored(&saving);
            }
        }
        let texts = store.net.texts(back);
        let is_told = |text: &String| text.starts_with("42[\"said\"");
        assert!(!texts.iter().any(is_told), "{texts:?}");
        assert_eq!(texts.iter().any(|text| text.contains(&pid)), !is_ahead);
    }
}
