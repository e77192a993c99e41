//! The server API: programs without connections of their own send events, move sockets between rooms, disconnect them and see who
//! is there. HTTP and gRPC are two doors to one implementation.

mod across;
mod books;
mod check;
mod commands;
mod digest;
pub(crate) mod grpc;
mod histories;
pub(crate) mod http;
mod larder;
mod lists;
mod model;
mod object;
mod once;
mod past;
mod presences;
pub(crate) mod problem;

/// The messages of `proto/sockeye/api/v1/api.proto`, written by `cargo xtask gen`.
pub mod proto {
    include!("proto/sockeye.api.v1.rs");
}

#[cfg(test)]
mod proto_tests;

pub use books::Books;
pub use grpc::routes;
pub use http::BODY_BYTES_MAX;
pub use lists::PAGE_MAX;
pub use once::{KEPT_BYTES_MAX, KEYS_MAX, REMEMBERED};
pub use past::{ANSWER_BYTES_MAX, Called, Past, Used};

use crate::bodies::{self, Bodies, Fault, Key, Namespaces};
use crate::history::History;
use crate::inside::audit::Audit;
use crate::page::limiter::{Standing, Windows};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hub::Keeping;
use hub::config::Rate;
use identity::keys::{Caller, Keyring, Scope};
pub(crate) use model::Order;
use model::{Accepted, Answer, Collected, Done};
use nodes::chronicle::Acks;
use nodes::ledger::Ledger;
use once::{Once, Turn};
use problem::{Kind, Problem};
use process::health::Readiness;
use rules::large::event_bytes;
use rules::{Begun, Errand, Message, Outcome, ToShards, Wanted};
use serde_json::value::RawValue;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{Semaphore, oneshot};
use types::Target;

/// Calls that wait for shards at once, and events that wait for the answers of clients. One more is refused.
const CALLS_MAX: usize = 64;
/// Beyond the time that answers of clients or nodes have. A shard that does not answer by then hangs.
const GRACE: Duration = Duration::from_secs(5);

/// The settings.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Keys of callers.
    pub keys: Keyring,
    /// How often with each key.
    pub rate: Rate,
    /// Names that a room may have.
    pub room_name_bytes_max: usize,
    /// Namespaces that clients may be in; `None`: any, also those that only other servers have.
    pub namespaces: Option<BTreeSet<String>>,
    /// The treatment of large events.
    pub large: Namespaces,
    /// Their store; `None`: no namespace has some stored.
    pub bodies: Option<Arc<Bodies>>,
    /// The store of history, if there is one, and what it gets.
    pub history: Option<Arc<History>>,
    /// Where an event is accepted when it stands in its namespace's stream.
    pub chronicle: Option<Arc<Acks>>,
    /// The events that rooms keep.
    pub keeping: Arc<Keeping>,
    /// Notes the actions of operators.
    pub audit: Arc<Audit>,
    /// Orders that all nodes of a cluster know.
    pub ledger: Option<Arc<Ledger>>,
    /// Whether other nodes are heard.
    pub readiness: Readiness,
    /// Calls and rates of callers, as the process before knew them.
    pub past: Past,
}

#[cfg(test)]
impl Settings {
    /// An API that stores nothing, for tests.
    pub(crate) fn of(keys: Keyring) -> Self {
        Self {
            keys,
            rate: Rate::new(1_000, Duration::from_secs(1)),
            room_name_bytes_max: 256,
            namespaces: None,
            large: Namespaces::new(),
            bodies: None,
            history: None,
            chronicle: None,
            keeping: Arc::default(),
            audit: Arc::default(),
            ledger: None,
            readiness: Readiness::default(),
            past: Past::default(),
        }
    }
}

