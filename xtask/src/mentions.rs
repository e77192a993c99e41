//! A page that readers search by what they see: each metric, alert, code, message and configuration key that it names exists.

use crate::repository;
use anyhow::Result;
use std::collections::BTreeSet;

const PAGE: &str = "docs/troubleshooting.md";
/// Said by clients, and not by the gateway.
const THEIRS: [&str; 1] = ["xhr poll error"];

/// A sentence for each name that nothing has.
pub fn broken() -> Result<Vec<String>> {
    let known = Known::read()?;
    let page = repository::read(PAGE)?;
    let broken = known.missing(&page);
    Ok(broken.map(|what| format!("{PAGE}: {what}")).collect())
}

/// What there is, as the pages of reference, the rules and the sources have it.
struct Known {
    metrics: String,
    alerts: String,
    codes: String,
    keys: BTreeSet<String>,
    sources: String,
}

impl Known {
    fn read() -> Result<Self> {
        let mut sources = String::new();
        for path in repository::files("crates")? {
            let is_source = path.iter().any(|part| part == "src");
            if is_source && path.extension().is_some_and(|end| end == "rs") {
                sources += &repository::read(&path.to_string_lossy())?;
            }
        }
        Ok(Known {
            metrics: repository::read("docs/metrics.md")?,
            alerts: repository::read("deploy/prometheus/alerts.yml")?,
            codes: repository::read("docs/protocol.md")?,
            keys: keys(&repository::read("docs/configuration.md")?),
            sources,
        })
    }

    fn missing<'a>(&'a self, page: &'a str) -> impl Iterator<Item = String> + 'a {
        let names = words(page).filter_map(move |word| self.unknown_name(word));
        let keys = spans(page)
            .filter_map(key)
            .filter(move |key| !self.has(key));
        let keys = keys.map(|key| format!("no configuration key {key}"));
        let said = messages(page);
        let said = said.filter(move |text| !THEIRS.contains(text) && !self.sources.contains(text));
        let said = said.map(|text| format!("nothing says {text:?}"));
        names.chain(keys).chain(said)
    }

    /// A metric, the beginning of some, an alert or a code that is not there.
    fn unknown_name(&self, word: &str) -> Option<String> {
        let (word, end) = match word.strip_prefix('^') {
            Some(beginning) => (beginning, ""),
            None => (word, "`"),
        };
        if word.starts_with("sockeye_") {
            let is_known = self.metrics.contains(&format!("| `{word}{end}"));
            return (!is_known).then(|| format!("no metric {word}"));
        }
        if word.len() > "Sockeye".len() && word.starts_with("Sockeye") {
            let is_known = self.alerts.contains(&format!("alert: {word}\n"));
            return (!is_known).then(|| format!("no alert {word}"));
        }
        let is_code =
            word.contains('_') && word.bytes().all(|b| b.is_ascii_uppercase() || b == b'_');
        let is_known = !is_code || word.starts_with("SOCKEYE_") || self.codes.contains(word);
        (!is_known).then(|| format!("no code {word}"))
    }

    /// `backends.NAME.api_keys` is the key `api_keys` of a table below `[backends]`.
    fn has(&self, key: &str) -> bool {
        let (table, name) = key.rsplit_once('.').unwrap_or(("", key));
        let table = table.split(".NAME").next().unwrap_or(table);
        self.keys.contains(&format!("{table}.{name}"))
    }
}

/// Names of the tables' rows in docs/configuration.md, each with its table.
fn keys(page: &str) -> BTreeSet<String> {
    let mut table = "";
    let mut found = BTreeSet::new();
    for line in page.lines() {
        if let Some(rest) = line.strip_prefix("## `[") {
            table = rest.split(']').next().unwrap_or(rest);
        } else if let Some(rest) = line.strip_prefix("| `") {
            let name = rest.split('`').next().unwrap_or(rest);
            found.insert(format!("{table}.{name}"));
        }
    }
    found
}

/// Words of letters, digits and `_`; one at which lines begin (`grep '^sockeye_backend_w'`) has its mark before it.
fn words(page: &str) -> impl Iterator<Item = &str> {
    page.split(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '^')
}

/// What stands between backticks within a line.
fn spans(page: &str) -> impl Iterator<Item = &str> {
    let lines = page.lines().filter(|line| !line.starts_with("```"));
    lines.flat_map(|line| line.split('`').skip(1).step_by(2))
}

/// The key of a span such as `socketio.cors = ["*"]`.
fn key(span: &str) -> Option<&str> {
    let key = span.split(" = ").next().unwrap_or(span);
    let parts = || key.split('.');
    let is_name =
        |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphabetic() || b == b'_');
    let is_key = parts().count() > 1 && parts().all(is_name) && !key.ends_with(".toml");
    is_key.then_some(key)
}

/// What headings quote.
fn messages(page: &str) -> impl Iterator<Item = &str> {
    let headings = page.lines().filter(|line| line.starts_with("## "));
    let quoted = headings.flat_map(|line| line.split('`').skip(1).step_by(2));
    quoted.map(|text| text.strip_prefix("connect_error: ").unwrap_or(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_the_page_names_exists() {
        assert_eq!(broken().expect("the files"), [""; 0]);
    }

    #[test]
    fn names_that_nothing_has_are_told() {
        let page = "## `connect_error: Invalid mood`\n\n`socketio.core = []` or `backends.NAME.api_key`, not `backends.NAME.api_keys`:\n\
                    `sockeye_moods_total` and `SockeyeMoody`, `WRONG_MOOD`; grep '^sockeye_backend_w'\n";
        let known = Known::read().expect("the files");
        let missing: Vec<_> = known.missing(page).collect();
        assert_eq!(
            missing,
            [
                "no metric sockeye_moods_total",
                "no alert SockeyeMoody",
                "no code WRONG_MOOD",
                "no configuration key socketio.core",
                "no configuration key backends.NAME.api_key",
                "nothing says \"Invalid mood\"",
            ]
        );
    }
}
