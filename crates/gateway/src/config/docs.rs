//! The reference page `docs/configuration.md` and the commented file `config/sockeye.toml`, both
//! made from the table of keys. Tests fail while the files in the repository differ.

use super::key::{Key, Profile, Reload};
use super::keys::{KEYS, SECTIONS, profile_rules, section_of};
use super::value::Kind;
use std::fmt::Write as _;

const COMMAND: &str = "cargo xtask gen";

/// The reference page.
pub fn markdown() -> String {
    let mut page =
        format!("<!-- Made by `{COMMAND}` from crates/gateway/src/config/keys.rs. -->\n");
    page.push_str(MARKDOWN_INTRO);
    for (section, intro) in SECTIONS {
        let title = if section.is_empty() {
            "Profile".to_owned()
        } else {
            format!("`[{section}]`")
        };
        let _ = write!(page, "\n## {title}\n\n{intro}\n\n");
        page.push_str("| key | default | takes | applied | meaning |\n|---|---|---|---|---|\n");
        for key in keys_of(section) {
            let _ = writeln!(
                page,
                "| `{}` | {} | {} | {} | {} |",
                key_name(key),
                markdown_default(key),
                escape(&key.kind.describe()),
                reload(key),
                escape(key.doc),
            );
        }
    }
    page.push_str(MARKDOWN_RULES);
    for profile in Profile::ALL {
        let _ = write!(
            page,
            "\nProfile `{}` starts with\n\n```toml",
            profile.name()
        );
        profile_tables(&mut page, profile, "");
        page.push_str("```\n");
    }
    page
}

/// The commented file: every key with its default, switched off by a `#` without a space.
pub fn toml() -> String {
    let mut text = String::from(TOML_INTRO);
    let by_name = [
        "backends",
        "cluster.feed",
        "kafka.in",
        "namespaces",
        "nats.in",
    ];
    let fixed = SECTIONS.iter();
    for (section, intro) in fixed.filter(|(name, _)| !by_name.contains(name)) {
        text.push('\n');
        comment(&mut text, intro);
        if !section.is_empty() {
            let _ = writeln!(text, "[{section}]");
        }
        for key in keys_of(section) {
            toml_key(&mut text, key);
        }
    }
    toml_rules(&mut text);
    text
}

fn toml_key(text: &mut String, key: &Key) {
    text.push('\n');
    let live = if key.reload == Reload::Live {
        " Applied on reload."
    } else {
        ""
    };
    comment(text, &format!("{}{live}", key.doc));
    if let Kind::Choice(_) | Kind::Node | Kind::Integer { .. } = key.kind {
        comment(text, &format!("Takes {}.", key.kind.describe()));
    }
    for (profile, value) in key
        .profiles
        .iter()
        .filter(|(profile, _)| *profile != Profile::Chat)
    {
        comment(
            text,
            &format!("Profile {}: {}.", profile.name(), value.to_toml()),
        );
    }
    if let Some(value) = key.default_on(Profile::Chat) {
        let _ = writeln!(text, "#{} = {}", within(key), value.to_toml());
    }
}

/// The rules that the chat profile sets, then an example of one's own.
fn toml_rules(text: &mut String) {
    text.push_str(TOML_RULES);
    profile_tables(text, Profile::Chat, "#");
    text.push_str(TOML_EXAMPLE);
}

/// The settings of a profile for the namespace `/`, as TOML; `off` goes before each setting.
fn profile_tables(text: &mut String, profile: Profile, off: &str) {
    let mut table = String::new();
    for (path, value) in profile_rules(profile) {
        let Some((leaf, parents)) = path.split_last() else {
            continue;
        };
        let parents = super::layer::Path::new(parents).to_string();
        if parents != table {
            let _ = writeln!(text, "\n[{parents}]");
            table = parents;
        }
        if let Some(Ok(value)) = super::raw::find(path).map(|key| key.kind.read_bare(value)) {
            let _ = writeln!(text, "{off}{leaf} = {}", value.to_toml());
        }
    }
}

fn keys_of(section: &str) -> impl Iterator<Item = &'static Key> {
    KEYS.iter().filter(move |key| section_of(key) == section)
}

/// A key as the page names it: within its section, with `*` spelled as what stands there.
fn key_name(key: &Key) -> String {
    match key.path.strip_prefix("namespaces.*.") {
        Some(rest) => rest.replace('*', "EVENT"),
        None => within(key).to_owned(),
    }
}

/// The text after the name of the section, or of a table in it.
fn within(key: &Key) -> &str {
    let rest = key.path.strip_prefix(section_of(key));
    let rest = rest.map_or(&*key.path, |rest| rest.trim_start_matches('.'));
    rest.strip_prefix("*.").unwrap_or(rest)
}

fn markdown_default(key: &Key) -> String {
    key.default_cell(|value| escape(&value.to_toml()))
}

fn reload(key: &Key) -> &'static str {
    match key.reload {
        Reload::Live => "live",
        Reload::Restart => "restart",
    }
}

fn escape(text: &str) -> String {
    text.replace('|', "\\|")
}

/// Writes `text` as comment lines of at most 100 columns.
fn comment(out: &mut String, text: &str) {
    let mut line = String::from("#");
    for word in text.split_whitespace() {
        if line.len() + 1 + word.len() > 100 {
            let _ = writeln!(out, "{line}");
            line = String::from("#");
        }
        line.push(' ');
        line.push_str(word);
    }
    let _ = writeln!(out, "{line}");
}

const MARKDOWN_INTRO: &str = r#"
# Configuration

Every key has a default. Settings come in layers; each layer wins over the ones before it:

