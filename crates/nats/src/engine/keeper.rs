//! The life of connections: one at a time, with all wanted subjects. One that ends has a successor.

use super::ear::Ear;
use super::echo::Echo;
use super::{News, Order, Plan, Told, Trouble};
use async_nats::jetstream::{Context, ContextBuilder};
use async_nats::{Client, ConnectErrorKind, Event};
use bridge::Quiet;
use futures_util::StreamExt;
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::watch;
use tokio::time::{Instant, interval, sleep, timeout};

/// Before servers that were away are asked again.
const PAUSE: Duration = Duration::from_millis(200);
/// Of several servers, one that hangs is passed over after this.
const CONNECT_TIME: Duration = Duration::from_secs(2);
/// A server that does not answer for so long is given up.
const PATIENCE: Duration = Duration::from_secs(3);
/// By a quiet connection the server is asked so often; it is given up after three questions.
const QUIET_PING: Duration = Duration::from_secs(1);
/// How often that is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// What a server has for a connection that it took nothing from any more has come by then, from the beginning of the next one on.
const LAST_NEWS: Duration = Duration::from_secs(1);
/// JetStream answers a question well within.
const KEY_TIME: Duration = Duration::from_secs(2);
/// Messages of a subject that wait for this process' attention: the client's task and the reader's take turns.
const SUBSCRIPTION_MESSAGES: usize = 65_536;

/// Headers of a key that is written.
const KEY_AROUND_BYTES: usize = 256;

/// A connection.
#[derive(Clone)]
pub(super) struct Line {
    pub(super) client: Client,
    pub(super) streams: Context,
    pub(super) echo: Arc<Echo>,
}

impl Line {
    /// With the headers of a key.
    pub(super) fn takes(&self, bytes: usize) -> bool {
        bytes + KEY_AROUND_BYTES <= self.client.max_payload()
    }

    pub(super) fn clone_of(line: &Option<Line>) -> Option<Line> {
        line.clone()
    }
}

/// A connection, and what looks after it.
pub(super) struct Conn {
    pub(super) line: Line,
    ended: UnboundedReceiver<String>,
    end: UnboundedSender<String>,
    /// Its echoes come by it.
    _echo: Ear,
    ears: HashMap<String, Ear>,
}

/// Connects, and proves that this user may publish and subscribe.
pub(super) async fn connect(plan: &Plan, told: &Told) -> Result<Conn, Trouble> {
    let (end, ended) = unbounded_channel();
    let refusal = Arc::<Mutex<Option<String>>>::default();
    let events = events(Arc::clone(told), end.clone(), Arc::clone(&refusal));
    let options = plan
        .settings
        .options(events)
        .await
        .map_err(Trouble::lasting)?;
    let options = options
        .subscription_capacity(SUBSCRIPTION_MESSAGES)
        .connection_timeout(CONNECT_TIME);
    let options = match plan.is_quiet {
        true => options.ping_interval(QUIET_PING),
        false => options,
    };
    let client = options
        .connect(plan.settings.urls())
        .await
        .map_err(|error| {
            let why = std::error::Error::source(&error).map(|source| format!(": {source}"));
            let text = format!("cannot connect to NATS: {error}{}", why.unwrap_or_default());
            match error.kind() {
                ConnectErrorKind::Authentication | ConnectErrorKind::AuthorizationViolation => {
                    Trouble::lasting(text)
                }
                _ => Trouble::new(text),
            }
        })?;
    let subject = format!(
        "{}.echo.{}",
        plan.root,
        client.new_inbox().replace('.', "-")
    );
    let echo = Arc::new(Echo::new(subject.clone()));
    let heard = client.subscribe(subject).await;
    let mut heard =
        heard.map_err(|why| Trouble::new(format!("cannot subscribe at NATS: {why}")))?;
    let (comes, ends) = (Arc::clone(&echo), end.clone());
    let listening = tokio::spawn(async move {
        while let Some(message) = heard.next().await {
            let number = std::str::from_utf8(&message.payload).ok();
            if let Some(number) = number.and_then(|number| number.parse().ok()) {
                comes.came(number);
            }
        }
        let _ = ends.send("the connection to NATS has ended".to_owned());
    });
    let line = Line {
        streams: streams(plan, &client),
        client,
        echo,
    };
    let echo = Ear::of(listening);
    match timeout(PATIENCE, line.settle()).await {
        Ok(settled) => settled?,
        Err(_) => return Err(unsettled(plan, &refusal)),
    }
    Ok(Conn {
        line,
        ended,
        end,
        _echo: echo,
        ears: HashMap::new(),
    })
}

