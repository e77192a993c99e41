//! A process that is told to stop, or to drain, before, in the middle of, or instead of an upgrade.

use super::chain::{Chain, said};
use super::strangers::{Step, go_until_of};
use super::troubles::Pair;
use crate::harness::PATIENCE;
use crate::harness::client::SocketIo;
use ::client::full::request;
use handoff::Kind;
use std::path::PathBuf;
use std::sync::LazyLock;
use std::time::Duration;

static OPS: LazyLock<(String, String)> =
    LazyLock::new(|| identity::keys::generate("ops", &[]).expect("a key"));

fn config(window: &str, grace: &str) -> String {
    format!(
        "profile = \"socket.io\"\n[server]\nshards = 2\ndrain_window = {window:?}\ndrain_grace = {grace:?}\n[admin]\napi_keys = [{:?}]\n",
        OPS.1
    )
}

fn drain(chain: &Chain) {
    let headers = format!("Authorization: Bearer {}\r\n", OPS.0);
    let admin = chain.first.admin;
    let asked = request(admin, "POST", "/v1/nodes/0/drain", &headers, "");
    assert_eq!(asked.status, 202);
}

/// With a Unix socket beside its address.
fn beside_a_file(config: &str) -> (Chain, PathBuf, tempfile::TempDir) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("clients.sock");
    let place = format!("unix:{}", path.display());
    (
        Chain::start_with(config, &["--listen", &place], &[]),
        path,
        folder,
    )
}

#[test]
fn a_process_that_drains_hands_nothing_over() {
    let mut chain = Chain::start(&config("1m", "1m"));
    let _client = SocketIo::connect(chain.first.addr);
    drain(&chain);
    for flags in [&[][..], &["--dry-run"]] {
        let text = chain.failing_upgrade(flags);
        assert!(
            text.contains("this process sends its clients away"),
            "{text}"
        );
    }
}

/// An operator drains, and a supervisor stops the process in the middle: clients keep their time, and the process ends when they have gone.
#[test]
fn a_stop_in_the_middle_of_a_drain_waits_for_clients_too() {
    let mut chain = Chain::start(&config("2s", "1m"));
    let mut client = SocketIo::connect(chain.first.addr);
    drain(&chain);
    client.packet_starting("42[\"SERVER_SHUTDOWN\"");
    chain.first.terminate();
    assert!(
        client.conn.is_quiet(Duration::from_millis(800)),
        "it was cut at once"
    );
    assert_eq!(client.conn.close_code(PATIENCE), 1001);
    drop(client);
    chain.first_ends();
}

#[test]
fn a_second_stop_in_the_middle_of_a_drain_ends_it() {
    let mut chain = Chain::start(&config("1m", "1m"));
    let mut client = SocketIo::connect(chain.first.addr);
    drain(&chain);
    client.packet_starting("42[\"SERVER_SHUTDOWN\"");
    chain.first.terminate();
    assert!(client.conn.is_quiet(Duration::from_millis(800)));
    chain.first.terminate();
    chain.first_ends();
}

/// The shards stand still when it comes. The successor takes all: it has the clients and the files.
#[test]
fn a_stop_while_all_stands_still_waits_for_the_last_word() {
    let (mut chain, path, _folder) = beside_a_file(&config("1m", "1m"));
    let _pair = Pair::join(&chain);
    let unix = [path.display().to_string()];
    let mut peer = go_until_of(&chain, &unix, Step::Complete);
    chain.first.terminate();
    std::thread::sleep(Duration::from_millis(400));
    peer.say(Kind::Built, &());
    peer.expect::<()>(Kind::Commit);
    chain.first_ends();
    assert!(path.exists(), "the file is the successor's");
}

/// The successor fails: the process has its clients still, and sends them away.
#[test]
fn a_stop_while_all_stands_still_drains_if_the_successor_fails() {
    let (mut chain, path, _folder) = beside_a_file(&config("0s", "5s"));
    let mut pair = Pair::join(&chain);
    let unix = [path.display().to_string()];
    let peer = go_until_of(&chain, &unix, Step::Complete);
    chain.first.terminate();
    std::thread::sleep(Duration::from_millis(400));
    drop(peer);
    pair.ann.packet_starting("42[\"SERVER_SHUTDOWN\"");
    drop(pair);
    chain.first_ends();
    assert!(!path.exists() && !chain.socket().exists());
}

/// An operator's drain comes before the last word.
#[test]
fn a_drain_while_all_stands_still_keeps_the_clients_here() {
    let mut chain = Chain::start(&config("0s", "5s"));
    let mut pair = Pair::join(&chain);
    let mut peer = go_until_of(&chain, &[], Step::Complete);
    drain(&chain);
    peer.say(Kind::Built, &());
    let refused: handoff::Said = peer.expect(Kind::Refused);
    assert!(
        refused.text.contains("an operator drains it"),
        "{}",
        refused.text
    );
    pair.ann.packet_starting("42[\"SERVER_SHUTDOWN\"");
    drop(pair);
    let text = said(&chain.command(&[]).output().expect("sockeye upgrade"));
    assert!(
        text.contains("this process sends its clients away"),
        "{text}"
    );
    chain.first.terminate();
    chain.first_ends();
}