1. built-in defaults, then those of the profile;
2. one TOML file: `--config FILE` or `SOCKEYE_CONFIG`; without either, `sockeye.toml` of the working directory if there is one. A pipe (`--config <(…)`)
   is read to its end, and one by which nothing comes is an error;
3. the environment: `SOCKEYE__SECTION__KEY`, such as `SOCKEYE__SOCKETIO__PING_INTERVAL=10s` (lists are separated by commas; namespaces can only be set in the file, and a
   backend's keys only where the file has its table: `SOCKEYE__BACKENDS__SHOP__SECRET`);
4. flags: `--listen`, `--admin`, `--shards`, `--profile`, `--node`.

`sockeye config check` reports every problem with its place and ends with 1 if there is one; `sockeye config show` prints each value with its
source; `sockeye config reference --toml` prints a commented file to start from. Unknown keys are refused.

*Applied*: `live` keys change on SIGHUP; the others at the next start (the log then names them).
Durations are written `"25s"`, `"300ms"`, `"5m"`, `"1h"`; sizes `"64KiB"` (1,024) or `"64KB"` (1,000).
"#;

const MARKDOWN_RULES: &str = r#"
Keys of this section stand below `[namespaces."/"]` (any name that begins with a slash), rules of one event below
`[namespaces."/".events.EVENT]`, and the rule of every other event below `[namespaces."/".default]`. Socket.IO clients can
connect to a namespace that is named here; others are refused with `Invalid namespace`.
"#;

const TOML_INTRO: &str = "\
# Sockeye, configuration with all defaults. Lines that begin with # and no space are settings:
# remove the # to change one. `sockeye config check --config FILE` finds mistakes.
# The reference with all profiles is docs/configuration.md. Made by `cargo xtask gen`.
";

const TOML_RULES: &str = "
# Built-in rules: what a client event does without any backend. Profile chat starts with these.
";

const TOML_EXAMPLE: &str = "
# An example of one's own namespace:
#
#   [namespaces.\"/game\"]
#   auto_join = [\"lobby\"]          # rooms of every socket
#   client_joins = true            # clients may emit join and leave
#   [namespaces.\"/game\".default]
#   action = \"drop\"                # events without a rule of their own
#   [namespaces.\"/game\".events.move]
#   action = \"rooms\"               # rooms, reply or drop
#   room = \"board\"                 # unset: every room the sender is in
#   rate = \"10/s\"
#   schema = { type = \"object\", required = [\"x\", \"y\"] }
#
# A namespace whose logic is outside (docs/backends.md):
#
#   [workers]
#   listen = \"127.0.0.1:9091\"
#   [backends.kitchen]
#   api_keys = [\"cook:0000000000000000000000000000000000000000000000000000000000000000\"]   # `sockeye api-key cook`
#   [namespaces.\"/kitchen\"]
#   backend = \"kitchen\"
";

/// Whether a file of the repository is as it was made last; with UPDATE=1 in the environment it is made anew.
#[cfg(test)]
pub fn is_fresh(path: &str, fresh: &str) {
    let file = format!("{}/../../{path}", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&file, fresh).expect("write a generated file");
    }
    let known = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(known == fresh, "{path} is stale: run `{COMMAND}`");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::layers::{Inputs, merge};
    use crate::config::resolve::{Machine, resolve};

    #[test]
    fn the_reference_page_is_fresh() {
        is_fresh("docs/configuration.md", &markdown());
    }

    #[test]
    fn the_commented_file_is_fresh() {
        is_fresh("config/sockeye.toml", &toml());
    }

    /// Both as it is and with every setting switched on.
    #[test]
    fn the_commented_file_is_exactly_the_defaults() {
        let machine = Machine {
            cores: 2,
            ..Machine::default()
        };
        let defaults = resolve(&merge(&Inputs::default()).0, &machine).expect("defaults");
        let setting = |line: &str| match line.strip_prefix('#') {
            Some(rest) if rest.starts_with(|c: char| c.is_ascii_lowercase()) => rest.to_owned(),
            _ => line.to_owned(),
        };
        let switched_on: Vec<_> = toml().lines().map(setting).collect();
        for text in [toml(), switched_on.join("\n")] {
            let inputs = Inputs {
                file: Some(("sockeye.toml".to_owned(), text)),
                ..Inputs::default()
            };
            let (layer, problems) = merge(&inputs);
            assert_eq!(problems, []);
            assert_eq!(resolve(&layer, &machine).expect("resolved"), defaults);
        }
        let settings = switched_on
            .iter()
            .filter(|line| line.contains(" = ") && !line.starts_with('#'));
        let fixed = KEYS
            .iter()
            .filter(|key| !key.is_pattern() && key.default.is_some());
        assert_eq!(
            settings.count(),
            fixed.count() + profile_rules(Profile::Chat).len()
        );
    }

    #[test]
    fn the_example_of_a_namespace_is_valid() {
        let example: String = TOML_EXAMPLE
            .lines()
            .filter_map(|line| line.strip_prefix("#   "))
            .map(|line| format!("{line}\n"))
            .collect();
        let inputs = Inputs {
            file: Some(("example".to_owned(), example)),
            ..Inputs::default()
        };
        let (layer, problems) = merge(&inputs);
        assert_eq!(problems, []);
        let config = resolve(&layer, &Machine::default()).expect("resolved");
        assert!(config.rules.namespaces["/game"].events.contains_key("move"));
        let backend = config.rules.namespaces["/kitchen"].backend.as_deref();
        assert_eq!(backend, Some("kitchen"));
    }

    #[test]
    fn the_page_names_every_key() {
        let page = markdown();
        for key in KEYS.iter() {
            assert!(
                page.contains(&format!("| `{}` |", key_name(key))),
                "{}",
                key.path
            );
        }
    }
}
