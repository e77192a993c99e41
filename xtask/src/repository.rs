//! Where things lie in the repository, and which files belong to it.

use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};

/// Folders that hold no source of ours.
const NOT_OURS: [&str; 6] = [
    "target",
    "node_modules",
    ".git",
    "__pycache__",
    "dist",
    "bundles",
];

/// The folder of the workspace's Cargo.toml.
pub fn root() -> PathBuf {
    // Cargo says so when it runs this program; two checkouts may share a target folder.
    let here = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    let here = here.unwrap_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")));
    here.parent().unwrap_or(&here).to_owned()
}

/// A file that cargo built: `release/sockeye`.
pub fn built(path: &str) -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    root()
        .join(target.unwrap_or_else(|| PathBuf::from("target")))
        .join(path)
}

pub fn read(path: &str) -> Result<String> {
    let path = root().join(path);
    fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
}

/// All files below `folder`, sorted, as paths relative to the root.
pub fn files(folder: &str) -> Result<Vec<PathBuf>> {
    let root = root();
    let mut found = Vec::new();
    collect(&root.join(folder), &mut found)?;
    found.sort();
    Ok(found
        .into_iter()
        .filter_map(|path| Some(path.strip_prefix(&root).ok()?.to_owned()))
        .collect())
}

fn collect(folder: &Path, found: &mut Vec<PathBuf>) -> Result<()> {
    let entries =
        fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if NOT_OURS.contains(&&*name) || name.starts_with(".venv") {
            continue;
        }
        if entry.file_type()?.is_dir() {
            collect(&entry.path(), found)?;
        } else {
            found.push(entry.path());
        }
    }
    Ok(())
}

/// The file's name as text.
pub fn name(path: &Path) -> &str {
    path.file_name()
        .and_then(|name| name.to_str())
        .unwrap_or_default()
}
