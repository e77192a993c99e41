//! Another process goes on with what a shard keeps for those who come: events of rooms, the journal, and sockets without a connection. Its clock
//! begins anew.

use crate::publication::rules;
use crate::rig::net::{Client, Net};
use crate::rig::{handler, masked};
use handoff::Keepsakes;
use hub::config::{Config, Offsets, Recover, Recovery};
use hub::{
    ConnectRequest, Context, Decision, Emit, Event, Handler, Keeping, Keeps, SocketKey, Unable,
};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

const WINDOW: Duration = Duration::from_secs(60);
const SHARDS: usize = 2;

/// Says what clients say to the room `den`.
struct Hall;

impl Handler for Hall {
    fn connecting(&mut self, _: &mut Context<'_>, _: &ConnectRequest<'_>) -> Decision {
        Decision::Admit
    }

    fn keeping(&self) -> Arc<Keeping> {
        Arc::new(Keeping::new([("/".to_owned(), Some(Keeps::default()))]))
    }

    fn event(&mut self, cx: &mut Context<'_>, socket: SocketKey, event: Event<'_>) {
        match event.name {
            "join" => cx.socket(socket).join("den").expect("a good name"),
            "leave" => cx.socket(socket).leave("den"),
            "kick" => drop(cx.of("/").to(&["den"]).disconnect(false)),
            name => drop(cx.of("/").to(&["den"]).emit(&Emit::new(name, event.args))),
        }
    }
}

