//! Defaults → profile → file → environment → flags. Each later layer wins, and every setting
//! remembers which one it came from.

use super::key::Profile;
use super::keys::{KEYS, PlainRaw, profile_rules};
use super::layer::{Layer, Path, Setting, Source};
use super::problem::Problem;
use super::raw;
use super::typed::Section;
use super::value::{Kind, Value};
use super::variables;
use std::collections::BTreeSet;

/// A flag of the command line that sets a key.
#[derive(Clone, Debug)]
pub struct Flag {
    pub name: &'static str,
    pub key: &'static str,
    pub text: String,
}

/// What the operator said, before anything is made of it.
#[derive(Debug, Default)]
pub struct Inputs {
    /// Name and text of the configuration file.
    pub file: Option<(String, String)>,
    pub env: Vec<(String, String)>,
    pub flags: Vec<Flag>,
}

/// Merges all layers. Where something can not be read, the layer below shows through.
pub fn merge(inputs: &Inputs) -> (Layer, Vec<Problem>) {
    let (file, mut problems) = match &inputs.file {
        Some((name, text)) => raw::read_file(name, text),
        None => Default::default(),
    };
    let env = variables::read(&inputs.env, &file, &mut problems);
    let flags = read_flags(&inputs.flags, &mut problems);

    let mut merged = defaults();
    for layer in [&file, &env, &flags] {
        if let Some(setting) = layer.settings.get(&Path::fixed("profile")) {
            merged
                .settings
                .insert(Path::fixed("profile"), setting.clone());
        }
    }
    let profile = chosen_profile(&merged);
    for layer in [profile_layer(profile), file, env, flags] {
        merged.settings.extend(layer.settings);
        merged.named.extend(layer.named);
    }
    add_raw_frames(&mut merged);
    fill_patterns(&mut merged);
    (merged, problems)
}

/// A path for frames that are not parsed has a namespace with rules for them. What the operator says there comes first.
fn add_raw_frames(layer: &mut Layer) {
    let raw = PlainRaw::read(layer);
    let Some(room) = raw.path.as_deref().filter(|path| !path.is_empty()) else {
        return;
    };
    let namespace = raw.namespace.as_str();
    let said = |place: &Path| layer.settings.get(place).cloned();
    let auto_join = Path::new(&["namespaces", namespace, "auto_join"]);
    let mut added = vec![(auto_join, Value::List(vec![room.to_owned()]))];
    for key in [&raw.action.path, &raw.echo.path] {
        let name = key.0.last().map_or("", String::as_str);
        let place = Path::new(&["namespaces", namespace, "events", hub::RAW_EVENT, name]);
        added.extend(said(key).map(|setting| (place, setting.value)));
    }
    let Some(source) = said(&raw.path.path).map(|setting| setting.source) else {
        return;
    };
    for (place, value) in added {
        let source = source.clone();
        let setting = Setting { value, source };
        layer.settings.entry(place).or_insert(setting);
    }
}

fn chosen_profile(layer: &Layer) -> Profile {
    match layer
        .settings
        .get(&Path::fixed("profile"))
        .map(|setting| &setting.value)
    {
        Some(Value::Text(name)) => Profile::from_name(name).unwrap_or(Profile::Chat),
        _ => Profile::Chat,
    }
}

fn defaults() -> Layer {
    let mut layer = Layer::default();
    for key in KEYS.iter().filter(|key| !key.is_pattern()) {
        if let Some(value) = &key.default {
            let setting = Setting {
                value: value.clone(),
                source: Source::Default,
            };
            layer.settings.insert(Path::fixed(&key.path), setting);
        }
    }
    layer
}

fn profile_layer(profile: Profile) -> Layer {
    let source = Source::Profile(profile.name());
    let mut layer = Layer::default();
    let own = KEYS
        .iter()
        .flat_map(|key| key.profiles.iter().map(move |of| (key, of)));
    for (key, (_, value)) in own.filter(|(_, (name, _))| *name == profile) {
        let setting = Setting {
            value: value.clone(),
            source: source.clone(),
        };
        layer.settings.insert(Path::fixed(&key.path), setting);
    }
    for (path, text) in profile_rules(profile) {
        if let Some(Ok(value)) = raw::find(path).map(|key| key.kind.read_bare(text)) {
            layer.settings.insert(
                Path::new(path),
                Setting {
                    value,
                    source: source.clone(),
                },
            );
        }
    }
    layer
}

fn read_flags(flags: &[Flag], problems: &mut Vec<Problem>) -> Layer {
    let mut layer = Layer::default();
    for flag in flags {
        let (path, source) = (Path::fixed(flag.key), Source::Flag(flag.name));
        raw::insert(&mut layer, path, &flag.text, source, problems);
    }
    layer
}

/// Gives every namespace and event that is named anywhere the rest of its settings.
fn fill_patterns(layer: &mut Layer) {
    let mut named: BTreeSet<Path> = std::mem::take(&mut layer.named);
    named.insert(Path::new(&["namespaces", "/"]));
    named.extend(layer.settings.keys().flat_map(|path| {
        [2, 4]
            .into_iter()
            .filter_map(|depth| path.0.get(..depth))
            .map(Path::new)
    }));
    bound_chat(layer, &mut named);
    let settings = named.iter().flat_map(pattern_defaults);
    for (path, value) in settings.collect::<Vec<_>>() {
        let setting = Setting {
            value,
            source: Source::Default,
        };
        layer.settings.entry(path).or_insert(setting);
    }
    layer.named = named;
}

/// People do not write faster; what does is a program.
const CHAT_RATE: &str = "10/s";

