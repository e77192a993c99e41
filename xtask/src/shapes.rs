//! The size of a crate's types. A type with many fields or methods is changed from everywhere, and nobody can say what holds in it.

use crate::{directions, repository, tidy};
use anyhow::Result;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;

const FIELDS_MAX: usize = 12;
const METHODS_MAX: usize = 40;
/// Crates whose types have at most so many fields.
const FEW_FIELDS: [&str; 8] = [
    "backend", "cluster", "compat", "hub", "rules", "types", "units", "wire",
];
/// Crates whose types have at most so many methods.
const FEW_METHODS: [&str; 10] = [
    "backend", "bridge", "cluster", "compat", "handoff", "hub", "rules", "types", "units", "wire",
];
/// Crates whose bounds stand in one file.
const BOUNDED: [&str; 12] = [
    "backend", "bridge", "cluster", "compat", "handoff", "history", "hub", "rules", "shard",
    "types", "units", "wire",
];
/// Configuration, counters, and rows of what operators are shown: lists of independent values.
const LISTS: [&str; 6] = [
    "Settings",
    "Config",
    "Limits",
    "Counts",
    "SeenSession",
    "TraceLine",
];
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
    let looked_at: BTreeSet<&str> = FEW_METHODS.into_iter().chain(BOUNDED).collect();
    for name in looked_at {
        let shape = Shape::of(name)?;
        if FEW_METHODS.contains(&name) {
            broken.extend(large(name, &shape.methods, METHODS_MAX, "methods"));
        }
        if FEW_FIELDS.contains(&name) {
            broken.extend(large(name, &shape.fields, FIELDS_MAX, "fields"));
        }
        if BOUNDED.contains(&name) {
            let strays = shape.strays.iter();
            broken.extend(strays.map(|stray| format!("{name}: {stray} belongs into {BOUNDS}")));
        }
    }
    Ok(broken)
}

fn large(name: &str, counts: &BTreeMap<String, usize>, most: usize, of: &str) -> Vec<String> {
    let large = counts.iter().filter(|(_, count)| **count > most);
    let large = large.filter(|(type_name, _)| !LISTS.contains(&type_name.as_str()));
    let large = large
        .map(|(type_name, count)| format!("{name}: {type_name} has {count} {of}, at most {most}"));
    large.collect()
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
        let folder = format!("crates/{name}/src");
        let mut texts = Vec::new();
        for path in repository::files(&folder)? {
            let file = path.file_name().and_then(|file| file.to_str());
            let file = file.unwrap_or_default();
            let tests = file.ends_with("tests.rs") || path.iter().any(|part| part == "tests");
            if file.ends_with(".rs") && !tests {
                let text = fs::read_to_string(repository::root().join(&path))?;
                let first = text.lines().next().unwrap_or_default();
                if !first.contains(tidy::GENERATED) {
                    let code = text.split("#[cfg(test)]").next().unwrap_or_default();
                    let path = path.strip_prefix(&folder).unwrap_or(&path);
                    texts.push((path.display().to_string(), code.to_owned()));
                }
            }
        }
        Ok(Self::of_texts(&texts))
    }

    fn of_texts(texts: &[(String, String)]) -> Self {
        let (mut shape, types) = (Self::default(), Types::of(texts));
        for (path, code) in texts {
            shape.add(&types, path, code);
        }
        shape
    }

    /// Relies on rustfmt's layout.
    fn add(&mut self, types: &Types, path: &str, code: &str) {
        let file = path.rsplit('/').next().unwrap_or_default();
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
                Block::Struct(name) if is_field(inner) => {
                    add(&mut self.fields, types.named(name, path, code));
                }
                Block::Impl(name) if tidy::function_name(inner).is_some() => {
                    add(&mut self.methods, types.named(name, path, code));
                }
                _ => {}
            }
        }
    }
}

fn add(counts: &mut BTreeMap<String, usize>, names: Vec<String>) {
    for name in names {
        *counts.entry(name).or_default() += 1;
    }
}

