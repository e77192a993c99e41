//! Clients that come back to their socket, as their handler sees it: who is promised a socket, what a pong proves, and what stays behind.

use crate::identity::{frame, received, websocket};
use crate::rig::Rig;
use hub::config::{Config, Offsets, Recover, Recovery};
use hub::{
    ConnectRequest, Context, Decision, DisconnectReason, Emit, Event, Handler, Refusal, SocketKey,
    Ticket,
};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use wire::base64url::Id20;

const SIO: &str = "/socket.io/?EIO=4&transport=websocket";
const PATIENCE: Duration = Duration::from_secs(5);
const WINDOW: Duration = Duration::from_secs(60);

/// Decides about `/late` later, and says everything on to the whole namespace.
#[derive(Default)]
struct Porch {
    tickets: HashMap<u64, Ticket>,
    asked: u64,
    diary: Arc<Mutex<Vec<String>>>,
}

impl Porch {
    fn note(&self, what: &str) {
        self.diary.lock().expect("a diary").push(what.to_owned());
    }
}

impl Handler for Porch {
    fn connecting(&mut self, cx: &mut Context<'_>, request: &ConnectRequest<'_>) -> Decision {
        self.note(match request.returns {
            Some(_) => "returning",
            None => "connecting",
        });
        assert!(!request.auth.contains("pid"), "{}", request.auth);
        if request.auth.contains("unwelcome") {
            return Decision::Refuse(Refusal::unavailable());
        }
        if request.namespace != "/late" {
            return Decision::Admit;
        }
        let Some(ticket) = cx.postpone(request, PATIENCE) else {
            return Decision::Refuse(Refusal::unavailable());
        };
        self.asked += 1;
        assert!(cx.ask_outside(b"may it?".as_slice().into(), PATIENCE, self.asked));
        self.tickets.insert(self.asked, ticket);
        Decision::Later
    }

    fn connected(&mut self, cx: &mut Context<'_>, socket: SocketKey, _: &str) {
        self.note(match cx.socket(socket).recovered() {
            true => "recovered",
            false => "connected",
        });
    }

    fn disconnected(&mut self, _: &mut Context<'_>, _: SocketKey, _: DisconnectReason) {
        self.note("disconnected");
    }

    fn gave_up(&mut self, _: &mut Context<'_>, _: Id20, _: DisconnectReason) {
        self.note("gave up");
    }

    fn answered(&mut self, cx: &mut Context<'_>, token: u64, _: Option<&[u8]>) {
        let ticket = self.tickets.remove(&token).expect("a ticket");
        let _ = cx.decide(ticket, Ok(()));
    }

    fn event(&mut self, cx: &mut Context<'_>, _: SocketKey, event: Event<'_>) {
        let said = Emit::new(event.name, event.args);
        let _ = cx.of("/").emit(&said);
    }
}

/// Clients may come back to all namespaces.
pub(crate) fn config() -> Config {
    let recover = Recover {
        window: WINDOW,
        offsets: Offsets::All,
        goes_abroad: false,
        chronicle: false,
        replicas: 0,
    };
    Config {
        recovery: Recovery {
            namespaces: [("*".to_owned(), Some(recover))].into(),
        },
        ..Config::default()
    }
}

fn rig() -> (Rig, Arc<Mutex<Vec<String>>>) {
    let porch = Porch::default();
    let diary = Arc::clone(&porch.diary);
    (Rig::new(config(), Box::new(porch), 7), diary)
}

fn send(rig: &mut Rig, client: usize, packet: &str) {
    rig.send(client, &frame(packet));
}

/// What a client received, without the handshake and pings.
pub(crate) fn answers(rig: &mut Rig, client: usize) -> Vec<String> {
    let mut texts = received(rig, client);
    texts.retain(|text| !text.starts_with("0{") && text != "2");
    texts
}

/// A new session that asks to join a namespace; its name.
pub(crate) fn connects(rig: &mut Rig, namespace: &str, auth: &str) -> usize {
    let client = websocket(rig, SIO, "");
    send(rig, client, &format!("40{namespace}{auth}"));
    client
}

/// The payload of the answer to CONNECT, without `sid` and `pid`: both.
pub(crate) fn welcomed(rig: &mut Rig, client: usize) -> (String, String) {
    let answers = answers(rig, client);
    let reply = answers.first().expect("an answer");
    let member = |name: &str| {
        let (_, rest) = reply.split_once(&format!("\"{name}\":\"")).expect("a name");
        rest.split('"').next().unwrap_or_default().to_owned()
    };
    (member("sid"), member("pid"))
}

