//! Which rooms are stored, and how much of each.

/// Bounds of one room. What is beyond any of them is removed, oldest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keep {
    /// Number of events.
    pub events: u64,
    /// Bytes of events, as [`crate::Event::bytes`] counts them.
    pub bytes: u64,
    /// Age in ms.
    pub age_ms: u64,
}

/// A row: rooms of a namespace by a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Row {
    namespace: String,
    /// `*` stands for any text.
    pattern: String,
    keep: Keep,
}

/// All rows; the first that fits a room counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    rows: Vec<Row>,
}

impl Plan {
    /// Rows of namespace, pattern of rooms, and bounds.
    pub fn new(rows: impl IntoIterator<Item = (String, String, Keep)>) -> Self {
        let rows = rows.into_iter();
        let rows = rows.map(|(namespace, pattern, keep)| Row {
            namespace,
            pattern,
            keep,
        });
        Self {
            rows: rows.collect(),
        }
    }

    /// The bounds of a room; `None`: it is not stored.
    pub fn of(&self, namespace: &str, room: &str) -> Option<&Keep> {
        let mut rows = self.rows.iter();
        let row = rows.find(|row| row.namespace == namespace && units::fits(&row.pattern, room));
        row.map(|row| &row.keep)
    }

    /// The namespaces that have rows; one may come several times.
    pub fn namespaces(&self) -> impl Iterator<Item = &str> {
        self.rows.iter().map(|row| row.namespace.as_str())
    }

    /// Namespace, pattern of rooms, and bounds of each row.
    pub fn rows(&self) -> impl Iterator<Item = (&str, &str, &Keep)> {
        let rows = self.rows.iter();
        rows.map(|row| (row.namespace.as_str(), row.pattern.as_str(), &row.keep))
    }

    /// What is younger is kept in every room, as far as age matters. In ms.
    pub fn shortest_age_ms(&self) -> u64 {
        let ages = self.rows.iter().map(|row| row.keep.age_ms);
        ages.min().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_row_counts() {
        let keep = |events| Keep {
            events,
            bytes: 1,
            age_ms: events,
        };
        let rows = [("/", "a*", 1), ("/", "*", 2), ("/x", "b", 3)];
        let plan = Plan::new(rows.map(|(ns, room, n)| (ns.to_owned(), room.to_owned(), keep(n))));
        let events = |ns, room| plan.of(ns, room).map(|keep| keep.events);
        assert_eq!(events("/", "ab"), Some(1));
        assert_eq!(events("/", "b"), Some(2));
        assert_eq!(
            (events("/x", "b"), events("/x", "a"), events("/y", "a")),
            (Some(3), None, None)
        );
        assert_eq!(plan.shortest_age_ms(), 1);
    }
}
