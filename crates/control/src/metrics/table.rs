//! The one table of all metrics: names, types, labels, what they mean and where they are read. The exporter and
//! `docs/metrics.md` are made from it. To add a counter of the data plane: a field of `hub::metrics`, and a row here. Labels have values from a table of ours,
//! never from a client.

use super::backends::BACKENDS;
use super::detection::Detection;
use super::row::{Group, Metric, counter, gauge, histogram};
use super::tokens::AUTH;
use super::{Samples, View, load};
use hub::claims::Denied;
use hub::config::SlowConsumer;
use hub::metrics::{DURATION_BOUNDS_MS, Dropped, Limit, Scope, TURN_BOUNDS_US, VARIANTS};
use hub::tls::{TlsFailure, TlsHandshake};
use hub::{CloseReason, Stock};

pub(super) const GROUPS: &[Group] = &[
    Group {
        title: "Common names",
        intro: "Names that dashboards and alerts of WebSocket servers commonly use.",
        metrics: COMMON,
    },
    Group {
        title: "Clients",
        intro: "Clients that are connected, that connected and that left.",
        metrics: CLIENTS,
    },
    Group {
        title: "Messages",
        intro: "Messages from and to clients.",
        metrics: MESSAGES,
    },
    Group {
        title: "Compression",
        intro: "Compressed messages of WebSocket clients and compressed answers to polls.",
        metrics: COMPRESSION,
    },
    Group {
        title: "Admission and limits",
        intro: "Tokens, rates, addresses, admission ([limits.md](limits.md)).",
        metrics: ACCESS,
    },
    Group {
        title: "TLS",
        intro: "The addresses that speak TLS.",
        metrics: TLS,
    },
    Group {
        title: "WebTransport",
        intro: "Sessions by WebTransport, which shards have as connections ([protocol.md](protocol.md#webtransport)).",
        metrics: super::carrier::CARRIER,
    },
    Group {
        title: "Shards",
        intro: "The data-plane threads. `rate(sockeye_shard_busy_seconds_total[1m])` is the part of its core that a shard uses.",
        metrics: SHARDS,
    },
    Group {
        title: "Cluster",
        intro: "Other nodes, and the engine between them ([cluster.md](cluster.md)).",
        metrics: super::cluster::CLUSTER,
    },
    Group {
        title: "Directory",
        intro: "The directory in Redis for programs outside ([directory.md](directory.md)).",
        metrics: super::directory::DIRECTORY,
    },
    Group {
        title: "Feed",
        intro: "Channels of Redis that programs outside share with clients ([feed.md](feed.md)).",
        metrics: super::channels::CHANNELS,
    },
    Group {
        title: "Large events and uploads",
        intro: "Bodies that a store keeps ([large-events.md](large-events.md)).",
        metrics: super::bodies::BODIES,
    },
    Group {
        title: "Recovery",
        intro: "Clients that come back to their sockets, and the streams of level `cluster` ([recovery.md](recovery.md)).",
        metrics: super::recovery::RECOVERY,
    },
    Group {
        title: "History",
        intro: "Events that a store keeps for programs and clients that read them ([history.md](history.md)).",
        metrics: super::history::HISTORY,
    },
    Group {
        title: "Kafka",
        intro: "Events as records of Kafka, and records of programs as commands ([kafka.md](kafka.md)).",
        metrics: super::bridges::KAFKA,
    },
    Group {
        title: "NATS",
        intro: "Events as messages of NATS, and messages of programs as commands ([nats.md](nats.md)).",
        metrics: super::bridges::NATS,
    },
    Group {
        title: "Relayed connections",
        intro: "Requests for sessions of other nodes, which are passed on to them ([cluster.md](cluster.md)).",
        metrics: super::relay::RELAY,
    },
    Group {
        title: "Node servers in the cluster",
        intro: "Socket.IO servers of Node and Python on the same Redis ([node-servers.md](node-servers.md)).",
        metrics: super::foreign::FOREIGN,
    },
    Group {
        title: "Node",
        intro: "This process outside its data plane.",
        metrics: NODE,
    },
    super::upgrade::GROUP,
    Group {
        title: "Tokens and access",
        intro: "Tokens that were accepted and refused.",
        metrics: AUTH,
    },
    Group {
        title: "Backends",
        intro: "Workers, and what is between them and the sockets of their namespaces ([backends.md](backends.md)). Sums over all backends.",
        metrics: BACKENDS,
    },
    Group {
        title: "Server API",
        intro: "Calls of programs, by HTTP and gRPC ([server-api.md](server-api.md)).",
        metrics: super::api::API,
    },
    Group {
        title: "Traces",
        intro: "Spans for an OpenTelemetry collector ([tracing.md](tracing.md)).",
        metrics: TRACES,
    },
    Group {
        title: "Live traces",
        intro: "Traces that operators read while things pass ([tracing.md](tracing.md#live-trace)).",
        metrics: super::live::LIVE,
    },
    Group {
        title: "Process",
        intro: "Figures of the operating system, under Prometheus' standard names. A figure that the system does not give is left out.",
        metrics: PROCESS,
    },
];

