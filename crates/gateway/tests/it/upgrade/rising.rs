//! Clients on their way from long-polling to a WebSocket, and those in the middle of a POST, while another process takes over.

use super::chain::{Chain, said};
use super::strangers::{STEPS, go_until};
use crate::e2e::sse::Stream;
use crate::harness::client::{Poller, SocketIo};
use crate::harness::raw::{masked, upgrade_request};
use crate::harness::{Alone, Ended, PATIENCE, RawConn, Stop, eventually};
use crate::tls::pki::{Pki, Secure};
use client::OpCode;
use serde_json::json;
use servers::{Askers, Manners};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

const CONFIG: &str = "profile = \"socket.io\"\n[server]\nshards = 2\n";
/// What was sent has been read.
const READ: Duration = Duration::from_millis(200);

/// How far a client has come on its way up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Half of the request for a WebSocket was sent.
    HalfRequest,
    /// It has its WebSocket.
    Opened,
    /// Half of the frame in which it asks whether it is heard was sent.
    HalfProbe,
    /// It was answered, and polls no more.
    Answered,
    /// Half of the frame that takes over was sent.
    HalfUpgrade,
}

const PHASES: [Phase; 5] = [
    Phase::HalfRequest,
    Phase::Opened,
    Phase::HalfProbe,
    Phase::Answered,
    Phase::HalfUpgrade,
];

/// A client that polls, with the WebSocket that it is about to take.
pub struct Riser {
    pub poller: Poller,
    way: RawConn,
    phase: Phase,
}

fn target(poller: &Poller) -> String {
    format!("/socket.io/?EIO=4&transport=websocket&sid={}", poller.sid)
}

impl Riser {
    /// A member of the lobby that has come so far.
    pub fn begin(addr: SocketAddr, phase: Phase) -> Self {
        let poller = Poller::connect(addr);
        assert_eq!(poller.post("421[\"join\",\"lobby\"]").status, 200);
        assert!(poller.poll().body.starts_with("431"));
        let way = RawConn::connect(addr);
        let mut riser = Self { poller, way, phase };
        if phase == Phase::HalfRequest {
            let request = upgrade_request(&target(&riser.poller), "");
            riser.way.send(&request[..request.len() / 2]);
            return riser;
        }
        riser.way = riser.way.upgraded(&target(&riser.poller), "");
        match phase {
            Phase::HalfProbe => riser.way.send(&masked(true, OpCode::Text, "2probe")[..7]),
            Phase::Answered => riser.ask(),
            Phase::HalfUpgrade => {
                riser.ask();
                riser.way.send(&masked(true, OpCode::Text, "5")[..3]);
            }
            Phase::HalfRequest | Phase::Opened => {}
        }
        riser
    }

    fn ask(&mut self) {
        self.way.send_text("2probe");
        self.is_answered();
    }

    fn is_answered(&mut self) {
        assert_eq!(self.way.frame().text(), "3probe", "{:?}", self.phase);
    }

    /// The rest of its way.
    pub fn end(mut self) -> SocketIo {
        let request = upgrade_request(&target(&self.poller), "");
        match self.phase {
            Phase::HalfRequest => {
                self.way.send(&request[request.len() / 2..]);
                assert_eq!(self.way.response().status, 101);
                self.ask();
            }
            Phase::Opened => self.ask(),
            Phase::HalfProbe => {
                self.way.send(&masked(true, OpCode::Text, "2probe")[7..]);
                self.is_answered();
            }
            Phase::Answered | Phase::HalfUpgrade => {}
        }
        match self.phase {
            Phase::HalfUpgrade => self.way.send(&masked(true, OpCode::Text, "5")[3..]),
            _ => self.way.send_text("5"),
        }
        SocketIo {
            conn: self.way,
            open: json!({}),
            sid: self.poller.sid,
        }
    }

    /// Its WebSocket was closed.
    pub fn is_closed(&mut self) -> bool {
        self.way.ended(PATIENCE) != Ended::Open
    }

    /// Its session lives.
    pub fn polls(&self) -> bool {
        self.poller.is_alive()
    }
}

