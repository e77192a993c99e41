//! A small application on the handler seam, so that protocol suites can be pointed at the gateway's own code.
//!
//! `cargo run --release -p gateway --example conformance -- --port 3000`
//!
//! It is an ordinary in-process handler: nothing in the gateway knows it. Besides `/socket.io/` it serves a bare Engine.IO
//! echo at `/engine.io/` and a pure WebSocket echo at `/echo`. With `--worker` the namespaces are those of a worker.

mod cluster;
mod lab;
mod late;
mod porter;
mod worker;

use anyhow::Context as _;
use clap::Parser;
use cluster::Seat;
use control::page::{PageConfig, Pages};
use control::webtransport::{self, Carrier};
use hub::config::{self, Compression, Config, Cors};
use hub::limits::Limits;
use hub::{
    AnswerHeaders, Ask, ConnectRequest, Context, Data, Decision, Emit, Event, Handler,
    HandlerFactory, Notice, Opening, Outlets, Parcel, Places, Refusal, Request, SessionKey,
    SocketKey,
};
use lab::Lab;
use late::Late;
use nodes::Member;
use nodes::relay::{Relayed, Relays};
use porter::Porter;
use process::health::Readiness;
use process::stream::Stream;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use shard::{Answerer, Detached, Handover, Outside, Relay, Settings, Shards};
use std::any::Any;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::mpsc::UnboundedSender;
use worker::Counter;

#[derive(Debug, Parser)]
struct Flags {
    #[arg(long, default_value_t = 3000)]
    port: u16,
    /// Milliseconds.
    #[arg(long, default_value_t = 300)]
    ping_interval: u64,
    /// Milliseconds.
    #[arg(long, default_value_t = 200)]
    ping_timeout: u64,
    /// Milliseconds.
    #[arg(long, default_value_t = 1000)]
    connect_timeout: u64,
    /// Bytes.
    #[arg(long, default_value_t = 1_000_000)]
    max_payload: usize,
    /// Threads. Two by default, so that requests land on shards that do not own their session.
    #[arg(long, default_value_t = 2)]
    shards: usize,
    /// Of Socket.IO packets.
    #[arg(long, default_value = "json", value_parser = ["json", "msgpack"])]
    parser: String,
    /// Agree on permessage-deflate, keeping windows as far as the client wants it.
    #[arg(long)]
    deflate: bool,
    /// PEM file: the port then speaks TLS, and nothing else.
    #[arg(long, requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// PEM file.
    #[arg(long, requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Offer WebTransport too, on the same port by UDP.
    #[arg(long, requires = "tls_cert")]
    webtransport: bool,
    /// Clients get their socket back, with what they missed, within two minutes: all, or those that ask.
    #[arg(long, value_name = "WHO", num_args = 0..=1, default_missing_value = "all", value_parser = ["all", "asked"])]
    recovery: Option<String>,
    /// Serve clients of Socket.IO 2 too.
    #[arg(long)]
    allow_eio3: bool,
    /// Look at opening requests, as their header `X-Opening` says, and add header lines to answers.
    #[arg(long)]
    porter: bool,
    /// A worker serves the namespaces: it attaches here with the key `sockeye-conformance`, as backend `conformance`.
    #[arg(long, value_name = "ADDR", conflicts_with = "porter")]
    worker: Option<SocketAddr>,
    #[command(flatten)]
    cluster: cluster::Wanted,
}

impl Flags {
    fn config(&self) -> Config {
        Config {
            engineio_path: Some("/engine.io/".into()),
            raw_path: Some("/echo".into()),
            allow_eio3: self.allow_eio3,
            ping_interval: Duration::from_millis(self.ping_interval),
            ping_timeout: Duration::from_millis(self.ping_timeout),
            connect_timeout: Duration::from_millis(self.connect_timeout),
            parser: match self.parser.as_str() {
                "msgpack" => config::Parser::Msgpack,
                _ => config::Parser::Json,
            },
            max_payload: self.max_payload,
            cors: Cors::Any,
            transports: config::Transports {
                webtransport: self.webtransport,
                ..Config::default().transports
            },
            keep_handshake: true,
            limits: echo_limits(),
            compression: self.compression(),
            recovery: self.recovery(),
            ..Config::default()
        }
    }

