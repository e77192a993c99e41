//! A carrier over time: certificates, a successor, memory.

use super::client::{OFFERED, OPEN, Quic, Talk, gateway, play, settles};
use crate::harness::PATIENCE;
use crate::tls::pki::{Pki, Secure};
use crate::upgrade::chain::Chain;
use std::time::Duration;

#[test]
fn new_certificates_are_for_newcomers_and_drop_nobody() {
    let pki = Pki::new();
    let secure = gateway(&pki, "");
    play(async {
        let old = Quic::new(&pki);
        let mut talk = old.join(secure.addr).await;
        pki.renew("tls", "localhost");
        let new = Quic::new(&pki);
        let mut tries = 0;
        while new.handshake(secure.addr).await.is_err() {
            tries += 1;
            assert!(tries < 500, "the new certificate never comes");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        talk.enter("still-here").await;
        new.join(secure.addr).await.enter("lab").await;
        assert!(Quic::new(&pki).handshake(secure.addr).await.is_ok());
    });
}

#[test]
fn an_idle_session_is_small() {
    const SESSIONS: usize = 200;
    let pki = Pki::new();
    let secure = gateway(&pki, "");
    play(async {
        let quic = Quic::new(&pki);
        let mut all = vec![quic.join(secure.addr).await];
        let before = secure.gateway.memory();
        for _ in 0..SESSIONS {
            all.push(quic.join(secure.addr).await);
        }
        settles(&secure, OPEN, (SESSIONS + 1) as f64).await;
        let each = secure.gateway.memory().saturating_sub(before) / SESSIONS as u64;
        assert!(each < 128 << 10, "{each}");
    });
}

#[test]
fn a_configuration_without_tls_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("sockeye.toml");
    std::fs::write(&path, OFFERED).expect("write");
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_sockeye"));
    let output = command
        .args(["config", "check", "--config"])
        .arg(&path)
        .output();
    let output = output.expect("sockeye runs");
    let text = String::from_utf8_lossy(&output.stderr) + String::from_utf8_lossy(&output.stdout);
    assert!(
        !output.status.success() && text.contains("set tls.listen"),
        "{text}"
    );
}

#[test]
fn a_successor_gets_the_port_and_sessions_come_back_to_it() {
    let pki = Pki::new();
    let config = format!("profile = \"socket.io\"\n{}{OFFERED}", pki.section(""));
    let mut chain = Chain::start(&config);
    let addr = Secure::addr_of(&chain.first);
    play(async {
        let quic = Quic::new(&pki);
        let mut talk = quic.join(addr).await;
        let (said, _) = chain.upgrade();
        assert!(
            said.contains("1 sessions are sent away and come back by themselves: WebTransport"),
            "{said}"
        );
        while talk.hear().await.is_some() {}
        assert_eq!(talk.ended().await.0, 1001);
        // The port is free when the last session was told.
        let mut tries = 0;
        let session = loop {
            match quic.connect(addr, "/socket.io/", &[]).await {
                Ok(session) => break session,
                Err(error) => assert!(tries < 200, "{error}"),
            }
            tries += 1;
            tokio::time::sleep(Duration::from_millis(20)).await;
        };
        let mut talk = Talk::on(session).await;
        talk.say("0").await;
        talk.opened().await;
        talk.join().await;
        talk.enter("lab").await;
    });
    chain.first_ends();
}

#[test]
fn a_drained_node_took_clients_to_shards_that_had_ended() {
    let pki = Pki::new();
    let (key, hash) = identity::keys::generate("ops", &[]).expect("a key");
    let admin = format!("[admin]\napi_keys = [{hash:?}]\n[server]\ndrain_window = \"100ms\"");
    let secure = gateway(&pki, &admin);
    play(async {
        let quic = Quic::new(&pki);
        let mut talk = quic.join(secure.addr).await;
        let key = format!("Authorization: Bearer {key}\r\n");
        let path = "/v1/nodes/0/drain";
        let answer = ::client::full::request(secure.gateway.admin, "POST", path, &key, "");
        assert!(answer.status < 300, "{answer:?}");
        while talk.hear().await.is_some() {}
        assert_eq!(talk.ended().await.0, 1001);
        assert!(
            secure
                .gateway
                .logged("drained: this node takes no clients", PATIENCE)
        );
        let refused = tokio::time::timeout(Duration::from_secs(3), quic.try_handshake(secure.addr));
        assert!(!matches!(refused.await, Ok(Ok(_))), "nobody is let in");
        assert_eq!(secure.gateway.metric("sockeye_webtransport_opening"), 0.0);
    });
}