const COMMON: &[Metric] = &[
    gauge(
        "websocket_connections_total",
        "Open WebSocket connections.",
        |v| v.sum(|c| &c.websockets),
    ),
    counter(
        "websocket_messages_total",
        "Messages received from clients.",
        |v| v.sum(|c| &c.messages_in),
    ),
    histogram(
        "websocket_message_duration_ms",
        "Time from the arrival of a message to the flush of what it caused, milliseconds.",
        |v| {
            let sum_ms = v.total(|c| &c.duration_us) / 1e3;
            v.histogram(DURATION_BOUNDS_MS.to_vec(), |c| &c.durations, sum_ms)
        },
    ),
    counter(
        "websocket_errors_total",
        "Connections that ended with an error, and messages answered with `INVALID_MESSAGE_FORMAT`, by type.",
        errors,
    )
    .by("type"),
    gauge(
        "websocket_connection_rate",
        "Connections accepted per second, over the last five seconds.",
        |v| Samples::One(Some(v.accept_rate)),
    ),
    histogram(
        "redis_publish_lag_ms",
        "Time from handing a message to Redis to its confirmation, milliseconds; empty while no Redis adapter runs.",
        super::cluster::lag,
    ),
    gauge(
        "message_queue_depth",
        "Messages waiting in the mailboxes of all shards.",
        |v| v.sum(|c| &c.mailbox),
    ),
];

const ACCESS: &[Metric] = &[
    counter(
        "sockeye_tokens_accepted_total",
        "Tokens that were good.",
        |v| v.sum(|c| &c.auth_ok),
    ),
    counter(
        "sockeye_tokens_denied_total",
        "Tokens that were refused, or that expired on a live connection, by reason.",
        |v| {
            let names = Denied::ALL.map(Denied::name);
            v.by_name(names.into_iter().enumerate(), |c| &c.denied)
        },
    )
    .by("reason"),
    gauge(
        "sockeye_asks_outstanding",
        "Questions without an answer: tokens that are verified, decisions of handlers, questions that handlers ask outside.",
        |v| v.sum(|c| &c.asks_outstanding),
    ),
    counter("sockeye_asks_total", "Tokens verified or given up.", |v| {
        v.sum(|c| &c.asks_answered)
    }),
    counter(
        "sockeye_ask_seconds_total",
        "Seconds that clients waited for these answers.",
        |v| Samples::One(Some(v.total(|c| &c.ask_ms) / 1e3)),
    ),
    counter(
        "sockeye_rate_limited_total",
        "Messages and connects over a rate, rejected or (dry run) not.",
        |v| v.by_name(Scope::NAMES.into_iter().enumerate(), |c| &c.rated),
    )
    .by("scope"),
    counter(
        "sockeye_admission_refused_total",
        "Newcomers asked to come later because there was too much to do.",
        |v| v.sum(|c| &c.admission_refused),
    ),
    gauge(
        "sockeye_addresses",
        "Addresses that have connections, counted while `limits.conns_per_address_max` is set.",
        |v| {
            Samples::One(
                v.node
                    .addresses
                    .get()
                    .map(|addresses| addresses.len() as f64),
            )
        },
    ),
];