    fn recovery(&self) -> config::Recovery {
        let recover = |who: &String| config::Recover {
            window: Duration::from_secs(120),
            offsets: match who.as_str() {
                "asked" => config::Offsets::Asked,
                _ => config::Offsets::All,
            },
            goes_abroad: false,
            chronicle: false,
            replicas: 0,
        };
        let all = self.recovery.iter();
        config::Recovery {
            namespaces: all
                .map(|who| ("*".to_owned(), Some(recover(who))))
                .collect(),
        }
    }

    /// The suite's messages are short: all of them are compressed, however little is gained.
    fn compression(&self) -> Compression {
        Compression {
            websocket: self.deflate,
            threshold: if self.deflate { 1 } else { 1024 },
            server_takeover: true,
            client_takeover: true,
            ..Compression::default()
        }
    }

    fn tls(&self, listen: &[SocketAddr]) -> anyhow::Result<Option<shard::Tls>> {
        let Some((cert, key)) = self.tls_cert.as_ref().zip(self.tls_key.as_ref()) else {
            return Ok(None);
        };
        let chain = CertificateDer::pem_file_iter(cert)
            .and_then(Iterator::collect)
            .with_context(|| format!("cannot read {}", cert.display()))?;
        let key = PrivateKeyDer::from_pem_file(key)
            .with_context(|| format!("cannot read {}", key.display()))?;
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(chain, key)?;
        Ok(Some(shard::Tls {
            listen: listen.to_vec(),
            config: Arc::new(config),
        }))
    }
}

/// Brings streams to the shards while it lives.
fn carrier(
    config: &Config,
    tls: &ServerConfig,
    shards: &Shards,
) -> anyhow::Result<Arc<dyn Carrier>> {
    let settings = webtransport::Settings {
        listen: shards.tls_addrs().to_vec(),
        takes_over: false,
        paths: vec!["/socket.io/".to_owned(), "/engine.io/".to_owned()],
        opening_timeout: config.limits.handshake_timeout,
        idle_timeout: config.ping_interval + config.ping_timeout,
        close_timeout: config.limits.close_timeout,
        threads: 1,
    };
    let bring = shards.carrier();
    let bring = Box::new(move |stream, client| {
        let place = bring(stream, client)?;
        Some(Box::new(place) as Box<dyn Any + Send>)
    });
    webtransport::start(settings, tls, bring).map_err(anyhow::Error::msg)
}

/// The WebSocket suite echoes messages of 16 MiB and sends 4 MiB in 65,536 fragments; a gateway's own limits are far below.
fn echo_limits() -> Limits {
    Limits {
        outbox_bytes_max: 64 * 1024 * 1024,
        // A test says more than that.
        journal_bytes_max: 2 * 1024 * 1024,
        fragments_max: 131_072,
        ..Limits::default()
    }
}

/// One per shard.
#[derive(Debug, Default)]
struct Application {
    lab: Lab,
    late: Late,
    porter: Option<Porter>,
}

/// With a porter, or without.
struct Applications {
    porter: bool,
}

impl HandlerFactory for Applications {
    fn build(&self, _shard: u16) -> Box<dyn Handler> {
        Box::new(Application {
            porter: self.porter.then(Porter::default),
            ..Application::default()
        })
    }
}

impl Handler for Application {
    fn reads_requests(&self) -> bool {
        self.porter.is_some()
    }

    fn opening(&mut self, cx: &mut Context<'_>, request: &Request<'_>) -> Opening {
        let porter = self.porter.as_mut();
        porter.map_or(Opening::Accept, |porter| porter.opening(cx, request))
    }

    fn answering(&mut self, _: &Request<'_>, opens: Option<&str>, headers: &mut AnswerHeaders) {
        Porter::answering(opens, headers);
    }

