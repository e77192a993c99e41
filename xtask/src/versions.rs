//! Exact versions everywhere: a build of today and one of next year are the same build.

use crate::repository;
use anyhow::{Context, Result};
use std::fs;
use std::path::Path;

pub fn violations() -> Result<Vec<String>> {
    let mut broken = Vec::new();
    for path in repository::files("")? {
        let check: fn(&str) -> Result<Vec<String>> = match repository::name(&path) {
            "Cargo.toml" => cargo,
            "package.json" => npm,
            "pom.xml" => maven,
            name if name.starts_with("requirements") && name.ends_with(".txt") => pip,
            _ => continue,
        };
        let text = fs::read_to_string(repository::root().join(&path))?;
        let found = check(&text).with_context(|| format!("cannot read {}", path.display()))?;
        broken.extend(
            found
                .into_iter()
                .map(|text| format!("{}: {text}", path.display())),
        );
        if repository::name(&path) == "package.json" {
            broken.extend(npm_lock(&path, &text));
        }
    }
    Ok(broken)
}

fn cargo(text: &str) -> Result<Vec<String>> {
    let manifest: toml::Table = text.parse()?;
    let mut broken = Vec::new();
    visit(&manifest, &mut broken);
    Ok(broken)
}

/// Dependency tables stand at many places: workspace, target, dev.
fn visit(table: &toml::Table, broken: &mut Vec<String>) {
    for (name, value) in table {
        let Some(inner) = value.as_table() else {
            continue;
        };
        if !name.ends_with("dependencies") {
            visit(inner, broken);
            continue;
        }
        for (name, dependency) in inner {
            let version = match dependency {
                toml::Value::Table(table) => table.get("version").and_then(toml::Value::as_str),
                other => other.as_str(),
            };
            if let Some(version) = version.filter(|version| !version.starts_with('=')) {
                broken.push(format!(
                    "{name} = \"{version}\" is a range; write \"={version}\""
                ));
            }
        }
    }
}

fn npm(text: &str) -> Result<Vec<String>> {
    let manifest: serde_json::Value = serde_json::from_str(text)?;
    let mut broken = Vec::new();
    for section in ["dependencies", "devDependencies", "optionalDependencies"] {
        let Some(entries) = manifest[section].as_object() else {
            continue;
        };
        for (name, version) in entries {
            let version = version.as_str().unwrap_or_default();
            // npm:socket.io-client@4.7.2 installs a package under another name.
            let exact = version.rsplit_once('@').map_or(version, |(_, exact)| exact);
            if !is_exact(exact) && !version.starts_with("file:") {
                broken.push(format!("{name} \"{version}\" is not an exact version"));
            }
        }
    }
    Ok(broken)
}

fn npm_lock(path: &Path, text: &str) -> Option<String> {
    let lock = repository::root()
        .join(path)
        .with_file_name("package-lock.json");
    let wants = text.contains("ependencies\"");
    (wants && !lock.exists()).then(|| format!("{}: no package-lock.json beside it", path.display()))
}

fn is_exact(version: &str) -> bool {
    let mut parts = version.splitn(3, '.');
    let numeric = |part: Option<&str>| {
        part.is_some_and(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()))
    };
    numeric(parts.next())
        && numeric(parts.next())
        && parts
            .next()
            .is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_digit()))
}

fn pip(text: &str) -> Result<Vec<String>> {
    let lines = text
        .lines()
        .map(|line| line.split('#').next().unwrap_or_default().trim());
    let wanted = lines.filter(|line| !line.is_empty() && !line.starts_with('-'));
    let ranges = wanted.filter(|line| !line.contains("=="));
    Ok(ranges
        .map(|line| format!("{line} is not an exact version; write name==version"))
        .collect())
}

fn maven(text: &str) -> Result<Vec<String>> {
    let versions = text.split("<version>").skip(1);
    let versions = versions.filter_map(|rest| rest.split("</version>").next());
    let ranges = versions.map(str::trim).filter(|version| {
        version.starts_with(['[', '(']) || matches!(*version, "LATEST" | "RELEASE")
    });
    Ok(ranges
        .map(|version| format!("{version} is not an exact version"))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cargo_ranges_are_found_in_every_table() {
        let text = "
            [dependencies]
            a = \"1\"
            b = { version = \"^2\", features = [] }
            c = \"=3.0.0\"
            d.workspace = true
            e = { path = \"../e\" }
            [target.'cfg(unix)'.dev-dependencies]
            f = \"*\"
        ";
        let found = cargo(text).expect("TOML");
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(found[0].starts_with("a = "), "{found:?}");
    }

    #[test]
    fn npm_versions_are_exact_or_named() {
        let text = r#"{ "dependencies": {"a": "1.2.3", "b": "^1.2.3", "c": "npm:a@4.7.2"},
                        "devDependencies": {"d": "latest", "e": "1.2", "f": "1.0.0-rc.1"} }"#;
        let found = npm(text).expect("JSON");
        assert_eq!(found.len(), 3, "{found:?}");
    }

    #[test]
    fn python_and_java_too() {
        let found = pip("a==1.0\nb>=2 # no\n\n# c\n-r other.txt\n").expect("text");
        assert_eq!(found.len(), 1, "{found:?}");
        let pom = "<version>1.0</version><version>[1,2)</version><version>LATEST</version>";
        assert_eq!(maven(pom).expect("text").len(), 2);
    }
}
