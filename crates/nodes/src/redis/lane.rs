//! Commands to one server, in order: what waits goes out in one write, and the next write waits for its answers. While the
//! connection is away, commands wait for it until their time is over.

use super::conn::{Conn, refusal};
use super::event::Event;
use super::item::Item;
use super::settings::{Addr, Settings};
use super::wait::Backoff;
use crate::engine::Trouble;
use redis::{Pipeline, Value};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::{sleep, sleep_until, timeout};

/// Bytes of commands in one write.
const WRITE_BYTES_MAX: usize = 1 << 20;
/// An idle connection is asked so often whether it lives.
const PROBE_EVERY: Duration = Duration::from_secs(1);

/// The way to one server; it ends when this goes, after what waits was answered.
#[derive(Clone, Debug)]
pub(super) struct Lane {
    pub(super) addr: Addr,
    items: UnboundedSender<Item>,
}

impl Lane {
    pub(super) fn start(
        addr: Addr,
        settings: &Arc<Settings>,
        events: UnboundedSender<Event>,
    ) -> Self {
        let (sender, receiver) = unbounded_channel();
        let seat = Seat {
            addr: addr.clone(),
            settings: Arc::clone(settings),
            events,
            items: receiver,
            waiting: VecDeque::new(),
            open: true,
        };
        tokio::spawn(seat.run());
        let items = sender;
        Self { addr, items }
    }

    pub(super) fn send(&self, item: Item) {
        // A lane that ended gives it back; dropped, it answers its asker.
        let _ = self.items.send(item);
    }
}

/// The task of a lane.
struct Seat {
    addr: Addr,
    settings: Arc<Settings>,
    events: UnboundedSender<Event>,
    items: UnboundedReceiver<Item>,
    waiting: VecDeque<Item>,
    /// The lane is still there.
    open: bool,
}

impl Seat {
    async fn run(mut self) {
        let mut backoff = Backoff::default();
        while self.open || !self.waiting.is_empty() {
            let Some(connected) = self.connect().await else {
                return self.hand_back();
            };
            let trouble = match connected {
                Ok(conn) => {
                    backoff = Backoff::default();
                    self.tell(Ok(()));
                    self.serve(&conn).await
                }
                Err(trouble) => trouble,
            };
            if !self.open {
                break;
            }
            self.tell(Err(trouble.clone()));
            let pause = sleep(backoff.next());
            self.meanwhile(pause, &trouble).await;
        }
        self.hand_back();
    }

    /// The lane went, because another server has its slots: what waits for a connection here may go there at once.
    fn hand_back(&mut self) {
        for item in self.waiting.drain(..) {
            let _ = self.events.send(Event::Back(item));
        }
    }

    fn tell(&self, state: Result<(), Trouble>) {
        let _ = self.events.send(Event::Lane(self.addr.clone(), state));
    }

    /// `None`: the lane went.
    async fn connect(&mut self) -> Option<Result<Conn, Trouble>> {
        let (addr, settings) = (self.addr.clone(), Arc::clone(&self.settings));
        let opening = async move {
            let conn = Conn::open(&addr, &settings.login, &settings, None).await?;
            conn.hello.suits(&addr, &settings.mode)?;
            Ok(conn)
        };
        let away = Trouble::new(format!("cannot reach Redis at {}", self.addr));
        self.meanwhile(opening, &away).await
    }