    fn connecting(&mut self, cx: &mut Context<'_>, request: &ConnectRequest<'_>) -> Decision {
        match request.namespace {
            "/" | "/custom" => Decision::Admit,
            "/lab" => lab::admit(request.auth).into(),
            late::NAMESPACE => self.late.connecting(cx, request),
            "/forbidden" => Decision::Refuse(Refusal {
                message: "not authorized".into(),
                data: Some(r#"{"code":"E_AUTH","retry":false}"#.into()),
            }),
            name if is_dynamic(name) => Decision::Admit,
            _ => Decision::Refuse(Refusal::invalid_namespace()),
        }
    }

    fn connected(&mut self, cx: &mut Context<'_>, socket: SocketKey, auth: &str) {
        let mut socket = cx.socket(socket);
        let Some(namespace) = socket.namespace().map(str::to_owned) else {
            return;
        };
        match namespace.as_str() {
            "/" | "/custom" => socket.emit(&Emit::new("auth", auth)),
            late::NAMESPACE => {}
            "/lab" => lab::connected(&mut socket, auth),
            name => socket.emit(&Emit::new("dyn", &format!("{name:?}"))),
        }
    }

    fn event(&mut self, cx: &mut Context<'_>, socket: SocketKey, event: Event<'_>) {
        let mut socket = cx.socket(socket);
        match (socket.namespace(), event.name, event.ack) {
            (Some("/"), "message", _) => socket.emit(&Emit {
                attachments: event.attachments,
                ..Emit::new("message-back", event.args)
            }),
            (Some("/"), "message-with-ack", Some(ack)) | (Some(late::NAMESPACE), _, Some(ack)) => {
                socket.cx().ack(ack, event.args, event.attachments);
            }
            (Some("/lab"), _, ack) => self.lab.event(&mut socket, Event { ack, ..event }),
            _ => {}
        }
    }

    fn acked(
        &mut self,
        cx: &mut Context<'_>,
        socket: SocketKey,
        _: u64,
        args: &str,
        bin: &[Vec<u8>],
    ) {
        let answer = Emit {
            attachments: bin,
            ..Emit::new("answer", args)
        };
        cx.socket(socket).emit(&answer);
    }

    fn collected(&mut self, cx: &mut Context<'_>, token: u64, collected: hub::Collected) {
        self.lab.collected(cx, token, &collected);
    }

    fn found(&mut self, cx: &mut Context<'_>, token: u64, found: hub::Found) {
        self.lab.found(cx, token, &found);
    }

    fn server_event(&mut self, cx: &mut Context<'_>, event: hub::ServerEvent<'_>) {
        lab::server_event(cx, event);
    }

    fn answered(&mut self, cx: &mut Context<'_>, token: u64, answer: Option<&[u8]>) {
        let porter = self.porter.as_mut();
        if !porter.is_some_and(|porter| porter.answered(cx, token, answer)) {
            self.late.answered(cx, token, answer);
        }
    }

    /// Bare Engine.IO and raw WebSocket: everything comes back as it came.
    fn message(&mut self, cx: &mut Context<'_>, session: SessionKey, data: Data<'_>) {
        cx.send(session, data);
    }
}

/// `/dyn-<digits>`
fn is_dynamic(name: &str) -> bool {
    name.strip_prefix("/dyn-")
        .is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()))
}

/// Requests that are not realtime go to the control plane's pages: health and the client bundles.
struct Pager {
    pages: Pages,
    runtime: Handle,
    /// The way to other nodes.
    parcels: Option<UnboundedSender<Parcel>>,
    /// Connections for sessions of other nodes.
    relays: Option<Relays>,
}

impl Pager {
    fn new(
        runtime: &Handle,
        places: &Arc<Places>,
        member: Option<&Member>,
        relays: Option<Relays>,
    ) -> Self {
        let page = PageConfig {
            chat_page: false,
            doors: String::new(),
            serve_client: true,
            socketio_path: "/socket.io/".into(),
            cors: Cors::Any,
        };
        Self {
            pages: Pages::new(page, Readiness::default(), places),
            runtime: runtime.clone(),
            parcels: member.map(Member::parcels),
            relays,
        }
    }
}

