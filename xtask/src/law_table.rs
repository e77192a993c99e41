//! The import law as ARCHITECTURE.md states it: a table that people read and this program obeys.

use anyhow::{Result, bail};
use std::collections::BTreeSet;

const HEADER: [&str; 5] = [
    "crate",
    "owns",
    "may import",
    "outside crates",
    "must not touch",
];

/// One row: what a crate may do.
#[derive(Debug, PartialEq, Eq)]
pub struct Row {
    pub name: String,
    /// Crates of this repository; None = all.
    pub may_import: Option<BTreeSet<String>>,
    /// Crates of others.
    pub outside: BTreeSet<String>,
    /// Text that must not occur in its source.
    pub must_not_touch: BTreeSet<String>,
}

/// Finds the table in a Markdown page.
pub fn parse(page: &str) -> Result<Vec<Row>> {
    let mut lines = page.lines().skip_while(|line| cells(line) != HEADER);
    if lines.next().is_none() {
        bail!(
            "cannot find the import law: no table with the columns {}",
            HEADER.join(" | ")
        );
    }
    let rows = lines.skip(1).take_while(|line| line.starts_with('|'));
    let rows: Result<Vec<Row>> = rows.map(row).collect();
    let rows = rows?;
    if rows.is_empty() {
        bail!("cannot read the import law: its table is empty");
    }
    Ok(rows)
}

fn cells(line: &str) -> Vec<&str> {
    let inner = line
        .trim()
        .strip_prefix('|')
        .and_then(|line| line.strip_suffix('|'));
    inner
        .map(|inner| inner.split('|').map(str::trim).collect())
        .unwrap_or_default()
}

fn row(line: &str) -> Result<Row> {
    let cells = cells(line);
    let [name, _, may_import, outside, must_not_touch] = cells[..] else {
        bail!("cannot read this row of the import law: {line}");
    };
    let names = quoted(name);
    let Some(name) = names.first() else {
        bail!("this row of the import law names no crate: {line}")
    };
    Ok(Row {
        name: name.clone(),
        may_import: (may_import != "all").then(|| quoted(may_import)),
        outside: quoted(outside),
        must_not_touch: quoted(must_not_touch),
    })
}

/// Everything between backticks.
fn quoted(cell: &str) -> BTreeSet<String> {
    cell.split('`')
        .skip(1)
        .step_by(2)
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "\
# Page

| crate | owns | may import | outside crates | must not touch |
|---|---|---|---|---|
| `wire` | codecs | – | `memchr`, `itoa` | I/O (`std::net`), clock |
| `gateway` (binary `sockeye`) | assembly | all | `clap` | – |

After.
";

    #[test]
    fn rows_are_read_as_written() {
        let rows = parse(PAGE).expect("table");
        assert_eq!(rows.len(), 2);
        let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let wire = Row {
            name: "wire".to_owned(),
            may_import: Some(BTreeSet::new()),
            outside: set(&["itoa", "memchr"]),
            must_not_touch: set(&["std::net"]),
        };
        assert_eq!(rows[0], wire);
        assert_eq!(
            (rows[1].name.as_str(), &rows[1].may_import),
            ("gateway", &None)
        );
    }

    #[test]
    fn a_page_without_the_table_is_an_error() {
        assert!(parse("# Page\n\n| a | b |\n|---|---|\n").is_err());
        assert!(parse(&PAGE.replace("| – | `memchr`, `itoa` |", "|")).is_err());
    }
}
