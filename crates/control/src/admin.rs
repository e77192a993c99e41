//! The operators' listener: metrics, health, readiness, orders. It belongs on a private address.

mod conns;
mod console;
mod guard;
mod logins;
pub(crate) mod nodes;
mod rebalance;
mod reply;
mod starting;

pub use self::nodes::Nodes;
pub use conns::{AGE_MAX, HEAD_TIMEOUT};
pub use guard::Access;
pub use starting::Starting;

use crate::api::{self, Api};
use crate::debug::{self, Debugging};
use crate::inside::{self, Inside};
use crate::listening::stream::{self as ears, Listening};
use crate::live::Desk;
use crate::live::stream::{self, Live};
use crate::metrics::node::Node;
use crate::metrics::{Exporter, Format};
use ::nodes::relay::Relays;
use axum::Router;
use axum::extract::{FromRef, RawQuery, State};
use axum::http::{HeaderMap, Uri, header};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use guard::Guard;
use hub::Places;
use identity::keys::Keyring;
use process::health::{self, Readiness};
use reply::reply;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::TcpListener;

const SAMPLE_INTERVAL: Duration = Duration::from_secs(1);

#[derive(Clone, Debug)]
struct Admin {
    exporter: Arc<Exporter>,
    readiness: Readiness,
    debugging: Debugging,
    inside: Inside,
}

impl FromRef<Admin> for Debugging {
    fn from_ref(admin: &Admin) -> Debugging {
        admin.debugging.clone()
    }
}

/// Callers that may come, how many at once, and the part that carries out their orders.
#[derive(Clone, Debug)]
pub struct Gate {
    pub keys: Keyring,
    pub metrics_need_key: bool,
    pub conns_max: usize,
    /// Of clients, for more than a few of them.
    pub places: Arc<Places>,
    pub nodes: Nodes,
    pub api: Arc<Api>,
    /// Refusals are counted there.
    pub node: Arc<Node>,
}

/// Serves until the runtime ends. The last argument: live traces of this node, and the way to those of others.
pub async fn serve(
    listener: TcpListener,
    exporter: Arc<Exporter>,
    readiness: Readiness,
    gate: Gate,
    (debugging, settings): (Debugging, Arc<dyn inside::Settings>),
    (desk, relays): (Desk, Option<Relays>),
) -> io::Result<()> {
    let (api, nodes) = (Arc::clone(&gate.api), gate.nodes.clone());
    let (places, node) = (Arc::clone(&gate.places), Arc::clone(&gate.node));
    let room = (&places, gate.conns_max);
    let inside = Inside::new(
        debugging.source(),
        settings,
        &exporter,
        nodes.clone(),
        &node,
    );
    inside.answer_nodes();
    let live = Live {
        desk,
        nodes: nodes.clone(),
        relays,
        audit: Arc::clone(&node.audit),
    };
    let listening = Listening::new(&api, &node, &nodes);
    let guard = Arc::new(Guard::new(gate));
    let sampler = tokio::spawn(sample(
        Arc::clone(&exporter),
        Arc::clone(&guard),
        inside.clone(),
    ));
    let others = [
        nodes::described().into_openapi(),
        inside::described().into_openapi(),
        stream::described().into_openapi(),
        ears::described().into_openapi(),
    ];
    let routes = Router::new()
        .route("/metrics", get(metrics))
        .route("/health", get(alive))
        .route("/ready", get(ready))
        .merge(api::http::routes(&api, others))
        .merge(nodes::routes(nodes, Arc::clone(&node.audit)))
        .merge(inside::routes(inside.clone(), &api))
        .merge(stream::routes(live, &api))
        .merge(ears::routes(listening, &api))
        .merge(console::routes(Arc::clone(&guard)))
        .merge(debug::routes())
        .fallback(nowhere)
        .with_state(Admin {
            exporter,
            readiness,
            debugging,
            inside,
        });
    let routes = routes.layer(from_fn_with_state(guard, guard::check));
    let displaced = &node.displaced.admin;
    let served = conns::serve(listener, routes, room, displaced, &node.owed).await;
    sampler.abort();
    served
}

async fn sample(exporter: Arc<Exporter>, guard: Arc<Guard>, inside: Inside) {
    let mut ticks = tokio::time::interval(SAMPLE_INTERVAL);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let now = Instant::now();
        exporter.sample(now);
        guard.pass_time(now);
        inside.sample(now);
    }
}

