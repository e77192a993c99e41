//! `cargo xtask style`: sentences and cells that a reader has to read twice. A report: nothing fails because of it.

use crate::words;
use anyhow::Result;

const SENTENCE_WORDS_MAX: usize = 35;
const CELL_WORDS_MAX: usize = 60;
/// A sentence that begins so has a clause where its subject should stand.
const HEADLESS: [&str; 5] = ["Who ", "Whoever ", "What ", "Whatever ", "That which "];

/// Something to rewrite.
#[derive(Debug, PartialEq)]
struct Finding {
    line: usize,
    what: String,
    text: String,
}

/// Text that belongs together, and the line where it begins.
struct Part {
    line: usize,
    text: String,
    is_cell: bool,
}

pub fn run() -> Result<()> {
    let mut all = 0;
    for page in words::pages()? {
        // The reference is made from the table of keys, decisions keep the words of their day.
        if page.aside.is_some_and(|why| why != "results") {
            continue;
        }
        for finding in findings(&page.text) {
            let Finding { line, what, text } = finding;
            println!("{}:{line}: {what}: {text}", page.path.display());
            all += 1;
        }
    }
    println!("{all} places");
    Ok(())
}

fn findings(page: &str) -> Vec<Finding> {
    parts(page).iter().flat_map(of_part).collect()
}

fn of_part(part: &Part) -> Vec<Finding> {
    let finding = |what: String, text: &str| Finding {
        line: part.line,
        what,
        text: beginning(text),
    };
    let mut found = Vec::new();
    let count = count(&part.text);
    if part.is_cell && count > CELL_WORDS_MAX {
        found.push(finding(format!("a cell of {count} words"), &part.text));
    }
    for sentence in sentences(&part.text) {
        let count = self::count(sentence);
        if count > SENTENCE_WORDS_MAX {
            found.push(finding(format!("a sentence of {count} words"), sentence));
        }
        let is_headless = HEADLESS.iter().any(|begin| sentence.starts_with(begin));
        if is_headless && !part.is_cell && sentence.ends_with('.') {
            found.push(finding("no subject".into(), sentence));
        }
    }
    found
}

/// Paragraphs, items of lists and cells, without code blocks, headings and generated lines.
fn parts(page: &str) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::new();
    let (mut in_code, mut is_open, mut is_generated) = (false, false, false);
    for (at, line) in page.lines().enumerate() {
        let line_number = at + 1;
        let text = line.trim();
        if text.starts_with("<!--") {
            is_generated = text.contains(":begin ");
        }
        if is_generated {
            continue;
        }
        if text.starts_with("```") {
            in_code = !in_code;
        }
        let is_text = !in_code && !text.starts_with(['#', '`', '<', '!']);
        if text.starts_with('|') && !in_code {
            let cells = text.trim_matches('|').split(" | ");
            parts.extend(cells.map(|cell| Part {
                line: line_number,
                text: plain(cell),
                is_cell: true,
            }));
            is_open = false;
        } else if text.is_empty() || !is_text && in_code {
            is_open = false;
        } else if is_open && !is_item(text) {
            if let Some(last) = parts.last_mut() {
                last.text = format!("{} {}", last.text, plain(text));
            }
        } else if is_text || text.starts_with('`') && !text.starts_with("```") {
            parts.push(Part {
                line: line_number,
                text: plain(text.trim_start_matches(['*', '-', ' '])),
                is_cell: false,
            });
            is_open = true;
        }
    }
    parts
}

fn is_item(text: &str) -> bool {
    let number = text.trim_start_matches(|c: char| c.is_ascii_digit());
    text.starts_with("* ")
        || text.starts_with("- ")
        || number.len() < text.len() && number.starts_with(". ")
}

/// Code counts as one word, and a link as its text.
fn plain(text: &str) -> String {
    let mut spans = text.split('`').enumerate().map(|(at, span)| match at % 2 {
        0 => span.to_owned(),
        _ => "`x`".to_owned(),
    });
    let mut text = spans.next().unwrap_or_default();
    text.extend(spans);
    let mut out = String::new();
    let mut rest = text.as_str();
    while let Some((before, after)) = rest.split_once("](") {
        out += before;
        rest = after.split_once(')').map_or("", |(_, rest)| rest);
    }
    out += rest;
    out.replace(['[', '*'], "")
}

fn sentences(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut begin = 0;
    for (at, _) in text.match_indices(['.', '?', '!']) {
        let rest = &text[at + 1..];
        let ends = rest.starts_with(' ') || rest.starts_with(") ") || rest.is_empty();
        if ends && at >= begin {
            found.push(text[begin..=at].trim());
            begin = at + 1;
        }
    }
    found.push(text[begin..].trim());
    found.retain(|sentence| sentence.contains(char::is_alphanumeric));
    found
}

fn count(text: &str) -> usize {
    let words = text.split_whitespace();
    words
        .filter(|word| word.contains(char::is_alphanumeric))
        .count()
}

fn beginning(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().take(9).collect();
    words.join(" ") + " …"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(page: &str) -> Vec<String> {
        let found = findings(page).into_iter();
        found
            .map(|one| format!("{}: {}", one.line, one.what))
            .collect()
    }

    #[test]
    fn a_sentence_over_two_lines_is_one() {
        let half = "word ".repeat(18);
        assert_eq!(
            told(&format!("{half}\n{half}.\n")),
            ["1: a sentence of 36 words"]
        );
        assert_eq!(told(&format!("{half}.\n{half}.\n")), [""; 0]);
        assert_eq!(told(&format!("* {half}\n* {half}\n")), [""; 0]);
        let code = format!("`{half}{half}`");
        assert_eq!(
            told(&format!("{code} is one word.\n\n```\n{half}{half}\n```\n")),
            [""; 0]
        );
    }

    #[test]
    fn cells_are_counted_for_themselves() {
        let cell = "One two three. ".repeat(21);
        let page = format!("| a | {cell} |\n|---|---|\n");
        assert_eq!(told(&page), ["1: a cell of 63 words"]);
    }

    #[test]
    fn what_a_command_wrote_is_not_judged() {
        let long = "word ".repeat(40);
        let page =
            format!("<!-- bench:begin x -->\n{long}.\n<!-- bench:end -->\nWhat is it: a test.\n");
        assert_eq!(told(&page), ["4: no subject"]);
    }

    #[test]
    fn questions_may_begin_with_who() {
        assert_eq!(told("Who comes, gets tea.\n"), ["1: no subject"]);
        assert_eq!(told("Who comes?\n\nA guest gets tea.\n"), [""; 0]);
    }
}