/// The one implementation behind both doors.
pub struct Api {
    shards: Box<dyn ToShards>,
    keys: Keyring,
    room_name_bytes_max: usize,
    namespaces: Option<BTreeSet<String>>,
    large: Namespaces,
    bodies: Option<Arc<Bodies>>,
    chronicle: Option<Arc<Acks>>,
    history: Option<Arc<History>>,
    keeping: Arc<Keeping>,
    audit: Arc<Audit>,
    rates: Windows<String>,
    calls: Semaphore,
    questions: Semaphore,
    lists: Semaphore,
    once: Once,
    ledger: Option<Arc<Ledger>>,
    readiness: Readiness,
    books: Arc<Books>,
}

impl fmt::Debug for Api {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Api").finish_non_exhaustive()
    }
}

impl Api {
    pub fn new(settings: Settings, shards: Box<dyn ToShards>) -> Self {
        let api = Self {
            shards,
            keys: settings.keys,
            room_name_bytes_max: settings.room_name_bytes_max,
            namespaces: settings.namespaces,
            large: settings.large,
            bodies: settings.bodies,
            history: settings.history,
            chronicle: settings.chronicle,
            keeping: settings.keeping,
            audit: settings.audit,
            rates: Windows::new(settings.rate),
            calls: Semaphore::new(CALLS_MAX),
            questions: Semaphore::new(CALLS_MAX),
            lists: Semaphore::new(lists::LISTS_MAX),
            once: Once::default(),
            ledger: settings.ledger,
            readiness: settings.readiness,
            books: Arc::default(),
        };
        api.go_on_from(settings.past);
        api
    }

    /// The sources of metrics.
    pub fn books(&self) -> Arc<Books> {
        Arc::clone(&self.books)
    }

    pub(crate) fn large(&self) -> &Namespaces {
        &self.large
    }

    pub(crate) fn bodies(&self) -> Option<&Arc<Bodies>> {
        self.bodies.as_ref()
    }

    pub(crate) fn keys(&self) -> &Keyring {
        &self.keys
    }

    /// Counts a call of this key, and says where it stands then.
    fn count(&self, caller: &Caller) -> (Option<Standing>, Result<(), Problem>) {
        let standing = self.rates.count(caller.name().to_owned(), Instant::now());
        let over = standing.filter(|standing| standing.is_over);
        let admitted = over.map_or(Ok(()), |standing| {
            let detail = format!(
                "the key {:?} has made its calls (admin.api_rate): come back in {} s",
                caller.name(),
                standing.reset_seconds()
            );
            Err(Problem::new(Kind::TooManyRequests, detail))
        });
        (standing, admitted)
    }

    /// Carries out an order. With an idempotency key: once, also if its caller goes away meanwhile.
    pub(crate) async fn order(
        self: &Arc<Self>,
        caller: &Caller,
        key: Option<&str>,
        order: Order,
    ) -> once::Answer {
        let wanted = &order.wanted;
        // Programs do a lot that the log has: the audit has what people do, and who put clients out.
        let is_noted = caller.is_at_console() || matches!(wanted, Wanted::Disconnect { .. });
        let noted = is_noted.then(|| {
            let action = (name_of(wanted), Some(&*order.of.namespace));
            self.audit.begin(caller, action, &order.of.to_string())
        });
        let answer = self.admit(caller, key, order).await;
        if let Some(noted) = noted {
            self.audit.end(noted, outcome_of(&answer));
        }
        answer
    }

