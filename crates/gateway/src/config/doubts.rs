//! Settings that work and are probably not meant: warnings of `config check` and of the start.

use super::edges;
use super::keys::{Recovery, RecoveryLevel};
use super::layer::{Layer, Path, Setting, Source};
use super::rules::{may_come_back, names_below};
use super::value::Value;

/// As many as HMAC-SHA-256 gives out (RFC 2104 §3).
const SECRET_BYTES: usize = 32;

pub fn find(layer: &Layer) -> Vec<String> {
    let said = layer.settings.iter();
    let said = said.filter(|(_, setting)| setting.source != Source::Default);
    let settings = said.filter_map(|(path, setting)| doubt(layer, path, setting));
    settings.chain(patterns(layer)).collect()
}

/// Namespaces whose names were meant to fit many.
fn patterns(layer: &Layer) -> impl Iterator<Item = String> {
    let names = names_below(layer, &["namespaces"]).into_iter();
    let meant = names.filter(|name| *name != "*" && is_pattern(name));
    meant.map(move |name| {
        let path = Path::new(&["namespaces", name]);
        let below = layer.settings.range(path.clone()..);
        let mut own = below.take_while(|(own, _)| own.0.starts_with(&path.0));
        let said = own.find(|(_, setting)| setting.source != Source::Default);
        let place = said.map_or_else(String::new, |(_, setting)| format!("{}: ", setting.source));
        format!(
            "{place}\"{path}\": the name stands for itself alone, and not for names that a pattern or a regular expression would fit: \
             [namespaces.\"*\"] stands for all namespaces without a table of their own"
        )
    })
}

/// No usual name has these characters.
fn is_pattern(name: &str) -> bool {
    name.contains(['*', '^', '$', '\\', '[', ']', '(', ')', '{', '}', '|']) || name.contains(".+")
}

fn doubt(layer: &Layer, path: &Path, setting: &Setting) -> Option<String> {
    let words: Vec<&str> = path.0.iter().map(String::as_str).collect();
    let why = match (words.as_slice(), &setting.value) {
        (["cluster" | "large", "secret"] | ["backends", _, "secret"], Value::Secret(secret)) => {
            let bytes = secret.reveal().len();
            if bytes == 0 || bytes >= SECRET_BYTES {
                return None;
            }
            format!(
                "a secret of {bytes} bytes can be guessed; `openssl rand -hex 32` makes a secret"
            )
        }
        (["server", "admin"], Value::Text(address))
            if is_reachable(address) && has_no_keys(layer) =>
        {
            "whoever reaches this address reads all that operators may, rooms and clients as well: set admin.api_keys, or a loopback \
             address"
                .to_owned()
        }
        (["cluster", "directory", "enabled"], Value::Bool(true))
            if layer.value("cluster.adapter") == Some(&text("memory")) =>
        {
            "nothing uses it without cluster.adapter = \"redis\"".to_owned()
        }
        (["compat", _], _) if layer.value("cluster.adapter") == Some(&text("memory")) => {
            "nothing uses it without cluster.adapter = \"redis\"".to_owned()
        }
        (["namespaces", "/", "default", "action"], _) if is_open_to_everybody(layer, setting) => {
            "namespace \"/\" is open to everybody: any client joins any room there and sends it any event. Close it (client_joins = false, default.action = \"drop\" \
             in [namespaces.\"/\"]), or set both there as they are, if that is meant"
                .to_owned()
        }
        (["namespaces", _, "recovery", "level"], level) if *level == text("node") => {
            may_come_back(layer).err()?
        }
        (["namespaces", name, "recovery", key], _) if *key != "level" && is_final(layer, name) => {
            "nothing uses it without a level: set level = \"node\"".to_owned()
        }
        (["socketio", "cors"], _) if is_unsaid(layer, "socketio.origins") => {
            "without socketio.origins, pages of every site may open WebSockets: cors is about long-polling only"
                .to_owned()
        }
        (["heartbeat", "per_second_max"], _)
            if layer.value("heartbeat.stretch") == Some(&Value::Integer(1)) =>
        {
            "nothing uses it without heartbeat.stretch".to_owned()
        }
        (["compat", key], _) if *key != "enabled" && is_shut(layer) => {
            "nothing uses it: with cluster.secret, other servers are heard only with compat.enabled = true".to_owned()
        }
        _ => return None,
    };
    Some(format!("{}: \"{path}\": {why}", setting.source))
}

