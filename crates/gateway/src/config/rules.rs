//! `[namespaces."/"]`: what a client event does without any backend. Settings become
//! `rules::Rules`; what can not work is refused here and not found out by a client.

use super::keys::{
    Event, HistoryReaders, LargeEvents, Namespace, Reaction, Recovery, RecoveryLevel, RoomHistory,
    RoomPresence,
};
use super::layer::{Layer, Path, Source};
use super::problem::Problem;
use super::typed::Field;
use super::value::Value;
use hub::config::{Exempt, Parser, PresenceOf, Rate, Recover, SlowConsumer, SlowEvents};
use hub::notices;
use process::files;
use rules::bridge::{Bus, Buses};
use rules::{Action, BuiltIn, EventRule, NamespaceRules, Offers, Rules};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use units::nearest;

/// Clients are told a rate in seconds.
const RATE_PER_MIN: Duration = Duration::from_secs(1);
/// Of the file of one schema.
const SCHEMA_BYTES_MAX: usize = 1 << 20;

/// Reads the rules of all namespaces; `folder` is where relative schema files are looked for.
pub fn read(
    layer: &Layer,
    folder: &std::path::Path,
    room_name_bytes_max: usize,
) -> (Rules, Vec<Problem>) {
    let mut reader = Reader {
        layer,
        folder,
        room_name_bytes_max,
        problems: Vec::new(),
    };
    let mut rules = Rules::default();
    for (name, keys) in namespaces(layer) {
        if name == "*" {
            reader.check_others(&keys);
        } else if !name.starts_with('/') || name.contains(',') {
            let advice = match name.starts_with('/') || name.contains(',') {
                true => ", such as \"/chat\"".to_owned(),
                false => format!("; did you mean {:?}?", format!("/{name}")),
            };
            let message = format!(
                "cannot use namespace {name:?}: a namespace begins with a slash and has no comma{advice}"
            );
            reader.problem(&Path::new(&["namespaces", name]), message);
        }
        let rule = reader.namespace(name, &keys);
        rules.namespaces.insert(name.to_owned(), rule);
    }
    (rules, reader.problems)
}

/// Rules that take the place of what the gateway does itself, and what is missing then.
pub fn doubts(layer: &Layer) -> Vec<String> {
    let mut doubts = Vec::new();
    for (name, keys) in namespaces(layer) {
        for event in events(layer, name) {
            let key = Event::of(layer, name, event).action;
            let setting = layer.settings.get(&key.path).filter(|_| key.is_said);
            if let (Some(setting), Some(built_in)) =
                (setting, built_in(layer, (name, &keys), event))
            {
                doubts.push(format!(
                    "{}: \"{}\" replaces what the gateway does with {event:?} itself: {}. Without it, the other keys of \
                     the rule (schema, rate) refine that",
                    setting.source,
                    key.path,
                    built_in.loss()
                ));
            }
        }
    }
    doubts
}

/// What the gateway does with an event of that name, if nothing replaces it.
fn built_in(layer: &Layer, (name, keys): (&str, &Namespace), event: &str) -> Option<BuiltIn> {
    let offers = Offers {
        chat: *keys.chat,
        client_joins: *keys.client_joins,
        reads_history: reads_history(layer, name),
        presence: *RoomPresence::of(layer, name).enabled,
    };
    BuiltIn::of(event, offers, || false)
}

pub(super) fn reads_history(layer: &Layer, namespace: &str) -> bool {
    *RoomHistory::of(layer, namespace).readers != HistoryReaders::Nobody
}

/// The namespaces whose members may see nothing that was said before they joined.
pub fn since_join(layer: &Layer) -> BTreeSet<String> {
    let named = names_below(layer, &["namespaces"]).into_iter();
    let hides = |name: &&str| *RoomHistory::of(layer, name).readers == HistoryReaders::SinceJoin;
    named.filter(hides).map(str::to_owned).collect()
}

/// The first key of a namespace that writes to the bus.
pub fn bus_user(layer: &Layer, bus: Bus) -> Option<Path> {
    namespaces(layer).find_map(|(name, keys)| {
        let named = events(layer, name).into_iter();
        let rules = named.map(|event| Event::of(layer, name, event));
        let mut rules = rules.chain([Event::default_of(layer, name)]);
        let (life, action) = match bus {
            Bus::Kafka => (keys.kafka_lifecycle, Reaction::Kafka),
            Bus::Nats => (keys.nats_lifecycle, Reaction::Nats),
        };
        life.then_some(life.path).or_else(|| {
            rules.find_map(|rule| {
                let beside = match bus {
                    Bus::Kafka => rule.kafka,
                    Bus::Nats => rule.nats,
                };
                let alone = (*rule.action == action).then_some(rule.action.path);
                beside.then_some(beside.path).or(alone)
            })
        })
    })
}