fn streams(plan: &Plan, client: &Client) -> Context {
    match &plan.domain {
        None => ContextBuilder::new()
            .timeout(KEY_TIME)
            .build(client.clone()),
        Some(domain) => {
            let builder = ContextBuilder::new().domain(domain).timeout(KEY_TIME);
            builder.build(client.clone())
        }
    }
}

fn unsettled(plan: &Plan, refusal: &Mutex<Option<String>>) -> Trouble {
    let refusal = refusal.lock().unwrap_or_else(PoisonError::into_inner);
    match &*refusal {
        None => Trouble::new("NATS does not answer"),
        Some(why) => Trouble::lasting(format!(
            "NATS refuses what nodes need ({why}): let this user publish and subscribe to \"{}.>\", \"$JS.API.>\" and \"_INBOX.>\"",
            plan.root
        )),
    }
}

/// What the client tells.
fn events(
    told: Told,
    end: UnboundedSender<String>,
    refusal: Arc<Mutex<Option<String>>>,
) -> impl Fn(Event) + Send + Sync + 'static {
    let quiet = Quiet::default();
    move |event| match event {
        Event::SlowConsumer(_) => told(News::Dropped(1)),
        // It would come back by itself, later and without a word.
        Event::Disconnected | Event::Closed => {
            let _ = end.send("the connection to NATS has ended".to_owned());
        }
        Event::ServerError(error) => {
            if quiet.is_due() {
                tracing::warn!("NATS: {error}");
            }
            let mut refusal = refusal.lock().unwrap_or_else(PoisonError::into_inner);
            *refusal = Some(error.to_string());
        }
        _ => {}
    }
}

enum Ended {
    /// Nobody uses the engine any more.
    Closed,
    Lost(Trouble),
    /// The server takes nothing by it. It may still bring something: a server that waits for one of its other clients does so where it reads.
    Stuck(Trouble),
}

/// The one task that knows how everything stands.
pub(super) struct Keeper {
    plan: Arc<Plan>,
    told: Told,
    orders: UnboundedReceiver<Order>,
    line: watch::Sender<Option<Line>>,
    wanted: BTreeSet<String>,
}

impl Keeper {
    pub(super) fn new(
        plan: Arc<Plan>,
        told: Told,
        orders: UnboundedReceiver<Order>,
        line: watch::Sender<Option<Line>>,
    ) -> Self {
        Self {
            plan,
            told,
            orders,
            line,
            wanted: BTreeSet::new(),
        }
    }

    pub(super) async fn run(mut self, first: Conn) {
        let (mut next, mut before) = (Some(first), None);
        while let Some(mut conn) = next {
            let ended = self.tend(&mut conn, before.take()).await;
            let (trouble, is_stuck) = match ended {
                Ended::Closed => return,
                Ended::Lost(trouble) => (trouble, false),
                Ended::Stuck(trouble) => (trouble, true),
            };
            self.lose(&conn, trouble);
            before = is_stuck.then_some(conn);
            next = self.connect_again().await;
        }
    }

    /// Down is told before what waits is told of its end: whoever publishes again knows that it is of no use.
    fn lose(&self, conn: &Conn, trouble: Trouble) {
        self.line.send_replace(None);
        (self.told)(News::Down(trouble));
        (self.told)(News::Unheard(self.wanted.iter().cloned().collect()));
        conn.line.echo.end();
    }

