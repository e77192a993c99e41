//! The import law: the table in ARCHITECTURE.md against `cargo metadata` and the source itself.
//! Also a test, so that nobody needs to know this command.

use crate::law_table::{self, Row};
use crate::{repository, versions};
use anyhow::{Context, Result, bail};
use cargo_metadata::{DependencyKind, MetadataCommand, Package};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;

const PAGE: &str = "ARCHITECTURE.md";

pub fn run() -> Result<()> {
    let broken: Vec<String> = violations()?;
    if broken.is_empty() {
        println!("law: kept");
        return Ok(());
    }
    for violation in &broken {
        println!("law: {violation}");
    }
    bail!("{} violations of the law", broken.len());
}

pub fn violations() -> Result<Vec<String>> {
    let rows = law_table::parse(&repository::read(PAGE)?)?;
    let packages = packages()?;
    let mut broken = imports(&rows, &packages);
    for row in &rows {
        broken.extend(source(row, &packages)?);
    }
    broken.extend(versions::violations()?);
    Ok(broken)
}

fn packages() -> Result<BTreeMap<String, Package>> {
    let manifest = repository::root().join("Cargo.toml");
    let metadata = MetadataCommand::new()
        .manifest_path(manifest)
        .no_deps()
        .exec();
    let metadata = metadata.context("cannot read the workspace with cargo metadata")?;
    Ok(metadata
        .packages
        .into_iter()
        .map(|package| (package.name.to_string(), package))
        .collect())
}

fn imports(rows: &[Row], packages: &BTreeMap<String, Package>) -> Vec<String> {
    let mut broken = Vec::new();
    let named: BTreeSet<&str> = rows.iter().map(|row| row.name.as_str()).collect();
    for name in packages
        .keys()
        .filter(|name| !named.contains(name.as_str()))
    {
        broken.push(format!("crate {name} has no row in {PAGE}"));
    }
    for row in rows {
        let Some(package) = packages.get(&row.name) else {
            broken.push(format!(
                "{PAGE} has a row for {}, which is no crate here",
                row.name
            ));
            continue;
        };
        for name in dependencies(package) {
            if !packages.contains_key(name) {
                if !row.outside.contains(name) {
                    broken.push(format!(
                        "{} uses {name}, which {PAGE} does not list among its outside crates",
                        row.name
                    ));
                }
            } else if row
                .may_import
                .as_ref()
                .is_some_and(|allowed| !allowed.contains(name))
            {
                broken.push(format!(
                    "{} imports {name}, which {PAGE} does not allow",
                    row.name
                ));
            }
        }
        let used: BTreeSet<&str> = dependencies(package).collect();
        for name in row
            .outside
            .iter()
            .filter(|name| !used.contains(name.as_str()))
        {
            broken.push(format!(
                "{PAGE} lists {name} for {}, which does not use it",
                row.name
            ));
        }
    }
    broken
}

/// What ends up in a build; tests may use more.
fn dependencies(package: &Package) -> impl Iterator<Item = &str> {
    let built = package.dependencies.iter().filter(|dependency| {
        matches!(
            dependency.kind,
            DependencyKind::Normal | DependencyKind::Build
        )
    });
    built.map(|dependency| dependency.name.as_str())
}

/// Looks for the forbidden words of a row in the code, comments and tests aside.
fn source(row: &Row, packages: &BTreeMap<String, Package>) -> Result<Vec<String>> {
    let mut broken = Vec::new();
    let Some(package) = packages.get(&row.name) else {
        return Ok(broken);
    };
    let folder = package
        .manifest_path
        .parent()
        .context("a manifest lies in a folder")?;
    let folder = folder.strip_prefix(repository::root())?.join("src");
    for path in repository::files(folder.as_str())? {
        if path.extension().is_none_or(|extension| extension != "rs") {
            continue;
        }
        let text = fs::read_to_string(repository::root().join(&path))?;
        for (number, line) in (1..).zip(code(&text)) {
            for word in row
                .must_not_touch
                .iter()
                .filter(|word| line.contains(word.as_str()))
            {
                broken.push(format!(
                    "{}:{number}: {} must not touch {word}",
                    path.display(),
                    row.name
                ));
            }
        }
    }
    Ok(broken)
}

/// Lines up to the tests of a file, comments blanked.
fn code(text: &str) -> impl Iterator<Item = &str> {
    let lines = text
        .lines()
        .take_while(|line| !line.starts_with("#[cfg(test)]"));
    lines.map(|line| line.split("//").next().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_law_is_kept() {
        let broken = violations().expect("law and workspace can be read");
        assert!(broken.is_empty(), "{}", broken.join("\n"));
    }

    #[test]
    fn a_forbidden_edge_is_found() {
        let page = repository::read(PAGE).expect("page");
        let mut rows = law_table::parse(&page).expect("table");
        let packages = packages().expect("workspace");
        let hub = rows.iter_mut().find(|row| row.name == "hub").expect("row");
        let allowed = hub.may_import.as_mut().expect("a list");
        assert!(allowed.remove("wire"), "hub imports wire");
        hub.outside.insert("left-pad".to_owned());
        let broken = imports(&rows, &packages);
        assert_eq!(broken.len(), 2, "{broken:?}");
        assert!(broken[0].starts_with("hub imports wire"), "{broken:?}");
        assert!(broken[1].contains("left-pad"), "{broken:?}");
        rows.retain(|row| row.name != "wire");
        assert!(
            imports(&rows, &packages)
                .iter()
                .any(|text| text.contains("wire has no row"))
        );
    }

    #[test]
    fn forbidden_words_are_looked_for_in_code_only() {
        let text = "let a = 1; // Instant::now\nInstant::now();\n#[cfg(test)]\nInstant::now();\n";
        let found: Vec<_> = code(text)
            .filter(|line| line.contains("Instant::now"))
            .collect();
        assert_eq!(found, ["Instant::now();"]);
    }
}
