//! Findings as a table for people and as JSON for programs.

use super::finding::{Finding, Status};
use serde_json::{Value, json};
use std::fmt::Write as _;
use units::grouped;

#[derive(Debug)]
pub struct Report {
    pub connections: u64,
    pub in_container: bool,
    pub findings: Vec<Finding>,
}

impl Report {
    pub fn worst(&self) -> Status {
        let statuses = self.findings.iter().map(|finding| finding.status);
        statuses.max().unwrap_or(Status::Ok)
    }

    /// 0 ok, 1 warnings, 2 failures.
    pub fn exit_code(&self) -> u8 {
        self.worst() as u8
    }

    /// How many connections are possible as things are, and what keeps them from being more.
    pub fn ceiling(&self) -> Option<(u64, &'static str)> {
        let ceilings = self.findings.iter();
        ceilings
            .filter_map(|finding| Some((finding.ceiling?, finding.name)))
            .min()
    }

    pub fn to_json(&self) -> Value {
        let findings = self.findings.iter().map(|finding| {
            json!({
                "name": finding.name,
                "about": finding.about,
                "value": finding.value,
                "needed": finding.needed,
                "status": finding.status.name(),
                "fix": finding.fix,
                "ceiling": finding.ceiling,
                "note": finding.note,
            })
        });
        let ceiling = self.ceiling();
        json!({
            "connections": self.connections,
            "container": self.in_container,
            "status": self.worst().name(),
            "ceiling": ceiling.map(|(connections, _)| connections),
            "ceiling_of": ceiling.map(|(_, name)| name),
            "findings": findings.collect::<Vec<_>>(),
        })
    }

    /// `colours`: for a terminal that shows them.
    pub fn to_text(&self, colours: bool) -> String {
        let mut out = String::new();
        let place = if self.in_container {
            "this container"
        } else {
            "this machine"
        };
        // Writing to a string does not fail.
        let _ = writeln!(
            out,
            "For {} connections, {place}:\n",
            grouped(self.connections)
        );
        let width = |of: fn(&Finding) -> usize, title: &str| {
            let widths = self.findings.iter().map(of);
            widths.chain([title.len()]).max().unwrap_or_default()
        };
        let name = width(|finding| finding.name.chars().count(), "what");
        let value = width(|finding| finding.value.chars().count(), "is");
        let needed = width(|finding| finding.needed.chars().count(), "needed");
        let _ = writeln!(
            out,
            "        {:name$}  {:value$}  {:needed$}  {:>12}",
            "what", "is", "needed", "allows"
        );
        for finding in &self.findings {
            let allows = finding.ceiling.map_or(String::new(), grouped);
            let mark = mark(finding.status, colours);
            let line = format!(
                "  {mark}  {:name$}  {:value$}  {:needed$}  {allows:>12}",
                finding.name, finding.value, finding.needed
            );
            let _ = writeln!(out, "{}", line.trim_end());
        }
        self.remarks(&mut out, colours);
        self.verdict(&mut out);
        out
    }

    /// What to do, in the order of the table, and what is worth knowing of values that are not as needed.
    fn remarks(&self, out: &mut String, colours: bool) {
        let wrong = |finding: &&Finding| finding.status != Status::Ok;
        if self.findings.iter().any(|finding| wrong(&finding)) {
            out.push_str("\nWhat to do:\n");
        }
        for finding in self.findings.iter().filter(wrong) {
            let mark = mark(finding.status, colours);
            let _ = writeln!(out, "  {mark}  {}: {}", finding.name, finding.about);
            if let Some(fix) = &finding.fix {
                let _ = writeln!(out, "          {fix}");
            }
            if let Some(note) = &finding.note {
                let _ = writeln!(out, "          ({note})");
            }
        }
        let notes = self.findings.iter().filter(|finding| !wrong(finding));
        let notes: Vec<_> = notes
            .filter_map(|finding| Some((finding, finding.note.as_ref()?)))
            .collect();
        if !notes.is_empty() {
            out.push_str("\nGood to know:\n");
        }
        for (finding, note) in notes {
            let _ = writeln!(out, "  {}: {note}", finding.name);
            if let Some(fix) = &finding.fix {
                let _ = writeln!(out, "          {fix}");
            }
        }
    }

    fn verdict(&self, out: &mut String) {
        let count = |status| {
            let matching = self.findings.iter().filter(|f| f.status == status);
            matching.count()
        };
        let ceiling = self.ceiling().map_or(String::new(), |(connections, name)| {
            format!(
                "As things are: {} connections ({name}). ",
                grouped(connections)
            )
        });
        let _ = writeln!(
            out,
            "\n{ceiling}{} ok, {} warn, {} fail.",
            count(Status::Ok),
            count(Status::Warn),
            count(Status::Fail)
        );
    }
}

fn mark(status: Status, colours: bool) -> String {
    let word = format!("{:4}", status.name());
    if !colours {
        return word;
    }
    let colour = match status {
        Status::Ok => 32,
        Status::Warn => 33,
        Status::Fail => 31,
    };
    format!("\u{1b}[{colour}m{word}\u{1b}[0m")
}