    /// `None`: nobody uses the engine any more.
    async fn connect_again(&mut self) -> Option<Conn> {
        let (plan, told, quiet) = (
            Arc::clone(&self.plan),
            Arc::clone(&self.told),
            Quiet::default(),
        );
        let connecting = async move {
            loop {
                sleep(PAUSE).await;
                match connect(&plan, &told).await {
                    Ok(conn) => return conn,
                    Err(trouble) if quiet.is_due() => {
                        tracing::warn!(%trouble, "NATS is looked for again and again");
                    }
                    Err(_) => {}
                }
            }
        };
        let mut connecting = std::pin::pin!(connecting);
        loop {
            tokio::select! {
                conn = &mut connecting => return Some(conn),
                order = self.orders.recv() => match order? {
                    Order::Subscribe(subjects) => self.wanted.extend(subjects),
                    Order::Unsubscribe(subjects) => self.forget(&subjects),
                    Order::Doubt => {}
                },
            }
        }
    }

    fn forget(&mut self, subjects: &[String]) {
        subjects.iter().for_each(|subject| {
            self.wanted.remove(subject);
        });
    }

    /// `before`: it is heard until this one has been there for a while. What comes by both comes twice.
    async fn tend(&mut self, conn: &mut Conn, mut before: Option<Conn>) -> Ended {
        // What was wanted before anybody was told that the server answers.
        while let Ok(order) = self.orders.try_recv() {
            match order {
                Order::Subscribe(subjects) => self.wanted.extend(subjects),
                Order::Unsubscribe(subjects) => self.forget(&subjects),
                Order::Doubt => {}
            }
        }
        let wanted: Vec<String> = self.wanted.iter().cloned().collect();
        if let Err(trouble) = self.listen(conn, wanted).await {
            return Ended::Lost(trouble);
        }
        self.line.send_replace(Some(conn.line.clone()));
        (self.told)(News::Up);
        let up = Instant::now();
        let mut look = interval(LOOK_EVERY);
        loop {
            tokio::select! {
                why = conn.ended.recv() => {
                    return Ended::Lost(Trouble::new(why.unwrap_or_default()));
                }
                order = self.orders.recv() => match order {
                    None => return Ended::Closed,
                    Some(Order::Doubt) => return Ended::Lost(Trouble::new("NATS is doubted")),
                    Some(Order::Unsubscribe(subjects)) => {
                        before = None;
                        subjects.iter().for_each(|subject| drop(conn.ears.remove(subject)));
                        self.forget(&subjects);
                    }
                    Some(Order::Subscribe(subjects)) => {
                        self.wanted.extend(subjects.iter().cloned());
                        if let Err(trouble) = self.listen(conn, subjects).await {
                            return Ended::Lost(trouble);
                        }
                    }
                },
                _ = look.tick() => {
                    before = before.filter(|_| up.elapsed() < LAST_NEWS);
                    if conn.line.echo.oldest().is_some_and(|age| age > PATIENCE) {
                        return Ended::Stuck(Trouble::new("NATS does not answer"));
                    }
                }
            }
        }
    }

    /// Subscribes, and waits until the server has heard of it.
    async fn listen(&self, conn: &mut Conn, subjects: Vec<String>) -> Result<(), Trouble> {
        for subject in &subjects {
            let (told, end) = (Arc::clone(&self.told), conn.end.clone());
            let ear = Ear::listen(&conn.line.client, subject, told, end).await;
            let ear = ear.ok_or_else(|| Trouble::new("cannot subscribe at NATS"))?;
            conn.ears.insert(subject.clone(), ear);
        }
        let settled = timeout(PATIENCE, conn.line.settle()).await;
        settled.unwrap_or_else(|_| Err(Trouble::new("NATS does not answer")))?;
        if !subjects.is_empty() {
            (self.told)(News::Heard(subjects));
        }
        Ok(())
    }
}
