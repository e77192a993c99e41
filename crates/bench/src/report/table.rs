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

    /// Header and rows with every cell written by `write` and as wide as its column, `least` at least: labels to the left,
    /// figures to the right.
    pub fn aligned(&self, least: usize, write: fn(&str) -> String) -> Vec<Vec<String>> {
        let rows = std::iter::once(&self.header).chain(&self.rows);
        let written = rows.map(|row| row.iter().map(|cell| write(cell)).collect());
        let mut rows: Vec<Vec<String>> = written.collect();
        for column in 0..self.header.len() {
            let widths = rows.iter().map(|row| row[column].chars().count());
            let width = widths.max().unwrap_or(0).max(least);
            for row in &mut rows {
                let cell = &mut row[column];
                *cell = match column {
                    0 => format!("{cell:<width$}"),
                    _ => format!("{cell:>width$}"),
                };
            }
        }
        rows
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
        for (number, row) in self.aligned(3, escaped).into_iter().enumerate() {
            writeln!(f, "| {} |", row.join(" | "))?;
            if number == 0 {
                let rules = row.iter().map(|cell| "-".repeat(cell.chars().count() + 1));
                writeln!(
                    f,
                    "|{}:|",
                    rules.collect::<Vec<_>>().join(":|").replacen(':', "-", 1)
                )?;
            }
        }
        Ok(())
    }
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
