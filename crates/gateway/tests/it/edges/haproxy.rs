//! A real HAProxy in front, configured as docs/operations.md shows it: the PROXY protocol in both versions, and headers.

use super::server::Server;
use super::{
    SOON, connect_from, gateway_behind, join, logged, page_client, peers, poll_in, settings,
};
use crate::harness::Gateway;
use crate::harness::eventually;
use crate::tls::pki::{Pki, Secure};
use std::net::SocketAddr;
use std::path::Path;

/// In the foreground; `mode` and `server` are what the cases differ in.
fn haproxy(mode: &str, more: &str, server: &str) -> Server {
    Server::start("haproxy", in_foreground, |_, addr| {
        format!(
            "global\n    maxconn 256\n    nbthread 1\n\
             defaults\n    mode {mode}\n    timeout connect 5s\n    timeout client 60s\n    timeout server 60s\n    \
             timeout tunnel 1h\n    timeout check 5s\n\
             listen public\n    bind {addr}\n{more}    server one {server}\n"
        )
    })
}

/// The settings of `deploy/docker/haproxy.cfg`, for these nodes.
pub fn balancing(nodes: &[SocketAddr]) -> Server {
    let shipped = include_str!("../../../../../deploy/docker/haproxy.cfg");
    let servers: String = (1..)
        .zip(nodes)
        .map(|(n, node)| format!("    server node-{n} {node}\n"))
        .collect();
    let keep = |line: &&str| {
        let line = line.trim_start();
        !(line.starts_with("server ")
            || line.starts_with("resolvers ")
            || line.starts_with("nameserver "))
    };
    let lines: Vec<&str> = shipped.lines().filter(keep).collect();
    let config = lines.join("\n") + "\n" + &servers;
    let config = config.replace(" init-addr libc,none resolvers docker", "");
    let config = config.replace("maxconn 100000", "maxconn 4096\n    nbthread 1");
    Server::start("haproxy", in_foreground, |_, addr| {
        config.replace("bind :3000", &format!("bind {addr}"))
    })
}

pub fn in_foreground(folder: &Path) -> Vec<String> {
    let config = folder.join("config").display().to_string();
    ["-db", "-f", &config].map(str::to_owned).to_vec()
}

/// Both WebSocket protocols, polling and pages, from clients of several addresses.
fn everybody_is_known(gateway: &Gateway, proxy: &Server) {
    let spoof = "X-Forwarded-For: 10.6.6.6\r\nForwarded: for=10.6.6.6\r\n";
    let _websockets = [
        join(connect_from("127.0.0.5", proxy.addr), ""),
        join(connect_from("127.0.0.6", proxy.addr), spoof),
    ];
    assert_eq!(peers(gateway, 2), ["127.0.0.5", "127.0.0.6"]);
    for n in 0..4 {
        let client = ["127.0.0.7", "127.0.0.8"][n % 2];
        poll_in(&mut connect_from(client, proxy.addr), ["", spoof][n / 2]);
        assert_eq!(peers(gateway, n + 3)[n + 2], client);
    }
    let mut plain = connect_from("127.0.0.9", proxy.addr).upgraded("/ws", spoof);
    plain.send_text(r#"{"type":"join","room":"x","id":7}"#);
    assert_eq!(peers(gateway, 7)[6], "127.0.0.9");
    let page = connect_from("127.0.0.10", proxy.addr);
    assert_eq!(page_client(gateway, page, spoof), "127.0.0.10");
}

#[test]
#[ignore = "needs HAProxy: cargo xtask test foreign"]
fn proxy_protocol_version_1() {
    let gateway = gateway_behind("\"127.0.0.1\"", "proxy_protocol = \"required\"");
    let proxy = haproxy("tcp", "", &format!("{} send-proxy", gateway.addr));
    everybody_is_known(&gateway, &proxy);
}

#[test]
#[ignore = "needs HAProxy: cargo xtask test foreign"]
fn proxy_protocol_version_2_with_extensions() {
    let gateway = gateway_behind("\"127.0.0.1\"", "proxy_protocol = \"required\"");
    let server = format!(
        "{} send-proxy-v2 proxy-v2-options crc32c,unique-id",
        gateway.addr
    );
    let proxy = haproxy("tcp", "", &server);
    everybody_is_known(&gateway, &proxy);
}

#[test]
#[ignore = "needs HAProxy: cargo xtask test foreign"]
fn proxy_protocol_over_a_unix_socket() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("s.sock").display().to_string();
    let settings = settings("\"127.0.0.1\"", "proxy_protocol = \"required\"");
    let gateway = Gateway::start_with(&settings, &["--listen", &format!("unix:{path}")]);
    let proxy = haproxy("tcp", "", &format!("unix@{path} send-proxy-v2"));
    everybody_is_known(&gateway, &proxy);
}

#[test]
#[ignore = "needs HAProxy: cargo xtask test foreign"]
fn x_forwarded_for() {
    let gateway = gateway_behind("\"127.0.0.1\"", "");
    let proxy = haproxy("http", "    option forwardfor\n", &gateway.addr.to_string());
    everybody_is_known(&gateway, &proxy);
}

#[test]
#[ignore = "needs HAProxy: cargo xtask test foreign"]
fn rfc_7239() {
    let gateway = gateway_behind("\"127.0.0.1\"", "client_header = \"forwarded\"");
    let add = "    http-request add-header Forwarded for=%[src];proto=http\n";
    let proxy = haproxy("http", add, &gateway.addr.to_string());
    everybody_is_known(&gateway, &proxy);
}

/// Attack A12: its own questions come with a `LOCAL` header: the proxy is the client then.
#[test]
#[ignore = "needs HAProxy: cargo xtask test foreign"]
fn health_checks_are_the_proxys_own() {
    let gateway = gateway_behind("\"127.0.0.1\"", "proxy_protocol = \"required\"");
    let server = format!(
        "{} check inter 100ms check-send-proxy send-proxy-v2",
        gateway.addr
    );
    let check = "    option httpchk GET /ready\n";
    let proxy = haproxy("tcp", check, &server);
    let asked = || logged(&gateway, "page", "peer").len() >= 3;
    assert!(eventually(SOON, asked), "no health check came");
    let seen = logged(&gateway, "page", "peer");
    assert!(seen.iter().all(|peer| peer == "127.0.0.1"), "{seen:?}");
    let _client = join(connect_from("127.0.0.5", proxy.addr), "");
    assert_eq!(peers(&gateway, 1), ["127.0.0.5"]);
    assert!(!proxy.log().contains("is DOWN"), "{}", proxy.log());
}

/// The header comes before TLS, which ends in the gateway. The proxy is made to say something else than the truth, as the
/// truth would be its own address.
#[test]
#[ignore = "needs HAProxy: cargo xtask test foreign"]
fn tls_passes_through_behind_a_header() {
    let pki = Pki::new();
    let settings = settings("\"127.0.0.1\"", "proxy_protocol = \"required\"");
    let gateway = Gateway::start(&format!("{settings}{}", pki.section("")));
    let secure = Secure::new(gateway);
    let told = "    tcp-request connection set-src src,ipmask(8)\n";
    for version in ["send-proxy", "send-proxy-v2"] {
        let proxy = haproxy("tcp", told, &format!("{} {version}", secure.addr));
        let _client = join(pki.client().connect(proxy.addr), "");
    }
    assert_eq!(peers(&secure.gateway, 2), ["127.0.0.0", "127.0.0.0"]);
}