/// What of the rooms of namespaces is stored.
pub fn histories(layer: &Layer) -> Vec<(String, RoomHistory)> {
    let names = names_below(layer, &["namespaces"]).into_iter();
    let own = names.map(|name| (name.to_owned(), RoomHistory::of(layer, name)));
    own.filter(|(_, keys)| *keys.stored).collect()
}

/// Messages that are never compressed, by the marks of their namespaces.
pub fn exempt(layer: &Layer) -> Exempt {
    let mut exempt = Exempt::default();
    for (name, keys) in namespaces(layer) {
        if !*keys.compression {
            exempt.namespaces.insert(name.to_owned());
        }
        let rooms = &keys.uncompressed_rooms;
        if !rooms.is_empty() {
            let rooms = rooms.iter().cloned().collect();
            exempt.rooms.insert(name.to_owned(), rooms);
        }
    }
    exempt
}

/// Namespaces whose clients have a parser of their own.
pub fn parsers(layer: &Layer) -> BTreeMap<String, Parser> {
    let own = |(name, keys): (&str, Namespace)| Some((name.to_owned(), (*keys.parser)?));
    namespaces(layer).filter_map(own).collect()
}

/// Namespaces whose clients come back to what they missed.
pub fn recovery(layer: &Layer) -> hub::config::Recovery {
    let own = namespaces(layer).map(|(name, _)| {
        let keys = Recovery::of(layer, name);
        let recover = (*keys.level != RecoveryLevel::Off).then_some(Recover {
            window: *keys.window,
            offsets: *keys.offsets,
            goes_abroad: *keys.level == RecoveryLevel::Node && may_come_back(layer) == Ok(true),
            chronicle: *keys.level == RecoveryLevel::Cluster,
            replicas: keys.replicas.get(),
        });
        (name.to_owned(), recover)
    });
    let namespaces: BTreeMap<_, _> = own.collect();
    match namespaces.values().any(Option::is_some) {
        true => hub::config::Recovery { namespaces },
        false => hub::config::Recovery::default(),
    }
}

/// Whether clients may come back to another node, and why not, if there is a cluster; `Ok(false)`: there is none.
pub fn may_come_back(layer: &Layer) -> Result<bool, String> {
    if layer.value("cluster.adapter") == Some(&Value::Text("memory".to_owned())) {
        return Ok(false);
    }
    if hears_others(layer) {
        let why = "clients come back to their own node only, while other Socket.IO servers are heard: what those say has no place in the \
                   order of our nodes. If there are none, set compat.enabled = false, or cluster.secret";
        return Err(why.to_owned());
    }
    Ok(true)
}

/// Servers of other kinds are heard, unless somebody says otherwise or there is a secret.
pub(super) fn hears_others(layer: &Layer) -> bool {
    let secret = match layer.value("cluster.secret") {
        Some(Value::Secret(secret)) => !secret.reveal().is_empty(),
        _ => false,
    };
    match layer.value("compat.enabled") {
        Some(Value::Bool(enabled)) => *enabled,
        _ => !secret,
    }
}

/// Rooms whose members are told who is there.
pub fn presence(layer: &Layer) -> BTreeMap<String, Option<Arc<PresenceOf>>> {
    let own = namespaces(layer).map(|(name, _)| {
        let keys = RoomPresence::of(layer, name);
        let rule = (*keys.enabled).then(|| {
            let quoted = |name: &String| serde_json::Value::from(name.as_str()).to_string();
            Arc::new(PresenceOf {
                rooms: keys.rooms.clone(),
                grace: *keys.grace,
                members_max: keys.names_max.get(),
                info: keys.info.iter().map(quoted).collect(),
            })
        });
        (name.to_owned(), rule)
    });
    let all: BTreeMap<_, _> = own.collect();
    match all.values().any(Option::is_some) {
        true => all,
        false => BTreeMap::new(),
    }
}