#[test]
fn a_promise_that_waits_ends_before_the_same_socket_is_promised_again() {
    let (mut rig, diary) = rig();
    let first = connects(&mut rig, "/late,", "");
    rig.answer_handler("yes");
    let (sid, pid) = welcomed(&mut rig, first);
    rig.break_off(first);
    let auth = format!("{{\"pid\":\"{pid}\"}}");
    let [one, two] = [(); 2].map(|()| connects(&mut rig, "/late,", &auth));
    // The decision about the first comes too late.
    rig.answer_handler("yes");
    rig.answer_handler("yes");
    assert_eq!(answers(&mut rig, one), [""; 0]);
    assert_eq!(welcomed(&mut rig, two), (sid, pid));
    let heard = std::mem::take(&mut *diary.lock().expect("a diary"));
    let expected = [
        "connecting",
        "connected",
        "disconnected",
        "returning",
        "gave up",
        "returning",
        "recovered",
    ];
    assert_eq!(heard, expected);
}

/// Its handler was told nothing, and decided about a client that was gone.
#[test]
fn a_plain_client_that_left_before_the_decision_gave_up_for_nobody() {
    let porch = Porch::default();
    let diary = Arc::clone(&porch.diary);
    let config = Config {
        plain_namespace: "/late".to_owned(),
        ..config()
    };
    let mut rig = Rig::new(config, Box::new(porch), 7);
    let client = websocket(&mut rig, "/ws", "");
    rig.break_off(client);
    let heard = || diary.lock().expect("a diary").clone();
    assert_eq!(heard(), ["connecting", "gave up"]);
    rig.answer_handler("yes");
    assert_eq!(heard(), ["connecting", "gave up"]);
}

#[test]
fn somebody_refused_keeps_the_session_and_the_socket_stays_for_the_next_try() {
    let (mut rig, _) = rig();
    let first = connects(&mut rig, "/picky,", "");
    let (sid, pid) = welcomed(&mut rig, first);
    rig.break_off(first);
    let refused = connects(&mut rig, "", "");
    welcomed(&mut rig, refused);
    let unwelcome = format!("40/picky,{{\"pid\":\"{pid}\",\"unwelcome\":1}}");
    for _ in 0..2 {
        send(&mut rig, refused, &unwelcome);
        assert!(answers(&mut rig, refused)[0].starts_with("44/picky,"));
    }
    let back = connects(&mut rig, "/picky,", &format!("{{\"pid\":\"{pid}\"}}"));
    assert_eq!(welcomed(&mut rig, back), (sid, pid));
    send(&mut rig, refused, "42[\"still\",1]");
    assert!(answers(&mut rig, refused)[0].starts_with("42[\"still\",1,"));
}

#[test]
fn a_pong_proves_nothing_about_what_was_sent_after_its_ping() {
    let (mut rig, _) = rig();
    let speaker = connects(&mut rig, "", "");
    let first = connects(&mut rig, "", "");
    let (sid, pid) = welcomed(&mut rig, first);
    rig.break_off(first);
    for n in 0..3 {
        send(&mut rig, speaker, &format!("42[\"said\",{n}]"));
    }
    // The ping of its session comes before it is in the namespace.
    let auth = format!("{{\"pid\":\"{pid}\"}}");
    let second = websocket(&mut rig, SIO, "");
    rig.pass(Config::default().ping_interval + Duration::from_millis(10));
    send(&mut rig, speaker, "3");
    assert!(received(&mut rig, second).contains(&"2".to_owned()));
    send(&mut rig, second, &format!("40{auth}"));
    send(&mut rig, second, "3");
    // All that was sent to it is lost, and it shows no offset.
    rig.break_off(second);
    let third = connects(&mut rig, "", &auth);
    let got = answers(&mut rig, third);
    assert!(got[0].contains(&sid), "{got:?}");
    let missed: Vec<bool> = (0..3)
        .map(|n| {
            got.iter()
                .any(|text| text.starts_with(&format!("42[\"said\",{n},")))
        })
        .collect();
    assert_eq!(missed, [true; 3], "{got:?}");
}

#[test]
fn a_pid_of_another_namespace_is_nothing_here_and_stays_good_there() {
    let (mut rig, _) = rig();
    let first = connects(&mut rig, "", "");
    let (sid, pid) = welcomed(&mut rig, first);
    let auth = format!("{{\"pid\":\"{pid}\"}}");
    let stray = connects(&mut rig, "/other,", &auth);
    assert_ne!(welcomed(&mut rig, stray).0, sid);
    rig.break_off(first);
    let stray = connects(&mut rig, "/other,", &auth);
    assert_ne!(welcomed(&mut rig, stray).0, sid);
    let back = connects(&mut rig, "", &auth);
    assert_eq!(welcomed(&mut rig, back), (sid, pid));
}

#[test]
fn nothing_stays_of_those_that_never_come_back() {
    let (mut rig, _) = rig();
    let clients: Vec<usize> = (0..20)
        .map(|n| connects(&mut rig, &format!("/of-{},", n % 5), ""))
        .collect();
    clients.into_iter().for_each(|client| rig.break_off(client));
    assert_eq!(rig.hub.census().rooms, 5);
    rig.pass(WINDOW + Duration::from_secs(1));
    let census = rig.hub.census();
    assert_eq!((census.rooms, census.namespaces, census.sockets), (0, 0, 0));
}