const CLIENTS: &[Metric] = &[
    gauge("sockeye_connections", "Open connections of any kind.", |v| {
        v.sum(|c| &c.conns)
    }),
    gauge(
        "sockeye_connections_limit",
        "Connections above which newcomers are answered 503: `limits.conns_max`, or fewer if descriptors do not suffice.",
        |v| Samples::One(v.node.bounds.get().map(|bounds| bounds.connections as f64)),
    ),
    gauge(
        "sockeye_sessions",
        "Sessions: Engine.IO sessions, plain clients and event streams.",
        |v| v.sum(|c| &c.sessions),
    ),
    counter(
        "sockeye_heartbeats_total",
        "Heartbeats sent: pings, and comments in event streams ([heartbeats.md](heartbeats.md)).",
        |v| v.sum(|c| &c.heartbeats),
    ),
    gauge(
        "sockeye_heartbeat_detection_seconds",
        "Time until a Socket.IO client that is gone without a word is found, for the shortest and the longest interval that is announced, and for that of a newcomer now.",
        |v| {
            let sessions = v.total(|c| &c.sessions) as usize;
            Samples::Labelled(Detection::seconds(v.node.detection.get(), sessions))
        },
    )
    .by("interval"),
    gauge(
        "sockeye_sockets",
        "Sockets: memberships of sessions in namespaces.",
        |v| v.sum(|c| &c.sockets),
    ),
    gauge(
        "sockeye_rooms",
        "Rooms with members, counted on each shard.",
        |v| v.sum(|c| &c.rooms),
    ),
    counter(
        "sockeye_connections_accepted_total",
        "Connections accepted.",
        |v| v.sum(|c| &c.accepted),
    ),
    counter(
        "sockeye_connections_shed_total",
        "Connections and requests asked to come later: a limit, a rate, or a shutdown.",
        |v| v.sum(|c| &c.shed),
    ),
    counter(
        "sockeye_requests_refused_total",
        "Requests refused because they were wrong: bad heads, sessions that do not exist, no upgrade.",
        |v| v.sum(|c| &c.refused),
    ),
    counter(
        "sockeye_connections_moved_total",
        "Connections moved to the shard of their session.",
        |v| v.sum(|c| &c.moved),
    ),
    counter(
        "sockeye_accept_pauses_total",
        "Times accepting stopped for want of descriptors.",
        |v| v.sum(|c| &c.accept_pauses),
    ),
    counter(
        "sockeye_socket_connects_total",
        "Sockets connected to a namespace.",
        |v| v.sum(|c| &c.connects),
    ),
    counter(
        "sockeye_socket_disconnects_total",
        "Sockets that left their namespace.",
        |v| v.sum(|c| &c.disconnects),
    ),
    counter(
        "sockeye_sent_away_total",
        "Sessions that a drain or a rebalance closed: `pause` = while their client was silent and had all answers, `busy` = it never paused \
         in time, and what it said last may have no answer ([operations.md](operations.md#what-a-drain-does)).",
        |v| {
            let [pause, busy] = [v.total(|c| &c.dismissed), v.total(|c| &c.dismissed_busy)];
            Samples::Labelled(vec![("pause".to_owned(), pause), ("busy".to_owned(), busy)])
        },
    )
    .by("moment"),
    counter(
        "sockeye_closes_total",
        "Sessions and connections that ended, by reason ([protocol.md](protocol.md#close-reasons)).",
        |v| v.by_name(closes(), |c| &c.closes),
    )
    .by("reason"),
    counter(
        "sockeye_limit_hits_total",
        "Times a limit was reached ([configuration.md](configuration.md#limits)).",
        |v| v.by_name(Limit::NAMES.into_iter().enumerate(), |c| &c.limits),
    )
    .by("limit"),
];

