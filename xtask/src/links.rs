//! Links between documents: each relative link names a file, the index of decisions names each decision, that of the pages each page.

use crate::repository;
use anyhow::Result;
use std::path::{Path, PathBuf};

const DECISIONS: &str = "docs/adr/README.md";
const PAGES: &str = "docs/README.md";

/// A sentence for each link that leads nowhere, each decision and each page that its index leaves out.
pub fn broken() -> Result<Vec<String>> {
    let mut broken = Vec::new();
    for page in pages()? {
        let text = repository::read(&page.to_string_lossy())?;
        let folder = page.parent().unwrap_or(Path::new(""));
        for target in targets(&text) {
            if !repository::root().join(folder).join(target).exists() {
                broken.push(format!("{}: no such file: {target}", page.display()));
            }
        }
    }
    let folders = [
        (DECISIONS, "docs/adr", ""),
        (PAGES, "docs", ""),
        (PAGES, "docs/results", "results/"),
    ];
    for (index, folder, prefix) in folders {
        let files = repository::files(folder)?;
        let own = files.iter();
        let own = own.filter(|path| path.parent() == Some(Path::new(folder)));
        let names: Vec<String> = own
            .map(|path| format!("{prefix}{}", repository::name(path)))
            .collect();
        broken.extend(unlisted(index, &repository::read(index)?, &names));
    }
    Ok(broken)
}

/// The pages at the root and all pages below `docs`.
pub fn pages() -> Result<Vec<PathBuf>> {
    let mut pages = repository::files("docs")?;
    for entry in std::fs::read_dir(repository::root())? {
        pages.push(PathBuf::from(entry?.file_name()));
    }
    pages.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    Ok(pages)
}

/// Files that a page links to, without the part behind `#`. Code blocks have no links.
fn targets(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut in_code = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
        }
        if in_code {
            continue;
        }
        let links = line.split("](").skip(1);
        let links = links.filter_map(|rest| rest.split(')').next());
        found.extend(links.filter_map(file_of));
    }
    found
}

fn file_of(link: &str) -> Option<&str> {
    let file = link.split('#').next()?;
    let elsewhere = link.contains("://") || link.starts_with("mailto:");
    (!file.is_empty() && !elsewhere).then_some(file)
}

fn unlisted(index: &str, text: &str, names: &[String]) -> Vec<String> {
    let listed = targets(text);
    let pages = names.iter().filter(|name| name.ends_with(".md"));
    let missing = pages.filter(|name| *name != "README.md" && !listed.contains(&name.as_str()));
    missing
        .map(|name| format!("{index}: does not list {name}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_of_documents_lead_somewhere() {
        let broken = broken().expect("readable");
        assert!(broken.is_empty(), "{}", broken.join("\n"));
        assert!(
            pages()
                .expect("readable")
                .contains(&PathBuf::from("README.md"))
        );
    }

    #[test]
    fn files_are_told_from_addresses_and_code() {
        let page = "[a](b.md#c), ![d](e/f.svg) [g](https://h) [i](#j)\n```\n[k](l.md)\n```\n";
        assert_eq!(targets(page), ["b.md", "e/f.svg"]);
    }

    #[test]
    fn decisions_13_and_14_were_missing_from_the_index() {
        let index = "| [1](0001-a.md) | A |\n";
        let names = ["0001-a.md", "0002-b.md", "README.md", "plot.svg"].map(str::to_owned);
        let missing = unlisted(DECISIONS, index, &names);
        assert_eq!(missing, [format!("{DECISIONS}: does not list 0002-b.md")]);
    }
}
