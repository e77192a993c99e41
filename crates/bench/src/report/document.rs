//! Owns the shape of a report, whatever it is about and wherever it is shown: a verdict, then
//! sections of text, tables and plots. This file writes it as Markdown, which is also what a
//! terminal shows; `html` writes it as a page.

use super::plot::Plot;
use super::table::{Table, escaped};
use outcome::verdict::{Badge, Verdict};
use std::fmt::Write;

#[derive(Clone, Debug)]
pub struct Document {
    pub title: String,
    /// What was run, in a sentence; may be empty.
    pub description: String,
    /// Short facts shown beside the title, the most important first.
    pub badges: Vec<Badge>,
    pub verdict: Verdict,
    /// The figures people look for first, for pages: (name, figure).
    pub tiles: Vec<(String, String)>,
    pub sections: Vec<Section>,
    /// Where the figures come from: machine, date, version.
    pub origin: Vec<String>,
}

#[derive(Clone, Debug)]
pub struct Section {
    pub title: String,
    pub blocks: Vec<Block>,
    /// Two of them stand beside each other where there is room.
    pub is_half: bool,
}

#[derive(Clone, Debug)]
pub enum Block {
    Text(String),
    /// Why something is not shown.
    Refusal(String),
    Table(Table),
    Plots(Vec<Plot>),
}

impl Section {
    pub fn new(title: &str, blocks: Vec<Block>) -> Section {
        Section {
            title: title.into(),
            blocks,
            is_half: false,
        }
    }

    pub fn half(title: &str, blocks: Vec<Block>) -> Section {
        Section {
            is_half: true,
            ..Section::new(title, blocks)
        }
    }
}

impl Document {
    pub fn plots(&self) -> impl Iterator<Item = &Plot> {
        let blocks = self.sections.iter().flat_map(|section| &section.blocks);
        blocks.flat_map(|block| match block {
            Block::Plots(plots) => plots.as_slice(),
            _ => &[],
        })
    }

    /// As Markdown with headings from `level` on. `image` yields the address of a plot's file;
    /// without one (a terminal) plots are left out.
    pub fn markdown(&self, level: usize, image: &dyn Fn(&Plot) -> Option<String>) -> String {
        let hashes = "#".repeat(level);
        // Writing to a String cannot fail, here and below.
        let mut out = format!("{hashes} {}\n\n", escaped(&self.title));
        if !self.description.is_empty() {
            let _ = writeln!(out, "{}\n", escaped(&self.description));
        }
        let badges: Vec<String> = self.badges.iter().map(badge).collect();
        if !badges.is_empty() {
            let _ = writeln!(out, "{}\n", badges.join(" · "));
        }
        let headline = escaped(&self.verdict.headline);
        let _ = writeln!(out, "**{}: {headline}**\n", self.verdict.level.word());
        let reasons = self.verdict.reasons.iter();
        let reasons: String = reasons
            .map(|reason| format!("- {}\n", escaped(reason)))
            .collect();
        if !reasons.is_empty() {
            out += &(reasons + "\n");
        }
        for section in &self.sections {
            section.write_markdown(&mut out, level + 1, image);
        }
        let origin: Vec<String> = self.origin.iter().map(|line| escaped(line)).collect();
        out + &origin.join("\n") + "\n"
    }
}

impl Section {
    fn write_markdown(
        &self,
        out: &mut String,
        level: usize,
        image: &dyn Fn(&Plot) -> Option<String>,
    ) {
        let parts = self.blocks.iter().filter_map(|block| block.markdown(image));
        let parts: Vec<String> = parts.collect();
        if !parts.is_empty() {
            let (hashes, title) = ("#".repeat(level), escaped(&self.title));
            let _ = writeln!(out, "{hashes} {title}\n\n{}\n", parts.join("\n"));
        }
    }
}

impl Block {
    fn markdown(&self, image: &dyn Fn(&Plot) -> Option<String>) -> Option<String> {
        match self {
            Block::Text(text) => Some(escaped(text) + "\n"),
            Block::Refusal(text) => Some(format!("> **Not shown:** {}\n", escaped(text))),
            Block::Table(table) => Some(table.to_string()),
            Block::Plots(plots) => {
                let images = plots.iter().filter_map(|plot| {
                    Some(format!("![{}]({})\n", escaped(&plot.title), image(plot)?))
                });
                let images: Vec<String> = images.collect();
                (!images.is_empty()).then(|| images.join("\n"))
            }
        }
    }
}

fn badge(badge: &Badge) -> String {
    match badge.is_warning {
        true => format!("**{}**", escaped(&badge.text)),
        false => escaped(&badge.text),
    }
}
