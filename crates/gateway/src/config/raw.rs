//! A TOML file becomes a flat layer; its keys are checked against the table and its values for their kind, nothing more.

use super::key::Key;
use super::keys::{ALSO_KNOWN, KEYS};
use super::layer::{Layer, Path, Setting, Source};
use super::problem::Problem;
use std::collections::BTreeSet;
use std::ops::Range;
use toml::de::{DeTable, DeValue};
use units::nearest;

/// The key of the table that `path` is an instance of.
pub fn find<S: AsRef<str>>(path: &[S]) -> Option<&'static Key> {
    KEYS.iter()
        .find(|key| matches(key, path) && key.segments().count() == path.len())
}

/// Whether `path` is a key of the table or the beginning of one.
fn matches<S: AsRef<str>>(key: &Key, path: &[S]) -> bool {
    let mut segments = key.segments();
    path.iter().all(|given| {
        segments
            .next()
            .is_some_and(|own| own == "*" || own == given.as_ref())
    })
}

/// Sets a key that came as bare text.
pub(super) fn insert(
    layer: &mut Layer,
    path: Path,
    text: &str,
    source: Source,
    problems: &mut Vec<Problem>,
) {
    let Some(kind) = find(&path.0).map(|key| key.kind) else {
        return;
    };
    match kind.read_bare(text) {
        Ok(value) => {
            layer.settings.insert(path, Setting { value, source });
        }
        Err(error) => problems.push(Problem::new(
            &source,
            format!("cannot use \"{path}\": {error}"),
        )),
    }
}

/// Reads a TOML file's text into a layer.
pub fn read_file(file: &str, text: &str) -> (Layer, Vec<Problem>) {
    let (table, errors) = DeTable::parse_recoverable(text);
    let ends = text.match_indices('\n').map(|(at, _)| at + 1);
    let lines = std::iter::once(0).chain(ends);
    let mut reader = Reader {
        file,
        text,
        lines: lines.collect(),
        layer: Layer::default(),
        problems: Vec::new(),
    };
    for error in errors {
        let message = error.message().replace('\n', "; ");
        reader.problem(
            error.span().unwrap_or(0..0),
            format!("cannot read TOML: {message}"),
        );
    }
    // A broken file is not worth checking further.
    if reader.problems.is_empty() {
        reader.table(&mut Vec::new(), table.get_ref());
    }
    reader.problems.sort_by_key(|problem| match problem.source {
        Source::File { line, column, .. } => (line, column),
        _ => (0, 0),
    });
    (reader.layer, reader.problems)
}

struct Reader<'a> {
    file: &'a str,
    text: &'a str,
    /// Where each begins: a file may have 100,000 settings.
    lines: Vec<usize>,
    layer: Layer,
    problems: Vec<Problem>,
}

impl Reader<'_> {
    fn table(&mut self, path: &mut Vec<String>, table: &DeTable<'_>) {
        for (name, value) in table {
            path.push(name.get_ref().to_string());
            self.entry(path, name.span(), value.get_ref());
            path.pop();
        }
    }

    fn entry(&mut self, path: &mut Vec<String>, span: Range<usize>, value: &DeValue<'_>) {
        if let Some(key) = find(path) {
            return self.setting(path, key, span, value);
        }
        if !KEYS.iter().any(|key| matches(key, path)) {
            return self.problem(span, unknown(path));
        }
        match value {
            DeValue::Table(table) => {
                self.layer.named.insert(Path::new(path));
                self.table(path, table);
            }
            _ => {
                let path = Path::new(path);
                self.problem(
                    span,
                    format!("cannot use \"{path}\": it is a table, [{path}]"),
                );
            }
        }
    }

    fn setting(&mut self, path: &[String], key: &Key, span: Range<usize>, value: &DeValue<'_>) {
        let path = Path::new(path);
        match key.kind.read(value) {
            Ok(value) => {
                let source = self.at(span.start);
                self.layer.settings.insert(path, Setting { value, source });
            }
            Err(error) => self.problem(span, format!("cannot use \"{path}\": {error}")),
        }
    }

    fn problem(&mut self, span: Range<usize>, message: String) {
        self.problems.push(Problem {
            source: self.at(span.start),
            message,
        });
    }

    fn at(&self, offset: usize) -> Source {
        let line = self.lines.partition_point(|start| *start <= offset);
        let start = self.lines[line - 1];
        let (_, column) = units::position(&self.text[start..], offset - start);
        Source::File {
            path: self.file.to_owned(),
            line,
            column,
        }
    }
}

/// Says that there is no such key and which one may have been meant.
pub fn unknown(path: &[String]) -> String {
    let shown = Path::new(path);
    // The first segment that leads nowhere is the one to correct.
    let known =
        (0..path.len()).take_while(|end| KEYS.iter().any(|key| matches(key, &path[..*end])));
    let path = &path[..known.count()];
    match suggestion(path) {
        Some(meant) => format!("unknown key \"{shown}\"; did you mean \"{meant}\"?"),
        None => {
            let known = siblings(path).into_iter().collect::<Vec<_>>().join(", ");
            format!("unknown key \"{shown}\"; known here: {known}")
        }
    }
}