    async fn admit(
        self: &Arc<Self>,
        caller: &Caller,
        key: Option<&str>,
        order: Order,
    ) -> once::Answer {
        let Order { of, stored, wanted } = order;
        may(caller, scope_of(&wanted), &of.namespace)?;
        if wanted == (Wanted::Disconnect { close: true })
            && !caller.may_everywhere(Scope::Disconnect)
        {
            let detail = "the key is for single namespaces, and a connection that ends is gone from all: leave it out";
            let problem = Problem::new(Kind::Forbidden, detail);
            return Err(problem.at("close"));
        }
        if let Wanted::Join(rooms) | Wanted::Leave(rooms) = &wanted {
            check::rooms(name_of(&wanted), rooms, self.room_name_bytes_max)?;
        }
        check::target(&of)?;
        check::namespace(&of.namespace, self.namespaces.as_ref())?;
        if stored {
            self.check_stored(&of, &wanted)?;
        }
        self.check_local(&of, &wanted)?;
        note(caller, &wanted, &of);
        let Some(key) = key else {
            return self.carry_out(of, (wanted, stored), None).await;
        };
        if key.is_empty() || key.len() > once::KEY_BYTES_MAX {
            let detail = format!(
                "it has {} bytes, and 1 to {} are allowed",
                key.len(),
                once::KEY_BYTES_MAX
            );
            return Err(Problem::field("Idempotency-Key", detail));
        }
        let name = once::Name::new(caller.name(), &of.namespace, key);
        let digest = digest::of_order(&of, &wanted, stored);
        let mut slot = match self.once.begin(name.clone(), digest, Instant::now())? {
            Turn::Repeated(slot) => slot,
            Turn::First(sender, begun) => {
                let (api, slot) = (Arc::clone(self), sender.subscribe());
                tokio::spawn(async move {
                    let work = api.carry_out(of, (wanted, stored), Some(begun));
                    let (answer, is_ours) = match &api.ledger {
                        Some(ledger) => across::carry_out(ledger, &name, digest, work).await,
                        None => (work.await, true),
                    };
                    api.once.end(&name, &answer, is_ours);
                    sender.send_replace(Some(answer));
                });
                slot
            }
        };
        let answer = slot.wait_for(Option::is_some).await;
        let answer = answer.ok().and_then(|answer| answer.clone());
        answer.unwrap_or_else(|| Err(stopping()))
    }

    /// What all nodes read goes to all nodes.
    fn check_local(&self, of: &Target, wanted: &Wanted) -> Result<(), Problem> {
        let Some(acks) = self.chronicle.as_ref().filter(|_| of.local) else {
            return Ok(());
        };
        let mut own = acks.chronicle().namespaces();
        match wanted {
            Wanted::Emit(message) if !message.volatile && own.any(|name| name == of.namespace) => {
                let detail = format!(
                    "all nodes read what is said in {:?} (recovery.level = \"cluster\"): leave local out, or set \"volatile\": true",
                    of.namespace
                );
                Err(Problem::field("local", detail))
            }
            _ => Ok(()),
        }
    }

    async fn carry_out(
        &self,
        of: Target,
        (wanted, stored): (Wanted, bool),
        begun: Begun,
    ) -> once::Answer {
        let mut wanted = self.make_small(&of.namespace, wanted).await?;
        let history = self.history.as_ref().filter(|_| stored);
        let receipt = history.map(|history| history.receipt());
        let chronicle = self.chronicle.as_ref();
        let receipt = receipt.or_else(|| match &wanted {
            Wanted::Emit(message) if !message.volatile => chronicle?.receipt(&of.namespace),
            _ => None,
        });
        if let (Some(receipt), Wanted::Emit(message)) = (&receipt, &mut wanted) {
            message.receipt = Some(receipt.number());
        }
        let within = match &wanted {
            Wanted::Ask(_, timeout) => *timeout,
            _ => Duration::ZERO,
        };
        match self.ask(of, (wanted, begun), within).await? {
            Outcome::Done { everywhere } => {
                if let Some(receipt) = receipt {
                    receipt.stored(GRACE).await.map_err(not_stored)?;
                }
                Ok(Done::Accepted(Accepted {
                    accepted: true,
                    everywhere,
                    stored,
                }))
            }
            Outcome::Collected(collected) => Ok(Done::Collected(collected.into())),
            Outcome::Unwritten => Err(unwritten()),
            Outcome::Found(_) | Outcome::Present(_) | Outcome::Moved => Err(stopping()),
        }
    }