/// On a thread where waiting is allowed: the system is asked for the process' numbers.
///
/// `?prefix=sockeye_backend_`: only those whose names begin so, which costs a fraction.
async fn metrics(
    State(admin): State<Admin>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Response {
    metrics_of(admin.exporter, query.as_deref(), headers).await
}

async fn metrics_of(exporter: Arc<Exporter>, query: Option<&str>, headers: HeaderMap) -> Response {
    // Programs that collect metrics may have parameters of their own: they change nothing.
    let words = query.unwrap_or_default().split('&');
    let words: Vec<&str> = words.filter(|word| word.starts_with("prefix=")).collect();
    let prefix = match api::http::Query::read(Some(&words.join("&")), &["prefix"]) {
        Ok(query) => query.get("prefix").unwrap_or_default().to_owned(),
        Err(problem) => return problem.into_response(),
    };
    let accept = headers.get(header::ACCEPT);
    let format = Format::accepted(accept.and_then(|text| text.to_str().ok()).unwrap_or("*/*"));
    match tokio::task::spawn_blocking(move || exporter.text(&prefix, format)).await {
        Ok(text) => ([(header::CONTENT_TYPE, format.content_type())], text).into_response(),
        Err(_) => reply(500, r#"{"error":"INTERNAL_ERROR"}"#.to_owned()),
    }
}

async fn nowhere(uri: Uri) -> Response {
    match uri.path().starts_with(api::http::ROOT) {
        true => api::http::not_found(uri.path()),
        false => reply(404, r#"{"error":"NOT_FOUND"}"#.to_owned()),
    }
}

async fn alive() -> Response {
    reply(200, health::healthy())
}

/// `?verbose`: and whether the node is well, which does not change the answer: a node with troubles is better than none.
async fn ready(State(admin): State<Admin>, RawQuery(query): RawQuery) -> Response {
    let (status, mut body) = admin.readiness.answer();
    if query.is_some_and(|query| query.split('&').any(|word| word.starts_with("verbose"))) {
        let health = serde_json::to_value(admin.inside.health());
        body["health"] = health.unwrap_or_default();
    }
    reply(status, body.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::nodes::card::Card;
    use hub::metrics::Cells;
    use std::sync::atomic::Ordering;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    struct Nowhere;

    #[derive(Debug)]
    struct NoSettings;

    impl inside::Settings for NoSettings {
        fn shown(&self) -> Vec<inside::Setting> {
            Vec::new()
        }
        fn reload(&self) -> inside::Reload {
            inside::Reload::default()
        }
    }

    impl rules::ToShards for Nowhere {
        fn send(&self, _: rules::Errand) {}
    }

    fn gate(node: Arc<Node>) -> Gate {
        let keys = Keyring::default();
        let settings = api::Settings::of(keys.clone());
        Gate {
            keys,
            metrics_need_key: false,
            conns_max: 4,
            places: Arc::new(Places::new(1_000)),
            nodes: Nodes::alone(0, Card::default(), [].into(), Readiness::default()),
            api: Arc::new(Api::new(settings, Box::new(Nowhere))),
            node,
        }
    }

    async fn get(addr: std::net::SocketAddr, path: &str) -> String {
        let mut stream = tokio::net::TcpStream::connect(addr).await.expect("connect");
        let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.expect("request");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.expect("answer");
        answer
    }

    #[tokio::test]
    async fn metrics_health_and_readiness_over_http() {
        let cells = Arc::new(Cells::default());
        let node = Arc::<Node>::default();
        let exporter = Arc::new(Exporter::new(
            [Arc::clone(&cells)].into(),
            Arc::clone(&node),
        ));
        let readiness = Readiness::default();
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("listen");
        let addr = listener.local_addr().expect("addr");
        let debugging = Debugging::new(Arc::new(crate::debug::tests::Half));
        let settings: Arc<dyn inside::Settings> = Arc::new(NoSettings);
        let half = Arc::new(crate::debug::tests::Half);
        let desk = Desk::new(0, half, &Arc::default());
        let server = tokio::spawn(serve(
            listener,
            exporter,
            readiness.clone(),
            gate(node),
            (debugging, settings),
            (desk, None),
        ));

        cells.websockets.store(5, Ordering::Relaxed);
        let answer = get(addr, "/metrics").await;
        assert!(
            answer.contains("\nwebsocket_connections_total 5\n"),
            "{answer}"
        );
        assert!(answer.contains(Format::Classic.content_type()), "{answer}");

        let answer = get(addr, "/metrics?prefix=websocket_").await;
        assert!(
            answer.contains("\nwebsocket_connections_total 5\n"),
            "{answer}"
        );
        assert!(!answer.contains("sockeye_") && !answer.contains("process_"));

        let answer = get(addr, "/health").await;
        assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
        assert!(
            answer.contains(r#"{"status":"healthy","timestamp":"#),
            "{answer}"
        );

        assert!(get(addr, "/ready").await.starts_with("HTTP/1.1 200"));
        readiness.drain();
        assert!(get(addr, "/ready").await.starts_with("HTTP/1.1 503"));
        let memory = get(addr, "/debug/memory").await;
        assert!(memory.contains("\"counted_bytes\": 16"), "{memory}");
        assert!(
            get(addr, "/debug/")
                .await
                .contains("href=\"/debug/memory\"")
        );
        // Nothing is found by another spelling of its path.
        for path in [
            "/metrics/..;/",
            "/debug/../metrics",
            "//metrics",
            "/Metrics",
            "/metrics/",
        ] {
            assert!(get(addr, path).await.starts_with("HTTP/1.1 404"), "{path}");
        }
        assert!(get(addr, "/none").await.starts_with("HTTP/1.1 404"));
        server.abort();
    }
}