/// A name in the same place that is spelled much like it, else a key of another section.
fn suggestion(path: &[String]) -> Option<String> {
    let (last, parents) = path.split_last()?;
    let meant = ALSO_KNOWN
        .iter()
        .find(|(known, _)| known == last)
        .map_or(last.as_str(), |m| m.1);
    if let Some(name) = nearest(meant, siblings(path)) {
        let mut path = parents.to_vec();
        path.push(name.to_owned());
        return Some(Path::new(&path).to_string());
    }
    let elsewhere = KEYS.iter().filter(|key| !key.is_pattern());
    let leaves = elsewhere.map(|key| (key.segments().last().unwrap_or_default(), key));
    let leaves: Vec<_> = leaves.collect();
    let name = nearest(meant, leaves.iter().map(|(leaf, _)| *leaf))?;
    leaves
        .iter()
        .find(|(leaf, _)| *leaf == name)
        .map(|(_, key)| key.path.clone())
}

/// Names that may stand where the last segment of `path` stands.
fn siblings(path: &[String]) -> BTreeSet<&'static str> {
    let parents = path.split_last().map_or(&[][..], |(_, parents)| parents);
    let keys = KEYS.iter().filter(|key| matches(key, parents));
    let names = keys.filter_map(|key| key.segments().nth(parents.len()));
    names
        .filter(|name| !name.is_empty() && *name != "*")
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(text: &str) -> Vec<String> {
        let (_, problems) = read_file("s.toml", text);
        problems.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn settings_remember_their_line_and_column() {
        let (layer, problems) = read_file("s.toml", "[socketio]\n  ping_interval = \"5s\"\n");
        assert_eq!(problems, []);
        let setting = &layer.settings[&Path::fixed("socketio.ping_interval")];
        assert_eq!(setting.source.to_string(), "s.toml:2:3");
    }

    /// For each the file was read from its beginning: 10 s.
    #[test]
    fn a_hundred_thousand_namespaces_were_looked_for_line_by_line() {
        let tables = (0..100_000).map(|n| format!("[namespaces.\"/{n}\"]\nchat = true\n"));
        let (layer, problems) = read_file("s.toml", &tables.collect::<String>());
        assert_eq!(problems, []);
        let last = &layer.settings[&Path::new(&["namespaces", "/99999", "chat"])];
        assert_eq!(last.source.to_string(), "s.toml:200000:1");
    }

    #[test]
    fn unknown_keys_name_the_nearest_one() {
        assert_eq!(
            problems("[socketio]\npingInterval = \"5s\"\n"),
            ["s.toml:2:1: unknown key \"socketio.pingInterval\"; \
              did you mean \"socketio.ping_interval\"?"]
        );
        assert_eq!(
            problems("[sockteio]\npath = \"/\"\n"),
            ["s.toml:1:2: unknown key \"sockteio\"; did you mean \"socketio\"?"]
        );
        assert_eq!(
            problems("ping_timeout = \"5s\"\n"),
            ["s.toml:1:1: unknown key \"ping_timeout\"; did you mean \"socketio.ping_timeout\"?"]
        );
        assert_eq!(
            problems("[socketio]\nmax_payload = \"1MB\"\n"),
            ["s.toml:2:1: unknown key \"socketio.max_payload\"; \
              did you mean \"socketio.max_http_buffer_size\"?"]
        );
    }

    #[test]
    fn unknown_keys_without_a_near_one_list_what_is_known() {
        assert_eq!(
            problems("[log]\ncertificates = 1\n"),
            [
                "s.toml:2:1: unknown key \"log.certificates\"; known here: connections, format, level"
            ]
        );
        assert_eq!(
            problems("[namespaces.\"/\".events.\"a.b\"]\nactoin = \"drop\"\n"),
            ["s.toml:2:1: unknown key \"namespaces.\\\"/\\\".events.\\\"a.b\\\".actoin\"; did you \
              mean \"namespaces.\\\"/\\\".events.\\\"a.b\\\".action\"?"
                .replace("\\\"", "\"")]
        );
    }

    #[test]
    fn all_problems_come_at_once() {
        let text = "[server]\nlisten = 3000\nshard = 2\n[log]\nformat = \"xml\"\n";
        let found = problems(text);
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(found[1].contains("server.shards"), "{found:?}");
    }

    #[test]
    fn a_table_is_not_a_value_nor_the_other_way_round() {
        assert_eq!(
            problems("server = 1\n"),
            ["s.toml:1:1: cannot use \"server\": it is a table, [server]"]
        );
        let found = problems("[server.listen]\na = 1\n");
        assert_eq!(
            found,
            ["s.toml:1:9: cannot use \"server.listen\": a list of strings is needed, not a table"]
        );
    }

    #[test]
    fn broken_toml_is_placed() {
        let found = problems("[server\nlisten = [\n");
        assert!(found[0].starts_with("s.toml:1:"), "{found:?}");
        assert!(found[0].contains("cannot read TOML"), "{found:?}");
    }

    #[test]
    fn an_empty_event_table_still_names_the_event() {
        let (layer, problems) = read_file("s.toml", "[namespaces.\"/\".events.ping]\n");
        assert_eq!(problems, []);
        assert!(
            layer
                .named
                .contains(&Path::new(&["namespaces", "/", "events", "ping"]))
        );
    }
}
