//! Variables of the environment that are settings, and those that look as if somebody thought so.

use super::key::Key;
use super::keys::{ALSO_KNOWN, KEYS};
use super::layer::{Layer, Path, Source};
use super::problem::Problem;
use super::raw;
use std::ffi::OsString;
use units::nearest;

const PREFIX: &str = "SOCKEYE__";
/// The only variable that is no setting.
pub const CONFIG_FILE: &str = "SOCKEYE_CONFIG";

/// Those of the environment that are text. Others are nobody's settings, unless their names say so.
pub fn texts(
    env: impl Iterator<Item = (OsString, OsString)>,
) -> (Vec<(String, String)>, Vec<Problem>) {
    let (mut texts, mut problems) = (Vec::new(), Vec::new());
    for (name, text) in env {
        let shown = name.to_string_lossy().into_owned();
        match (name.into_string(), text.into_string()) {
            (Ok(name), Ok(text)) => texts.push((name, text)),
            _ if shown.starts_with(PREFIX) => {
                problems.push(Problem::new(
                    &Source::Env(shown),
                    "cannot use it: it is no UTF-8",
                ));
            }
            _ => {}
        }
    }
    (texts, problems)
}

/// `SOCKEYE__SOCKETIO__PING_INTERVAL=5s`. Names chosen by the operator do not survive in the name
/// of a variable, so namespaces and events are for the file only. A backend of the file is found by its name: secrets are not for files.
pub fn read(env: &[(String, String)], file: &Layer, problems: &mut Vec<Problem>) -> Layer {
    let mut layer = Layer::default();
    for (name, text) in env {
        let Some(rest) = name.strip_prefix(PREFIX) else {
            continue;
        };
        let source = Source::Env(name.clone());
        let mut path: Vec<_> = rest.to_lowercase().split("__").map(str::to_owned).collect();
        if path.first().is_some_and(|section| section == "namespaces") {
            let message = "cannot set namespaces here: put them into the configuration file";
            problems.push(Problem::new(&source, message));
            continue;
        }
        if let [section, name, _] = &mut path[..]
            && section == "backends"
        {
            let backends = backends(file);
            let Some(backend) = backends.iter().find(|backend| folded(backend) == *name) else {
                let known = backends.join(", ");
                let message =
                    format!("no backend of the configuration file is called so; it has: {known}");
                problems.push(Problem::new(&source, message));
                continue;
            };
            name.clone_from(backend);
        }
        match raw::find(&path) {
            Some(_) => raw::insert(&mut layer, Path::new(&path), text, source, problems),
            None => problems.push(Problem::new(&source, unknown_variable(&path))),
        }
    }
    layer
}