    /// A large event becomes a reference to what the store has of it, or is refused.
    async fn make_small(&self, namespace: &str, mut wanted: Wanted) -> Result<Wanted, Problem> {
        let (Wanted::Emit(message) | Wanted::Ask(message, _)) = &mut wanted else {
            return Ok(wanted);
        };
        let Message {
            event,
            args,
            attachments,
            ..
        } = &*message;
        let bytes = event_bytes(event, args, attachments);
        let large = bodies::treatment(&self.large, namespace);
        if let Some(above) = large.refuses(bytes) {
            let detail =
                format!("the event has {bytes} bytes, and {above} are allowed in {namespace:?}");
            return Err(Problem::new(Kind::PayloadTooLarge, detail));
        }
        if let Some(bodies) = &self.bodies
            && let Some(reference) = bodies.replace(namespace, message).await.map_err(unstored)?
        {
            *message = reference;
        }
        Ok(wanted)
    }

    /// Removes a stored body: its addresses lead nowhere from then on.
    pub(crate) async fn delete_body(
        &self,
        caller: &Caller,
        namespace: &str,
        key: &str,
    ) -> Result<(), Problem> {
        may(caller, Scope::Emit, namespace)?;
        let missing = || Problem::new(Kind::NotFound, "the namespace has no body of this key");
        let key = Key::parse(key).filter(|key| key.is_of(namespace));
        let (key, bodies) = key.zip(self.bodies.as_ref()).ok_or_else(missing)?;
        tracing::info!(key = caller.name(), namespace, body = %key, "deletion ordered");
        bodies.delete(key).await.map_err(|fault| match fault {
            Fault::Missing => missing(),
            fault => unstored(fault),
        })
    }

    /// Sends an errand and waits for what comes of it; `within`: what others have for their answers.
    async fn ask(
        &self,
        of: Target,
        (what, begun): (Wanted, Begun),
        within: Duration,
    ) -> Result<Outcome, Problem> {
        // Clients may take a minute: calls that need none of them do not wait behind those that do.
        let (places, waiting) = match what {
            Wanted::Ask(..) => (&self.questions, "events wait for the answers of clients"),
            _ => (&self.calls, "calls wait for shards"),
        };
        let Ok(_place) = places.try_acquire() else {
            let detail = format!("{CALLS_MAX} {waiting} already");
            return Err(Problem::new(Kind::Busy, detail));
        };
        let (answer, answered) = oneshot::channel();
        let answer = Box::new(move |outcome| drop(answer.send(outcome)));
        self.shards.send(Errand {
            of,
            what,
            answer,
            begun,
        });
        match tokio::time::timeout(within + GRACE, answered).await {
            Ok(Ok(Outcome::Moved)) => Err(Problem::new(
                Kind::Busy,
                "another process takes over: nothing was done, ask again",
            )),
            Ok(Ok(outcome)) => Ok(outcome),
            Ok(Err(_)) => Err(stopping()),
            Err(_) => Err(Problem::new(
                Kind::NoAnswer,
                "a shard did not answer in time: it may still carry out the call",
            )),
        }
    }
}

/// Members have it.
fn not_stored(fault: history::Fault) -> Problem {
    let detail = format!("the event was sent, and is not known to be stored: {fault}");
    Problem::new(Kind::NoAnswer, detail)
}

fn unstored(fault: Fault) -> Problem {
    let detail = format!("{}: nothing was sent", fault.message());
    Problem::new(Kind::Busy, detail)
}

fn unwritten() -> Problem {
    Problem::new(
        Kind::Busy,
        "what is said in this namespace goes through Redis, which takes nothing now: nobody got it. Say it again later",
    )
}

fn stopping() -> Problem {
    Problem::new(
        Kind::NoAnswer,
        "the gateway is stopping: the call may not be carried out",
    )
}

/// For the audit.
fn outcome_of<T>(answer: &Result<T, Problem>) -> Result<(), String> {
    let done = answer.as_ref().map(drop);
    done.map_err(|problem| problem.message())
}

/// For those who ask later who did it. Events are many.
fn note(caller: &Caller, wanted: &Wanted, of: &Target) {
    let (key, namespace, name) = (caller.name(), &of.namespace, name_of(wanted));
    match wanted {
        Wanted::Emit(_) | Wanted::Ask(..) => tracing::debug!(key, namespace, %of, "{name} ordered"),
        _ => tracing::info!(key, namespace, %of, "{name} ordered"),
    }
}