/// Wherever the chat profile's events are on, their messages have a rate.
fn bound_chat(layer: &mut Layer, named: &mut BTreeSet<Path>) {
    let on = |(path, setting): (&Path, &Setting)| match path.0.as_slice() {
        [_, namespace, key] if key == "chat" && setting.value == Value::Bool(true) => {
            Some(Path::new(&[
                "namespaces",
                namespace,
                "events",
                "chat-message",
            ]))
        }
        _ => None,
    };
    let events: Vec<Path> = layer.settings.iter().filter_map(on).collect();
    for event in events {
        let mut rate = event.clone();
        rate.0.push("rate".to_owned());
        if let Ok(value) = Kind::Rate.read_bare(CHAT_RATE) {
            let source = Source::Default;
            let setting = Setting { value, source };
            layer.settings.entry(rate).or_insert(setting);
        }
        named.insert(event);
    }
}

/// Defaults of the keys directly below a namespace or an event.
fn pattern_defaults(table: &Path) -> Vec<(Path, Value)> {
    let mut found = Vec::new();
    for key in KEYS.iter().filter(|key| key.is_pattern()) {
        let pattern: Vec<&str> = key.segments().collect();
        let stars = pattern.iter().filter(|segment| **segment == "*").count();
        // A namespace fills its own keys and its `default` rule; an event its own keys only.
        let own = (stars == 1 && table.0.len() == 2) || (stars == 2 && table.0.len() == 4);
        let fits = table
            .0
            .iter()
            .zip(&pattern)
            .all(|(name, own)| *own == "*" || own == name);
        if let (true, true, Some(value)) = (own, fits, &key.default) {
            let mut path = table.0.clone();
            path.extend(
                pattern[table.0.len()..]
                    .iter()
                    .map(|segment| (*segment).to_owned()),
            );
            found.push((Path(path), value.clone()));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn merged(inputs: &Inputs) -> Layer {
        let (layer, problems) = merge(inputs);
        assert_eq!(problems, []);
        layer
    }

    fn source(layer: &Layer, key: &str) -> String {
        layer.settings[&Path::fixed(key)].source.to_string()
    }

    fn toml(layer: &Layer, key: &str) -> String {
        layer.settings[&Path::fixed(key)].value.to_toml()
    }

    fn file(text: &str) -> Option<(String, String)> {
        Some(("s.toml".to_owned(), text.to_owned()))
    }

    fn env(name: &str, text: &str) -> (String, String) {
        (name.to_owned(), text.to_owned())
    }

    fn flag(name: &'static str, key: &'static str, text: &str) -> Flag {
        Flag {
            name,
            key,
            text: text.to_owned(),
        }
    }

    #[test]
    fn each_layer_wins_over_the_ones_below() {
        let mut inputs = Inputs::default();
        let key = "server.shards";
        assert_eq!(source(&merged(&inputs), key), "default");
        inputs.file = file("[server]\nshards = 2");
        assert_eq!(source(&merged(&inputs), key), "s.toml:2:1");
        inputs.env.push(env("SOCKEYE__SERVER__SHARDS", "3"));
        assert_eq!(
            source(&merged(&inputs), key),
            "environment SOCKEYE__SERVER__SHARDS"
        );
        inputs.flags.push(flag("--shards", key, "4"));
        let layer = merged(&inputs);
        assert_eq!(source(&layer, key), "flag --shards");
        assert_eq!(toml(&layer, key), "4");
    }

    #[test]
    fn a_profile_lies_between_defaults_and_file() {
        let layer = merged(&Inputs::default());
        assert_eq!(toml(&layer, "socketio.ping_timeout"), "\"10s\"");
        assert_eq!(source(&layer, "socketio.ping_timeout"), "profile chat");
        let inputs = Inputs {
            file: file("profile = \"socket.io\""),
            ..Inputs::default()
        };
        let layer = merged(&inputs);
        assert_eq!(toml(&layer, "socketio.ping_timeout"), "\"20s\"");
        assert_eq!(source(&layer, "socketio.ping_timeout"), "default");
        let inputs = Inputs {
            file: file("[socketio]\nping_timeout = \"7s\""),
            flags: vec![flag("--profile", "profile", "plain")],
            ..Inputs::default()
        };
        let layer = merged(&inputs);
        assert_eq!(toml(&layer, "socketio.ping_timeout"), "\"7s\"");
        assert_eq!(toml(&layer, "socketio.ping_interval"), "\"30s\"");
        assert_eq!(toml(&layer, "socketio.max_http_buffer_size"), "\"64KiB\"");
    }

    #[test]
    fn environment_lists_are_separated_by_commas() {
        let inputs = Inputs {
            env: vec![env("SOCKEYE__SERVER__LISTEN", "127.0.0.1:1, [::1]:2")],
            ..Inputs::default()
        };
        let layer = merged(&inputs);
        assert_eq!(
            toml(&layer, "server.listen"),
            "[\"127.0.0.1:1\", \"[::1]:2\"]"
        );
    }

    #[test]
    fn a_named_event_gets_the_rest_of_its_settings() {
        let inputs = Inputs {
            file: file("[namespaces.\"/game\".events.move]\necho = true"),
            ..Inputs::default()
        };
        let layer = merged(&inputs);
        let of = |path: &[&str]| layer.settings[&Path::new(path)].value.to_toml();
        assert_eq!(
            of(&["namespaces", "/game", "events", "move", "echo"]),
            "true"
        );
        assert_eq!(
            of(&["namespaces", "/game", "events", "move", "action"]),
            "\"rooms\""
        );
        assert_eq!(
            of(&["namespaces", "/game", "default", "action"]),
            "\"drop\""
        );
        assert_eq!(of(&["namespaces", "/", "chat"]), "true");
    }
}
