//! A real nginx in front, configured as docs/operations.md shows it.

use super::server::Server;
use super::{connect_from, gateway_behind, join, page_client, peers, poll_in, settings};
use crate::harness::{Gateway, RawConn};
use std::net::SocketAddr;
use std::path::Path;

/// In the foreground, one process, every file in its folder. Several upstreams, as `ADDR; server ADDR`, are asked in turns.
pub fn nginx(upstream: &str) -> Server {
    let args = |folder: &Path| {
        let folder = folder.display();
        [
            "-p",
            &format!("{folder}"),
            "-c",
            &format!("{folder}/config"),
            "-e",
            "stderr",
        ]
        .map(str::to_owned)
        .to_vec()
    };
    Server::start("nginx", args, |folder, addr| config(folder, addr, upstream))
}

fn config(folder: &Path, addr: SocketAddr, upstream: &str) -> String {
    let folder = folder.display();
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .iter()
        .map(|kind| format!("{kind}_temp_path {folder}/{kind};\n"))
        .collect();
    format!(
        r#"
daemon off;
master_process off;
pid {folder}/pid;
error_log stderr;
events {{ worker_connections 256; }}
http {{
    access_log off;
    {temporary}
    map $http_upgrade $connection_upgrade {{
        default upgrade;
        ""      "";
    }}
    upstream sockeye {{
        server {upstream};
        keepalive 4;
    }}
    server {{
        listen {addr};
        location / {{
            proxy_pass http://sockeye;
            proxy_http_version 1.1;
            proxy_set_header Host $host;
            proxy_set_header Upgrade $http_upgrade;
            proxy_set_header Connection $connection_upgrade;
            proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
            proxy_buffering off;
            proxy_read_timeout 60s;
            client_max_body_size 1m;
        }}
    }}
}}
"#
    )
}

/// Clients of several addresses, on every transport, through the same proxy: each is known for who it is, also when it says
/// it were somebody else.
fn everybody_is_known(gateway: &Gateway, proxy: &Server) {
    let spoof = "X-Forwarded-For: 10.6.6.6\r\n";
    let _websockets = [
        join(connect_from("127.0.0.5", proxy.addr), ""),
        join(connect_from("127.0.0.6", proxy.addr), spoof),
    ];
    assert_eq!(peers(gateway, 2), ["127.0.0.5", "127.0.0.6"]);
    // The proxy's own connections serve whoever comes.
    for n in 0..6 {
        let client = ["127.0.0.7", "127.0.0.8"][n % 2];
        poll_in(&mut connect_from(client, proxy.addr), ["", spoof][n / 3]);
        assert_eq!(peers(gateway, n + 3)[n + 2], client);
    }
    let mut plain = connect_from("127.0.0.9", proxy.addr).upgraded("/ws", spoof);
    plain.send_text(r#"{"type":"join","room":"x","id":7}"#);
    assert_eq!(peers(gateway, 9)[8], "127.0.0.9");
    for client in ["127.0.0.5", "127.0.0.10"] {
        let page = connect_from(client, proxy.addr);
        assert_eq!(page_client(gateway, page, spoof), client);
    }
}

#[test]
#[ignore = "needs nginx: cargo xtask test foreign"]
fn over_tcp_everybody_is_known() {
    let gateway = gateway_behind("\"127.0.0.1\"", "");
    let proxy = nginx(&gateway.addr.to_string());
    everybody_is_known(&gateway, &proxy);
}

#[test]
#[ignore = "needs nginx: cargo xtask test foreign"]
fn over_a_unix_socket_everybody_is_known() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let place = format!("unix:{}", folder.path().join("s.sock").display());
    let gateway = Gateway::start_with(&settings("\"127.0.0.1\"", ""), &["--listen", &place]);
    let proxy = nginx(&place);
    everybody_is_known(&gateway, &proxy);
}

#[test]
#[ignore = "needs nginx: cargo xtask test foreign"]
fn a_session_moves_from_polling_to_websocket_through_it() {
    let gateway = gateway_behind("\"127.0.0.1\"", "");
    let proxy = nginx(&gateway.addr.to_string());
    let sid = poll_in(&mut connect_from("127.0.0.5", proxy.addr), "");
    let target = format!("/socket.io/?EIO=4&transport=websocket&sid={sid}");
    let mut conn = RawConn::websocket(proxy.addr, &target);
    conn.send_text("2probe");
    assert_eq!(conn.frame().text(), "3probe");
    conn.send_text("5");
    conn.send_text("421[\"echo\",\"through\"]");
    assert_eq!(conn.frame().text(), "431[\"through\"]");
    assert_eq!(peers(&gateway, 1), ["127.0.0.5"]);
}

/// Without a word in the configuration a proxy is a client like any other.
#[test]
#[ignore = "needs nginx: cargo xtask test foreign"]
fn a_proxy_nobody_trusts_is_the_client() {
    let gateway = gateway_behind("\"10.0.0.0/8\"", "");
    let proxy = nginx(&gateway.addr.to_string());
    let _client = join(connect_from("127.0.0.5", proxy.addr), "");
    assert_eq!(peers(&gateway, 1), ["127.0.0.1"]);
}
