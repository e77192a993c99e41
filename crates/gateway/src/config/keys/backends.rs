//! The keys of `[workers]` and `[backends.NAME]`.

use super::namespaces::table;
use super::{EMPTY_LIST, Key};
use crate::config::layer::{Layer, Path};
use crate::config::typed::{Bytes, Field, Typed, Whole, section};
use identity::Secret;
use std::time::Duration;

section! {
    /// Where workers attach.
    Workers = "workers." {
        listen: String = "off",
            "Address for workers, `IP:PORT`, or a Unix socket, `unix:/run/workers.sock`, which only the gateway's own user may open; `off` for none. Each backend is a table of its own, `[backends.NAME]`.";
        cert: Vec<String> = EMPTY_LIST
            => live(),
            "PEM files, each a certificate and its chain, as in `tls.cert`: with them workers attach by TLS (`https://`). \
             `tls.min_version` and `tls.check_interval` hold for them, too.";
        key: Vec<String> = EMPTY_LIST
            => live(),
            "PEM files with the keys of `cert`, in the same order.";
        client_ca: Option<String> = ""
            => live(),
            "PEM file with authorities: workers, and callers of the API by gRPC, need a certificate by one of them, beside their API key.";
        plaintext: bool = "false",
            "Without `cert`: allow an address that is not a loopback one. Everybody on the way can then read the workers' keys and all events.";
        conns_max: Whole<1, 65536> = "1024",
            "Connections to this address. One more takes the place of one that has shown no key, of these the one that was silent for \
             longest; if all have shown one, of the most silent of all.";
    }
}

table! {
    /// One backend.
    Backend {
        api_keys: Vec<String> = EMPTY_LIST
            => live(),
            "Keys of its workers as `NAME:SHA256`; `sockeye api-key NAME` makes one. Without `url`, at least one is needed. A worker whose key \
             is taken away loses its link.";
        url: Option<String> = "",
            "Address of an endpoint that gets by HTTP requests what workers get by their stream (docs/webhooks.md). No worker attaches then, and \
             `rehome_after`, `silent_after`, `slow_after`, `stalled_after`, `close_when_absent` and `window` mean nothing.";
        secret: Option<Secret> = ""
            => live(),
            "With `url`: the secret with which requests are signed, 32 random characters or more.";
        secret_old: Option<Secret> = ""
            => live(),
            "The secret before it. While it is set, each request has both signatures.";
        private_addresses: bool = "false",
            "With `url`: the endpoint may have an address that is not on the Internet, and may be without TLS.";
        decides: bool = "true",
            "With `url`: the endpoint decides who may join. If not, it is only told, and keeps nobody out.";
        call_timeout: Duration = "5s",
            "With `url`: a request that is not answered by then has failed.";
        calls_max: Whole<1, 1024> = "32",
            "With `url`: requests at the same time.";
        batch_max: Whole<1, 1000> = "100",
            "With `url`: events in one request. Those whose client waits for an answer have a request of their own.";
        batch_delay: Duration = "50ms",
            "With `url`: the time that an event waits for others, to be sent with them.";
        retry_min: Duration = "500ms",
            "With `url`: the pause before a failed request is made again. Each further one is twice as long.";
        retry_max: Duration = "30s",
            "With `url`: the longest pause.";
        keep_news: Duration = "1h",
            "With `url`: the time for which the gateway tries to deliver beginnings and ends of sockets.";
        connect_timeout: Duration = "10s",
            "A client whose CONNECT no worker has decided by then gets CONNECT_ERROR `service unavailable`.";
        rehome_after: Duration = "500ms",
            "Time for a worker whose link broke to come back. Then its sockets move to other workers.";
        silent_after: Duration = "10s",
            "A worker that says nothing for this long is taken for lost.";
        slow_after: Duration = "5s",
            "A worker that has events and handles none for this long gets no more sockets. While all workers are like that, one \
             newcomer a second is let through.";
        stalled_after: Duration = "30s",
            "A worker that speaks, and handles nothing for so long while more waits for it than `window` or its connection takes, is lost: \
             its sockets move. The same holds for one that wants to leave and handles nothing of what it has.";
        answer_timeout: Duration = "30s",
            "A client that waits for the ack of an event gets it by then, or an error. The time in which its socket has no worker does not \
             count: `park_timeout` bounds it.";
        park_timeout: Duration = "60s",
            "Time that events wait for a worker to come. Then their clients are told that no backend is connected.";
        close_when_absent: bool = "false",
            "Close clients that were without a worker for `park_timeout`: they come back by themselves.";
        openings: bool = "false",
            "Each request for a session of Socket.IO needs the consent of a worker of this backend (`allowRequest`), whatever namespaces \
             its client joins, also while none is attached. Several backends with it are all asked. Workers of a backend without it are \
             asked about none.";
        window: Bytes = "1MiB",
            "Bytes that one worker may have got and not handled. A slow worker gets no more.";
        queue_max: Bytes = "64MiB",
            "Bytes that may be kept for the workers of this backend. Events above it are refused (`BACKEND_BUSY`).";
        socket_max: Bytes = "1MiB",
            "The same for one socket: a burst that a client sends at once. A single larger event is let through.";
    }
}

impl Backend {
    pub fn of(layer: &Layer, name: &str) -> Self {
        Backend::read(layer, &["backends", name])
    }

    pub fn all_keys() -> Vec<Key> {
        Backend::keys("backends.*")
    }
}
