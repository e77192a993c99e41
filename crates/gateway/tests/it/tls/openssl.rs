//! The same server seen by OpenSSL's command line client, which shares no code with rustls.

use super::pki::{Pki, Secure};
use std::io::Write;
use std::process::{Command, Stdio};

/// Runs `openssl s_client` with these arguments, `input` typed into it; what it said, and whether it ended well.
fn s_client(secure: &Secure, args: &[&str], input: &str) -> (String, bool) {
    let mut command = Command::new("openssl");
    let addr = secure.addr.to_string();
    command.args(["s_client", "-connect", &addr, "-servername", "localhost"]);
    command
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().expect("openssl is installed");
    let mut stdin = child.stdin.take().expect("stdin");
    // It may have given up before it reads.
    let _ = stdin.write_all(input.as_bytes());
    drop(stdin);
    let output = child.wait_with_output().expect("its end");
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.push_str(&String::from_utf8_lossy(&output.stderr));
    (text, output.status.success())
}

const GET: &str = "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n";

#[test]
#[ignore = "needs OpenSSL: cargo xtask test foreign"]
fn it_talks_both_versions() {
    let pki = Pki::new();
    let secure = pki.gateway("", "");
    for (flag, version) in [("-tls1_2", "TLSv1.2"), ("-tls1_3", "TLSv1.3")] {
        let (text, _) = s_client(&secure, &[flag, "-ign_eof", "-alpn", "http/1.1"], GET);
        assert!(text.contains(&format!("New, {version}")), "{text}");
        assert!(text.contains("ALPN protocol: http/1.1"), "{text}");
        assert!(text.contains("HTTP/1.1 200 OK"), "{text}");
        assert!(text.contains("healthy"), "{text}");
    }
}

#[test]
#[ignore = "needs OpenSSL: cargo xtask test foreign"]
fn it_resumes_with_a_ticket() {
    let pki = Pki::new();
    let secure = pki.gateway("", "");
    for flag in ["-tls1_2", "-tls1_3"] {
        let path = pki.path("session.pem");
        let path = path.to_str().expect("a path in UTF-8");
        let (text, _) = s_client(&secure, &[flag, "-ign_eof", "-sess_out", path], GET);
        assert!(text.contains("New, TLSv1."), "{text}");
        let (text, _) = s_client(&secure, &[flag, "-ign_eof", "-sess_in", path], GET);
        assert!(text.contains("Reused, TLSv1."), "{text}");
        assert!(text.contains("HTTP/1.1 200 OK"), "{text}");
    }
    assert_eq!(secure.handshakes("resumed"), 2.0);
}

/// Attack A13.
#[test]
#[ignore = "needs OpenSSL: cargo xtask test foreign"]
fn versions_before_1_2_are_refused() {
    let pki = Pki::new();
    let secure = pki.gateway("", "");
    for flag in ["-tls1", "-tls1_1"] {
        // OpenSSL itself speaks them only when told to lower its standards.
        let (text, well) = s_client(&secure, &[flag, "-cipher", "DEFAULT:@SECLEVEL=0"], "");
        assert!(!well, "{text}");
        assert!(
            text.contains("New, (NONE)") && text.contains("alert"),
            "{text}"
        );
    }
    assert_eq!(secure.errors("version"), 2.0);
    assert_eq!(secure.handshakes("failed"), 2.0);
}

/// Attack A13.
#[test]
#[ignore = "needs OpenSSL: cargo xtask test foreign"]
fn renegotiation_is_refused() {
    let pki = Pki::new();
    let secure = pki.gateway("", "");
    // A line `R` makes it ask for another handshake.
    let (text, _) = s_client(&secure, &["-tls1_2"], "R\n");
    assert!(text.contains("RENEGOTIATING"), "{text}");
    assert!(
        text.contains("no renegotiation") || text.contains("unexpected message"),
        "{text}"
    );
    assert_eq!(secure.handshakes("full"), 1.0);
}
