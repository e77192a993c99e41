//! Settings that work and are probably not meant: warnings of `config check` and of the start.

use super::raw::{Layer, Path, Setting, Source};
use super::value::Value;

/// As many as HMAC-SHA-256 gives out (RFC 2104 §3).
const SECRET_BYTES: usize = 32;

pub fn find(layer: &Layer) -> Vec<String> {
    let said = layer.settings.iter();
    let said = said.filter(|(_, setting)| setting.source != Source::Default);
    said.filter_map(|(path, setting)| doubt(layer, path, setting))
        .collect()
}

fn doubt(layer: &Layer, path: &Path, setting: &Setting) -> Option<String> {
    let words: Vec<&str> = path.0.iter().map(String::as_str).collect();
    let why = match (words.as_slice(), &setting.value) {
        (["cluster", "secret"] | ["backends", _, "secret"], Value::Secret(secret)) => {
            let bytes = secret.reveal().len();
            if bytes == 0 || bytes >= SECRET_BYTES {
                return None;
            }
            format!(
                "a secret of {bytes} bytes can be guessed; `openssl rand -hex 32` makes a secret"
            )
        }
        (["compat", _], _) if layer.value("cluster.adapter") == Some(&text("memory")) => {
            "nothing uses it without cluster.adapter = \"redis\"".to_owned()
        }
        _ => return None,
    };
    Some(format!("{}: \"{path}\": {why}", setting.source))
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
        let alone = doubts("[compat]\npython = true");
        assert!(alone[0].contains("s.toml:2:1: \"compat.python\": nothing uses it"));
        let used = "[cluster]\nadapter = \"redis\"\n[compat]\npython = true";
        assert_eq!(doubts(used), [""; 0]);
    }
}
