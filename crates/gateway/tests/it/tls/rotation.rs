//! New certificates while clients are connected, and files that cannot be used.

use super::pki::{Pki, shown};
use crate::harness::client::SOCKETIO;
use crate::harness::{Gateway, PATIENCE, SocketIo, eventually};
use rustix::process::Signal;
use serde_json::json;
use std::process::Command;

#[test]
fn a_reload_changes_certificates_and_drops_nobody() {
    let pki = Pki::new();
    let secure = pki.gateway("", "");
    let old = pki.current();
    let client = pki.client();
    let mut conn = client.connect(secure.addr);
    assert_eq!(shown(&mut conn), old);
    let mut socket = SocketIo::over(conn.upgraded(SOCKETIO, ""));
    socket.join_namespace("/", "");

    let new = pki.renew("tls", "localhost");
    secure.gateway.signal(Signal::HUP);
    assert!(secure.gateway.logged("\"reloaded\"", PATIENCE));
    let both = pki.client_for(&[old.clone(), new.clone()]);
    let comes = || shown(&mut both.connect(secure.addr)) == new;
    assert!(eventually(PATIENCE, comes));
    // A client with an old ticket makes a full handshake: it would not see the new certificate otherwise.
    let error = client.try_connect(secure.addr, "localhost");
    assert!(
        error.is_err(),
        "a client that trusts the old certificate only"
    );
    socket.ask(3, &json!(["join", "still-here"]));
}

#[test]
fn files_that_changed_are_noticed() {
    let pki = Pki::new();
    let secure = pki.gateway("check_interval = \"100ms\"", "");
    let old = pki.current();
    let new = pki.renew("tls", "localhost");
    let both = pki.client_for(&[old, new.clone()]);
    let comes = || shown(&mut both.connect(secure.addr)) == new;
    assert!(eventually(PATIENCE, comes));
}

#[test]
fn a_bad_file_is_refused_and_the_old_certificate_stays() {
    let pki = Pki::new();
    let secure = pki.gateway("", "");
    let old = pki.current();
    let client = pki.client();
    let mut socket = SocketIo::over(client.connect(secure.addr).upgraded(SOCKETIO, ""));
    socket.join_namespace("/", "");
    let good = std::fs::read_to_string(pki.path("tls.pem")).expect("a certificate");
    pki.write("tls.pem", "-----BEGIN CERTIFICATE-----\nbroken");
    secure.gateway.signal(Signal::HUP);
    assert!(
        secure
            .gateway
            .logged("the old configuration stays", PATIENCE)
    );
    assert_eq!(shown(&mut client.connect(secure.addr)), old);
    socket.ask(3, &json!(["join", "still-here"]));
    // A key that belongs to another certificate.
    pki.renew("tls", "localhost");
    pki.write("tls.pem", &good);
    secure.gateway.signal(Signal::HUP);
    let told = "it is not the key of the first certificate in";
    assert!(secure.gateway.logged(told, PATIENCE));
    assert_eq!(shown(&mut client.connect(secure.addr)), old);
}

#[test]
fn a_bad_file_that_is_noticed_is_refused_as_well() {
    let pki = Pki::new();
    let secure = pki.gateway("check_interval = \"100ms\"", "");
    let old = pki.current();
    let client = pki.client();
    pki.write("tls.key", "nothing");
    assert!(secure.gateway.logged("the old ones stay", PATIENCE));
    assert_eq!(shown(&mut client.connect(secure.addr)), old);
}

/// What a gateway that cannot start says, and its exit code.
fn refusal(config: &str) -> (Option<i32>, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("sockeye.toml");
    std::fs::write(&path, config).expect("write");
    let mut command = Command::new(env!("CARGO_BIN_EXE_sockeye"));
    command.args(["--listen", "127.0.0.1:0", "--admin", "off", "--config"]);
    let output = command.arg(&path).output().expect("run sockeye");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code(), text)
}

#[test]
fn a_start_with_bad_files_says_which_and_why() {
    let pki = Pki::new();
    pki.renew("other", "localhost");
    let crossed = pki.section("").replace("tls.key", "other.key");
    for (config, told) in [
        (crossed, "it is not the key of the first certificate in"),
        (
            pki.section("").replace("tls.pem", "none.pem"),
            "none.pem: No such file",
        ),
        (
            pki.section("").replace("key =", "#"),
            "each certificate needs its key",
        ),
        (
            "[tls]\nlisten = [\"127.0.0.1:0\"]\n".to_owned(),
            "needs a certificate",
        ),
        (
            pki.section("").replace("listen", "#"),
            "no address speaks TLS",
        ),
        (pki.section("min_version = \"1.1\""), "min_version"),
    ] {
        let (code, text) = refusal(&config);
        assert_eq!(code, Some(2), "{config}\n{text}");
        assert!(text.contains(told), "{told}:\n{text}");
    }
}

#[test]
fn an_expired_certificate_is_a_warning() {
    let pki = Pki::new();
    let mut params = rcgen::CertificateParams::new(["localhost".to_owned()]).expect("names");
    params.not_after = rcgen::date_time_ymd(2020, 1, 1);
    let key = rcgen::KeyPair::generate().expect("a key");
    let cert = params.self_signed(&key).expect("a certificate");
    pki.write("tls.pem", &cert.pem());
    pki.write("tls.key", &key.serialize_pem());
    let gateway = Gateway::start(&pki.section(""));
    assert!(gateway.logged("certificate has expired", PATIENCE));
}
