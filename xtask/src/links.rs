//! Links between documents: each relative link names a file and a heading in it, the index of decisions names each decision, that of
//! the pages each page.

use crate::repository;
use anyhow::Result;
use std::path::{Path, PathBuf};

const DECISIONS: &str = "docs/adr/README.md";
const PAGES: &str = "docs/README.md";

/// A sentence for each link that leads nowhere, each decision and each page that its index leaves out.
pub fn broken() -> Result<Vec<String>> {
    let mut broken = Vec::new();
    for page in pages()?.into_iter().chain(guides()?) {
        let text = repository::read(&page.to_string_lossy())?;
        for link in links(&text) {
            broken.extend(astray(&page, link)?);
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

/// The pages beside what they describe.
fn guides() -> Result<Vec<PathBuf>> {
    let mut guides = Vec::new();
    for folder in ["sdk", "examples", "deploy"] {
        guides.extend(repository::files(folder)?);
    }
    guides.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    Ok(guides)
}

/// What is wrong with a link of a page, if its file or its heading is not there.
fn astray(page: &Path, link: &str) -> Result<Option<String>> {
    let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
    let path = match file {
        "" => page.to_owned(),
        file => page.parent().unwrap_or(Path::new("")).join(file),
    };
    if !repository::root().join(&path).exists() {
        return Ok(Some(format!("{}: no such file: {file}", page.display())));
    }
    let is_page = path.extension().is_some_and(|extension| extension == "md");
    if anchor.is_empty() || !is_page {
        return Ok(None);
    }
    let known = anchors(&repository::read(&path.to_string_lossy())?);
    let is_known = known.iter().any(|name| name == anchor);
    Ok((!is_known).then(|| format!("{}: no such heading: {link}", page.display())))
}

/// Names of a page's headings in addresses, and those that it gives itself. A heading whose name is taken has a number behind it.
fn anchors(text: &str) -> Vec<String> {
    let mut found: Vec<(String, usize)> = Vec::new();
    let headings = prose(text).into_iter().filter(|line| line.starts_with('#'));
    for heading in headings {
        let words = heading.trim_start_matches('#').trim().to_lowercase();
        let kept = words
            .chars()
            .filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        let name = kept.collect::<String>().replace(' ', "-");
        let before = found.iter().filter(|(known, _)| *known == name).count();
        found.push((name, before));
    }
    let numbered = found.into_iter().map(|(name, before)| match before {
        0 => name,
        _ => format!("{name}-{before}"),
    });
    let lines = prose(text).into_iter();
    let given = lines.flat_map(|line| line.split("<a id=\"").skip(1));
    let given = given.filter_map(|rest| rest.split('"').next());
    numbered.chain(given.map(str::to_owned)).collect()
}

/// The lines that are not of code blocks.
fn prose(text: &str) -> Vec<&str> {
    let mut in_code = false;
    let mut found = Vec::new();
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
        }
        if !in_code {
            found.push(line);
        }
    }
    found
}

/// What a page links to in this repository.
fn links(text: &str) -> Vec<&str> {
    let lines = prose(text).into_iter();
    let links = lines.flat_map(|line| line.split("](").skip(1));
    let links = links.filter_map(|rest| rest.split(')').next());
    links
        .filter(|link| !link.contains("://") && !link.starts_with("mailto:"))
        .collect()
}

/// Files that a page links to, without the part behind `#`.
fn targets(text: &str) -> Vec<&str> {
    let links = links(text).into_iter();
    let files = links.filter_map(|link| link.split('#').next());
    files.filter(|file| !file.is_empty()).collect()
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

    /// A merge lost a section of docs/protocol.md, and two pages linked to it all the same.
    #[test]
    fn a_link_to_a_heading_that_is_gone_is_found() {
        let page = "# One page\n```\n# no heading\n```\n## It's `here`\n## Twice\n## Twice\n<a id=\"place\"></a>\n";
        assert_eq!(
            anchors(page),
            ["one-page", "its-here", "twice", "twice-1", "place"]
        );
        let of = |link: &str| astray(Path::new("docs/README.md"), link).expect("readable");
        assert_eq!(of("protocol.md#coming-back"), None);
        assert_eq!(of("#start"), None);
        let gone = of("protocol.md#coming-home").expect("a sentence");
        assert_eq!(
            gone,
            "docs/README.md: no such heading: protocol.md#coming-home"
        );
        let gone = of("nowhere.md#start").expect("a sentence");
        assert_eq!(gone, "docs/README.md: no such file: nowhere.md");
    }

    #[test]
    fn decisions_13_and_14_were_missing_from_the_index() {
        let index = "| [1](0001-a.md) | A |\n";
        let names = ["0001-a.md", "0002-b.md", "README.md", "plot.svg"].map(str::to_owned);
        let missing = unlisted(DECISIONS, index, &names);
        assert_eq!(missing, [format!("{DECISIONS}: does not list 0002-b.md")]);
    }
}