/// At each phase, on both shards: what was said meanwhile comes by the way that the client has taken at last.
#[test]
fn those_on_their_way_up_go_over_at_each_phase() {
    let mut chain = Chain::start(CONFIG);
    let addr = chain.first.addr;
    let mut speaker = SocketIo::connect(addr);
    speaker.ask(1, &json!(["join", "lobby"]));
    let risers: Vec<Riser> = PHASES
        .into_iter()
        .flat_map(|phase| [(); 4].map(|()| Riser::begin(addr, phase)))
        .collect();
    sleep(READ);
    for number in 0..2 {
        speaker.emit(&json!(["n", number]));
        let (text, _) = chain.upgrade();
        assert!(text.contains("21 sessions go over"), "{text}");
        let among = "among them are 0 event streams and 16 sessions on their way up";
        assert!(text.contains(among), "{text}");
    }
    speaker.emit(&json!(["n", 2]));
    speaker.ask(2, &json!(["join", "lobby"]));
    for (id, riser) in risers.into_iter().enumerate() {
        let phase = riser.phase;
        // One that was not answered may poll in the middle of its way.
        let polled = match phase {
            Phase::Opened => riser.poller.poll().body.matches("42[\"n\"").count(),
            _ => 0,
        };
        let mut client = riser.end();
        for number in polled..3 {
            let heard = client.expect("n");
            assert_eq!(heard, [json!(number)], "{phase:?}");
        }
        client.emit(&json!(["back", id]));
        assert_eq!(speaker.expect("back"), [json!(id)], "{phase:?}");
        assert!(
            client.is_spared("n", Duration::from_millis(20)),
            "{phase:?}"
        );
    }
    chain.first_ends();
}

/// The client has its time from the beginning of its way, whatever happens to processes; then it polls on.
#[test]
fn a_way_up_that_is_left_lying_ends_in_its_time() {
    let _alone = Alone::wait();
    let config = format!("{CONFIG}[socketio]\nupgrade_timeout = \"3s\"\n");
    let mut chain = Chain::start(&config);
    let mut riser = Riser::begin(chain.first.addr, Phase::Opened);
    let began = Instant::now();
    sleep(Duration::from_secs(1));
    chain.upgrade();
    assert!(riser.is_closed());
    let took = began.elapsed();
    let due = Duration::from_millis(2_500)..Duration::from_millis(5_500);
    assert!(due.contains(&took), "{took:?}");
    assert!(riser.polls());
}

/// What comes late, or in another order, is answered as ever.
#[test]
fn an_impolite_client_is_treated_as_before() {
    let mut chain = Chain::start(CONFIG);
    let addr = chain.first.addr;
    let mut riser = Riser::begin(addr, Phase::Opened);
    let mut early = Riser::begin(addr, Phase::Opened);
    let mut answered = Riser::begin(addr, Phase::Answered);
    chain.upgrade();
    // A second WebSocket for the same session is closed, and the first is not.
    let mut second = RawConn::websocket(addr, &target(&riser.poller));
    assert_ne!(second.ended(PATIENCE), Ended::Open);
    // It takes over without having asked.
    early.way.send_text("5");
    assert!(early.is_closed() && early.polls());
    // It asks again after it was answered.
    answered.way.send_text("2probe");
    assert!(answered.is_closed() && answered.polls());
    riser.ask();
    riser.phase = Phase::Answered;
    // A poll between the answer and the end of the way is answered at once.
    assert_eq!(riser.poller.poll().body, "6");
    let mut client = riser.end();
    client.ask(7, &json!(["join", "den"]));
}

fn post_of(poller: &Poller, body: &str) -> String {
    client::brief::post_request(&poller.sid, body)
}