const MESSAGES: &[Metric] = &[
    counter(
        "sockeye_deliveries_total",
        "Events delivered to clients.",
        |v| v.sum(|c| &c.deliveries),
    ),
    counter(
        "sockeye_protocol_deliveries_total",
        "Events delivered to clients, by the form in which they were written.",
        |v| v.by_name(VARIANTS.into_iter().enumerate(), |c| &c.delivered),
    )
    .by("protocol"),
    counter("sockeye_broadcasts_total", "Broadcasts begun.", |v| {
        v.sum(|c| &c.broadcasts)
    }),
    counter(
        "sockeye_received_bytes_total",
        "Bytes received from clients.",
        |v| v.sum(|c| &c.bytes_in),
    ),
    counter("sockeye_sent_bytes_total", "Bytes sent to clients.", |v| {
        v.sum(|c| &c.bytes_out)
    }),
    counter(
        "sockeye_dropped_volatile_total",
        "Volatile events dropped: the client was not writable.",
        |v| v.sum(|c| &c.dropped_volatile),
    ),
    counter(
        "sockeye_dropped_unfit_total",
        "Events and answers with an empty attachment that were left out, because WebTransport has no frame for it.",
        |v| v.sum(|c| &c.dropped_unfit),
    ),
    counter(
        "sockeye_dropped_slow_total",
        "Events dropped for clients that read too slowly, by the policy that dropped them.",
        |v| {
            let policies = SlowConsumer::NAMES.into_iter().enumerate();
            v.by_name(policies.skip(1), |c| &c.dropped_slow)
        },
    )
    .by("policy"),
    gauge(
        "sockeye_waiting_bytes",
        "Bytes that wait for clients that read slowly, each event counted once per shard however many wait for it.",
        |v| v.sum(|c| &c.waiting_bytes),
    ),
    gauge(
        "sockeye_kept_bytes",
        "Bytes that shards keep for somebody: what waits for decisions (`questions`), answers of many (`rounds`), lists of sockets for the \
         handler (`lists`), acks that wait for other nodes or a store (`acks`), events of rooms (`history`).",
        |v| v.by_name(Stock::NAMES.into_iter().enumerate(), |c| &c.kept),
    )
    .by("stock"),
    counter(
        "sockeye_dropped_received_total",
        "Messages of clients that came to nothing. `refused`: the sender was told; `unknown`: no rule knows the event.",
        |v| v.by_name(Dropped::NAMES.into_iter().enumerate(), |c| &c.dropped),
    )
    .by("reason"),
    gauge(
        "sockeye_acks_outstanding",
        "Acknowledgements the server waits for.",
        |v| v.sum(|c| &c.acks_outstanding),
    ),
    counter(
        "sockeye_handler_panics_total",
        "Handlers that failed; each cost the session it was called for.",
        |v| v.sum(|c| &c.handler_panics),
    ),
];

const COMPRESSION: &[Metric] = &[
    counter(
        "sockeye_deflate_messages_total",
        "Messages and answers to polls compressed; a broadcast counts once for each form and shard.",
        |v| v.sum(|c| &c.deflated_messages),
    ),
    counter(
        "sockeye_deflate_input_bytes_total",
        "Bytes of these before compression.",
        |v| v.sum(|c| &c.deflated_bytes_before),
    ),
    counter(
        "sockeye_deflate_output_bytes_total",
        "Bytes of these after compression.",
        |v| v.sum(|c| &c.deflated_bytes_after),
    ),
    counter(
        "sockeye_inflate_messages_total",
        "Compressed messages received.",
        |v| v.sum(|c| &c.inflated_messages),
    ),
    counter(
        "sockeye_inflate_input_bytes_total",
        "Bytes of these as received.",
        |v| v.sum(|c| &c.inflated_bytes_before),
    ),
    counter(
        "sockeye_inflate_output_bytes_total",
        "Bytes of these once inflated.",
        |v| v.sum(|c| &c.inflated_bytes_after),
    ),
    counter(
        "sockeye_inflate_errors_total",
        "Compressed messages that were too big or broken.",
        |v| v.sum(|c| &c.inflate_errors),
    ),
    gauge(
        "sockeye_deflate_connections",
        "Open WebSocket connections that agreed on compression.",
        |v| v.sum(|c| &c.deflate_websockets),
    ),
    gauge(
        "sockeye_takeover_contexts",
        "Of these, connections that keep a compression window.",
        |v| v.sum(|c| &c.takeover_contexts),
    ),
];