/// The treatment of large events. Nothing where all namespaces send them like all others; else each has its own, so that none of them
/// is taken for one of `*`.
pub fn large(layer: &Layer) -> BTreeMap<String, LargeEvents> {
    let own = namespaces(layer).map(|(name, keys)| (name.to_owned(), *keys.large));
    let all: BTreeMap<_, _> = own.collect();
    match all.values().all(|large| *large == LargeEvents::Through) {
        true => BTreeMap::new(),
        false => all,
    }
}

/// The treatment of events of some namespaces where a client is slow; `usual` is that of all others.
pub fn slow_consumers(
    layer: &Layer,
    usual: SlowConsumer,
) -> (BTreeMap<String, SlowEvents>, Vec<Problem>) {
    let mut problems = Vec::new();
    let mut all = BTreeMap::new();
    for (name, keys) in namespaces(layer) {
        let policy = keys.slow_consumer.unwrap_or(usual);
        let key = &keys.conflate_by;
        if key.is_some() && policy != SlowConsumer::Conflate {
            let given = SlowConsumer::NAMES[policy as usize];
            let message = format!("only slow_consumer = \"conflate\" has keys, not {given:?}");
            problems.push(problem(layer, &key.path, message));
        }
        if keys.slow_consumer.is_some() || key.is_some() {
            let key = (**key).clone();
            all.insert(name.to_owned(), SlowEvents { policy, key });
        }
    }
    (all, problems)
}

fn namespaces(layer: &Layer) -> impl Iterator<Item = (&str, Namespace)> {
    let names = names_below(layer, &["namespaces"]).into_iter();
    names.map(|name| (name, Namespace::of(layer, name)))
}

pub(super) fn events<'a>(layer: &'a Layer, namespace: &str) -> Vec<&'a str> {
    names_below(layer, &["namespaces", namespace, "events"])
}

/// The operator's own names directly below a table, in order.
pub(super) fn names_below<'a>(layer: &'a Layer, prefix: &[&str]) -> Vec<&'a str> {
    // They stand beside each other. Looking at all of them for each of 100,000 namespaces took seconds.
    let from = layer.named.range(Path::new(prefix)..);
    let below = from.take_while(|path| path.0.iter().zip(prefix).all(|(own, given)| own == given));
    below
        .filter(|path| path.0.len() == prefix.len() + 1)
        .filter_map(|path| path.0.last())
        .map(String::as_str)
        .collect()
}

/// A pipe may never say anything.
fn read_schema(path: &std::path::Path) -> std::io::Result<String> {
    match std::fs::metadata(path)?.is_file() {
        true => files::text(path, SCHEMA_BYTES_MAX),
        false => Err(std::io::Error::other("it is no regular file")),
    }
}

/// Members that were lost are believed to come back for so long at most.
const GRACE_MAX: Duration = Duration::from_secs(300);

struct Reader<'a> {
    layer: &'a Layer,
    folder: &'a std::path::Path,
    room_name_bytes_max: usize,
    problems: Vec<Problem>,
}

