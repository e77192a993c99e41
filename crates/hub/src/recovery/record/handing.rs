//! A socket's places in journals as a record for the process that comes next, and back.

use super::{Former, Life};
use handoff::keepsakes as record;

impl Life {
    pub(crate) fn record(&self) -> record::Life {
        let formers = self.formers.iter();
        record::Life {
            begun: self.begun,
            first: self.first,
            confirmed: self.confirmed,
            formers: formers
                .map(|former| record::Former {
                    journal: former.log,
                    places: former.places.clone(),
                })
                .collect(),
        }
    }

    /// The record is believed: `handoff` has checked it.
    pub(crate) fn of_record(record: &record::Life) -> Self {
        let formers = record.formers.iter();
        Self {
            begun: record.begun,
            first: record.first,
            confirmed: record.confirmed,
            formers: formers
                .map(|former| Former {
                    log: former.journal,
                    places: former.places.clone(),
                })
                .collect(),
            deed: None,
        }
    }
}