/// Whether this key is good for it.
fn may(caller: &Caller, scope: Scope, namespace: &str) -> Result<(), Problem> {
    if !caller.may(scope) {
        return Err(Problem::without_scope(caller, scope));
    }
    if !caller.may_in(namespace) {
        let detail = format!(
            "the key {:?} is not for the namespace {namespace:?}",
            caller.name()
        );
        return Err(Problem::new(Kind::Forbidden, detail));
    }
    Ok(())
}

fn scope_of(wanted: &Wanted) -> Scope {
    match wanted {
        Wanted::Emit(_) | Wanted::Ask(..) => Scope::Emit,
        Wanted::Join(_) | Wanted::Leave(_) => Scope::Members,
        Wanted::Disconnect { .. } => Scope::Disconnect,
        Wanted::Fetch(_) | Wanted::Present => Scope::Read,
        Wanted::Forget(_) => Scope::Forget,
    }
}

fn name_of(wanted: &Wanted) -> &'static str {
    match wanted {
        Wanted::Emit(_) | Wanted::Ask(..) => "emit",
        Wanted::Join(_) => "join",
        Wanted::Leave(_) => "leave",
        Wanted::Disconnect { .. } => "disconnect",
        Wanted::Fetch(_) => "list",
        Wanted::Present => "presence",
        Wanted::Forget(_) => "forget",
    }
}

impl From<hub::Collected> for Collected {
    fn from(collected: hub::Collected) -> Self {
        Self {
            acked: collected.acked,
            timed_out: collected.timed_out,
            gone: collected.gone,
            undelivered: collected.undelivered,
            complete: collected.complete,
            answers: collected.answers.into_iter().map(Answer::from).collect(),
        }
    }
}

impl From<hub::Answer> for Answer {
    fn from(answer: hub::Answer) -> Self {
        let attachments = answer
            .attachments
            .iter()
            .map(|bytes| STANDARD.encode(bytes));
        Self {
            args: raw(format!("[{}]", answer.args)),
            attachments: attachments.collect(),
        }
    }
}

/// JSON that others wrote. Text that is no JSON becomes `null`; hubs let nobody write such text.
fn raw(text: String) -> Box<RawValue> {
    RawValue::from_string(text).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use identity::keys::{ApiKeys, generate};

    /// Carries out everything.
    struct Willing;

    impl ToShards for Willing {
        fn send(&self, errand: Errand) {
            (errand.answer)(Outcome::Done { everywhere: true });
        }
    }

    #[tokio::test]
    async fn a_key_of_one_namespace_ends_no_connections_with_others() {
        let settings = Settings::of(Keyring::default());
        let api = Arc::new(Api::new(settings, Box::new(Willing)));
        for (allowed, close, is_done) in [
            (&["disconnect", "/chat"][..], false, true),
            (&["disconnect", "/chat"], true, false),
            (&["disconnect"], true, true),
        ] {
            let allowed: Vec<String> = allowed.iter().map(|word| (*word).to_owned()).collect();
            let (key, entry) = generate("ci", &allowed).expect("a key");
            let keys = Keyring::new(ApiKeys::parse(&[entry]).expect("an entry"));
            let mut headers = axum::http::HeaderMap::new();
            headers.insert("x-api-key", key.parse().expect("a value"));
            let caller = keys.find(&headers).expect("a caller");
            let of = Target {
                namespace: "/chat".to_owned(),
                users: vec!["ada".to_owned()],
                ..Target::default()
            };
            let order = Order {
                of,
                stored: false,
                wanted: Wanted::Disconnect { close },
            };
            let done = api.order(&caller, None, order).await;
            let kind = done.map_err(|problem| problem.kind()).map(drop);
            let expected = if is_done {
                Ok(())
            } else {
                Err(Kind::Forbidden)
            };
            assert_eq!(kind, expected, "{allowed:?} {close}");
        }
    }
}
