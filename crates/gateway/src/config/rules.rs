//! `[namespaces."/"]`: what a client event does without any backend. Settings become
//! `rules::Rules`; what can not work is refused here and not found out by a client.

use super::problem::Problem;
use super::raw::{Layer, Path, Setting, Source};
use super::typed::Typed;
use super::value::Value;
use hub::config::{Exempt, Parser, Rate, SlowConsumer, SlowEvents};
use hub::notices;
use rules::{Action, BuiltIn, EventRule, NamespaceRules, Rules};
use std::collections::BTreeMap;
use std::time::Duration;

/// Reads the rules of all namespaces; `folder` is where relative schema files are looked for.
pub fn read(layer: &Layer, folder: &std::path::Path) -> (Rules, Vec<Problem>) {
    let mut reader = Reader {
        layer,
        folder,
        problems: Vec::new(),
    };
    let mut rules = Rules::default();
    for name in names_below(layer, &["namespaces"]) {
        let at = ["namespaces", name];
        if !name.starts_with('/') || name.contains(',') {
            let message = "a namespace begins with a slash and has no comma, such as \"/chat\"";
            reader.problem(&at, format!("cannot use namespace {name:?}: {message}"));
        }
        let rule = reader.namespace(&at);
        rules.namespaces.insert(name.to_owned(), rule);
    }
    (rules, reader.problems)
}

/// Rules that take the place of what the gateway does itself, and what is missing then.
pub fn doubts(layer: &Layer) -> Vec<String> {
    let mut doubts = Vec::new();
    for name in names_below(layer, &["namespaces"]) {
        for event in names_below(layer, &["namespaces", name, "events"]) {
            let key = Path::new(&["namespaces", name, "events", event, "action"]);
            let Some(setting) = layer.settings.get(&key) else {
                continue;
            };
            if let Some(built_in) = built_in(layer, name, event).filter(|_| is_said(setting)) {
                doubts.push(format!(
                    "{}: \"{key}\" replaces what the gateway does with {event:?} itself: {}. Without it, the other keys of \
                     the rule (schema, rate) refine that",
                    setting.source,
                    built_in.loss()
                ));
            }
        }
    }
    doubts
}

/// What the gateway does with an event of that name, if nothing replaces it.
fn built_in(layer: &Layer, namespace: &str, event: &str) -> Option<BuiltIn> {
    let on = |key| {
        let setting = layer
            .settings
            .get(&Path::new(&["namespaces", namespace, key]));
        setting.is_some_and(|setting| setting.value == Value::Bool(true))
    };
    BuiltIn::of(event, on("chat"), on("client_joins"), || false)
}

/// Somebody wrote it, rather than that it is so by default.
fn is_said(setting: &Setting) -> bool {
    setting.source != Source::Default
}

/// What is never compressed, by the marks of its namespaces.
pub fn exempt(layer: &Layer) -> Exempt {
    let mut exempt = Exempt::default();
    let value = |name: &str, key: &str| {
        let path = Path::new(&["namespaces", name, key]);
        layer.settings.get(&path).map(|setting| &setting.value)
    };
    for name in names_below(layer, &["namespaces"]) {
        if let Some(Value::Bool(false)) = value(name, "compression") {
            exempt.namespaces.insert(name.to_owned());
        }
        if let Some(Value::List(rooms)) = value(name, "uncompressed_rooms")
            && !rooms.is_empty()
        {
            let rooms = rooms.iter().cloned().collect();
            exempt.rooms.insert(name.to_owned(), rooms);
        }
    }
    exempt
}

/// Namespaces whose clients have a parser of their own.
pub fn parsers(layer: &Layer) -> BTreeMap<String, Parser> {
    let own = |name: &str| {
        let setting = layer
            .settings
            .get(&Path::new(&["namespaces", name, "parser"]))?;
        Some((name.to_owned(), Parser::of(&setting.value)?))
    };
    let names = names_below(layer, &["namespaces"]);
    names.into_iter().filter_map(own).collect()
}

