//! What the start says: where to go, what was read, how to stop.

use crate::cli::VERSION;
use crate::config::Loaded;
use crate::foyer::Foyer;
use control::metrics::detection::Detection;
use shard::Shards;
use std::net::{IpAddr, SocketAddr, TcpListener};
use units::format_duration;

/// How to stop.
const STOP: &str = "Ctrl-C";
/// How to stop at once.
pub const HURRY: &str = "Ctrl-C or SIGTERM again ends it at once";

/// The line before that: somebody is there, and lets nobody in yet.
pub fn say_starting(foyer: &Foyer, admin: Option<&TcpListener>) {
    let (plain, secure) = foyer.addrs();
    let list = |addrs: &[SocketAddr]| {
        let addrs = addrs.iter().map(ToString::to_string);
        addrs.collect::<Vec<_>>().join(",")
    };
    let admin = admin.and_then(|admin| admin.local_addr().ok());
    tracing::info!(
        addresses = list(&plain),
        tls = (!secure.is_empty()).then(|| list(&secure)),
        admin = admin.map_or("off".to_owned(), |addr| addr.to_string()),
        version = VERSION,
        stop = STOP,
        "joining the cluster: clients are told to come again"
    );
}

/// The line that says: ready.
pub fn say(
    loaded: &Loaded,
    node: u16,
    shards: &Shards,
    admin: Option<SocketAddr>,
    workers: Option<String>,
) {
    let config = &loaded.resolved;
    let secure = config.tls.iter().flat_map(|tls| &tls.listen);
    let wanted = config.server.listen.iter().chain(secure);
    let bound = shards.local_addrs().iter().chain(shards.tls_addrs());
    for (wanted, bound) in wanted
        .zip(bound)
        .filter(|(a, b)| a.is_ipv6() && b.is_ipv4())
    {
        tracing::warn!("there is no IPv6 here: listening on {bound} in place of {wanted}");
    }
    let list = |addrs: &[SocketAddr]| addrs.iter().map(ToString::to_string).collect::<Vec<_>>();
    let unix = config.server.unix.iter();
    let unix = unix.map(|path| format!("unix:{}", path.display()));
    let addresses: Vec<_> = list(shards.local_addrs()).into_iter().chain(unix).collect();
    tracing::info!(
        url = url(shards.local_addrs(), shards.tls_addrs()),
        addresses = addresses.join(","),
        tls = config
            .tls
            .as_ref()
            .map(|_| list(shards.tls_addrs()).join(",")),
        admin = admin.map_or("off".to_owned(), |addr| addr.to_string()),
        workers,
        file = loaded.file.as_deref().unwrap_or("none, built-in defaults"),
        profile = config.profile.name(),
        shards = config.server.shards,
        node,
        version = VERSION,
        stop = STOP,
        "listening"
    );
    say_heartbeats(&config.hub);
}

/// Intervals that differ make times that differ.
fn say_heartbeats(hub: &hub::config::Config) {
    if !hub.stretch.is_on() {
        return;
    }
    let detection = Detection::of(hub);
    tracing::info!(
        shortest = format_duration(detection.shortest()),
        longest = format_duration(detection.longest()),
        "intervals of heartbeats grow with the number of sessions: a Socket.IO client that is gone is found after these times"
    );
}

/// What `/` says where there is no page: where clients connect.
pub fn doors(hub: &hub::config::Config) -> String {
    let path = &hub.socketio_path;
    let usual = path == "/socket.io/";
    let option = match usual {
        true => String::new(),
        false => format!(", {{ path: {path:?} }}"),
    };
    let others = [
        ("plain WebSocket", hub.plain_path.as_ref()),
        ("raw WebSocket", hub.plain_raw.as_ref().map(|raw| &raw.path)),
        ("event streams", hub.sse_path.as_ref()),
    ];
    let others = others.into_iter();
    let others = others.filter_map(|(kind, path)| Some(format!("{kind}: {}", path?)));
    let lines = [
        "Sockeye runs here, and has no page at this path.".to_owned(),
        format!("Socket.IO clients: io(\"this address\"{option})"),
    ];
    let lines: Vec<_> = lines.into_iter().chain(others).collect();
    lines.join("\n") + "\n"
}

/// What to type into a browser on this machine.
fn url(plain: &[SocketAddr], secure: &[SocketAddr]) -> Option<String> {
    let first = |scheme, addrs: &[SocketAddr]| addrs.first().map(|addr| (scheme, *addr));
    let (scheme, addr) = first("http", plain).or_else(|| first("https", secure))?;
    let host = match addr.ip() {
        ip if ip.is_unspecified() || ip.is_loopback() => "localhost".to_owned(),
        IpAddr::V4(ip) => ip.to_string(),
        IpAddr::V6(ip) => format!("[{ip}]"),
    };
    let usual = matches!((scheme, addr.port()), ("http", 80) | ("https", 443));
    let port = if usual {
        String::new()
    } else {
        format!(":{}", addr.port())
    };
    Some(format!("{scheme}://{host}{port}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_to_open_is_one_that_a_browser_takes() {
        let addr = |text: &str| text.parse::<SocketAddr>().expect(text);
        for (text, wanted) in [
            ("[::]:3000", "http://localhost:3000"),
            ("0.0.0.0:80", "http://localhost"),
            ("127.0.0.1:3000", "http://localhost:3000"),
            ("192.0.2.7:3000", "http://192.0.2.7:3000"),
            ("[2001:db8::7]:3000", "http://[2001:db8::7]:3000"),
        ] {
            let both = url(&[addr(text)], &[addr("[::]:443")]);
            assert_eq!(both.as_deref(), Some(wanted));
        }
        assert_eq!(
            url(&[], &[addr("[::]:443")]).as_deref(),
            Some("https://localhost")
        );
        assert_eq!(url(&[], &[]), None);
    }
}
