//! Rules as compiled at start, shared by all shards.

use crate::bounds::{QUESTIONS, REPLAYS};
use crate::bridge::{Bus, Buses, Recorder, Recorders};
use crate::chat;
use crate::config::{Action, EventRule, NamespaceRules, Offers, Rules};
use crate::large::Large;
use crate::line::Line;
use crate::trace::Tracer;
use foldhash::fast::FixedState;
use hub::config::Rate;
use hub::{Form, Keeping, Keeps, Limiter};
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;

/// Checks a payload against a schema. Implemented outside, so that this crate needs no schema library.
pub trait PayloadCheck: Send + Sync {
    /// `payload` is raw JSON, `null` when the event has no argument. The error is for people.
    fn check(&self, payload: &str) -> Result<(), String>;
}

/// Compiles a JSON Schema's text.
pub type Compile<'a> = dyn Fn(&str) -> Result<Arc<dyn PayloadCheck>, String> + 'a;

pub(crate) struct Rule {
    pub(crate) action: Action,
    pub(crate) replaces: bool,
    pub(crate) schema: Option<Arc<dyn PayloadCheck>>,
    pub(crate) rate: Option<Limiter>,
    /// Written to these beside the action.
    pub(crate) beside: Buses,
    /// With its quotes, as it stands in an object's text.
    pub(crate) room_field: Option<String>,
}

pub(crate) struct Namespace {
    pub(crate) backend: Option<Arc<dyn Line>>,
    pub(crate) offers: Offers,
    pub(crate) auto_join: Vec<String>,
    /// Something of its rooms is kept for late joiners.
    pub(crate) history: bool,
    pub(crate) replays: Limiter,
    /// Questions for the members of a room.
    pub(crate) questions: Limiter,
    /// The configuration chose what is in it, so no client can make it slow, and a fast hash is enough.
    pub(crate) events: HashMap<String, Rule, FixedState>,
    pub(crate) default: Rule,
    pub(crate) large: Large,
    /// The beginnings and ends of its sockets are written to these.
    pub(crate) lives: Buses,
}

/// All namespaces by name.
pub(crate) struct Book {
    pub(crate) namespaces: Vec<(String, Namespace)>,
    pub(crate) keeping: Arc<Keeping>,
    /// The backends that decide about requests for sessions.
    pub(crate) deciders: Vec<Arc<dyn Line>>,
    /// Records what is done, if anybody wants that.
    pub(crate) tracer: Option<Arc<dyn Tracer>>,
    /// They write to Kafka and NATS, if anything is written there.
    pub(crate) recorders: Recorders,
}

/// Builds the rules' handler for each shard.
pub struct RulesFactory(pub(crate) Arc<Book>);

impl fmt::Debug for RulesFactory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RulesFactory")
            .field("namespaces", &self.0.namespaces.len())
            .finish()
    }
}

impl RulesFactory {
    /// Compiles the rules. The error names namespace and event.
    pub fn new(rules: &Rules, compile: &Compile<'_>) -> Result<Self, String> {
        Self::with_backends(rules, compile, &BTreeMap::new())
    }

    /// The same with ways to the backends that namespaces name.
    pub fn with_backends(
        rules: &Rules,
        compile: &Compile<'_>,
        lines: &BTreeMap<String, Arc<dyn Line>>,
    ) -> Result<Self, String> {
        let mut compiler = Compiler {
            limiters: 0,
            compile,
            lines,
        };
        let mut namespaces = Vec::new();
        for (name, source) in &rules.namespaces {
            let compiled = compiler.namespace(source);
            let compiled = compiled.map_err(|(event, error)| {
                format!(
                    "cannot compile the schema of event {event:?} in namespace {name:?}: {error}"
                )
            })?;
            namespaces.push((name.clone(), compiled));
        }
        let deciders = lines.values().filter(|line| line.decides_openings());
        Ok(Self(Arc::new(Book {
            namespaces,
            keeping: Arc::new(keeping(rules)),
            deciders: deciders.cloned().collect(),
            tracer: None,
            recorders: Recorders::default(),
        })))
    }

    /// The events that rooms keep.
    pub fn keeping(&self) -> Arc<Keeping> {
        Arc::clone(&self.0.keeping)
    }