/// What happens to the events of some namespaces where a client is slow.
pub fn slow_consumers(layer: &Layer) -> (BTreeMap<String, SlowEvents>, Vec<Problem>) {
    let mut reader = Reader {
        layer,
        folder: std::path::Path::new(""),
        problems: Vec::new(),
    };
    let mut all = BTreeMap::new();
    let default = match layer.value("limits.slow_consumer") {
        Some(Value::Text(name)) => name.clone(),
        _ => String::new(),
    };
    for name in names_below(layer, &["namespaces"]) {
        let own = reader.text(&["namespaces", name, "slow_consumer"]);
        let by = ["namespaces", name, "conflate_by"];
        let key = reader.text(&by);
        let policy = own.as_ref().unwrap_or(&default);
        if key.is_some() && policy != "conflate" {
            let message = format!("only slow_consumer = \"conflate\" has keys, not {policy:?}");
            reader.problem(&by, message);
        }
        if let Some(policy) = SlowConsumer::from_name(policy)
            && (own.is_some() || key.is_some())
        {
            all.insert(name.to_owned(), SlowEvents { policy, key });
        }
    }
    (all, reader.problems)
}

/// The operator's own names directly below a table, in order.
fn names_below<'a>(layer: &'a Layer, prefix: &[&str]) -> Vec<&'a str> {
    let named = layer
        .named
        .iter()
        .filter(|path| path.0.len() == prefix.len() + 1);
    let below = named.filter(|path| path.0.iter().zip(prefix).all(|(own, given)| own == given));
    below
        .filter_map(|path| path.0.last())
        .map(String::as_str)
        .collect()
}

/// Clients are told a rate in seconds.
const RATE_PER_MIN: Duration = Duration::from_secs(1);

struct Reader<'a> {
    layer: &'a Layer,
    folder: &'a std::path::Path,
    problems: Vec<Problem>,
}

impl<'a> Reader<'a> {
    fn namespace(&mut self, at: &[&str; 2]) -> NamespaceRules {
        let [root, name] = *at;
        let mut events = BTreeMap::new();
        for event in names_below(self.layer, &[root, name, "events"]) {
            let path = [root, name, "events", event];
            if hub::is_reserved(event) {
                let message = format!("cannot use event {event:?}: Socket.IO reserves this name");
                self.problem(&path, message);
            }
            let rule = self.event(&path);
            self.check_name(&path, event, &rule.action);
            if !rule.replaces && built_in(self.layer, name, event).is_some() {
                self.check_refinement(&path, event);
            }
            events.insert(event.to_owned(), rule);
        }
        NamespaceRules {
            chat: self.on(&[root, name, "chat"]),
            client_joins: self.on(&[root, name, "client_joins"]),
            auto_join: self.auto_join(&[root, name, "auto_join"]),
            events,
            default_event: self.event(&[root, name, "default"]),
        }
    }

    /// What clients send may not look like the gateway's own word.
    fn check_name(&mut self, at: &[&str], event: &str, action: &Action) {
        if notices::is_notice(event) && matches!(action, Action::Rooms { .. }) {
            let message = format!(
                "cannot send event {event:?} on to other clients: they take it for the gateway's own word; use another name, \
                 or action \"reply\" or \"drop\""
            );
            self.problem(at, message);
        }
    }

    /// A rule that refines what the gateway does itself has no say in where the event goes.
    fn check_refinement(&mut self, at: &[&str], event: &str) {
        for name in ["room", "room_field", "echo", "history"] {
            let key = below(at, name);
            if self.setting(&key).is_some_and(is_said) {
                let message = format!(
                    "has no effect: the gateway handles {event:?} itself; a rule with an action replaces that"
                );
                self.problem(&key, message);
            }
        }
    }

    fn auto_join(&mut self, at: &[&str]) -> Vec<String> {
        let Some(Value::List(rooms)) = self.value(at) else {
            return Vec::new();
        };
        for room in rooms {
            self.check_room(at, room);
        }
        rooms.clone()
    }

    /// What a client could not join, configuration can not name.
    fn check_room(&mut self, at: &[&str], room: &str) {
        let bytes_max = match self.layer.value("limits.room_name_bytes_max") {
            Some(Value::Size(bytes)) => *bytes,
            _ => u64::MAX,
        };
        if room.is_empty() || room.len() as u64 > bytes_max {
            let message = format!(
                "a room's name has 1 to {bytes_max} bytes, not {}",
                room.len()
            );
            self.problem(at, message);
        }
    }

