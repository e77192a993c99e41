//! THIRD-PARTY-NOTICES.md: whose code is in the programs of a release, and under which terms. The texts come from the crates themselves.

use crate::repository;
use anyhow::{Context, Result, ensure};
use cargo_metadata::{Metadata, MetadataCommand, Package};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::process::Command;

pub const PAGE: &str = "THIRD-PARTY-NOTICES.md";

/// The targets of releases; a crate only for Windows is in none of them.
const PLATFORM: &str = "x86_64-unknown-linux-gnu";

/// Names that license texts have in crates.
const TEXTS: [&str; 5] = ["license", "licence", "copying", "notice", "unlicense"];

pub fn page() -> Result<String> {
    let metadata = MetadataCommand::new()
        .manifest_path(repository::root().join("Cargo.toml"))
        .other_options(["--locked", "--filter-platform", PLATFORM].map(str::to_owned))
        .exec()
        .context("cannot read the workspace with cargo metadata")?;
    let mut packages = linked(&metadata)?;
    packages.sort_by_key(|package| (package.name.to_string(), package.version.clone()));
    let mut page = "# Third-party notices\n\nThe programs `sockeye`, `sockeye-bench` and `sockeye-shadow` contain these crates, and the first one the Socket.IO client (MIT, \
                    `web/bundles/LICENSE-socket.io-client`). Made by `cargo xtask gen`.\n\n| crate | version | license |\n|---|---|---|\n"
        .to_owned();
    let mut texts: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for package in packages {
        let license = package.license.as_deref().unwrap_or("see its text");
        writeln!(
            page,
            "| {} | {} | {license} |",
            package.name, package.version
        )?;
        for text in license_texts(package)? {
            texts
                .entry(text)
                .or_default()
                .insert(package.name.to_string());
        }
    }
    for (text, crates) in texts {
        let crates: Vec<_> = crates.into_iter().collect();
        write!(
            page,
            "\n## {}\n\n```text\n{}\n```\n",
            crates.join(", "),
            text.trim()
        )?;
    }
    Ok(page)
}

/// Crates of others that end up in the binary: not those that only build or test it, nor features that nobody asked for.
fn linked(metadata: &Metadata) -> Result<Vec<&Package>> {
    let tree = [
        "tree",
        "--locked",
        "--package",
        "gateway",
        "--package",
        "bench",
        "--package",
        "shadow",
        // What is shipped has all features.
        "--features",
        "gateway/full",
        "--edges",
        "normal",
        "--prefix",
        "none",
        "--target",
        PLATFORM,
    ];
    let mut command = Command::new("cargo");
    command.args(tree).current_dir(repository::root());
    let output = command.output().context("cannot run cargo tree")?;
    ensure!(
        output.status.success(),
        "cargo tree: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let text = String::from_utf8(output.stdout)?;
    // `name v1.2.3`, and what cargo has to say about it.
    let linked: BTreeSet<(&str, &str)> = text
        .lines()
        .filter_map(|line| line.split_once(' '))
        .filter_map(|(name, rest)| Some((name, rest.split(' ').next()?.strip_prefix('v')?)))
        .collect();
    let of_others = |package: &&Package| {
        let version = package.version.to_string();
        package.source.is_some() && linked.contains(&(package.name.as_str(), version.as_str()))
    };
    Ok(metadata.packages.iter().filter(of_others).collect())
}

/// Where a crate leaves the choice, its MIT text is enough.
fn license_texts(package: &Package) -> Result<Vec<String>> {
    let folder = package
        .manifest_path
        .parent()
        .context("a manifest lies in a folder")?;
    let mut texts = BTreeMap::new();
    for entry in fs::read_dir(folder).with_context(|| format!("cannot list {folder}"))? {
        let path = entry?.path();
        let name = repository::name(&path).to_ascii_lowercase();
        if path.is_file() && TEXTS.iter().any(|text| name.starts_with(text)) {
            let text = fs::read_to_string(&path)
                .with_context(|| format!("cannot read {}", path.display()))?;
            let lines: Vec<&str> = text.lines().map(str::trim).collect();
            texts.insert(name, lines.join("\n").trim().to_owned());
        }
    }
    let is_choice = package
        .license
        .as_ref()
        .is_some_and(|terms| terms.contains(" OR ") || terms.contains('/'));
    if is_choice && texts.keys().any(|name| name.contains("mit")) {
        texts.retain(|name, _| name.contains("mit"));
    }
    Ok(texts.into_values().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A client for Redis brought the Boost license, and only cargo-deny in the hosted CI would have noticed.
    #[test]
    fn every_license_that_is_linked_is_allowed() {
        let read = |name| fs::read_to_string(repository::root().join(name)).unwrap();
        let deny: toml::Table = read("deny.toml").parse().unwrap();
        let allow = deny["licenses"]["allow"].as_array().unwrap();
        let allow: Vec<&str> = allow.iter().filter_map(|name| name.as_str()).collect();
        let is_allowed = |terms: &str| {
            let mut all = terms.split(" AND ").map(|part| part.replace('/', " OR "));
            all.all(|part| {
                let mut choice = part
                    .split(" OR ")
                    .map(|one| one.trim_matches([' ', '(', ')']));
                choice.any(|one| allow.contains(&one))
            })
        };
        let page = read(PAGE);
        let rows = page.lines().filter_map(|line| line.strip_prefix("| "));
        let rows = rows.skip(1).map(|row| row.split(" | ").collect::<Vec<_>>());
        let mut count = 0;
        for row in rows {
            let terms = row[2].trim_end_matches(" |");
            assert!(
                is_allowed(terms),
                "deny.toml does not allow {terms} of {}",
                row[0]
            );
            count += 1;
        }
        assert!(count > 200, "{PAGE} lists {count} crates");
        assert!(!is_allowed("GPL-3.0") && !is_allowed("MIT AND GPL-3.0"));
    }
}