    /// Large events are treated so in these namespaces.
    #[must_use]
    pub fn with_large(mut self, large: &BTreeMap<String, Large>) -> Self {
        // Nobody has it yet.
        if let Some(book) = Arc::get_mut(&mut self.0) {
            for (name, namespace) in &mut book.namespaces {
                namespace.large = large.get(name).copied().unwrap_or_default();
            }
        }
        self
    }

    /// Events and lives go to the bus by this way.
    #[must_use]
    pub fn recorded(mut self, bus: Bus, recorder: Arc<dyn Recorder>) -> Self {
        // Nobody has it yet.
        if let Some(book) = Arc::get_mut(&mut self.0) {
            book.recorders[bus.place()] = Some(recorder);
        }
        self
    }

    /// The calls are recorded.
    #[must_use]
    pub fn traced(mut self, tracer: Arc<dyn Tracer>) -> Self {
        // Nobody has it yet.
        if let Some(book) = Arc::get_mut(&mut self.0) {
            book.tracer = Some(tracer);
        }
        self
    }
}

struct Compiler<'a> {
    /// Limiters made so far; each has a number of its own in a session.
    limiters: u32,
    compile: &'a Compile<'a>,
    lines: &'a BTreeMap<String, Arc<dyn Line>>,
}

impl Compiler<'_> {
    fn namespace(&mut self, source: &NamespaceRules) -> Result<Namespace, (String, String)> {
        let mut rules = source.events.values().chain([&source.default_event]);
        let history = source.chat || rules.any(|rule| rule.history);
        let mut events = HashMap::with_hasher(FixedState::default());
        for (event, rule) in &source.events {
            let rule = self.rule(rule).map_err(|error| (event.clone(), error))?;
            events.insert(event.clone(), rule);
        }
        let default = self.rule(&source.default_event);
        let default = default.map_err(|error| ("*".to_owned(), error))?;
        let line = source
            .backend
            .as_ref()
            .and_then(|name| self.lines.get(name));
        Ok(Namespace {
            backend: line.cloned(),
            offers: Offers {
                chat: source.chat,
                client_joins: source.client_joins,
                reads_history: source.reads_history,
                presence: source.presence,
            },
            auto_join: source.auto_join.clone(),
            history,
            replays: self.limiter(REPLAYS),
            questions: self.limiter(QUESTIONS),
            events,
            default,
            large: Large::Through,
            lives: source.lives,
        })
    }

    fn rule(&mut self, source: &EventRule) -> Result<Rule, String> {
        Ok(Rule {
            action: source.action.clone(),
            replaces: source.replaces,
            schema: source.schema.as_deref().map(self.compile).transpose()?,
            beside: source.beside,
            rate: source.rate.map(|rate| self.limiter(rate)),
            room_field: source.room_field.as_deref().map(quoted),
        })
    }

    fn limiter(&mut self, rate: Rate) -> Limiter {
        self.limiters += 1;
        Limiter::new(self.limiters, rate)
    }
}

/// What the rules keep, as the hub wants to know it.
fn keeping(rules: &Rules) -> Keeping {
    let namespaces = rules.namespaces.iter();
    Keeping::new(namespaces.map(|(name, rules)| (name.clone(), keeps(name, rules))))
}

fn keeps(name: &str, rules: &NamespaceRules) -> Option<Keeps> {
    let form = |rule: &EventRule| match rule.history {
        true => Form::Named,
        false => Form::Passing,
    };
    let events = rules.events.iter();
    let mut keeps = Keeps {
        // All that a worker says goes by one home.
        home: rules.backend.clone().unwrap_or_else(|| name.to_owned()),
        forms: events
            .map(|(event, rule)| (event.clone(), form(rule)))
            .collect(),
        others: form(&rules.default_event),
    };
    // A rule with an action of its own replaces what the profile does.
    let message = rules.events.get(chat::MESSAGE);
    if rules.chat && !message.is_some_and(|rule| rule.replaces) {
        keeps.forms.insert(chat::MESSAGE.to_owned(), Form::Bare);
    }
    let any =
        keeps.others != Form::Passing || keeps.forms.values().any(|form| *form != Form::Passing);
    (any || rules.recovers).then_some(keeps)
}

fn quoted(name: &str) -> String {
    let mut text = Vec::new();
    wire::json::quote(&mut text, name);
    String::from_utf8_lossy(&text).into_owned()
}
