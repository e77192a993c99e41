//! A handler of the conformance application that decides later, on the real data plane: what waits, and who does not.

use super::application::Application;
use crate::harness::raw::upgrade_request;
use crate::harness::{RawConn, SocketIo};
use serde_json::json;
use std::time::Instant;

const SIO: &str = "/socket.io/?EIO=4&transport=websocket";

fn open(application: &Application) -> SocketIo {
    let mut conn = RawConn::connect(application.addr);
    conn.send(upgrade_request(SIO, ""));
    assert_eq!(conn.response().status, 101);
    SocketIo::over(conn)
}

#[test]
fn a_client_that_is_not_decided_about_waits_alone() {
    let application = Application::start();
    let (mut slow, mut other) = (open(&application), open(&application));
    let mut slower = open(&application);
    // Longer than anybody is waited for here: whoever waits for it is missed. It has joined something, so it may stay.
    slower.send("40");
    slower.send("40/late,{\"after\":60000}");
    let began = Instant::now();
    slow.send("40/late,{\"after\":3000}");
    slow.send("42/late,1[\"first\"]");
    slow.send("42/late,2[\"second\"]");
    slow.send("40");
    slow.packet_starting("40{");
    slow.send("427[\"message-with-ack\",\"now\"]");
    slow.packet_starting("437[\"now\"]");
    other.send("40/late,{\"after\":1}");
    other.packet_starting("40/late,{");
    other.send("42/late,3[\"echo\"]");
    other.packet_starting("43/late,3[");
    slow.packet_starting("40/late,{");
    assert!(began.elapsed().as_millis() >= 3_000, "it did wait");
    slow.packet_starting("43/late,1[");
    slow.packet_starting("43/late,2[");
}

#[test]
fn a_client_may_be_refused_later_or_give_up() {
    let application = Application::start();
    let mut client = open(&application);
    client.send("40/late,{\"after\":50,\"refuse\":true}");
    let refused = client.packet_starting("44/late,");
    assert_eq!(refused, "44/late,{\"message\":\"refused later\"}");
    client.send("40/late,{\"after\":60000}");
    client.send("41/late,");
    client.send("40/late,{\"after\":1}");
    client.packet_starting("40/late,{");
    // Stock clients know it by its events.
    let mut ann =
        super::client::SocketIo::websocket(application.addr, "/late", json!({ "after": 20 }));
    assert_eq!(ann.ask("echo", &[1.into()]), [json!(1)]);
}