impl Reader<'_> {
    fn namespace(&mut self, name: &str, keys: &Namespace) -> NamespaceRules {
        let mut rules = BTreeMap::new();
        for event in events(self.layer, name) {
            let place = Path::new(&["namespaces", name, "events", event]);
            if hub::is_reserved(event) {
                let message = format!("cannot use event {event:?}: Socket.IO reserves this name");
                self.problem(&place, message);
            }
            let event_keys = Event::of(self.layer, name, event);
            let rule = self.event(&event_keys);
            self.check_name(&place, event, &rule.action);
            if !rule.replaces && built_in(self.layer, (name, keys), event).is_some() {
                self.check_refinement(&event_keys, event);
            }
            rules.insert(event.to_owned(), rule);
        }
        for room in keys.auto_join.iter() {
            self.check_room(&keys.auto_join.path, room);
        }
        let presence = RoomPresence::of(self.layer, name);
        if *presence.grace > GRACE_MAX {
            self.problem(
                &presence.grace.path,
                "must be \"5m\" or less: for so long each member that was lost takes memory"
                    .to_owned(),
            );
        }
        let mut rules = NamespaceRules {
            backend: self.backend(&keys.backend),
            chat: *keys.chat,
            client_joins: *keys.client_joins,
            auto_join: keys.auto_join.clone(),
            reads_history: reads_history(self.layer, name),
            presence: *presence.enabled,
            lives: Buses {
                kafka: *keys.kafka_lifecycle,
                nats: *keys.nats_lifecycle,
            },
            recovers: *Recovery::of(self.layer, name).level != RecoveryLevel::Off,
            events: rules,
            default_event: self.event(&Event::default_of(self.layer, name)),
        };
        if rules.backend.is_some() {
            self.leave_to_backend(name, &mut rules);
        } else {
            self.check_backend_actions(name, &rules);
        }
        rules
    }

    fn backend(&mut self, key: &Field<Option<String>>) -> Option<String> {
        let backend = (**key).clone()?;
        let known = names_below(self.layer, &["backends"]);
        if !known.contains(&backend.as_str()) {
            let advice = match nearest(&backend, known) {
                Some(name) => format!("did you mean {name:?}?"),
                None => format!("add a table [backends.{backend}]"),
            };
            self.problem(
                &key.path,
                format!("there is no backend {backend:?}: {advice}"),
            );
        }
        Some(backend)
    }

    /// `[namespaces."*"]` is every namespace without a table: a backend decides which of them there are.
    fn check_others(&mut self, keys: &Namespace) {
        let place = Path::new(&["namespaces", "*"]);
        let message = match keys.backend.is_some() {
            false => {
                "it stands for all namespaces without a table: set `backend`, which decides about them"
            }
            true if !events(self.layer, "*").is_empty() => {
                "it can have no events of its own: give the namespace a table"
            }
            true => return,
        };
        self.problem(&place, format!("cannot use namespace \"*\": {message}"));
    }

    /// A backend gets every event but those that the operator gave a rule: what a profile says of the namespace is for servers
    /// without a backend.
    fn leave_to_backend(&self, name: &str, rules: &mut NamespaceRules) {
        let says = |path: &[&str]| self.is_operators(&[&["namespaces", name], path].concat());
        rules.chat &= says(&["chat"]);
        rules.client_joins &= says(&["client_joins"]);
        rules.events.retain(|event, _| says(&["events", event]));
        if !says(&["default", "action"]) {
            rules.default_event.action = Action::Backend;
        }
    }

    fn check_backend_actions(&mut self, name: &str, rules: &NamespaceRules) {
        let events = rules.events.iter();
        let events = events.filter(|(_, rule)| rule.action == Action::Backend);
        let mut keys: Vec<Event> = events
            .map(|(event, _)| Event::of(self.layer, name, event))
            .collect();
        if rules.default_event.action == Action::Backend {
            keys.push(Event::default_of(self.layer, name));
        }
        for key in keys {
            let message = format!("the namespace has no backend: set namespaces.{name:?}.backend");
            self.problem(&key.action.path, message);
        }
    }

    /// The operator said something here or below, rather than a default or a profile.
    fn is_operators(&self, path: &[&str]) -> bool {
        let place = Path::new(path);
        let mut settings = self.layer.settings.iter();
        settings.any(|(own, setting)| {
            own.0.starts_with(&place.0)
                && !matches!(setting.source, Source::Default | Source::Profile(_))
        })
    }

    /// An event of a client may not look like the gateway's own.
    fn check_name(&mut self, place: &Path, event: &str, action: &Action) {
        if notices::is_notice(event) && matches!(action, Action::Rooms { .. }) {
            let message = format!(
                "cannot send event {event:?} on to other clients: they take it for the gateway's own word; use another name, \
                 or action \"reply\" or \"drop\""
            );
            self.problem(place, message);
        }
    }

    /// A rule that refines what the gateway does itself has no say in where the event goes.
    fn check_refinement(&mut self, keys: &Event, event: &str) {
        let Event {
            room,
            room_field,
            echo,
            history,
            ..
        } = keys;
        let said = [
            (&room.path, room.is_said),
            (&room_field.path, room_field.is_said),
            (&echo.path, echo.is_said),
            (&history.path, history.is_said),
        ];
        for (path, _) in said.into_iter().filter(|(_, is_said)| *is_said) {
            let message = format!(
                "has no effect: the gateway handles {event:?} itself; a rule with an action replaces that"
            );
            self.problem(path, message);
        }
    }

    /// Configuration can not name a room that no client could join.
    fn check_room(&mut self, path: &Path, room: &str) {
        let bytes_max = self.room_name_bytes_max;
        if room.is_empty() || room.len() > bytes_max {
            let message = format!(
                "a room's name has 1 to {bytes_max} bytes, not {}",
                room.len()
            );
            self.problem(path, message);
        }
    }

    fn event(&mut self, keys: &Event) -> EventRule {
        EventRule {
            action: self.action(keys),
            replaces: keys.action.is_said,
            room_field: (*keys.room_field).clone(),
            schema: self.schema(keys),
            rate: self.rate(&keys.rate),
            history: *keys.history,
            beside: Buses {
                kafka: *keys.kafka,
                nats: *keys.nats,
            },
        }
    }

    fn action(&mut self, keys: &Event) -> Action {
        let (room, echo) = ((*keys.room).clone(), *keys.echo);
        if *keys.action != Reaction::Rooms {
            self.check_unused(keys);
        }
        if let Some(room) = &room {
            self.check_room(&keys.room.path, room);
        }
        match *keys.action {
            Reaction::Rooms => Action::Rooms { room, echo },
            Reaction::Reply => Action::Reply,
            Reaction::Drop => Action::Drop,
            Reaction::Backend => Action::Backend,
            Reaction::Kafka => Action::Bus(Bus::Kafka),
            Reaction::Nats => Action::Bus(Bus::Nats),
        }
    }

    fn check_unused(&mut self, keys: &Event) {
        let action = format!("{:?}", *keys.action).to_lowercase();
        let rooms = "only action \"rooms\" has";
        let named = "only actions \"rooms\", \"kafka\" and \"nats\" have";
        let either = "only actions \"rooms\" and \"backend\" have";
        for (path, twice) in [
            (
                &keys.kafka.path,
                *keys.kafka && *keys.action == Reaction::Kafka,
            ),
            (
                &keys.nats.path,
                *keys.nats && *keys.action == Reaction::Nats,
            ),
        ] {
            if twice {
                let message = "the action writes it there already: leave one of both out";
                self.problem(path, message.to_owned());
            }
        }
        let kept = *keys.history && *keys.action != Reaction::Backend;
        for (path, only, noun, given) in [
            (&keys.room.path, rooms, "a room", keys.room.is_some()),
            (
                &keys.room_field.path,
                named,
                "a room",
                keys.room_field.is_some()
                    && !matches!(*keys.action, Reaction::Kafka | Reaction::Nats),
            ),
            (&keys.echo.path, rooms, "an echo", *keys.echo),
            (&keys.history.path, either, "a history", kept),
        ] {
            if given {
                self.problem(path, format!("{only} {noun}, not {action:?}"));
            }
        }
    }

    fn schema(&mut self, keys: &Event) -> Option<String> {
        let file_key = &keys.schema_file.path;
        let (key, text) = match (&*keys.schema, &*keys.schema_file) {
            (Some(_), Some(_)) => {
                let message = "\"schema\" and \"schema_file\" exclude each other";
                self.problem(file_key, message.to_owned());
                return None;
            }
            (Some(inline), None) => (&keys.schema.path, inline.0.clone()),
            (None, Some(file)) => {
                let path = self.folder.join(file);
                match read_schema(&path) {
                    Ok(text) => (file_key, text),
                    Err(error) => {
                        let message = format!("cannot read schema {}: {error}", path.display());
                        self.problem(file_key, message);
                        return None;
                    }
                }
            }
            (None, None) => return None,
        };
        if let Err(error) = control::schema::compile(&text) {
            self.problem(key, format!("cannot use schema: {error}"));
        }
        Some(text)
    }

    fn rate(&mut self, key: &Field<Option<Rate>>) -> Option<Rate> {
        if key.is_some_and(|rate| rate.per < RATE_PER_MIN) {
            let message = "events are counted over a second or more, such as \"10/s\"";
            self.problem(&key.path, message.to_owned());
        }
        **key
    }

    fn problem(&mut self, place: &Path, message: String) {
        self.problems.push(problem(self.layer, place, message));
    }
}

/// Blames the setting at a path, or the first one below it when it is a table.
pub(super) fn problem(layer: &Layer, place: &Path, message: String) -> Problem {
    let below = layer
        .settings
        .iter()
        .filter(|(own, _)| own.0.starts_with(&place.0));
    let mut said = below
        .map(|(_, setting)| &setting.source)
        .filter(|source| **source != Source::Default);
    let source = said.next().cloned().unwrap_or(Source::Default);
    Problem::new(&source, format!("\"{place}\": {message}"))
}
