//! The size of a crate's types. A type with many fields or methods is changed from everywhere, and nobody can say what holds in it.

use crate::{directions, repository, tidy};
use anyhow::Result;
use std::collections::BTreeMap;
use std::fs;

const FIELDS_MAX: usize = 12;
const METHODS_MAX: usize = 40;
/// Crates whose types have at most so many, and whose bounds stand in one file.
const SMALL: [&str; 1] = ["backend"];
/// Configuration and counters: lists of independent values.
const LISTS: [&str; 2] = ["Settings", "Counts"];
/// The file of a crate that has its bounds, and the ends of their names.
const BOUNDS: &str = "bounds.rs";
const BOUND: [&str; 2] = ["_MAX", "_MS"];

/// The counts of a crate.
#[derive(Default)]
struct Shape {
    files: usize,
    /// Lines without comments and empty ones.
    lines: usize,
    fields: BTreeMap<String, usize>,
    methods: BTreeMap<String, usize>,
    /// Bounds that stand in other files.
    strays: Vec<String>,
}

/// Types that are too large, and bounds that stand elsewhere.
pub fn broken() -> Result<Vec<String>> {
    let mut broken = Vec::new();
    for name in SMALL {
        let shape = Shape::of(name)?;
        for (counts, most, of) in [
            (&shape.fields, FIELDS_MAX, "fields"),
            (&shape.methods, METHODS_MAX, "methods"),
        ] {
            let large = counts.iter().filter(|(_, count)| **count > most);
            let large = large.filter(|(of, _)| !LISTS.contains(&of.as_str()));
            broken.extend(large.map(|(type_name, count)| {
                format!("{name}: {type_name} has {count} {of}, at most {most}")
            }));
        }
        let strays = shape.strays.iter();
        broken.extend(strays.map(|stray| format!("{name}: {stray} belongs into {BOUNDS}")));
    }
    Ok(broken)
}

/// Prints a table of these crates.
pub fn run(names: &[String]) -> Result<()> {
    println!("| crate | files | lines of code | most fields | most methods | files in circles |");
    println!("|---|---:|---:|---|---|---:|");
    for name in names {
        let shape = Shape::of(name)?;
        let circles = directions::count_in_circles(name)?;
        let (fields, methods) = (largest(&shape.fields), largest(&shape.methods));
        let (files, lines) = (shape.files, shape.lines);
        println!("| {name} | {files} | {lines} | {fields} | {methods} | {circles} |");
    }
    Ok(())
}

fn largest(counts: &BTreeMap<String, usize>) -> String {
    let mut counts: Vec<_> = counts.iter().collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    let largest = counts.iter().take(3);
    let largest = largest.map(|(name, count)| format!("`{name}` {count}"));
    largest.collect::<Vec<_>>().join(", ")
}

impl Shape {
    fn of(name: &str) -> Result<Self> {
        let mut shape = Self::default();
        for path in repository::files(&format!("crates/{name}/src"))? {
            let file = path.file_name().and_then(|file| file.to_str());
            let file = file.unwrap_or_default();
            let tests = file.ends_with("tests.rs") || path.iter().any(|part| part == "tests");
            if file.ends_with(".rs") && !tests {
                let text = fs::read_to_string(repository::root().join(&path))?;
                let first = text.lines().next().unwrap_or_default();
                if !first.contains(tidy::GENERATED) {
                    shape.add(file, &text);
                }
            }
        }
        Ok(shape)
    }

    /// Relies on rustfmt's layout.
    fn add(&mut self, file: &str, text: &str) {
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        self.files += 1;
        let mut block = Block::Other;
        for line in code.lines() {
            let body = line.trim();
            if body.is_empty() || body.starts_with("//") {
                continue;
            }
            self.lines += 1;
            if file != BOUNDS {
                self.strays.extend(bound(body).map(str::to_owned));
            }
            if !line.starts_with(' ') {
                block = Block::begins(line);
                continue;
            }
            let inner = line.strip_prefix("    ");
            let Some(inner) = inner.filter(|inner| !inner.starts_with(' ')) else {
                continue;
            };
            match &block {
                Block::Struct(name) if is_field(inner) => add(&mut self.fields, name),
                Block::Impl(name) if tidy::function_name(inner).is_some() => {
                    add(&mut self.methods, name);
                }
                _ => {}
            }
        }
    }
}

fn add(counts: &mut BTreeMap<String, usize>, name: &str) {
    *counts.entry(name.to_owned()).or_default() += 1;
}

enum Block {
    Struct(String),
    /// Methods of the type itself: those of a trait are not its choice.
    Impl(String),
    Other,
}

impl Block {
    fn begins(line: &str) -> Self {
        let line = line.strip_prefix("pub(crate) ").unwrap_or(line);
        let line = line.strip_prefix("pub ").unwrap_or(line);
        if let Some(rest) = line.strip_prefix("struct ") {
            return Self::Struct(first_name(rest));
        }
        match line.strip_prefix("impl") {
            Some(rest) if !rest.contains(" for ") => Self::Impl(first_name(after_generics(rest))),
            _ => Self::Other,
        }
    }
}

/// The text after `<…>`.
fn after_generics(text: &str) -> &str {
    let mut depth = 0;
    for (at, character) in text.char_indices() {
        match character {
            '<' => depth += 1,
            '>' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return text[at..].trim_start_matches(['>', ' ']);
        }
    }
    text
}

fn first_name(text: &str) -> String {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    text.chars().take_while(|c| is_part(*c)).collect()
}

fn is_field(line: &str) -> bool {
    let line = line.strip_prefix("pub(crate) ").unwrap_or(line);
    let line = line.strip_prefix("pub ").unwrap_or(line);
    let name = first_name(line);
    !name.is_empty() && line[name.len()..].starts_with(": ")
}

/// The name of the constant, if it is a number that bounds something.
fn bound(line: &str) -> Option<&str> {
    let line = line.strip_prefix("pub(crate) ").unwrap_or(line);
    let line = line.strip_prefix("pub ").unwrap_or(line);
    let (name, rest) = line.strip_prefix("const ")?.split_once(": ")?;
    let (_, value) = rest.split_once(" = ")?;
    let counts = value.starts_with(|c: char| c.is_ascii_digit());
    (counts && BOUND.iter().any(|end| name.ends_with(end))).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_methods_and_bounds_are_counted() {
        let text = "pub struct A {\n    pub(crate) a: u8,\n    /// One more.\n    b: u8,\n}\n\nimpl A {\n    fn c(&self) -> u8 {\n        \
                    let d: u8 = 1;\n        d\n    }\n}\n\nimpl<'a, T: B<C>> A {\n    pub fn e() {}\n}\n\nimpl B for A {\n    fn f() {}\n}\n\n\
                    const G_MAX: usize = 4;\nconst H_MAX: usize = I_MAX * 2;\n#[cfg(test)]\nmod tests {}\n";
        let mut shape = Shape::default();
        shape.add("a.rs", text);
        assert_eq!(shape.fields["A"], 2);
        assert_eq!(shape.methods["A"], 2);
        assert_eq!(shape.strays, ["G_MAX"]);
        assert_eq!(shape.lines, 18);
        let mut bounds = Shape::default();
        bounds.add(BOUNDS, text);
        assert!(bounds.strays.is_empty());
    }
}
