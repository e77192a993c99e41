//! Parts that a node cannot do without: others wait for what they say. When one of them ends, by a panic or by itself, the node ends.

use std::sync::{Arc, OnceLock};

/// The parts of a node, as far as they have ended.
#[derive(Clone, Debug, Default)]
pub struct Vitals(Arc<OnceLock<&'static str>>);

/// A part lives as long as it holds this.
#[derive(Debug)]
pub struct Pulse {
    vitals: Vitals,
    part: &'static str,
    may_end: bool,
}

impl Vitals {
    pub fn pulse(&self, part: &'static str) -> Pulse {
        let vitals = self.clone();
        Pulse {
            vitals,
            part,
            may_end: false,
        }
    }

    /// The part that ended first.
    pub fn ended(&self) -> Option<&'static str> {
        self.0.get().copied()
    }
}

impl Pulse {
    /// The part has done all that it was for.
    pub fn rest(mut self) {
        self.may_end = true;
    }
}

impl Drop for Pulse {
    fn drop(&mut self) {
        if !self.may_end {
            let _ = self.vitals.0.set(self.part);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_part_that_panics_or_returns_is_missed_and_one_that_is_done_is_not() {
        let vitals = Vitals::default();
        let pulse = vitals.pulse("a call");
        tokio::spawn(async move { pulse.rest() })
            .await
            .expect("done");
        assert_eq!(vitals.ended(), None);
        let pulse = vitals.pulse("a driver");
        let driver = tokio::spawn(async move {
            let _pulse = pulse;
            panic!("a bug");
        });
        assert!(driver.await.is_err());
        drop(vitals.pulse("a listener"));
        assert_eq!(vitals.ended(), Some("a driver"));
    }
}