const TLS: &[Metric] = &[
    gauge(
        "sockeye_tls_connections",
        "Open TLS connections, in the handshake or beyond it.",
        |v| v.sum(|c| &c.tls.sessions),
    ),
    gauge(
        "sockeye_tls_memory_bytes",
        "Memory that TLS connections hold beyond plain ones: state, incomplete and unsent records.",
        |v| v.sum(|c| &c.tls.bytes),
    ),
    gauge(
        "sockeye_tls_handshakes_waiting",
        "Handshakes with something to do that wait for their turn (`limits.tls_handshakes_per_turn`).",
        |v| v.sum(|c| &c.tls.waiting),
    ),
    counter(
        "sockeye_tls_handshakes_total",
        "Handshakes ended, of clients and of nodes that relay connections to this one: with a certificate or key, from a ticket, or without success.",
        |v| {
            v.by_name(TlsHandshake::NAMES.into_iter().enumerate(), |c| {
                &c.tls.handshakes
            })
        },
    )
    .by("result"),
    counter(
        "sockeye_tls_errors_total",
        "TLS errors, in handshakes and later.",
        |v| {
            v.by_name(TlsFailure::NAMES.into_iter().enumerate(), |c| {
                &c.tls.failures
            })
        },
    )
    .by("reason"),
    gauge(
        "sockeye_tls_certificate_expiry_timestamp_seconds",
        "When the certificate in use that expires first does so, in seconds since 1970.",
        |v| {
            let expiry = load(&v.node.certificate_expiry);
            Samples::One((expiry > 0).then_some(expiry as f64))
        },
    ),
];

const SHARDS: &[Metric] = &[
    histogram(
        "sockeye_turn_duration_seconds",
        "Length of the turns of all shards: nobody is served while another's turn lasts.",
        |v| {
            let bounds = TURN_BOUNDS_US.iter().map(|us| *us as f64 / 1e6).collect();
            v.histogram(bounds, |c| &c.turn_times, v.total(|c| &c.busy_us) / 1e6)
        },
    ),
    counter(
        "sockeye_shard_busy_seconds_total",
        "Time a shard spent in turns.",
        |v| v.per_shard(|c| load(&c.busy_us) as f64 / 1e6),
    )
    .by("shard"),
    gauge(
        "sockeye_shard_stalled_seconds",
        "How long a shard has been in its present turn, measured once a second: 0 but for one that hangs.",
        |v| {
            let stalled = v.stalled.iter().enumerate();
            Samples::Labelled(stalled.map(|(n, s)| (n.to_string(), *s)).collect())
        },
    )
    .by("shard"),
    gauge(
        "sockeye_shard_connections",
        "Open connections of a shard.",
        |v| v.per_shard(|c| load(&c.conns) as f64),
    )
    .by("shard"),
    gauge(
        "sockeye_shard_mailbox_messages",
        "Messages waiting in a shard's mailbox at the end of its last turn.",
        |v| v.per_shard(|c| load(&c.mailbox) as f64),
    )
    .by("shard"),
    counter("sockeye_turns_total", "Turns of the shards' loops.", |v| {
        v.sum(|c| &c.turns)
    }),
    counter("sockeye_writes_total", "Write calls.", |v| {
        v.sum(|c| &c.writes)
    }),
    counter(
        "sockeye_mailbox_messages_total",
        "Messages sent from shard to shard, through their mailboxes.",
        |v| v.sum(|c| &c.relayed),
    ),
];

