//! In which direction the files of a crate import. No file imports one that needs it in turn, and the hub's lower wings know only
//! what stands below them. So a file can be read with nothing in mind but its imports.

use crate::repository;
use anyhow::Result;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

/// The bounds of the hub and its wings, from below. Above them stand the parts and the steps.
const WINGS: [&str; 8] = [
    "bounds", "books", "tables", "output", "dialect", "recovery", "clients", "rooms",
];

/// The files of a crate, by module path, and what each imports.
type Imports = BTreeMap<String, BTreeSet<String>>;

/// What imports in the wrong direction.
pub fn broken() -> Result<Vec<String>> {
    let mut broken = Vec::new();
    for folder in fs::read_dir(repository::root().join("crates"))? {
        let name = folder?.file_name().to_string_lossy().into_owned();
        let imports = imports(&name)?;
        let circles = in_circles(&imports).into_iter();
        broken.extend(
            circles.map(|file| format!("{name}: {file} imports a file that needs it in turn")),
        );
        if name == "hub" {
            broken.extend(upward(&imports));
        }
    }
    broken.sort();
    Ok(broken)
}

/// The number of a crate's files that stand in circles.
pub fn count_in_circles(name: &str) -> Result<usize> {
    Ok(in_circles(&imports(name)?).len())
}

fn imports(name: &str) -> Result<Imports> {
    let folder = format!("crates/{name}/src");
    let mut texts = BTreeMap::new();
    let files = repository::files(&folder)?.into_iter();
    let is_rust = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "rs");
    for path in files.filter(is_rust) {
        let text = fs::read_to_string(repository::root().join(&path))?;
        let path = path.strip_prefix(&folder)?.with_extension("");
        let parts: Vec<_> = path.iter().filter_map(|part| part.to_str()).collect();
        let module = parts.join("::");
        let module = module.strip_suffix("::mod").unwrap_or(&module);
        if !parts.contains(&"tests") && !["lib", "main"].contains(&module) {
            texts.insert(module.to_owned(), text);
        }
    }
    let modules: BTreeSet<String> = texts.keys().cloned().collect();
    let all = texts.into_iter().map(|(module, text)| {
        let paths = paths(&module, &text);
        let mut found: BTreeSet<String> = paths
            .iter()
            .filter_map(|path| owner(path, &modules))
            .collect();
        found.remove(&module);
        (module, found)
    });
    Ok(all.collect())
}

/// The file that a path leads into.
fn owner(path: &str, modules: &BTreeSet<String>) -> Option<String> {
    let ends = path.match_indices("::").map(|(at, _)| at);
    let mut prefixes: Vec<&str> = ends.map(|at| &path[..at]).collect();
    prefixes.push(path);
    let known = prefixes.into_iter().rev().find(|at| modules.contains(*at));
    known.map(str::to_owned)
}

/// All paths of a file into its own crate; those of tests and of comments do not count. That a file has others inside it (`mod`) is no
/// import.
fn paths(module: &str, text: &str) -> Vec<String> {
    let text = text.split("#[cfg(test)]").next().unwrap_or_default();
    let lines = text.lines().filter(|line| !line.trim().starts_with("//"));
    let code: String = lines.flat_map(|line| [line, " "]).collect();
    let mut paths = Vec::new();
    for (at, start) in code.match_indices("crate::") {
        unfold("", &code[at + start.len()..], &mut paths);
    }
    const UP: &str = "super::";
    for (at, _) in code.match_indices(UP) {
        // The first of several says how many there are.
        if code[..at].ends_with("::") {
            continue;
        }
        let (mut above, mut rest) = (module, &code[at..]);
        while let Some(path) = rest.strip_prefix(UP) {
            above = above.rsplit_once("::").map_or("", |(above, _)| above);
            rest = path;
        }
        unfold(above, rest, &mut paths);
    }
    paths
}

