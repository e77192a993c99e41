//! The record of commands of a bus that a shard has carried out: another process that reads them again leaves them out.

use crate::bounds::{MARKS_OF_PAGE, NAME_BYTES_MAX};
use crate::unfit::{Unfit, need};
use prost::Message;

/// Numbers in a row of one part of a bus.
#[derive(Clone, PartialEq, Message)]
pub struct Marks {
    /// The bus, who reads it, and the part of it that has numbers of its own.
    #[prost(string, tag = "1")]
    pub source: String,
    /// The first number, divided by how many a page has.
    #[prost(uint64, tag = "2")]
    pub page: u64,
    /// Since one of them was carried out last.
    #[prost(uint64, tag = "3")]
    pub age_ms: u64,
    /// Of each number, when it was written, as shards remember it; 0: it was not carried out.
    #[prost(fixed32, repeated, tag = "4")]
    pub marks: Vec<u32>,
}

impl Marks {
    /// Its bytes in a message.
    pub fn size(&self) -> usize {
        self.encoded_len()
    }

    /// Looks at it.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn check(&self) -> Result<(), Unfit> {
        let fits = (1..=NAME_BYTES_MAX).contains(&self.source.len());
        need(fits, "marks.source", "1 to 65,536 bytes")?;
        let count = self.marks.len();
        need(
            count == MARKS_OF_PAGE,
            format!("marks.marks = {count}"),
            "1,024",
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_a_source_and_all_its_marks() {
        let page = |source: &str, count| Marks {
            source: source.to_owned(),
            marks: vec![1; count],
            ..Marks::default()
        };
        assert_eq!(page("kafka:g:t/0", MARKS_OF_PAGE).check(), Ok(()));
        for (source, count, field) in [
            ("", MARKS_OF_PAGE, "marks.source"),
            ("s", 0, "marks.marks = 0"),
            ("s", 1_025, "marks.marks = 1025"),
        ] {
            let unfit = page(source, count).check().expect_err("it is unfit");
            assert_eq!(unfit.field, field);
        }
    }
}