/// Names of the tables `[backends.NAME]`.
fn backends(file: &Layer) -> Vec<String> {
    let paths = file.named.iter().chain(file.settings.keys());
    let mut names: Vec<String> = paths
        .filter(|path| path.0[0] == "backends")
        .filter_map(|path| path.0.get(1).cloned())
        .collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// As the name of a variable writes it, in lower case.
fn folded(name: &str) -> String {
    let letter = |c: char| {
        if c.is_ascii_alphanumeric() {
            c.to_ascii_lowercase()
        } else {
            '_'
        }
    };
    name.chars().map(letter).collect()
}

fn unknown_variable(path: &[String]) -> String {
    let names = KEYS.iter().filter(|key| !key.is_pattern());
    let names: Vec<_> = names.map(|key| key.path.as_str()).collect();
    match nearest(&path.join("."), names) {
        Some(meant) => format!("unknown variable; did you mean {}?", variable(meant)),
        None => raw::unknown(path),
    }
}

/// The variable that sets a key.
pub fn variable(path: &str) -> String {
    format!("{PREFIX}{}", path.replace('.', "__").to_uppercase())
}

/// Variables that nothing reads though they have almost the name of a setting, each with the name that is meant. They may
/// belong to somebody else, so they are named and not refused.
pub fn misnamed(env: &[(String, String)]) -> Vec<String> {
    let ours = |name: &str| name.starts_with(PREFIX) || name == CONFIG_FILE;
    let named = env.iter().filter(|(name, _)| !ours(name));
    // Kubernetes sets SOCKEYE_PORT=tcp://10.0.0.1:3000 for a service named sockeye.
    let named = named.filter(|(_, text)| !text.contains("://"));
    let meant = named.filter_map(|(name, _)| Some((name, meant(name)?)));
    let told = meant.map(|(name, key)| {
        let meant = if key.is_empty() {
            CONFIG_FILE.to_owned()
        } else {
            variable(key)
        };
        format!("environment {name} is not read; did you mean {meant}?")
    });
    told.collect()
}

/// The path of the key that the variable seems to be about; empty: the one that names the file.
fn meant(name: &str) -> Option<&'static str> {
    let folded = name.to_lowercase();
    let (program, rest) = folded.split_once('_')?;
    let slip = name.contains("__") && nearest(program, ["sockeye"]).is_some();
    if program != "sockeye" && !slip {
        return None;
    }
    let words: Vec<&str> = rest.split('_').filter(|word| !word.is_empty()).collect();
    let rest = words.join("_");
    if nearest(&rest, ["config", "config_file"]).is_some() {
        return Some("");
    }
    let keys = || KEYS.iter().filter(|key| !key.is_pattern());
    let whole = |key: &Key| key.path.replace('.', "_") == rest;
    let other = ALSO_KNOWN.iter().find(|(known, _)| *known == rest);
    let leaf = other.map_or(&*rest, |(_, meant)| meant);
    let last = |key: &Key| key.segments().last() == Some(leaf);
    let exact = keys()
        .find(|key| whole(key))
        .or_else(|| keys().find(|key| last(key)));
    exact.map(|key| key.path.as_str()).or_else(|| {
        let near = nearest(&rest.replace('_', "."), keys().map(|key| key.path.as_str()));
        near.filter(|_| words.len() > 1)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::value::Value;
    use std::os::unix::ffi::OsStringExt;

    fn env(name: &str, text: &str) -> (String, String) {
        (name.to_owned(), text.to_owned())
    }

    #[test]
    fn a_setting_that_is_no_text_was_left_out_without_a_word() {
        let bytes = |bytes: &[u8]| OsString::from_vec(bytes.to_vec());
        let all = [
            (bytes(b"SOCKEYE__AUTH__SECRET"), bytes(b"caf\xe9")),
            (bytes(b"SOCKEYE__LOG__\xff"), bytes(b"info")),
            (bytes(b"OTHER"), bytes(b"\xff")),
            (bytes(b"PATH"), bytes(b"/bin")),
        ];
        let (texts, problems) = texts(all.into_iter());
        assert_eq!(texts, [env("PATH", "/bin")]);
        let shown: Vec<_> = problems.iter().map(ToString::to_string).collect();
        let expected = ["AUTH__SECRET", "LOG__\u{fffd}"]
            .map(|name| format!("environment SOCKEYE__{name}: cannot use it: it is no UTF-8"));
        assert_eq!(shown, expected);
    }

    #[test]
    fn names_are_checked_as_in_the_file() {
        let variables = [
            env("SOCKEYE__SOCKETIO__PING_INTERVALL", "5s"),
            env("SOCKEYE__SERVER__SHARDS", "many"),
            env("SOCKEYE__NAMESPACES__X__CHAT", "true"),
            env("SOCKEYE_HOME", "not ours"),
            env("PATH", "/bin"),
        ];
        let mut problems = Vec::new();
        read(&variables, &Layer::default(), &mut problems);
        let texts: Vec<_> = problems.iter().map(ToString::to_string).collect();
        assert_eq!(texts.len(), 3, "{texts:?}");
        for (text, words) in texts.iter().zip([
            "did you mean SOCKEYE__SOCKETIO__PING_INTERVAL?",
            "a whole number from 0 to 256 is needed",
            "configuration file",
        ]) {
            assert!(text.contains(words), "{text}");
        }
    }

    /// It was a secret of all backends called "*", and of none that there is.
    #[test]
    fn the_secret_of_a_backend_could_only_stand_in_the_file() {
        let (file, _) = raw::read_file(
            "a file",
            "[backends.my-shop]\nurl = \"https://shop.example\"",
        );
        let secret = "0123456789abcdef".repeat(2);
        let variables = [
            env("SOCKEYE__BACKENDS__MY_SHOP__SECRET", &secret),
            env("SOCKEYE__BACKENDS__KITCHEN__SECRET", &secret),
        ];
        let mut problems = Vec::new();
        let layer = read(&variables, &file, &mut problems);
        let path = Path::new(&["backends", "my-shop", "secret"]);
        assert!(
            matches!(&layer.settings[&path].value, Value::Secret(given) if given.reveal() == secret)
        );
        let told = "environment SOCKEYE__BACKENDS__KITCHEN__SECRET: no backend of the configuration file is called so; it has: my-shop";
        assert_eq!(
            problems.iter().map(ToString::to_string).collect::<Vec<_>>(),
            [told]
        );
    }

    #[test]
    fn a_name_that_is_almost_one_of_ours_is_told_with_the_one_that_is_meant() {
        for (name, wanted) in [
            ("SOCKEYE_LISTEN", "SOCKEYE__SERVER__LISTEN"),
            ("SOCKEYE_PORT", "SOCKEYE__SERVER__LISTEN"),
            ("SOCKEYE_SERVER_LISTEN", "SOCKEYE__SERVER__LISTEN"),
            ("SOCKEYE_SERVER__LISTEN", "SOCKEYE__SERVER__LISTEN"),
            ("sockeye__log__level", "SOCKEYE__LOG__LEVEL"),
            ("SOCKEY__LOG__LEVEL", "SOCKEYE__LOG__LEVEL"),
            ("SOCKEYE_PROFILE", "SOCKEYE__PROFILE"),
            ("SOCKEYE_LOG_LEVL", "SOCKEYE__LOG__LEVEL"),
            ("SOCKEYE_CONFIG_FILE", "SOCKEYE_CONFIG"),
        ] {
            let told = misnamed(&[env(name, "x")]);
            let wanted = format!("environment {name} is not read; did you mean {wanted}?");
            assert_eq!(told, [wanted]);
        }
    }

    #[test]
    fn what_others_call_sockeye_is_left_alone() {
        for (name, text) in [
            ("SOCKEYE_CONFIG", "/etc/sockeye.toml"),
            ("SOCKEYE__SERVER__LISTEN", ":1"),
            ("SOCKEYE_HOME", "/srv"),
            ("SOCKEYE_SERVICE_HOST", "10.0.0.1"),
            ("SOCKEYE_SERVICE_PORT", "3000"),
            ("SOCKEYE_PORT", "tcp://10.0.0.1:3000"),
            ("SOCKEYE_PORT_3000_TCP", "tcp://10.0.0.1:3000"),
            ("SOCKEYE_PORT_3000_TCP_PORT", "3000"),
            ("SOCKET_LISTEN", "1"),
            ("LOG_LEVEL", "info"),
        ] {
            assert_eq!(misnamed(&[env(name, text)]), [""; 0], "{name}");
        }
    }
}
