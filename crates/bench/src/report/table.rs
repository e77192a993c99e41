//! Owns one table: rows of text, drawn as aligned Markdown.

use std::fmt;

#[derive(Clone, Debug)]
pub struct Table {
    header: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub fn new(header: Vec<impl Into<String>>) -> Self {
        Table {
            header: header.into_iter().map(Into::into).collect(),
            rows: Vec::new(),
        }
    }

    pub fn of(
        header: impl IntoIterator<Item = impl Into<String>>,
        rows: impl IntoIterator<Item = Vec<String>>,
    ) -> Self {
        let mut table = Table::new(header.into_iter().collect());
        rows.into_iter().for_each(|row| table.push(row));
        table
    }

    pub fn push(&mut self, row: Vec<String>) {
        debug_assert_eq!(row.len(), self.header.len());
        self.rows.push(row);
    }

    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub fn header(&self) -> &[String] {
        &self.header
    }

    pub fn rows(&self) -> &[Vec<String>] {
        &self.rows
    }

    fn widths(&self) -> Vec<usize> {
        let mut widths = vec![3; self.header.len()];
        for row in self.rows.iter().chain([&self.header]) {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(escaped(cell).chars().count());
            }
        }
        widths
    }
}

/// Text that stays on its line and cannot move a cursor: names come from scenario files, reasons
/// from servers.
pub fn one_line(text: &str) -> String {
    let cleaned = text.chars().map(|c| match c {
        '\n' => ' ',
        c if c.is_control() => '\u{fffd}',
        c => c,
    });
    cleaned.collect()
}

/// The same for Markdown: neither a cell's end nor HTML.
pub fn escaped(text: &str) -> String {
    one_line(text).replace('|', "\\|").replace('<', "\\<")
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let widths = self.widths();
        write_row(f, &self.header, &widths)?;
        for (column, width) in widths.iter().enumerate() {
            // Labels to the left, figures to the right.
            let end = if column == 0 { "-" } else { ":" };
            write!(f, "|{}{end}", "-".repeat(width + 1))?;
        }
        writeln!(f, "|")?;
        self.rows
            .iter()
            .try_for_each(|row| write_row(f, row, &widths))
    }
}

fn write_row(f: &mut fmt::Formatter<'_>, row: &[String], widths: &[usize]) -> fmt::Result {
    for (column, (cell, &width)) in row.iter().zip(widths).enumerate() {
        let cell = escaped(cell);
        match column {
            0 => write!(f, "| {cell:<width$} ")?,
            _ => write!(f, "| {cell:>width$} ")?,
        }
    }
    writeln!(f, "|")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_line_up() {
        let mut table = Table::new(vec!["", "a"]);
        table.push(vec!["row".into(), "1,000".into()]);
        assert_eq!(
            table.to_string(),
            "|     |     a |\n|-----|------:|\n| row | 1,000 |\n"
        );
    }

    #[test]
    fn a_cell_stays_in_its_cell() {
        let mut table = Table::new(vec!["name", "a"]);
        table.push(vec!["a|b\n<b>\u{1b}[2J".into(), "1".into()]);
        assert_eq!(
            table.to_string(),
            "| name          |   a |\n|---------------|----:|\n| a\\|b \\<b>\u{fffd}[2J |   1 |\n"
        );
    }
}
