//! `cargo xtask words`: how much there is to read, by page. A report: nothing fails because of it.

use crate::repository;
use anyhow::Result;
use std::path::PathBuf;

/// Folders whose pages people read, besides README.
const FOLDERS: [&str; 4] = ["docs", "sdk", "examples", "deploy"];
const DECISIONS: &str = "decisions";
/// Tables that are made from the code, and records: nobody reads them from beginning to end.
const NOT_COUNTED: [(&str, &str); 5] = [
    ("docs/configuration.md", "generated"),
    ("docs/metrics.md", "generated"),
    ("docs/results/", "results"),
    ("docs/adr/", DECISIONS),
    ("CHANGELOG.md", "history"),
];

/// A page, and why it does not count, if it does not.
pub struct Page {
    pub path: PathBuf,
    pub text: String,
    pub aside: Option<&'static str>,
}

pub fn run() -> Result<()> {
    let pages = pages()?;
    let (aside, counted): (Vec<&Page>, Vec<&Page>) =
        pages.iter().partition(|page| page.aside.is_some());
    for page in &counted {
        println!("{:>7}  {}", words(&page.text), page.path.display());
    }
    println!("{:>7}  in all\n", sum(&counted));
    println!("not counted:");
    let (decisions, others): (Vec<&Page>, Vec<&Page>) = aside
        .into_iter()
        .partition(|page| page.aside == Some(DECISIONS));
    for page in others {
        let (path, why) = (page.path.display(), page.aside.unwrap_or_default());
        println!("{:>7}  {path} ({why})", words(&page.text));
    }
    println!("{:>7}  docs/adr ({DECISIONS})", sum(&decisions));
    Ok(())
}

/// All pages, sorted by path.
pub fn pages() -> Result<Vec<Page>> {
    let mut paths = vec![PathBuf::from("README.md")];
    for folder in FOLDERS {
        let files = repository::files(folder)?.into_iter();
        paths.extend(files.filter(|path| path.extension().is_some_and(|end| end == "md")));
    }
    let page = |path: PathBuf| {
        let name = path.to_string_lossy().into_owned();
        let aside = NOT_COUNTED.iter().find(|(part, _)| name.contains(part));
        let aside = aside.map(|(_, why)| *why);
        let text = repository::read(&name)?;
        Ok(Page { path, text, aside })
    };
    paths.into_iter().map(page).collect()
}

fn sum(pages: &[&Page]) -> usize {
    pages.iter().map(|page| words(&page.text)).sum()
}

/// Words with a letter or a digit, code included. What a command wrote between its marks is left out.
fn words(text: &str) -> usize {
    let mut is_generated = false;
    let mut count = 0;
    for line in text.lines() {
        let mark = line.trim();
        if mark.starts_with("<!--") && mark.contains(":begin ") {
            is_generated = true;
        }
        if !is_generated {
            let words = line.split_whitespace();
            count += words
                .filter(|word| word.contains(char::is_alphanumeric))
                .count();
        }
        if mark.starts_with("<!--") && mark.contains(":end ") {
            is_generated = false;
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_of_tables_are_no_words_and_generated_rows_do_not_count() {
        assert_eq!(words("# A page\n\n| a | b |\n|---|---|\n`let x = 1;`\n"), 7);
        assert_eq!(
            words("one\n<!-- bench:begin x -->\n| two |\n<!-- bench:end -->\nthree\n"),
            2
        );
    }

    #[test]
    fn every_kind_of_page_is_there_once() {
        let pages = pages().expect("pages");
        let is_there = |name: &str| pages.iter().any(|page| page.path.ends_with(name));
        for name in [
            "README.md",
            "docs/README.md",
            "sdk/node/README.md",
            "examples/README.md",
        ] {
            assert!(is_there(name), "{name}");
        }
        for (part, why) in &NOT_COUNTED[..4] {
            let of = |page: &&Page| page.path.to_string_lossy().contains(part);
            assert!(pages.iter().filter(of).all(|page| page.aside == Some(why)));
            assert!(pages.iter().any(|page| of(&page)), "{part} is no page");
        }
    }
}