/// Reads one path, or a list of them in braces, behind a prefix; returns what follows.
fn unfold<'a>(prefix: &str, code: &'a str, paths: &mut Vec<String>) -> &'a str {
    let mut code = code.trim_start();
    if let Some(mut rest) = code.strip_prefix('{') {
        loop {
            rest = unfold(prefix, rest, paths).trim_start();
            match rest.strip_prefix(',') {
                Some(more) => rest = more,
                None => return rest.strip_prefix('}').unwrap_or(rest),
            }
        }
    }
    let end = code.find(|c: char| !c.is_alphanumeric() && c != '_');
    let (name, rest) = code.split_at(end.unwrap_or(code.len()));
    code = rest;
    let path = match prefix {
        "" => name.to_owned(),
        _ => format!("{prefix}::{name}"),
    };
    match code.strip_prefix("::") {
        Some(rest) => unfold(&path, rest, paths),
        None => {
            paths.push(path);
            code
        }
    }
}

/// Files that need themselves, by way of others.
fn in_circles(imports: &Imports) -> BTreeSet<&str> {
    let files = imports.keys().map(String::as_str);
    files
        .filter(|file| needs(imports, file).contains(file))
        .collect()
}

/// All that a file imports, and all that those import.
fn needs<'a>(imports: &'a Imports, file: &'a str) -> BTreeSet<&'a str> {
    let mut needed = BTreeSet::new();
    let mut next: Vec<&str> = vec![file];
    while let Some(file) = next.pop() {
        let found = imports.get(file).into_iter().flatten();
        let fresh = found.filter(|file| needed.insert(file.as_str()));
        next.extend(fresh.map(String::as_str));
    }
    needed
}

/// Imports of the hub's lower wings from above.
fn upward(imports: &Imports) -> Vec<String> {
    let height = |module: &str| {
        let wing = module.split("::").next();
        WINGS.iter().position(|known| Some(*known) == wing)
    };
    let all = imports
        .iter()
        .flat_map(|(from, found)| found.iter().map(move |to| (from, to)));
    all.filter(|(from, to)| height(from).is_some_and(|low| height(to).is_none_or(|up| up > low)))
        .map(|(from, to)| format!("hub: {from} imports {to}, which stands above it"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(edges: &[(&str, &[&str])]) -> Imports {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let entry = |(from, to): &(&str, &[&str])| ((*from).to_owned(), owned(to));
        edges.iter().map(entry).collect()
    }

    #[test]
    fn files_import_in_one_direction() {
        let broken = broken().expect("readable");
        assert!(broken.is_empty(), "{}", broken.join("\n"));
        assert!(imports("hub").expect("readable").len() > 100);
    }

    #[test]
    fn a_circle_is_found_however_long() {
        let tree = graph(&[("a", &["b", "c"]), ("b", &["c"]), ("c", &[])]);
        assert!(in_circles(&tree).is_empty());
        let ring = graph(&[("a", &["b"]), ("b", &["c"]), ("c", &["d"]), ("d", &["b"])]);
        assert_eq!(in_circles(&ring), ["b", "c", "d"].into());
    }

    #[test]
    fn a_wing_that_looks_up_is_found() {
        let up = graph(&[("tables::conn", &["output::log"]), ("output::log", &[])]);
        assert_eq!(upward(&up).len(), 1);
        let down = graph(&[("clients::line", &["output::log", "books"])]);
        assert!(upward(&down).is_empty());
        let steps = graph(&[("rooms::log", &["transport::flush"])]);
        assert_eq!(upward(&steps).len(), 1);
    }

    #[test]
    fn paths_are_read_out_of_braces() {
        let text = "use crate::a::{b::{C, d}, e};\n// crate::no\nfn f() { crate::g::h(1) }\n#[cfg(test)]\nuse crate::not;";
        assert_eq!(paths("x", text), ["a::b::C", "a::b::d", "a::e", "g::h"]);
        let text = "use super::b::{self, C};\nuse super::super::d::E;\nuse super::F;";
        let inner = ["a::y::b::self", "a::y::b::C", "a::d::E", "a::y::F"];
        let mut found = paths("a::y::z", text);
        found.sort();
        let mut inner = inner.map(str::to_owned);
        inner.sort();
        assert_eq!(found, inner);
        assert_eq!(paths("z", text)[0], "b::self");
    }
}
