//! Owns the report as one HTML file that needs nothing else: style, plots and the script for
//! values under the pointer stand in the page.

use super::document::{Block, Document, Section};
use super::plot::{self, Plot, Use};
use super::table::Table;
use outcome::verdict::Verdict;

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");
/// Plots stand beside each other at this width, or alone on a phone: their text is readable at both.
const PLOT_WIDTH: u32 = 460;

/// The whole page.
pub fn page(document: &Document) -> String {
    let title = escape(&document.title);
    let tiles = document
        .tiles
        .iter()
        .map(|(name, figure)| tag("div", "", &(text("dt", "", name) + &text("dd", "", figure))));
    let tiles: String = tiles.collect();
    let tiles = match tiles.is_empty() {
        true => tiles,
        false => tag("dl", " class=\"tiles\"", &tiles) + "\n",
    };
    let sections: String = document.sections.iter().map(section).collect();
    let origin: String = document
        .origin
        .iter()
        .map(|line| text("p", "", line))
        .collect();
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/>\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\
         <meta name=\"color-scheme\" content=\"light dark\"/>\
         <title>{title}</title>\n<style>\n{STYLE}{}</style></head>\n<body><main>\n\
         {}{tiles}{sections}<footer>{origin}</footer>\n</main>\n<script>\n{SCRIPT}</script></body></html>\n",
        plot::STYLE,
        header(document),
    )
}

/// An element around what is HTML already.
fn tag(name: &str, attributes: &str, inner: &str) -> String {
    format!("<{name}{attributes}>{inner}</{name}>")
}

/// An element around text.
fn text(name: &str, attributes: &str, text: &str) -> String {
    tag(name, attributes, &escape(text))
}

/// Text as it may stand in elements and attributes. Characters that XML has no place for become
/// visible ones.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' | '\t' => out.push(c),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

fn header(document: &Document) -> String {
    let mut inner = text("h1", "", &document.title);
    if !document.description.is_empty() {
        inner += &text("p", " class=\"lead\"", &document.description);
    }
    let badges = document.badges.iter().map(|badge| {
        let class = match badge.is_warning {
            true => " class=\"badge warning\"",
            false => " class=\"badge\"",
        };
        text("span", class, &badge.text) + " "
    });
    inner += &tag("p", " class=\"badges\"", &badges.collect::<String>());
    tag("header", "", &inner) + "\n" + &verdict(&document.verdict)
}

fn verdict(verdict: &Verdict) -> String {
    let word = verdict.level.word();
    let headline = format!("<strong>{word}</strong> {}", escape(&verdict.headline));
    let mut inner = tag("p", " class=\"headline\"", &headline);
    let reasons: String = verdict
        .reasons
        .iter()
        .map(|why| text("li", "", why))
        .collect();
    if !reasons.is_empty() {
        inner += &tag("ul", "", &reasons);
    }
    let class = format!(" class=\"verdict {}\"", word.to_lowercase());
    tag("section", &class, &inner) + "\n"
}

fn section(section: &Section) -> String {
    let class = if section.is_half {
        " class=\"half\""
    } else {
        ""
    };
    let blocks = section.blocks.iter().map(|block| match block {
        Block::Text(note) => text("p", " class=\"note\"", note),
        Block::Refusal(why) => {
            let why = format!("<strong>Not shown:</strong> {}", escape(why));
            tag("p", " class=\"refusal\"", &why)
        }
        Block::Table(table) => tabular(table),
        Block::Plots(plots) => {
            let plots: String = plots.iter().map(figure).collect();
            tag("div", " class=\"plots\"", &("\n".to_owned() + &plots))
        }
    });
    let blocks: String = blocks.map(|block| block + "\n").collect();
    let title = text("h2", "", &section.title);
    tag("section", class, &format!("{title}\n{blocks}")) + "\n"
}

fn figure(plot: &Plot) -> String {
    let id = format!(" id=\"{}\"", plot.id);
    tag("figure", &id, &plot.svg(PLOT_WIDTH, Use::Inline)) + "\n"
}

fn tabular(table: &Table) -> String {
    let head = table.header().iter();
    let head: String = head
        .map(|cell| text("th", " scope=\"col\"", cell))
        .collect();
    let row = |row: &Vec<String>| {
        let cells = row.iter().enumerate().map(|(column, cell)| match column {
            0 => text("th", " scope=\"row\"", cell),
            _ => text("td", "", cell),
        });
        tag("tr", "", &cells.collect::<String>()) + "\n"
    };
    let rows: String = table.rows().iter().map(row).collect();
    let head = tag("thead", "", &tag("tr", "", &head));
    let body = tag("tbody", "", &("\n".to_owned() + &rows));
    tag(
        "div",
        " class=\"scroll\"",
        &tag("table", "", &(head + &body)),
    )
}