    /// Waits for something while commands come, and ends those whose time is over. `None`: the lane went.
    async fn meanwhile<T>(
        &mut self,
        what: impl Future<Output = T>,
        trouble: &Trouble,
    ) -> Option<T> {
        tokio::pin!(what);
        while self.open {
            let first = self.waiting.front().map(|item| item.until);
            let over = async {
                match first {
                    Some(until) => sleep_until(until.into()).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                done = &mut what => return Some(done),
                item = self.items.recv() => match item {
                    Some(item) => self.waiting.push_back(item),
                    None => self.open = false,
                },
                () = over => self.end_overdue(trouble),
            }
        }
        None
    }

    fn end_overdue(&mut self, trouble: &Trouble) {
        let now = Instant::now();
        while let Some(item) = self.waiting.pop_front_if(|item| item.until <= now) {
            item.end(Err(trouble.clone()));
        }
    }

    /// Serves until the connection is lost, or the lane goes.
    async fn serve(&mut self, conn: &Conn) -> Trouble {
        loop {
            tokio::select! {
                biased;
                trouble = conn.gone() => return trouble,
                () = self.gather() => {}
            }
            let items = self.take();
            if items.is_empty() && !self.open {
                return super::item::ended();
            }
            if let Err(trouble) = self.exchange(conn, items).await {
                return trouble;
            }
        }
    }

    /// Waits for a command, though not for long, and takes what else is there.
    async fn gather(&mut self) {
        if self.waiting.is_empty() && self.open {
            match timeout(PROBE_EVERY, self.items.recv()).await {
                Ok(Some(item)) => self.waiting.push_back(item),
                Ok(None) => self.open = false,
                Err(_) => {}
            }
        }
        while let Ok(item) = self.items.try_recv() {
            self.waiting.push_back(item);
        }
    }

    /// What goes out in one write.
    fn take(&mut self) -> Vec<Item> {
        let (mut items, mut bytes) = (Vec::new(), 0);
        while bytes < WRITE_BYTES_MAX
            && let Some(item) = self.waiting.pop_front()
        {
            bytes += item.bytes();
            items.push(item);
        }
        items
    }

    /// Sends items, or a probe if there are none, and hands out the answers.
    async fn exchange(&self, conn: &Conn, mut items: Vec<Item>) -> Result<(), Trouble> {
        let mut pipeline = Pipeline::with_capacity(items.len().max(1));
        let mut sizes = Vec::with_capacity(items.len());
        for item in &mut items {
            sizes.push(1 + item.after.len());
            pipeline.add_command(std::mem::take(&mut item.command));
            for command in item.after.drain(..) {
                pipeline.add_command(command);
            }
        }
        if items.is_empty() {
            pipeline.cmd("PING");
        }
        let answers = conn.send(&pipeline, self.settings.patience).await;
        let mut commands = pipeline.cmd_iter();
        let mut answers = match answers {
            Ok(answers) => answers.into_iter(),
            Err(trouble) => {
                for (mut item, size) in items.into_iter().zip(sizes) {
                    item.take_back(commands.by_ref().take(size));
                    self.unanswered(item, &trouble);
                }
                return Err(trouble);
            }
        };
        let mut outcome = Ok(());
        for (mut item, size) in items.into_iter().zip(sizes) {
            let answer = match size {
                1 => answers.next().unwrap_or_default(),
                _ => together(answers.by_ref().take(size)),
            };
            let own = commands.by_ref().take(size);
            match refusal(&answer) {
                None => {
                    own.for_each(drop);
                    item.end(Ok(answer));
                }
                Some(why) => {
                    item.take_back(own);
                    outcome = outcome.and(self.refused(item, &why));
                }
            }
        }
        outcome
    }

    /// The server did not carry a command out; an error means that its connection is of no use any more.
    fn refused(&self, mut item: Item, why: &str) -> Result<(), Trouble> {
        let text = format!("Redis at {} refused: {why}", self.addr);
        let trouble = Trouble::refused(text, why);
        let code = why.split(' ').next().unwrap_or_default();
        if PASSING.contains(&code) {
            item.refusal = Some(trouble.clone());
            let _ = self.events.send(Event::Again(item));
        } else {
            item.end(Err(trouble.clone()));
        }
        // Another login, or another server of the same name, may help.
        match code {
            "READONLY" | "NOAUTH" => Err(trouble),
            _ => Ok(()),
        }
    }

    /// Nobody knows whether the command was carried out. A message is its publisher's to send again; the others do no harm twice.
    fn unanswered(&self, mut item: Item, trouble: &Trouble) {
        if item.is_message() {
            return item.end(Err(trouble.clone()));
        }
        item.refusal = Some(trouble.clone());
        let _ = self.events.send(Event::Again(item));
    }
}

/// All answers, or the first refusal among them.
fn together(answers: impl Iterator<Item = Value>) -> Value {
    let mut all: Vec<Value> = answers.collect();
    let refused = all.iter().position(|answer| refusal(answer).is_some());
    match refused {
        Some(at) => all.swap_remove(at),
        None => Value::Array(all),
    }
}

/// Refusals that pass with the next look at the topology, or when a failover, a migration or a start is over.
const PASSING: [&str; 7] = [
    "MOVED",
    "ASK",
    "READONLY",
    "CLUSTERDOWN",
    "TRYAGAIN",
    "MASTERDOWN",
    "LOADING",
];