const NODE: &[Metric] = &[
    gauge(
        "sockeye_build_info",
        "Always 1; the label is the version of the running binary.",
        |_| Samples::Labelled(vec![(env!("CARGO_PKG_VERSION").to_owned(), 1.0)]),
    )
    .by("version"),
    gauge(
        "sockeye_ready",
        "1 while `/ready` answers 200, 0 while it answers 503.",
        |v| Samples::One(Some(f64::from(u8::from(v.node.readiness.is_ready())))),
    ),
    gauge(
        "sockeye_memory_limit_bytes",
        "Memory that this process may use: the limit of its control group, or what the machine has.",
        |v| {
            Samples::One(
                v.node
                    .bounds
                    .get()
                    .and_then(|b| b.memory_bytes)
                    .map(|n| n as f64),
            )
        },
    ),
    counter(
        "sockeye_log_lines_dropped_total",
        "Log lines dropped because nobody read the log fast enough.",
        |v| Samples::One(Some(load(&v.node.log.dropped) as f64)),
    ),
    counter(
        "sockeye_log_lines_suppressed_total",
        "Log lines left out because there were too many of their kind.",
        |v| Samples::One(Some(load(&v.node.log.suppressed) as f64)),
    ),
    counter(
        "sockeye_config_reloads_total",
        "Times the configuration was read again (SIGHUP).",
        |v| Samples::Labelled(v.node.reloads.by_result()),
    )
    .by("result"),
    gauge(
        "sockeye_config_last_reload_successful",
        "1 unless the last reload was refused and the old configuration kept.",
        |v| Samples::One(Some(v.node.reloads.last_successful())),
    ),
    gauge(
        "sockeye_config_last_reload_success_timestamp_seconds",
        "When the running configuration was read, in seconds since 1970.",
        |v| Samples::One(Some(v.node.reloads.last_success_seconds())),
    ),
];

const TRACES: &[Metric] = &[
    counter(
        "sockeye_trace_spans_total",
        "Spans recorded: `sent` to the collector, or `dropped`, because it did not take them or too many waited.",
        |v| {
            let stats = &v.node.traces;
            let counts = [("dropped", &stats.dropped), ("sent", &stats.sent)];
            let counts = counts.map(|(name, cell)| (name.to_owned(), load(cell) as f64));
            Samples::Labelled(counts.into())
        },
    )
    .by("outcome"),
];

const PROCESS: &[Metric] = &[
    gauge("process_resident_memory_bytes", "Resident memory.", |v| {
        known(v.usage.resident_bytes)
    }),
    gauge("process_virtual_memory_bytes", "Virtual memory.", |v| {
        known(v.usage.virtual_bytes)
    }),
    gauge("process_open_fds", "Open file descriptors.", |v| {
        known(v.usage.open_fds)
    }),
    gauge(
        "process_max_fds",
        "File descriptors the process may open.",
        |v| known(v.usage.max_fds),
    ),
    gauge("process_threads", "Threads.", |v| known(v.usage.threads)),
    counter(
        "process_cpu_seconds_total",
        "User and system CPU time.",
        |v| Samples::One(v.usage.cpu.map(|cpu| cpu.as_secs_f64())),
    ),
    gauge(
        "process_start_time_seconds",
        "Start, in seconds since 1970.",
        |v| Samples::One(v.usage.start_time),
    ),
];

fn known(value: Option<u64>) -> Samples {
    Samples::One(value.map(|value| value as f64))
}

/// Every reason with its place in the cells.
fn closes() -> impl Iterator<Item = (usize, &'static str)> {
    let all = CloseReason::ALL.iter();
    all.map(|reason| (*reason as usize, reason.name()))
}

/// Ends of connections that are nobody's intention.
fn errors(view: &View<'_>) -> Samples {
    let reasons = ERRORS
        .iter()
        .map(|reason| (*reason as usize, reason.name()));
    let mut types = view.labelled(reasons, |c| &c.closes);
    let invalid = view.total(|c| &c.invalid_messages);
    types.push(("invalid_message_format".to_owned(), invalid));
    Samples::Labelled(types)
}

const ERRORS: &[CloseReason] = &[
    CloseReason::TransportError,
    CloseReason::PingTimeout,
    CloseReason::ParseError,
    CloseReason::ProtocolError,
    CloseReason::InvalidUtf8,
    CloseReason::MessageTooBig,
    CloseReason::SlowConsumer,
    CloseReason::ConnectTimeout,
    CloseReason::MessageTimeout,
    CloseReason::HandshakeTimeout,
    CloseReason::LimitExceeded,
    CloseReason::InternalError,
];