/// Nobody comes back to what they had there.
fn is_final(layer: &Layer, namespace: &str) -> bool {
    *Recovery::of(layer, namespace).level == RecoveryLevel::Off
}

/// The profile alone opens it, and nothing is asked of clients.
fn is_open_to_everybody(layer: &Layer, action: &Setting) -> bool {
    let of_profile = |setting: &Setting| matches!(setting.source, Source::Profile(_));
    let own = |key: &str| layer.settings.get(&Path::new(&["namespaces", "/", key]));
    action.value == text("rooms")
        && of_profile(action)
        && own("client_joins").is_some_and(of_profile)
        && own("backend").is_none_or(|backend| backend.source == Source::Default)
        && layer.value("auth.required") != Some(&Value::Bool(true))
}

fn is_unsaid(layer: &Layer, key: &str) -> bool {
    let setting = layer.settings.get(&Path::fixed(key));
    setting.is_none_or(|setting| setting.source == Source::Default)
}

/// Whether servers of other kinds are not heard because there is a secret.
fn is_shut(layer: &Layer) -> bool {
    let secret = match layer.value("cluster.secret") {
        Some(Value::Secret(secret)) => !secret.reveal().is_empty(),
        _ => false,
    };
    let is_open = matches!(layer.value("compat.enabled"), Some(Value::Bool(_)));
    secret && !is_open
}

/// From other machines.
fn is_reachable(address: &str) -> bool {
    edges::address(address).is_some_and(|address| !address.ip().is_loopback())
}

fn has_no_keys(layer: &Layer) -> bool {
    match layer.value("admin.api_keys") {
        Some(Value::List(keys)) => keys.is_empty(),
        _ => true,
    }
}