/// Its head, or some of its body, was read: the next process reads the rest.
#[test]
fn a_post_that_is_half_there_goes_over() {
    let mut chain = Chain::start(CONFIG);
    let addr = chain.first.addr;
    let mut speaker = SocketIo::connect(addr);
    speaker.ask(1, &json!(["join", "lobby"]));
    let mut posts = Vec::new();
    for number in 0..24 {
        let poller = Poller::connect(addr);
        assert_eq!(poller.post("421[\"join\",\"lobby\"]").status, 200);
        assert!(poller.poll().body.starts_with("431"));
        let body = format!("42[\"first\",{number}]\x1e42[\"second\",{number}]");
        let request = post_of(&poller, &body);
        let head = request.len() - body.len();
        let cut = [20, head, head + 1, head + 15][number % 4];
        let mut conn = RawConn::connect(addr);
        conn.send(&request[..cut]);
        posts.push((poller, conn, request, cut));
    }
    sleep(READ);
    for _ in 0..2 {
        let (text, _) = chain.upgrade();
        assert!(text.contains("25 sessions go over"), "{text}");
    }
    for (number, (poller, mut conn, request, cut)) in posts.into_iter().enumerate() {
        conn.send(&request[cut..]);
        let answer = conn.response();
        assert_eq!((answer.status, &*answer.body), (200, "ok"), "{number}");
        assert_eq!(speaker.expect("first"), [json!(number)]);
        assert_eq!(speaker.expect("second"), [json!(number)]);
        // The connection is kept.
        conn.send(post_of(&poller, "42[\"third\"]"));
        assert_eq!(conn.response().status, 200);
        speaker.expect("third");
    }
}

/// Both at once; and a body in chunks, which is half decoded.
#[test]
fn a_post_goes_over_with_the_way_up_and_one_in_chunks_does_not() {
    let mut chain = Chain::start(CONFIG);
    let addr = chain.first.addr;
    let mut speaker = SocketIo::connect(addr);
    speaker.ask(1, &json!(["join", "lobby"]));
    let risers = [(); 6].map(|()| {
        let riser = Riser::begin(addr, Phase::Answered);
        let request = post_of(&riser.poller, "42[\"posted\"]");
        let mut conn = RawConn::connect(addr);
        conn.send(&request[..request.len() - 4]);
        (riser, conn, request)
    });
    let chunked = Poller::connect(addr);
    let mut conn = RawConn::connect(addr);
    let head = post_of(&chunked, "").replace("Content-Length: 0", "Transfer-Encoding: chunked");
    conn.send(format!("{head}d\r\n42[\"half"));
    sleep(READ);
    let dry = chain.command(&["--dry-run"]).output().expect("its end");
    let text = said(&dry);
    let stays = "1 sessions are sent away and come back by themselves: long-polling in the middle";
    assert!(
        text.contains("7 sessions go over") && text.contains(stays),
        "{text}"
    );
    chain.upgrade();
    assert_ne!(conn.ended(PATIENCE), Ended::Open);
    assert!(!chunked.is_alive());
    for (riser, mut conn, request) in risers {
        conn.send(&request[request.len() - 4..]);
        assert_eq!(conn.response().status, 200);
        speaker.expect("posted");
        let mut client = riser.end();
        client.emit(&json!(["risen"]));
        speaker.expect("risen");
    }
}

/// It polls without TLS, and its WebSocket comes by TLS: before it was answered, only that is closed.
#[test]
fn a_way_up_by_tls_is_closed_and_its_client_polls_on() {
    let pki = Pki::new();
    let mut chain = Chain::start(&format!("{CONFIG}{}", pki.section("")));
    let (addr, secure) = (chain.first.addr, Secure::addr_of(&chain.first));
    let mut speaker = SocketIo::connect(addr);
    speaker.ask(1, &json!(["join", "lobby"]));
    let mut risers = [false, true].map(|asks| {
        let mut riser = Riser::begin(addr, Phase::Opened);
        let poller = Poller::connect(addr);
        assert_eq!(poller.post("421[\"join\",\"lobby\"]").status, 200);
        assert!(poller.poll().body.starts_with("431"));
        riser.way = pki.client().connect(secure).upgraded(&target(&poller), "");
        riser.poller = poller;
        if asks {
            riser.ask();
        }
        riser
    });
    let (text, _) = chain.upgrade();
    let polls_on = "1 of them go on polling: the WebSocket by which they began to go up is closed";
    assert!(text.contains(polls_on), "{text}");
    assert!(
        text.contains("1 sessions are sent away and come back by themselves: TLS"),
        "{text}"
    );
    assert!(risers.iter_mut().all(Riser::is_closed));
    assert_eq!(risers.each_ref().map(Riser::polls), [true, false]);
    speaker.emit(&json!(["heard"]));
    assert!(risers[0].poller.poll().body.contains("heard"));
}

