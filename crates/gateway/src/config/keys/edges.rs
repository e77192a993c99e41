//! Keys about who is in front of the gateway: proxies, and pages of other sites.

use super::EMPTY_LIST;
use crate::config::typed::{choice, section};
use hub::trust::{ClientHeader, ProxyProtocol};
use std::time::Duration;

choice! {
    ClientHeader {
        "x-forwarded-for" => ClientHeader::XForwardedFor,
        "forwarded" => ClientHeader::Forwarded,
        "none" => ClientHeader::None,
    }
    ProxyProtocol {
        "off" => ProxyProtocol::Off,
        "optional" => ProxyProtocol::Optional,
        "required" => ProxyProtocol::Required,
    }
}

section! {
    /// What stands in front.
    Proxies = "server." {
        unix_mode: String = "0660",
            "Permissions of the Unix sockets listened on, octal.";
        trusted_proxies: Vec<String> = EMPTY_LIST,
            "Addresses and ranges (`10.0.0.0/8`, `::1`) of proxies whose word is taken for a client's address; a client on \
             a Unix socket counts as `127.0.0.1`. See [operations.md](operations.md#behind-a-proxy).";
        client_header: ClientHeader = "x-forwarded-for",
            "Header in which trusted proxies name the client. Only this header is read: a proxy forwards the other one \
             unchanged, so clients could forge it.";
        proxy_protocol: ProxyProtocol = "off",
            "Whether connections of trusted proxies begin with a PROXY protocol header (version 1 or 2); connections of \
             others never do.";
    }
}

section! {
    /// Origins whose pages may use it.
    Origins = "socketio." {
        cors: Vec<String> = EMPTY_LIST,
            "Origins that may poll from another site, with credentials: `https://chat.example.org`, \
             `https://*.example.org` for every name below, `null` for pages without one; `[\"*\"]` for any, \
             without credentials; empty for none.";
        cors_headers: Vec<String> = EMPTY_LIST,
            "Header lines that pages of those origins may send; empty for all that they ask for in a preflight.";
        cors_max_age: Duration = "10m",
            "How long a browser may keep the answer to a preflight.";
        origins: Vec<String> = EMPTY_LIST,
            "When not empty, pages of other origins get 403 on every transport; written as for `cors`. The gateway's own origin counts as listed, but \
             for a name without TLS, which any site can borrow (DNS rebinding). Set it where browsers send cookies or client certificates by themselves: cross-origin rules do not bind WebSockets.";
        serve_client: bool = "true",
            "Serve the JavaScript client at `/socket.io/socket.io.js`.";
    }
}
