//! Keys about who is in front of the gateway: proxies, and pages of other sites.

use super::{EMPTY_LIST, Key};
use crate::config::value::Kind;

/// What stands in front.
pub(super) fn proxies() -> Vec<Key> {
    vec![
        Key::new(
            "server.unix_mode",
            Kind::Text,
            "0660",
            "Permissions of the Unix sockets listened on, octal.",
        ),
        Key::new(
            "server.trusted_proxies",
            Kind::List,
            EMPTY_LIST,
            "Addresses and ranges (`10.0.0.0/8`, `::1`) of proxies whose word is taken for a client's address; who comes by \
             a Unix socket is `127.0.0.1`. See [operations.md](operations.md#behind-a-proxy).",
        ),
        Key::new(
            "server.client_header",
            Kind::Choice(&["x-forwarded-for", "forwarded", "none"]),
            "x-forwarded-for",
            "Header in which trusted proxies name the client; the other one is not read, since a proxy passes on what it \
             does not write.",
        ),
        Key::new(
            "server.proxy_protocol",
            Kind::Choice(&["off", "optional", "required"]),
            "off",
            "Whether connections of trusted proxies begin with a PROXY protocol header (version 1 or 2); connections of \
             others never do.",
        ),
    ]
}

/// Who may use it from where.
pub(super) fn socketio_access() -> Vec<Key> {
    vec![
        Key::new(
            "socketio.cors",
            Kind::List,
            EMPTY_LIST,
            "Origins that may poll from another site, with credentials: `https://chat.example.org`, \
             `https://*.example.org` for every name below, `null` for pages without one; `[\"*\"]` for any, \
             without credentials; empty for none.",
        ),
        Key::new(
            "socketio.cors_max_age",
            Kind::Duration,
            "10m",
            "How long a browser may keep the answer to a preflight.",
        ),
        Key::new(
            "socketio.origins",
            Kind::List,
            EMPTY_LIST,
            "When not empty, pages of other origins get 403 on every transport; written as for `cors`. Set it where \
             browsers send cookies or client certificates by themselves: cross-origin rules do not bind WebSockets.",
        ),
        Key::new(
            "socketio.serve_client",
            Kind::Bool,
            "true",
            "Serve the JavaScript client at `/socket.io/socket.io.js`.",
        ),
    ]
}
