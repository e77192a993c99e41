//! `docs/attacks.md` and the tests say the same: every row of the page is shown by a test that names it, and every name that a
//! test gives is in the page.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// `F19`: a letter that says where the attack strikes, and a number.
fn is_id(word: &str) -> bool {
    let bytes = word.as_bytes();
    bytes.len() == 3 && b"HFEAX".contains(&bytes[0]) && bytes[1..].iter().all(u8::is_ascii_digit)
}

/// The ids in a text. In the page `F15 to F18` names those in between as well; a test names each, so that a search finds it.
fn ids(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric());
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    let mut found = BTreeSet::new();
    for (at, word) in words.iter().enumerate().filter(|(_, word)| is_id(word)) {
        found.insert((*word).to_owned());
        let range = words.get(at + 1) == Some(&"to");
        if let Some(last) = words.get(at + 2).filter(|last| range && is_id(last)) {
            let number = |id: &str| id[1..].parse::<u8>().expect("two digits");
            let between = number(word)..=number(last);
            found.extend(between.map(|n| format!("{}{n:02}", &word[..1])));
        }
    }
    found
}

/// Doc comments of test functions that begin with `Attack`, and the functions they stand before.
fn claims(source: &str) -> Vec<(BTreeSet<String>, String)> {
    let mut claims = Vec::new();
    let mut comment = String::new();
    let mut is_test = false;
    for line in source.lines().map(str::trim_start) {
        if let Some(text) = line.strip_prefix("///") {
            comment.push_str(text);
        } else if line.starts_with("#[") {
            is_test |= line == "#[test]";
        } else {
            let name = line
                .strip_prefix("fn ")
                .and_then(|rest| rest.split('(').next());
            if let (Some(name), true) = (name, is_test && comment.contains(" Attack")) {
                // What it is about is said first; later words may compare.
                let first = comment.split([':', '.', ';']).next().unwrap_or_default();
                let found = ids(first);
                let unsaid = found.iter().find(|id| !first.contains(id.as_str()));
                assert_eq!(unsaid, None, "of {name} is only meant by a range");
                claims.push((found, name.to_owned()));
            }
            (comment, is_test) = (String::new(), false);
        }
    }
    claims
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("the tests");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let (folders, files): (Vec<_>, Vec<_>) = paths.partition(|path| path.is_dir());
    let below = folders.iter().flat_map(|folder| sources(folder));
    let files = files
        .into_iter()
        .filter(|path| path.extension().is_some_and(|end| end == "rs"));
    files.chain(below).collect()
}

#[test]
fn every_attack_of_the_page_is_shown_and_every_one_shown_is_in_the_page() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut shown: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for path in sources(&root.join("tests")) {
        let source = fs::read_to_string(&path).expect("a source");
        for (ids, test) in claims(&source) {
            assert!(
                !ids.is_empty(),
                "{test} of {} names no attack",
                path.display()
            );
            for id in ids {
                shown.entry(id).or_default().push(test.clone());
            }
        }
    }
    let page = fs::read_to_string(root.join("../../docs/attacks.md")).expect("docs/attacks.md");
    let rows = page.lines().filter(|line| line.starts_with("| "));
    let rows = rows.filter_map(|line| line.split('|').nth(1));
    let promised: BTreeSet<String> = rows.flat_map(ids).collect();
    assert!(promised.len() > 90, "{promised:?}");
    let missing: Vec<_> = promised
        .iter()
        .filter(|id| !shown.contains_key(*id))
        .collect();
    assert!(missing.is_empty(), "no test shows {missing:?}");
    let untold: Vec<_> = shown
        .iter()
        .filter(|(id, _)| !promised.contains(*id))
        .collect();
    assert!(untold.is_empty(), "not in docs/attacks.md: {untold:?}");
}

#[test]
fn ranges_and_lists_name_all_they_mean() {
    let named = |text| ids(text).into_iter().collect::<Vec<_>>().join(" ");
    assert_eq!(named("Attacks H01, H03 to H05 and F9"), "H01 H03 H04 H05");
    let source =
        "/// Attack A01: not A02.\n#[test]\nfn one() {\n}\n/// Attack A03.\nfn none() {}\n";
    let claimed = claims(source);
    assert_eq!(claimed.len(), 1);
    assert_eq!(claimed[0].0.iter().collect::<Vec<_>>(), ["A01"]);
}
