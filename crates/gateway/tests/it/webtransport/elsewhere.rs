//! Sessions by WebTransport whose logic, or whose node, is elsewhere.

use super::client::{OFFERED, OPEN, Quic, Talk, play};
use crate::backend::worker::Worker;
use crate::backend::{KEY, Kitchen};
use crate::cluster::relay::relaying;
use crate::harness::client::{Poller, SocketIo};
use crate::harness::{Gateway, PATIENCE, eventually};
use crate::tls::pki::{Pki, Secure};
use serde_json::json;
use servers::Redis;
use std::net::SocketAddr;

/// A session goes up to WebTransport, at whichever node.
async fn go_up(quic: &Quic, addr: SocketAddr, session: &Poller) -> Talk {
    let mut talk = quic.stream(addr).await;
    talk.say(&format!("0{{\"sid\":\"{}\"}}", session.sid)).await;
    talk.say("2probe").await;
    assert_eq!(talk.text().await, "3probe");
    // Its poll ends.
    assert_eq!(session.poll().status, 200);
    talk.say("5").await;
    talk
}

#[test]
fn a_worker_hears_what_a_session_came_by_and_went_up_to() {
    let pki = Pki::new();
    let kitchen = Kitchen::open(&format!("{}{OFFERED}", pki.section("")));
    let worker = Worker::attach(kitchen.workers, &KEY.0, "a");
    let addr = Secure::addr_of(&kitchen.gateway);
    play(async {
        let quic = Quic::new(&pki);
        let straight = quic.join(addr).await;
        let session = Poller::connect(kitchen.gateway.addr);
        let mut talk = go_up(&quic, addr, &session).await;
        talk.say("421[\"echo\",7]").await;
        assert_eq!(talk.text_starting("431").await, "431[7]");
        let memory = worker.memory();
        let came = memory.connects.iter().map(|connect| &connect.transport);
        assert_eq!(came.collect::<Vec<_>>(), ["webtransport", "polling"]);
        let upgraded = memory.upgraded.iter().map(|upgraded| &upgraded.transport);
        assert_eq!(upgraded.collect::<Vec<_>>(), ["webtransport"]);
        drop(straight);
    });
}

#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn a_session_that_polls_at_one_node_goes_up_to_webtransport_at_another() {
    let pki = Pki::new();
    let redis = Redis::start();
    let [mut owner, other]: [Gateway; 2] =
        relaying(&redis, &format!("{}{OFFERED}", pki.section("")));
    let addr = Secure::addr_of(&other);
    let mut beside = SocketIo::connect(other.addr);
    beside.ask(1, &json!(["join", "lab"]));
    play(async {
        let quic = Quic::new(&pki);
        let (first, second) = (Poller::connect(owner.addr), Poller::connect(owner.addr));
        let mut talk = go_up(&quic, addr, &first).await;
        talk.enter("lab").await;
        let long = "x".repeat(70_000);
        beside.emit(&json!(["say", {"room": "lab", "text": long}]));
        let heard = talk.text_starting("42[\"say\"").await;
        assert!(heard.len() > long.len(), "{}", heard.len());
        talk.say("42[\"say\",{\"room\":\"lab\",\"text\":\"there\"}]")
            .await;
        assert_eq!(beside.expect("say")[0]["text"], json!("there"));
        // It is counted where it lives, and where it comes in.
        assert_eq!(owner.metric(OPEN), 1.0);
        assert_eq!(other.metric("sockeye_relay_connections"), 1.0);
        // The client goes: both nodes notice.
        talk.session.close(0, b"");
        let ended = eventually(PATIENCE, || {
            owner.metric(OPEN) == 0.0 && other.metric("sockeye_relay_connections") == 0.0
        });
        assert!(ended, "it is still there");
        // The node goes: its client notices, and nobody gets the session anywhere.
        let mut talk = go_up(&quic, addr, &second).await;
        talk.enter("lab").await;
        owner.kill();
        while talk.hear().await.is_some() {}
        talk.ended().await;
        let mut again = quic.stream(addr).await;
        again.say(&format!("0{{\"sid\":\"{}\"}}", second.sid)).await;
        assert_eq!(again.hear().await, None);
        let (code, why) = again.ended().await;
        assert_eq!((code, why.as_str()), (400, "Session ID unknown"));
    });
}