fn config() -> Config {
    let recover = Recover {
        window: WINDOW,
        offsets: Offsets::All,
        goes_abroad: false,
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

fn hubs(life: u64) -> Net {
    Net::after(life, SHARDS, &config(), |_| Box::new(Hall))
}

/// What a client knows of itself.
#[derive(Clone, Debug, Default)]
struct Own {
    sid: String,
    pid: String,
    offset: Option<String>,
}

impl Own {
    fn auth(&self) -> String {
        let offset = self.offset.as_ref();
        let offset = offset.map_or(String::new(), |at| format!(",\"offset\":\"{at}\""));
        format!("{{\"pid\":\"{}\"{offset}}}", self.pid)
    }

    /// The numbers of events that it got.
    fn hears(&mut self, texts: &[String]) -> Vec<u64> {
        let events = texts
            .iter()
            .filter_map(|text| text.strip_prefix("42[\"shout\","));
        let events = events.map(|rest| {
            let mut parts = rest.trim_end_matches(']').split(',');
            let number = parts.next().and_then(|number| number.parse().ok());
            let last = parts.next().map(|text| text.trim_matches('"').to_owned());
            self.offset = last.or(self.offset.take());
            number.expect("a number")
        });
        events.collect()
    }
}

struct World {
    net: Net,
    lives: u64,
    speaker: Client,
}

impl World {
    fn new() -> Self {
        let mut net = hubs(0);
        let speaker = net.client(0);
        Self {
            net,
            lives: 0,
            speaker,
        }
    }

    fn says(&mut self, numbers: Range<u64>) {
        for n in numbers {
            self.net.say(self.speaker, &format!("42[\"shout\",{n}]"));
            self.net.settle();
        }
    }

    /// A client with this payload of its CONNECT, and what it heard.
    fn connects(&mut self, at: usize, auth: &str) -> (Client, Own, Vec<String>) {
        let client = self.net.websocket(at, "");
        self.net.say(client, &format!("40{auth}"));
        self.net.settle();
        let texts = self.net.texts(client);
        let reply = texts.iter().find(|text| text.starts_with("40"));
        let reply = reply.expect("an answer").clone();
        let member = |name: &str| {
            let (_, rest) = reply.split_once(&format!("\"{name}\":\"")).expect("a name");
            rest.split('"').next().unwrap_or_default().to_owned()
        };
        let own = Own {
            sid: member("sid"),
            pid: member("pid"),
            offset: None,
        };
        (client, own, texts)
    }

    fn joins(&mut self, at: usize) -> (Client, Own) {
        let (client, own, _) = self.connects(at, "");
        self.net.say(client, "42[\"join\"]");
        self.net.settle();
        self.net.texts(client);
        (client, own)
    }

    fn hears(&mut self, client: Client, own: &mut Own) -> Vec<u64> {
        let texts = self.net.texts(client);
        own.hears(&texts)
    }

    /// The numbers that a client missed, which comes back to its socket.
    fn comes_back(&mut self, at: usize, own: &Own) -> (Client, Vec<u64>) {
        let (client, mut again, texts) = self.connects(at, &own.auth());
        assert_eq!((&again.sid, &again.pid), (&own.sid, &own.pid), "{texts:?}");
        let missed = again.hears(&texts);
        (client, missed)
    }

    fn is_new(&mut self, at: usize, own: &Own) -> bool {
        let (_, again, _) = self.connects(at, &own.auth());
        again.sid != own.sid
    }

    fn upgrade(&mut self, clients: &mut [&mut Client]) {
        let mut all = vec![&mut self.speaker];
        all.extend(clients.iter_mut().map(|client| &mut **client));
        self.lives += 1;
        let done = self.net.hand_over(hubs(self.lives), &mut all, |_| {});
        assert_eq!(done, Ok(()));
    }
}

#[test]
fn who_was_away_before_comes_back_to_any_shard_of_the_next_process() {
    for (birth, back) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        for heard_before in [0, 3] {
            let mut world = World::new();
            let (client, mut own) = world.joins(birth);
            world.says(0..heard_before);
            let heard = world.hears(client, &mut own);
            assert_eq!(heard.len() as u64, heard_before);
            world.net.break_off(client);
            world.says(heard_before..6);
            world.upgrade(&mut []);
            world.says(6..8);
            world.upgrade(&mut []);
            world.says(8..10);
            let (client, missed) = world.comes_back(back, &own);
            let expected: Vec<u64> = (heard_before..10).collect();
            assert_eq!(missed, expected, "{birth} to {back}");
            world.says(10..11);
            assert_eq!(world.hears(client, &mut own), [10]);
        }
    }
}

/// It goes over, and is cut a moment later: what it shows is from the process before.
#[test]
fn offsets_of_the_process_before_are_places_in_the_next() {
    for back in [0, 1] {
        let mut world = World::new();
        let (mut client, mut own) = world.joins(1);
        world.says(0..3);
        assert_eq!(world.hears(client, &mut own), [0, 1, 2]);
        // These are on their way when its connection breaks.
        world.says(3..5);
        world.upgrade(&mut [&mut client]);
        world.says(5..7);
        world.net.break_off(client);
        world.says(7..8);
        let (_, missed) = world.comes_back(back, &own);
        assert_eq!(missed, [3, 4, 5, 6, 7]);
    }
}

/// It joined, left and joined again: each membership is where it was.
#[test]
fn what_a_client_was_a_member_of_is_known_behind_an_upgrade() {
    let mut world = World::new();
    let (mut client, own) = world.joins(1);
    world.says(0..1);
    world.net.say(client, "42[\"leave\"]");
    world.net.settle();
    world.says(1..2);
    world.upgrade(&mut [&mut client]);
    world.says(2..3);
    world.net.say(client, "42[\"join\"]");
    world.net.settle();
    world.says(3..4);
    world.net.break_off(client);
    let (_, missed) = world.comes_back(0, &own);
    assert_eq!(missed, [0, 3]);
}

#[test]
fn windows_end_when_they_would_have_ended() {
    let mut world = World::new();
    let (client, own) = world.joins(1);
    let (other, other_own) = world.joins(0);
    world.net.break_off(client);
    world.net.pass(40_000);
    world.net.break_off(other);
    world.net.pass(10_000);
    world.upgrade(&mut []);
    world.net.pass(11_000);
    assert!(world.is_new(0, &own));
    let (_, missed) = world.comes_back(1, &other_own);
    assert_eq!(missed, [] as [u64; 0]);
}

#[test]
fn who_was_kicked_while_away_stays_so() {
    let mut world = World::new();
    let (client, own) = world.joins(1);
    world.net.break_off(client);
    world.net.say(world.speaker, "42[\"kick\"]");
    world.net.settle();
    world.upgrade(&mut []);
    assert!(world.is_new(1, &own));
}

/// The pong came after what was said behind the ping: if it proved more than the ping's place, its client would miss that.
#[test]
fn a_pong_proves_nothing_about_what_the_process_before_said_behind_its_ping() {
    let mut world = World::new();
    let (mut client, own) = world.joins(1);
    let ping = Config::default().ping_interval.as_millis() as u64 + 10;
    world.net.pass(ping);
    world.net.say(world.speaker, "3");
    assert!(world.net.texts(client).contains(&"2".to_owned()));
    world.says(0..2);
    world.upgrade(&mut [&mut client]);
    world.net.pass(50);
    world.net.say(client, "3");
    world.net.break_off(client);
    let (_, missed) = world.comes_back(0, &own);
    assert_eq!(missed, [0, 1]);
}

/// Its frame is half there, so its session ends with the process before.
#[test]
fn who_does_not_go_comes_back_to_what_it_missed() {
    let mut world = World::new();
    let (mut client, mut own) = world.joins(1);
    world.says(0..2);
    assert_eq!(world.hears(client, &mut own), [0, 1]);
    let mut fragment = masked(b"42[\"shout\"");
    fragment[0] &= 0x7f;
    world.net.bytes(client, &fragment);
    world.says(2..3);
    let before = client;
    world.upgrade(&mut [&mut client]);
    assert_eq!(format!("{before:?}"), format!("{client:?}"), "it stayed");
    world.says(3..4);
    let (_, missed) = world.comes_back(0, &own);
    assert_eq!(missed, [2, 3]);
}

fn history(texts: &[String]) -> Vec<u64> {
    let texts = texts.iter().filter(|text| text.contains("history"));
    let events = texts.flat_map(|text| text.split("\"args\":[").skip(1));
    let numbers = events.map(|rest| rest.split(']').next().unwrap_or_default().parse());
    numbers.map(|number| number.expect("a number")).collect()
}

fn stream(net: &mut Net, at: usize, last: &str) -> (Vec<String>, String) {
    let header = match last {
        "" => String::new(),
        last => format!("Last-Event-ID: {last}\r\n"),
    };
    let request =
        format!("GET /sse?room=a HTTP/1.1\r\nHost: x\r\nAccept: text/event-stream\r\n{header}\r\n");
    let stream = net.request(at, &request);
    net.settle();
    let text = String::from_utf8_lossy(&net.raw(stream)).into_owned();
    let of = |field: &str| -> Vec<String> {
        let lines = text.lines().filter_map(|line| line.strip_prefix(field));
        lines.map(str::to_owned).collect()
    };
    net.break_off(stream);
    (of("data: "), of("id: ").pop().unwrap_or_default())
}

#[test]
fn rooms_keep_what_they_kept_and_each_place_means_the_same() {
    let keeping = |life| Net::after(life, SHARDS, &config(), |_| handler(&rules()));
    let mut net = keeping(0);
    let mut speaker = net.client(0);
    net.say(speaker, "42[\"join\",\"a\"]");
    net.settle();
    let says = |net: &mut Net, speaker: Client, numbers: Range<u64>| {
        for n in numbers {
            net.say(speaker, &format!("42[\"say\",{n}]"));
            net.settle();
        }
    };
    says(&mut net, speaker, 0..5);
    let (told, last) = stream(&mut net, 1, "");
    assert_eq!(history(&told), [0, 1, 2, 3, 4]);
    says(&mut net, speaker, 5..7);
    for n in 7..9 {
        let done = net.hand_over(keeping(n), &mut [&mut speaker], |_| {});
        assert_eq!(done, Ok(()));
        says(&mut net, speaker, n..n + 1);
    }
    for at in 0..SHARDS {
        let (told, _) = stream(&mut net, at, "");
        assert_eq!(history(&told), (0..9).collect::<Vec<u64>>(), "{at}");
        let (told, _) = stream(&mut net, at, &last);
        assert_eq!(history(&told), [5, 6, 7, 8], "{at}");
        assert!(told.iter().any(|text| text.contains("\"resumed\":true")));
    }
}

/// In doubt the handoff ends, and the process before goes on.
#[test]
fn pieces_that_do_not_follow_each_other_are_refused() {
    let strange: [fn(&mut Keepsakes); 3] = [
        |piece| drop(piece.entries.pop()),
        |piece| piece.first += u64::from(!piece.entries.is_empty()),
        |piece| {
            if let Some(journal) = &mut piece.journal {
                journal.head += 1;
            }
        },
    ];
    for alter in strange {
        let mut world = World::new();
        let (client, _) = world.joins(0);
        world.says(0..3);
        world.net.break_off(client);
        let done = world.net.hand_over(hubs(1), &mut [], alter);
        assert!(matches!(done, Err(Unable(_))), "{done:?}");
    }
}