/// A successor ends at any step: streams and those on their way up notice nothing, and the next upgrade takes them along.
#[test]
fn an_upgrade_that_is_given_up_leaves_them_unharmed() {
    let mut chain = Chain::start(CONFIG);
    let addr = chain.first.addr;
    for phase in [Phase::Opened, Phase::Answered] {
        let mut stream = Stream::to(addr, "/sse?room=lobby", "");
        let riser = Riser::begin(addr, phase);
        sleep(READ);
        for (number, step) in STEPS.into_iter().enumerate() {
            drop(go_until(&chain, step));
            assert_eq!(
                riser.poller.post(&format!("42[\"n\",{number}]")).status,
                200
            );
            assert_eq!(stream.message()["payload"], number, "{step:?}");
        }
        chain.upgrade();
        let mut client = riser.end();
        client.emit(&json!(["n", 99]));
        assert_eq!(stream.message()["payload"], 99);
        drop((stream, client));
        let gone = |sessions| sessions == 0.0;
        assert_eq!(
            chain.first.metric_settles("sockeye_sessions", gone),
            Ok(0.0)
        );
    }
}

/// The same with real successors, which are killed from their start on.
#[test]
fn a_successor_that_is_killed_leaves_them_unharmed() {
    let mut delay = Duration::from_millis(10);
    let (mut chain, mut given_up) = (Chain::start(CONFIG), 0);
    while given_up < 8 {
        let addr = chain.first.addr;
        let mut stream = Stream::to(addr, "/sse?room=lobby", "");
        let risers = PHASES.map(|phase| Riser::begin(addr, phase));
        sleep(READ);
        if chain.begin_upgrade().killed_after(delay) {
            // It had taken over before it was killed.
            (chain, delay) = (Chain::start(CONFIG), delay / 2);
            continue;
        }
        (given_up, delay) = (given_up + 1, delay + Duration::from_millis(15));
        for (id, riser) in risers.into_iter().enumerate() {
            let mut client = riser.end();
            client.emit(&json!(["n", id]));
            assert_eq!(stream.message()["payload"], id);
        }
    }
}

/// Stock clients come in and go up all the time while processes change: nobody is cut off, and every question has its answer.
#[test]
#[ignore = "needs Node: cargo xtask test foreign"]
fn stock_clients_go_up_while_processes_change() {
    let mut chain = Chain::start(CONFIG);
    let url = format!("http://{}", chain.first.addr);
    let manners = Manners {
        transport: "upgrade",
        clients: 60,
        pause_ms: 100,
        how: "steady",
        with: "nothing",
    };
    let (come, mut rising, mut upgrades) = (AtomicBool::new(false), 0, 0);
    let mut all = scope(|scope| {
        let _come = Stop(&come);
        let clients = scope.spawn(|| {
            let mut all = Vec::new();
            for _ in 0..4 {
                all.push(Askers::start(&url, manners));
                sleep(Duration::from_millis(500));
            }
            all.iter_mut().for_each(Askers::all_connected);
            come.store(true, Ordering::Relaxed);
            all
        });
        while !come.load(Ordering::Relaxed) {
            let (text, _) = chain.upgrade();
            let among = text.split(" event streams and ").nth(1);
            let among = among.and_then(|rest| rest.split(' ').next());
            rising += among.map_or(0, |count| count.parse::<u64>().expect("a number"));
            upgrades += 1;
        }
        clients.join().expect("all come in")
    });
    println!("{upgrades} upgrades met {rising} clients on their way up");
    assert!(
        rising > 0,
        "in {upgrades} upgrades nobody was on its way up"
    );
    let websockets = |count| count == 240.0;
    assert!(eventually(PATIENCE, || websockets(
        chain.first.metric("websocket_connections_total")
    )));
    for answers in all.iter_mut().map(Askers::stop) {
        assert_eq!(answers.disconnects, json!({}), "{answers:?}");
        assert!(answers.connects.iter().all(|count| *count == 1));
        let lost = answers.unanswered + answers.refused + answers.told;
        assert_eq!(lost, 0, "{answers:?}");
        assert!(answers.asked > 60);
    }
}
