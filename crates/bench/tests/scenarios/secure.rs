//! Scenarios against a server behind TLS, with compressed messages and with tokens: Node's own TLS, deflate and HMAC.

use crate::node::Node;
use crate::rig::{Run, assert_clean, run, run_trusting, scenario};
use std::path::PathBuf;
use std::process::Command;
use tempfile::TempDir;

/// A certificate for 127.0.0.1 and its key, as files.
struct Identity {
    _folder: TempDir,
    certificate: PathBuf,
    key: PathBuf,
}

impl Identity {
    fn new() -> Identity {
        let folder = tempfile::tempdir().unwrap();
        let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
        let (certificate, key) = (
            folder.path().join("cert.pem"),
            folder.path().join("key.pem"),
        );
        std::fs::write(&certificate, made.cert.pem()).unwrap();
        std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
        Identity {
            _folder: folder,
            certificate,
            key,
        }
    }

    fn serve(&self, more: &[(&str, &str)]) -> Node {
        let files = [
            ("TLS_CERT", self.certificate.to_str().unwrap()),
            ("TLS_KEY", self.key.to_str().unwrap()),
        ];
        Node::with_all(&[&files, more].concat())
    }

    fn pem(&self) -> Option<String> {
        Some(std::fs::read_to_string(&self.certificate).unwrap())
    }
}

const CHATTERS: &str = r#"
[payloads.long]
size = "2000B"
[flows.member]
steps = [
  { connect = true },
  { join = "room" },
  { wait = "go" },
  { loop = [{ emit = "message", payload = "long", to = "room", echo = true, ack = true }], times = 20 },
]
"#;

#[test]
#[ignore = "needs Node: cargo xtask test foreign"]
fn every_transport_works_behind_tls() {
    let identity = Identity::new();
    for transport in ["websocket", "polling", "upgrade"] {
        let node = identity.serve(&[]);
        let head = format!("transport = \"{transport}\"");
        let scenario = scenario(10, &head, CHATTERS);
        let outcome = run_trusting(identity.pem(), &scenario, &node.url, 2);
        assert_clean(&outcome);
        assert!(outcome.totals.received >= 100, "{:?}", outcome.totals);
    }
}

/// Larger than what TLS buffers: what does not fit waits for the socket.
#[test]
#[ignore = "needs Node: cargo xtask test foreign"]
fn a_payload_larger_than_any_buffer_passes_tls_whole() {
    let identity = Identity::new();
    let node = identity.serve(&[]);
    let flows = "[payloads.big]\nsize = \"200KiB\"\n[flows.a]\nsteps = [{ connect = true }, { join = \"r\" }, { wait = \"go\" }, \
                 { loop = [{ emit = \"message\", payload = \"big\", to = \"r\", echo = true, ack = true }], times = 4 }]";
    let outcome = run_trusting(identity.pem(), &scenario(2, "", flows), &node.url, 1);
    assert_clean(&outcome);
    assert!(
        outcome.totals.bytes_received > 2_000_000,
        "{:?}",
        outcome.totals
    );
}

#[test]
#[ignore = "needs Node: cargo xtask test foreign"]
fn a_server_that_nobody_vouches_for_is_refused_by_name() {
    let node = Identity::new().serve(&[]);
    let text =
        "name='s'\n[[phases]]\nduration='1s'\nconnections=3\n[flows.a]\nsteps=[{connect=true}]";
    let stranger = Identity::new();
    let authority = stranger.certificate.to_str().unwrap();
    let ended = Run::whole(text, &node.url, &["--ca", authority]);
    ended.tells(2, &["3 × connect failed: TLS: invalid peer certificate"]);
    let refused = Command::new(env!("CARGO_BIN_EXE_sockeye-bench"))
        .args(["run", "ticker", "--ca", file!()])
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1), "{told}");
    assert!(told.contains("there is no certificate in it"), "{told}");
}

#[test]
#[ignore = "needs Node: cargo xtask test foreign"]
fn compressed_messages_are_counted_like_others() {
    let plain = run(&scenario(10, "", CHATTERS), &Node::start().url, 2);
    let node = Node::with("DEFLATE", "1");
    let packed = run(&scenario(10, "compression = true", CHATTERS), &node.url, 2);
    for outcome in [&plain, &packed] {
        assert_clean(outcome);
        assert!(outcome.totals.received >= 100, "{:?}", outcome.totals);
    }
    let each = |bytes: u64, messages: u64| bytes / messages.max(1);
    let received =
        [&plain, &packed].map(|run| each(run.totals.bytes_received, run.totals.received));
    assert!(received[1] * 5 < received[0], "{received:?}");
    let sent = [&plain, &packed].map(|run| each(run.totals.bytes_sent, run.totals.sent));
    assert!(sent[1] * 3 < sent[0], "{sent:?}");
}

#[test]
#[ignore = "needs Node: cargo xtask test foreign"]
fn a_server_that_declines_compression_is_told() {
    let flows = "[flows.a]\ncount = 2\ncompression = true\nsteps = [{ connect = true }]\n[flows.b]\nsteps = [{ connect = true }]";
    let outcome = run(&scenario(3, "", flows), &Node::start().url, 1);
    let failures = &outcome.totals.connect_failures;
    let reason = "unexpected answer: the server declined permessage-deflate";
    assert_eq!(failures.get(reason), Some(&2), "{failures:?}");
}

#[test]
#[ignore = "needs Node: cargo xtask test foreign"]
fn each_user_has_a_token_of_its_own() {
    let node = Node::with("SECRET", "a secret of thirty-two bytes or so");
    let flows = r#"
[flows.member]
steps = [
  { auth = { user = "user-${user}", secret = "a secret of thirty-two bytes or so" } },
  { connect = true },
]
[flows.stranger]
count = 2
steps = [{ auth = { user = "user-${user}", secret = "another" } }, { connect = true }]
"#;
    let outcome = run(&scenario(12, "", flows), &node.url, 1);
    let totals = &outcome.totals;
    assert_eq!(
        (totals.connects_succeeded, totals.failed_connects()),
        (10, 2)
    );
    let failures = &totals.connect_failures;
    assert_eq!(failures.get("refused: bad token"), Some(&2), "{failures:?}");
}