    fn event(&mut self, at: &[&str]) -> EventRule {
        EventRule {
            action: self.action(at),
            replaces: self.setting(&below(at, "action")).is_some_and(is_said),
            room_field: self.text(&below(at, "room_field")),
            schema: self.schema(at),
            rate: self.rate(at),
            history: self.on(&below(at, "history")),
        }
    }

    fn action(&mut self, at: &[&str]) -> Action {
        let room = self.text(&below(at, "room"));
        let echo = self.on(&below(at, "echo"));
        let action = self.text(&below(at, "action")).unwrap_or_default();
        if action != "rooms" {
            let history = self.on(&below(at, "history"));
            for (name, noun, given) in [
                ("room", "a room", room.is_some()),
                (
                    "room_field",
                    "a room",
                    self.text(&below(at, "room_field")).is_some(),
                ),
                ("echo", "an echo", echo),
                ("history", "a history", history),
            ] {
                if given {
                    let message = format!("only action \"rooms\" has {noun}, not {action:?}");
                    self.problem(&below(at, name), message);
                }
            }
        }
        if let Some(room) = &room {
            self.check_room(&below(at, "room"), room);
        }
        match action.as_str() {
            "rooms" => Action::Rooms { room, echo },
            "reply" => Action::Reply,
            "backend" => {
                let message = "action \"backend\" comes with a later release; use \"rooms\", \
                               \"reply\" or \"drop\"";
                self.problem(&below(at, "action"), message.to_owned());
                Action::Backend
            }
            _ => Action::Drop,
        }
    }

    fn schema(&mut self, at: &[&str]) -> Option<String> {
        let inline = match self.value(&below(at, "schema")) {
            Some(Value::Json(text)) => Some(text.clone()),
            _ => None,
        };
        let file_key = below(at, "schema_file");
        let (key, text) = match (inline, self.text(&file_key)) {
            (Some(_), Some(_)) => {
                let message = "\"schema\" and \"schema_file\" exclude each other";
                self.problem(&file_key, message.to_owned());
                return None;
            }
            (Some(text), None) => (below(at, "schema"), text),
            (None, Some(file)) => {
                let path = self.folder.join(&file);
                match std::fs::read_to_string(&path) {
                    Ok(text) => (file_key, text),
                    Err(error) => {
                        let message = format!("cannot read schema {}: {error}", path.display());
                        self.problem(&file_key, message);
                        return None;
                    }
                }
            }
            (None, None) => return None,
        };
        if let Err(error) = control::schema::compile(&text) {
            self.problem(&key, format!("cannot use schema: {error}"));
        }
        Some(text)
    }

    fn rate(&mut self, at: &[&str]) -> Option<Rate> {
        let key = below(at, "rate");
        let Some(Value::Rate(rate)) = self.value(&key) else {
            return None;
        };
        if rate.per < RATE_PER_MIN {
            let message = "events are counted over a second or more, such as \"10/s\"";
            self.problem(&key, message.to_owned());
        }
        Some(*rate)
    }

    fn text(&self, path: &[&str]) -> Option<String> {
        match self.value(path) {
            Some(Value::Text(text)) => Some(text.clone()),
            _ => None,
        }
    }

    fn on(&self, path: &[&str]) -> bool {
        matches!(self.value(path), Some(Value::Bool(true)))
    }

    fn value(&self, path: &[&str]) -> Option<&'a Value> {
        self.setting(path).map(|setting| &setting.value)
    }

    fn setting(&self, path: &[&str]) -> Option<&'a Setting> {
        self.layer.settings.get(&Path::new(path))
    }

    /// Blames the setting at `path`, or the first one below it when it is a table.
    fn problem(&mut self, path: &[&str], message: String) {
        let place = Path::new(path);
        let below = |(own, _): &(&Path, &Setting)| own.0.starts_with(&place.0);
        let said = self
            .layer
            .settings
            .iter()
            .filter(below)
            .map(|(_, setting)| &setting.source);
        let mut said = said.filter(|source| **source != Source::Default);
        let source = said.next().cloned().unwrap_or(Source::Default);
        self.problems
            .push(Problem::new(&source, format!("\"{place}\": {message}")));
    }
}

fn below<'a>(at: &[&'a str], name: &'a str) -> Vec<&'a str> {
    let mut path = at.to_vec();
    path.push(name);
    path
}
