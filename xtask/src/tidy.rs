//! Sizes, names and the direction of imports. Limits are for people: a function that does not fit a screen is not read.

use crate::{directions, links, mentions, repository, shapes};
use anyhow::{Result, bail};
use std::fs;

const FILE_LINES_MAX: usize = 700;
const FUNCTION_LINES_MAX: usize = 70;
/// A module is named after what it owns.
const NAMES_REFUSED: [&str; 5] = ["utils", "common", "helpers", "types", "misc"];
/// In the first line of a file that nobody writes, and so nobody reads.
pub const GENERATED: &str = "@generated";
/// A file of this many lines needs to say what it is about.
const HEADER_FROM_LINES: usize = 10;

pub fn run() -> Result<()> {
    let broken = violations()?;
    if broken.is_empty() {
        println!("tidy: fine");
        return Ok(());
    }
    for violation in &broken {
        println!("tidy: {violation}");
    }
    bail!("{} untidy places", broken.len());
}

pub fn violations() -> Result<Vec<String>> {
    let mut broken = links::broken()?;
    broken.extend(mentions::broken()?);
    broken.extend(directions::broken()?);
    broken.extend(shapes::broken()?);
    for folder in [
        "crates",
        "xtask",
        "fuzz/src",
        "fuzz/examples",
        "fuzz/libfuzzer",
        "transcripts/player",
    ] {
        for path in repository::files(folder)? {
            if path.extension().is_none_or(|extension| extension != "rs") {
                continue;
            }
            let stem = path
                .file_stem()
                .and_then(|stem| stem.to_str())
                .unwrap_or_default();
            if NAMES_REFUSED.contains(&stem) {
                broken.push(format!("{}: name it after what it owns", path.display()));
            }
            let text = fs::read_to_string(repository::root().join(&path))?;
            let is_tests = stem.ends_with("tests") || path.iter().any(|part| part == "tests");
            broken.extend(
                file(&text, is_tests)
                    .into_iter()
                    .map(|text| format!("{}{text}", path.display())),
            );
        }
    }
    Ok(broken)
}

fn file(text: &str, is_tests: bool) -> Vec<String> {
    let mut broken = Vec::new();
    let lines: Vec<&str> = text.lines().collect();
    if lines.first().is_some_and(|line| line.contains(GENERATED)) {
        return broken;
    }
    if lines.len() > FILE_LINES_MAX {
        broken.push(format!(": {} lines, at most {FILE_LINES_MAX}", lines.len()));
    }
    let header = lines.first().is_some_and(|line| line.starts_with("//"));
    if lines.len() >= HEADER_FROM_LINES && !header {
        broken.push(": does not begin with what it owns (`//!`)".to_owned());
    }
    // Tests are tables of cases more often than thoughts.
    let own_tests = |line: &&str| line.starts_with("#[cfg(test)]");
    let code = lines.iter().position(own_tests).unwrap_or(lines.len());
    let code = if is_tests { 0 } else { code };
    for (start, length, name) in functions(&lines[..code]) {
        if length > FUNCTION_LINES_MAX {
            broken.push(format!(
                ":{start}: {name} has {length} lines, at most {FUNCTION_LINES_MAX}"
            ));
        }
    }
    broken
}

/// First line, length and name of each function, relying on rustfmt's layout.
fn functions<'a>(lines: &[&'a str]) -> Vec<(usize, usize, &'a str)> {
    let mut found = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        let body = line.trim_start();
        let Some(name) = function_name(body) else {
            continue;
        };
        let indent = &line[..line.len() - body.len()];
        let closing = format!("{indent}}}");
        let rest = &lines[index..];
        // Without a body, or with it on one line, there is nothing to measure.
        let end = rest.iter().position(|line| {
            *line == closing
                || (line.starts_with(indent) && line.ends_with([';', '}']))
                    && !line[indent.len()..].starts_with([' ', ')'])
        });
        found.push((index + 1, end.unwrap_or(0) + 1, name));
    }
    found
}

/// The name of the function that begins in a line.
pub fn function_name(line: &str) -> Option<&str> {
    let mut words = line.split_whitespace();
    let before = [
        "pub",
        "pub(crate)",
        "pub(super)",
        "const",
        "async",
        "unsafe",
        "extern",
        "\"C\"",
    ];
    let word = words.find(|word| !before.contains(word))?;
    if word != "fn" {
        return None;
    }
    words.next()?.split(['(', '<']).next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_repository_is_tidy() {
        let broken = violations().expect("readable");
        assert!(broken.is_empty(), "{}", broken.join("\n"));
    }

    #[test]
    fn lengths_of_functions_are_measured() {
        let long = format!(
            "impl A {{\n    pub fn b(\n        &self,\n    ) {{\n{}    }}\n}}\n",
            "        x();\n".repeat(80)
        );
        let lines: Vec<&str> = long.lines().collect();
        assert_eq!(functions(&lines), [(2, 84, "b")]);
        assert!(
            file(&long, false)
                .iter()
                .any(|text| text.contains("b has 84 lines"))
        );
        let short = "fn a() {}\ntrait B {\n    fn c(&self);\n    fn d(&self) -> u8;\n}\n";
        let lines: Vec<&str> = short.lines().collect();
        let lengths: Vec<_> = functions(&lines)
            .into_iter()
            .map(|(_, length, _)| length)
            .collect();
        assert_eq!(lengths, [1, 1, 1]);
    }

    #[test]
    fn a_long_file_without_header_is_found() {
        assert_eq!(file(&"x\n".repeat(9), true).len(), 0);
        assert_eq!(file(&"x\n".repeat(10), true).len(), 1);
        assert_eq!(
            file(&format!("//! y\n{}", "x\n".repeat(700)), true).len(),
            1
        );
    }
}
