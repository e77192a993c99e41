//! Owns the report as one HTML file that needs nothing else: style, plots and the script for
//! values under the pointer stand in the page.

use super::document::{Badge, Block, Document, Section, Verdict};
use super::plot::{self, Plot, Use};
use super::table::Table;
use std::fmt::Write;

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");
/// Plots stand beside each other at this width, or alone on a phone: their text is readable at both.
const PLOT_WIDTH: u32 = 460;

/// The whole page.
pub fn page(document: &Document) -> String {
    let mut out = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/>\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\
         <meta name=\"color-scheme\" content=\"light dark\"/>\
         <title>{}</title>\n<style>\n{STYLE}{}</style></head>\n<body><main>\n",
        escape(&document.title),
        plot::STYLE
    );
    write_header(&mut out, document);
    write_tiles(&mut out, &document.tiles);
    for section in &document.sections {
        write_section(&mut out, section);
    }
    out.push_str("<footer>");
    for line in &document.origin {
        // Writing to a String cannot fail, here and below.
        let _ = write!(out, "<p>{}</p>", escape(line));
    }
    let _ = write!(
        out,
        "</footer>\n</main>\n<script>\n{SCRIPT}</script></body></html>\n"
    );
    out
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

fn write_header(out: &mut String, document: &Document) {
    let _ = write!(out, "<header><h1>{}</h1>", escape(&document.title));
    if !document.description.is_empty() {
        let _ = write!(
            out,
            "<p class=\"lead\">{}</p>",
            escape(&document.description)
        );
    }
    out.push_str("<p class=\"badges\">");
    for Badge { text, is_warning } in &document.badges {
        let class = if *is_warning {
            "badge warning"
        } else {
            "badge"
        };
        let _ = write!(out, "<span class=\"{class}\">{}</span> ", escape(text));
    }
    out.push_str("</p></header>\n");
    write_verdict(out, &document.verdict);
}

fn write_verdict(out: &mut String, verdict: &Verdict) {
    let word = verdict.level.word();
    let _ = write!(
        out,
        "<section class=\"verdict {}\"><p class=\"headline\"><strong>{word}</strong> {}</p>",
        word.to_lowercase(),
        escape(&verdict.headline)
    );
    if !verdict.reasons.is_empty() {
        out.push_str("<ul>");
        for reason in &verdict.reasons {
            let _ = write!(out, "<li>{}</li>", escape(reason));
        }
        out.push_str("</ul>");
    }
    out.push_str("</section>\n");
}

fn write_tiles(out: &mut String, tiles: &[(String, String)]) {
    if tiles.is_empty() {
        return;
    }
    out.push_str("<dl class=\"tiles\">");
    for (name, figure) in tiles {
        let (name, figure) = (escape(name), escape(figure));
        let _ = write!(out, "<div><dt>{name}</dt><dd>{figure}</dd></div>");
    }
    out.push_str("</dl>\n");
}

fn write_section(out: &mut String, section: &Section) {
    let class = if section.is_half {
        " class=\"half\""
    } else {
        ""
    };
    let _ = writeln!(out, "<section{class}><h2>{}</h2>", escape(&section.title));
    for block in &section.blocks {
        match block {
            Block::Text(text) => {
                let _ = writeln!(out, "<p class=\"note\">{}</p>", escape(text));
            }
            Block::Refusal(text) => {
                let text = escape(text);
                let _ = writeln!(
                    out,
                    "<p class=\"refusal\"><strong>Not shown:</strong> {text}</p>"
                );
            }
            Block::Table(table) => write_table(out, table),
            Block::Plots(plots) => write_plots(out, plots),
        }
    }
    out.push_str("</section>\n");
}

fn write_plots(out: &mut String, plots: &[Plot]) {
    out.push_str("<div class=\"plots\">\n");
    for plot in plots {
        let svg = plot.svg(PLOT_WIDTH, Use::Inline);
        let _ = writeln!(out, "<figure id=\"{}\">{svg}</figure>", plot.id);
    }
    out.push_str("</div>\n");
}

fn write_table(out: &mut String, table: &Table) {
    out.push_str("<div class=\"scroll\"><table><thead><tr>");
    for cell in table.header() {
        let _ = write!(out, "<th scope=\"col\">{}</th>", escape(cell));
    }
    out.push_str("</tr></thead><tbody>\n");
    for row in table.rows() {
        out.push_str("<tr>");
        for (column, cell) in row.iter().enumerate() {
            let cell = escape(cell);
            let _ = match column {
                0 => write!(out, "<th scope=\"row\">{cell}</th>"),
                _ => write!(out, "<td>{cell}</td>"),
            };
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table></div>\n");
}
