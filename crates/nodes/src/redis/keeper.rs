//! The one task that knows how everything stands: servers, lanes to them, subscriptions. All others tell it what happened.

use super::ears::Ears;
use super::event::Event;
use super::item::{Item, ended};
use super::lane::Lane;
use super::resolver::Resolver;
use super::routes::Routes;
use super::settings::{Addr, Settings};
use super::topology::Topology;
use crate::engine::{News, Trouble};
use crate::feed::Source;
use arc_swap::ArcSwap;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};
use tokio::time::{MissedTickBehavior, interval};

const TICK: Duration = Duration::from_secs(1);
/// While something is wrong, everything is looked at so often: a replica that has taken over is found at once.
const HURRY: Duration = Duration::from_millis(100);

pub(super) struct Keeper {
    settings: Arc<Settings>,
    source: Source,
    sender: UnboundedSender<Event>,
    routes: Arc<ArcSwap<Routes>>,
    topology: Topology,
    /// Whether each lane has a connection; `None` = it has not tried yet.
    lanes: HashMap<Addr, Option<Result<(), Trouble>>>,
    ears: Ears,
    look: Arc<Notify>,
    unresolved: Option<Trouble>,
    again: Vec<Item>,
    up: Option<bool>,
}

impl Keeper {
    /// Starts with a topology that was just resolved.
    pub(super) fn new(
        settings: Arc<Settings>,
        source: Source,
        sender: UnboundedSender<Event>,
        (resolver, topology): (Resolver, Topology),
    ) -> (Self, Arc<ArcSwap<Routes>>) {
        let routes = Arc::new(ArcSwap::from_pointee(Routes::default()));
        let look = Arc::new(Notify::new());
        tokio::spawn(resolver.run(Arc::clone(&look), sender.clone()));
        let mut keeper = Self {
            ears: Ears::new(Arc::clone(&settings), source.clone(), sender.clone()),
            settings,
            source,
            sender,
            routes: Arc::clone(&routes),
            topology: Topology::default(),
            lanes: HashMap::new(),
            look,
            unresolved: None,
            again: Vec::new(),
            up: None,
        };
        keeper.adopt(topology);
        (keeper, routes)
    }

    pub(super) async fn run(mut self, mut events: UnboundedReceiver<Event>) {
        let mut tick = interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut retry = interval(HURRY);
        retry.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                event = events.recv() => {
                    let mut next = event;
                    while let Some(event) = next {
                        if matches!(event, Event::Close) {
                            return self.close();
                        }
                        self.on(event);
                        next = events.try_recv().ok();
                    }
                }
                _ = tick.tick() => {
                    self.look.notify_one();
                    self.ears.tick(&self.topology);
                }
                _ = retry.tick(), if self.up != Some(true) => self.hurry(),
            }
            self.ears.flush();
            self.tell_state();
        }
    }

    fn hurry(&mut self) {
        self.look.notify_one();
        self.ears.review_missing(&self.topology);
    }

    fn on(&mut self, event: Event) {
        let topology = &self.topology;
        match event {
            Event::Subscribe(topics) => self.ears.subscribe(topics, topology),
            Event::Unsubscribe(topics) => self.ears.unsubscribe(&topics, topology),
            Event::Doubt => self.ears.doubt(topology),
            Event::Close => {}
            Event::Lane(addr, state) => {
                if let Err(trouble) = &state {
                    tracing::debug!(%trouble, "Redis takes no messages");
                    self.look.notify_one();
                }
                if let Some(known) = self.lanes.get_mut(&addr) {
                    *known = Some(state);
                }
            }
            Event::Again(item) => {
                self.again.push(item);
                self.look.notify_one();
            }
            Event::Back(item) => self.routes.load().send(item),
            Event::Resolved(resolved) => self.resolved(resolved),
            Event::EarOpened(addr, id, conn) => self.ears.opened(&addr, id, conn, topology),
            Event::EarLost(addr, id, trouble) => {
                tracing::debug!(%trouble, "Redis is not heard");
                self.look.notify_one();
                self.ears.lost(&addr, id, trouble, topology);
            }
            Event::EarConfirmed(id, topic) => self.ears.confirmed(id, &topic, topology),
            Event::EarEnded(id, topic) => {
                if self.ears.ended(id, &topic, topology) {
                    self.look.notify_one();
                }
            }
            Event::EarRefused(id, topics, moved, why) => {
                self.ears.refused(id, &topics, moved, why);
                self.look.notify_one();
            }
        }
    }

    fn resolved(&mut self, resolved: Result<Topology, Trouble>) {
        match resolved {
            Ok(topology) => {
                self.unresolved = None;
                if topology != self.topology {
                    self.adopt(topology);
                }
            }
            Err(trouble) => self.unresolved = Some(trouble),
        }
        self.ears.review_missing(&self.topology);
        let (routes, now) = (self.routes.load(), Instant::now());
        for mut item in self.again.drain(..) {
            if item.until <= now {
                let refusal = item.refusal.take().unwrap_or_else(ended);
                item.end(Err(refusal));
            } else {
                routes.send(item);
            }
        }
    }

    /// Has a lane to each server of a topology, and to no other.
    fn adopt(&mut self, topology: Topology) {
        if !self.topology.servers.is_empty() {
            let masters: Vec<String> = topology.servers.iter().map(Addr::to_string).collect();
            tracing::info!(
                masters = masters.join(","),
                "masters or slots of Redis have changed"
            );
        }
        let before = self.routes.load_full();
        let (settings, sender) = (&self.settings, &self.sender);
        let lane = |addr: &Addr| {
            let kept = before.lanes().iter().find(|lane| lane.addr == *addr);
            let start = || Lane::start(addr.clone(), settings, sender.clone());
            kept.cloned().unwrap_or_else(start)
        };
        let lanes: Vec<Lane> = topology.servers.iter().map(lane).collect();
        self.lanes.retain(|addr, _| topology.servers.contains(addr));
        for addr in &topology.servers {
            self.lanes.entry(addr.clone()).or_default();
        }
        self.routes
            .store(Arc::new(Routes::new(lanes, topology.clone())));
        self.topology = topology;
        self.ears.review_all(&self.topology);
    }

    fn trouble(&self) -> Option<Trouble> {
        let lanes = self.lanes.values().flatten();
        let lane = lanes.filter_map(|state| state.as_ref().err()).next();
        lane.or(self.unresolved.as_ref())
            .cloned()
            .or_else(|| self.ears.trouble())
    }

    fn tell_state(&mut self) {
        let whole = self.lanes.values().all(|state| *state == Some(Ok(())));
        let up = match self.trouble() {
            Some(trouble) if self.up != Some(false) => {
                self.source.tell(News::Down(trouble));
                Some(false)
            }
            Some(_) => Some(false),
            None if whole && self.ears.is_whole() => {
                if self.up != Some(true) {
                    self.source.tell(News::Up);
                }
                Some(true)
            }
            None => self.up,
        };
        self.up = up;
    }

    /// Lanes answer what waits, and end.
    fn close(self) {
        self.routes.store(Arc::default());
        // The resolver notices that nobody listens.
        self.look.notify_one();
    }
}