fn text(word: &str) -> Value {
    Value::Text(word.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::layers::{Inputs, merge};

    fn doubts(text: &str) -> Vec<String> {
        let inputs = Inputs {
            file: Some(("s.toml".to_owned(), text.to_owned())),
            ..Inputs::default()
        };
        let (layer, problems) = merge(&inputs);
        assert_eq!(problems, []);
        find(&layer)
    }

    #[test]
    fn short_secrets_and_settings_without_effect_are_told() {
        let long = "0123456789abcdef0123456789abcdef";
        assert_eq!(doubts(""), [""; 0]);
        assert_eq!(doubts(&format!("[cluster]\nsecret = \"{long}\"")), [""; 0]);
        let short = doubts("[cluster]\nsecret = \"hunter2\"\n[backends.a]\nsecret = \"x\"");
        assert_eq!(short.len(), 2, "{short:?}");
        assert!(short[0].contains("s.toml:4:1: \"backends.a.secret\": a secret of 1 bytes"));
        assert!(short.iter().all(|line| !line.contains("hunter2")));
        for (address, told) in [
            ("0.0.0.0:9090", 1),
            (":9090", 1),
            ("10.0.0.1:9090", 1),
            ("127.0.0.2:9090", 0),
            ("localhost:9090", 0),
            ("[::1]:9090", 0),
            ("off", 0),
        ] {
            let open = doubts(&format!("[server]\nadmin = {address:?}"));
            assert_eq!(open.len(), told, "{address}: {open:?}");
        }
        let keys = "[admin]\napi_keys = [\"a:0000000000000000000000000000000000000000000000000000000000000000\"]";
        let closed = format!("[server]\nadmin = \"0.0.0.0:9090\"\n{keys}");
        assert_eq!(doubts(&closed), [""; 0]);
        let alone = doubts("[compat]\npython = true");
        assert!(alone[0].contains("s.toml:2:1: \"compat.python\": nothing uses it"));
        let cluster = format!("[cluster]\nadapter = \"redis\"\nsecret = \"{long}\"\n[compat]\n");
        let shut = doubts(&format!("{cluster}python = true"));
        assert!(shut[0].contains("s.toml:5:1: \"compat.python\": nothing uses it: with"));
        let open = doubts(&format!("{cluster}python = true\nenabled = true"));
        assert_eq!(open, [""; 0]);
        let used = "[cluster]\nadapter = \"redis\"\n[compat]\npython = true";
        assert_eq!(doubts(used), [""; 0]);
    }

    #[test]
    fn recovery_that_stays_at_its_node_is_told() {
        let recovers = "[namespaces.\"/a\".recovery]\nlevel = \"node\"\n";
        assert_eq!(doubts(recovers), [""; 0], "there is one node");
        let open = format!("[cluster]\nadapter = \"redis\"\n{recovers}");
        let told = doubts(&open);
        assert!(
            told[0].contains("while other Socket.IO servers are heard"),
            "{told:?}"
        );
        let closed = format!("{open}[compat]\nenabled = false\n");
        assert_eq!(doubts(&closed), [""; 0]);
    }

    #[test]
    fn a_window_of_a_namespace_without_recovery_is_told() {
        let window = "[namespaces.\"/a\".recovery]\nwindow = \"5m\"\n";
        let told = doubts(window);
        assert!(
            told[0].contains("recovery.window\": nothing uses it without a level"),
            "{told:?}"
        );
        assert_eq!(doubts(&format!("{window}level = \"node\"\n")), [""; 0]);
    }

    /// Operators who come from `io.of(/regex/)` wrote patterns, and the rules were those of a namespace in which nobody was.
    #[test]
    fn a_pattern_in_place_of_a_name_was_taken_without_a_word() {
        for name in ["/dyn-*", "/^\\\\/room-\\\\d+$/", "/org-{id}", "/a.+"] {
            let told = doubts(&format!("[namespaces.\"{name}\"]\nclient_joins = true\n"));
            assert!(told.len() == 1, "{name}: {told:?}");
            let place = "s.toml:2:1: \"namespaces.";
            assert!(told[0].starts_with(place), "{name}: {told:?}");
            assert!(told[0].contains("stands for itself alone"), "{told:?}");
        }
        let empty = doubts("[namespaces.\"/dyn-*\"]\n");
        assert!(empty[0].starts_with("\"namespaces."), "{empty:?}");
        for name in ["*", "/", "/chat", "/a.b-c_d/e+f", "/früh"] {
            let file = format!("[namespaces.\"{name}\"]\nchat = false\n");
            assert_eq!(doubts(&file), [""; 0], "{name}");
        }
    }

    #[test]
    fn a_namespace_that_only_the_profile_opens_is_told() {
        let open = "profile socket.io: \"namespaces.\"/\".default.action\": namespace \"/\" is open to everybody";
        for file in [
            "profile = \"socket.io\"",
            "profile = \"socket.io\"\n[namespaces.\"/game\"]\nclient_joins = true",
            "profile = \"socket.io\"\n[namespaces.\"/\"]\nauto_join = [\"a\"]",
        ] {
            let told = doubts(file);
            assert!(told.len() == 1 && told[0].starts_with(open), "{told:?}");
        }
        for file in [
            "profile = \"chat\"",
            "profile = \"socket.io\"\n[namespaces.\"/\"]\nclient_joins = false",
            "profile = \"socket.io\"\n[namespaces.\"/\"]\ndefault = { action = \"rooms\" }",
            "profile = \"socket.io\"\n[namespaces.\"/\"]\nbackend = \"a\"\n[backends.a]\n",
            "profile = \"socket.io\"\n[auth]\nrequired = true\nsecret = \"0123456789abcdef0123456789abcdef\"",
        ] {
            assert_eq!(doubts(file), [""; 0], "{file}");
        }
    }

    #[test]
    fn cors_without_origins_was_believed_to_hold_for_websockets() {
        let told = doubts("[socketio]\ncors = [\"https://a.example\"]");
        assert!(
            told[0].contains("\"socketio.cors\": without socketio.origins"),
            "{told:?}"
        );
        let both = "[socketio]\ncors = [\"https://a.example\"]\norigins = [\"https://a.example\"]";
        assert_eq!(doubts(both), [""; 0]);
    }
}