/// The types of a crate by name, with the files that they stand in. Two files may have types of one name.
struct Types(BTreeMap<String, Vec<String>>);

impl Types {
    fn of(texts: &[(String, String)]) -> Self {
        let mut types = BTreeMap::<String, Vec<String>>::new();
        for (path, code) in texts {
            for line in code.lines() {
                let line = line.strip_prefix("pub(crate) ").unwrap_or(line);
                let line = line.strip_prefix("pub(super) ").unwrap_or(line);
                let line = line.strip_prefix("pub ").unwrap_or(line);
                let rest = line.strip_prefix("struct ");
                if let Some(rest) = rest.or_else(|| line.strip_prefix("enum ")) {
                    let paths = types.entry(first_name(rest)).or_default();
                    paths.push(path.clone());
                }
            }
        }
        Self(types)
    }

    /// The type that a file means by a name: its own, its parent's, or the one that it imports. Where that cannot be told, it is each of
    /// them.
    fn named(&self, name: &str, path: &str, code: &str) -> Vec<String> {
        let paths = self.0.get(name).map_or(&[][..], |paths| paths);
        if paths.len() < 2 {
            return vec![name.to_owned()];
        }
        let is_meant = |other: &&String| {
            let module = other.trim_end_matches(".rs").trim_end_matches("/mod");
            let import = format!("use crate::{}::", module.replace('/', "::"));
            let mut imports = code.split(&import).skip(1);
            let imported = imports.any(|rest| {
                let names = rest.split(';').next().unwrap_or_default();
                let mut words = names.split(|c: char| !c.is_alphanumeric() && c != '_');
                words.any(|word| word == name)
            });
            *other == path || path.starts_with(&format!("{module}/")) || imported
        };
        let full = |path: &String| format!("{name} ({path})");
        let meant: Vec<_> = match paths.iter().any(|other| other == path) {
            true => vec![format!("{name} ({path})")],
            false => paths.iter().filter(is_meant).map(full).collect(),
        };
        match meant.is_empty() {
            true => paths.iter().map(full).collect(),
            false => meant,
        }
    }
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
    let line = line.strip_prefix("pub(super) ").unwrap_or(line);
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
        let shape = shape_of(&[("a.rs", text)]);
        assert_eq!(shape.fields["A"], 2);
        assert_eq!(shape.methods["A"], 2);
        assert_eq!(shape.strays, ["G_MAX"]);
        assert_eq!(shape.lines, 18);
        let bounds = shape_of(&[(BOUNDS, text)]);
        assert!(bounds.strays.is_empty());
    }

    fn shape_of(texts: &[(&str, &str)]) -> Shape {
        let code = |text: &str| {
            text.split("#[cfg(test)]")
                .next()
                .unwrap_or_default()
                .to_owned()
        };
        let texts = texts
            .iter()
            .map(|(path, text)| ((*path).to_owned(), code(text)));
        Shape::of_texts(&texts.collect::<Vec<_>>())
    }

    #[test]
    fn types_of_one_name_are_told_apart() {
        let one = "struct A {\n    b: u8,\n}\n\nimpl A {\n    fn c() {}\n}\n";
        let more = "use crate::d::one::{\n    A, B,\n};\n\nimpl A {\n    fn e() {}\n}\n";
        let unknown = "use f::A;\n\nimpl A {\n    fn g() {}\n}\n";
        let shape = shape_of(&[
            ("d/one.rs", one),
            ("d/two.rs", one),
            (
                "d/two/more.rs",
                "use super::A;\n\nimpl A {\n    fn h() {}\n    fn i() {}\n}\n",
            ),
            ("more.rs", more),
            ("unknown.rs", unknown),
        ]);
        assert_eq!(shape.fields["A (d/one.rs)"], 1);
        assert_eq!(
            shape.methods["A (d/one.rs)"], 3,
            "its own, one more, one that may be"
        );
        assert_eq!(shape.methods["A (d/two.rs)"], 4);
    }
}