/// As the control plane reads and writes connections.
fn plain(stream: Detached) -> Stream {
    match stream {
        Detached::Tcp(stream) => Stream::Tcp(stream),
        Detached::Unix(stream) => Stream::Unix(stream),
    }
}

impl Outside for Pager {
    fn handover(&self, handover: Handover) {
        let stream = plain(handover.stream);
        self.pages.accept(stream, handover.read, handover.peer);
    }

    fn relay(&self, relay: Relay) {
        if let Some(relays) = &self.relays {
            relays.relay(Relayed {
                stream: plain(relay.conn.stream),
                read: relay.conn.read,
                client: relay.conn.peer,
                node: relay.owner.node,
                shard: relay.owner.shard,
                refusal: relay.refusal,
            });
        }
    }

    fn ask(&self, ask: Ask, answerer: Answerer) {
        late::answer(&self.runtime, ask, answerer);
    }

    fn away(&self, parcel: Parcel) {
        if let Some(parcels) = &self.parcels {
            // Its receiver ends with the process.
            let _ = parcels.send(parcel);
        }
    }

    fn log(&self, _: Notice) {}

    fn turn_ended(&self, _: u16) -> Option<Duration> {
        None
    }
}

/// Connections of clients.
const CONNS_MAX: usize = 18_000;

/// Descriptors for these, and for connections that are relayed.
const DESCRIPTORS: usize = 19_000;

fn main() -> anyhow::Result<()> {
    let flags = Flags::parse();
    let listen = vec![SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), flags.port)];
    let tls = flags.tls(&listen)?;
    let carried = tls.as_ref().filter(|_| flags.webtransport);
    let carried = carried.map(|tls| Arc::clone(&tls.config));
    let counter = flags.worker.map(Counter::open).transpose()?;
    let mut seat = Seat::take(&flags.cluster)?;
    let member = seat.as_ref().map(|seat| &seat.member);
    let node = member.map_or(0, Member::number);
    let places = Arc::new(Places::new(DESCRIPTORS));
    let settings = Settings {
        inherited: None,
        onset: None,
        listen: if tls.is_some() { Vec::new() } else { listen },
        takes_over: false,
        unix: Vec::new(),
        shards: flags.shards,
        node,
        uplink: member.map(|member| Arc::clone(member.uplink())),
        outlets: Outlets::default(),
        hub: flags.config(),
        pin: false,
        conns_max: CONNS_MAX,
        conns_reserve: 0,
        places: Arc::clone(&places),
        tls,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .worker_threads(1)
        .build()?;
    let _context = runtime.enter();
    let relays = seat
        .as_ref()
        .map(|seat| seat.relays(runtime.handle(), &places));
    let relays = relays.transpose()?;
    let outside = Arc::new(Pager::new(
        runtime.handle(),
        &places,
        member,
        relays.clone(),
    ));
    let applications: Box<dyn HandlerFactory> = match &counter {
        Some(counter) => Box::new(counter.applications()?),
        None => Box::new(Applications {
            porter: flags.porter,
        }),
    };
    let shards = shard::start(settings, &*applications, outside)?;
    let carrier = carried.map(|tls| carrier(&flags.config(), &tls, &shards));
    let _carrier = carrier.transpose()?;
    if let Some((mut seat, relays)) = seat.take().zip(relays) {
        let gone = counter.as_ref().map(Counter::nodes_gone);
        runtime.block_on(seat.open(&shards, &relays, gone))?;
        runtime.spawn(seat.leave_when_told());
    }
    let workers = counter.map(|counter| counter.serve(node, &flags.config(), &shards, &places));
    let workers = workers.transpose()?;
    for addr in shards.local_addrs().iter().chain(shards.tls_addrs()) {
        println!("listening on {addr}");
    }
    if let Some(addr) = workers {
        println!("a worker attaches at {addr}");
    }
    shards.wait()?;
    Ok(())
}
