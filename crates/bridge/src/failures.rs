//! The last failures of something that is called, written to or read, for operators: what went wrong, and what was said when it did. Bounded in
//! number and bytes; what was said is forgotten after a while.

use crate::bounds::{
    BODIES_BYTES_MAX, BODIES_KEPT, BODY_BYTES_MAX, FAILURES_MAX, NOTED_MAX, TEXT_CHARS_MAX,
};
use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// An event of this name has a signed address: whoever has it may read what is there.
const SECRET: &[u8] = b"large_message";
const SECOND: Duration = Duration::from_secs(1);

/// Something that failed.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Unix time, milliseconds.
    pub at_ms: u64,
    /// Such as `call failed`.
    pub what: &'static str,
    /// As in the log. It may quote what was said.
    pub detail: String,
    /// The request, and the answer if there was one.
    pub said: Vec<Said>,
    noted: Instant,
}

/// Something that was said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    /// `request`, `answer`, `event` or `record`.
    pub part: &'static str,
    /// Names that belong to it, such as that of an event.
    pub names: String,
    /// Bytes of its body.
    pub bytes: usize,
    /// The first 4 KiB of the body, or less where there were many; `None`: they are not kept any more.
    pub body: Option<Arc<[u8]>>,
}

impl Said {
    /// With a body that is here in whole.
    pub fn new(part: &'static str, names: &str, body: &[u8]) -> Self {
        Self::part_of(part, names, body, body.len())
    }

    /// With the beginning of a body.
    pub fn part_of(part: &'static str, names: &str, body: &[u8], bytes: usize) -> Self {
        let is_secret = body.windows(SECRET.len()).any(|part| part == SECRET);
        Self {
            body: (!is_secret).then(|| body[..body.len().min(BODY_BYTES_MAX)].into()),
            ..Self::without_body(part, names, bytes)
        }
    }

    /// Its body is not kept.
    pub fn without_body(part: &'static str, names: &str, bytes: usize) -> Self {
        Self {
            part,
            names: cut(names),
            bytes,
            body: None,
        }
    }

    fn kept_bytes(&self) -> usize {
        self.body.as_ref().map_or(0, |body| body.len())
    }
}

/// The last ones. Shared by those who note them.
#[derive(Default)]
pub struct Failures(Mutex<Kept>);

impl fmt::Debug for Failures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Failures").finish_non_exhaustive()
    }
}

#[derive(Default)]
struct Kept {
    /// The newest first.
    all: VecDeque<Failure>,
    /// When the second began, and how many of each kind came in it.
    second: Option<(Instant, Vec<(&'static str, u32)>)>,
}

impl Failures {
    /// Something failed, and nothing was said.
    pub fn note(&self, what: &'static str, detail: &str) {
        self.note_said(what, detail, Vec::new);
    }

    /// Something failed. What was said is asked for only if it is kept.
    pub fn note_said(&self, what: &'static str, detail: &str, said: impl FnOnce() -> Vec<Said>) {
        let mut kept = self.kept();
        if !kept.admits(what) {
            return;
        }
        kept.make_room();
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        kept.all.push_front(Failure {
            at_ms: since.map_or(0, |since| since.as_millis() as u64),
            what,
            detail: cut(detail),
            said: said(),
            noted: Instant::now(),
        });
        kept.forget();
    }

    /// To be called now and then: bodies that are old go also where nothing fails any more.
    pub fn pass_time(&self) {
        self.kept().forget();
    }

    /// The newest first.
    pub fn newest(&self) -> Vec<Failure> {
        let mut kept = self.kept();
        kept.forget();
        kept.all.iter().cloned().collect()
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn admits(&mut self, what: &'static str) -> bool {
        let now = Instant::now();
        let is_over = |began: Instant| now.saturating_duration_since(began) >= SECOND;
        let second = self.second.take().filter(|(began, _)| !is_over(*began));
        let (_, counts) = self.second.insert(second.unwrap_or((now, Vec::new())));
        match counts.iter_mut().find(|(kind, _)| *kind == what) {
            Some((_, count)) => {
                *count = count.saturating_add(1);
                *count <= NOTED_MAX
            }
            None => {
                counts.push((what, 1));
                true
            }
        }
    }

    /// For one more. The kind that has most loses its oldest: a message lost is seen among thousands that are no commands.
    fn make_room(&mut self) {
        if self.all.len() < FAILURES_MAX {
            return;
        }
        let count = |what: &str| self.all.iter().filter(|one| one.what == what).count();
        let most = self.all.iter().max_by_key(|one| count(one.what));
        let most = most.map(|one| one.what);
        let oldest = self.all.iter().rposition(|one| Some(one.what) == most);
        if let Some(at) = oldest {
            self.all.remove(at);
        }
    }

    /// Bodies that are old, and the oldest of too many.
    fn forget(&mut self) {
        let mut bytes = 0;
        for failure in &mut self.all {
            let is_old = failure.noted.elapsed() > BODIES_KEPT;
            for said in &mut failure.said {
                bytes += said.kept_bytes();
                if is_old || bytes > BODIES_BYTES_MAX {
                    said.body = None;
                }
            }
        }
    }
}

fn cut(text: &str) -> String {
    text.chars().take(TEXT_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body_bytes(failures: &Failures) -> usize {
        let all = failures.newest();
        let said = all.iter().flat_map(|failure| &failure.said);
        said.map(Said::kept_bytes).sum()
    }

    #[test]
    fn the_last_failures_are_kept_and_none_is_long() {
        let failures = Failures::default();
        for n in 0..50 {
            failures.kept().second = None;
            let text = format!("{n} {}", "x".repeat(5_000));
            let said = || {
                let body = vec![b'y'; 1 << 20];
                vec![
                    Said::new("request", &text, &body),
                    Said::new("answer", "", &body),
                ]
            };
            failures.note_said("call failed", &text, said);
        }
        let newest = failures.newest();
        assert_eq!((newest.len(), newest[0].detail.len()), (20, 300));
        assert!(newest[0].detail.starts_with("49 "), "{newest:?}");
        let [request, answer] = &newest[0].said[..] else {
            panic!("{newest:?}");
        };
        assert_eq!((request.names.len(), request.bytes), (300, 1 << 20));
        assert_eq!(answer.kept_bytes(), BODY_BYTES_MAX);
        // Sizes stay where bodies had no room.
        assert_eq!(body_bytes(&failures), BODIES_BYTES_MAX);
        let oldest = &newest[19].said[0];
        assert_eq!((oldest.body.as_ref(), oldest.bytes), (None, 1 << 20));
    }

    #[test]
    fn thousands_in_a_second_cost_nothing_and_the_first_of_them_stay() {
        let failures = Failures::default();
        // A machine that stands still makes no new second of it.
        failures.kept().second = Some((Instant::now() + SECOND * 60, Vec::new()));
        let mut asked = 0;
        for n in 0..5_000 {
            failures.note_said("event lost", &n.to_string(), || {
                asked += 1;
                vec![Said::new("event", "chat", b"[1]")]
            });
        }
        assert_eq!(asked, NOTED_MAX);
        assert_eq!(failures.newest()[9].detail, "0");
    }

    #[test]
    fn a_kind_that_fails_often_hides_none_that_fails_rarely() {
        let failures = Failures::default();
        let flood = || {
            failures.kept().second = None;
            for n in 0..100 {
                failures.note("no command", &n.to_string());
            }
        };
        flood();
        failures.note("message lost", "the first");
        (0..9).for_each(|_| flood());
        failures.note("message lost", "the last");
        let newest = failures.newest();
        let lost = newest.iter().filter(|one| one.what == "message lost");
        let lost: Vec<&str> = lost.map(|one| &*one.detail).collect();
        assert_eq!(
            (newest.len(), lost),
            (FAILURES_MAX, vec!["the last", "the first"])
        );
        assert_eq!(newest[1].detail, "9");
    }

    #[test]
    fn what_was_said_is_forgotten_and_the_failure_is_not() {
        let failures = Failures::default();
        failures.note_said("call failed", "503", || {
            vec![Said::new("answer", "", b"no")]
        });
        assert_eq!(body_bytes(&failures), 2);
        let before = Instant::now().checked_sub(BODIES_KEPT + Duration::from_secs(1));
        // A machine that has just begun has no such time.
        if let Some(before) = before {
            failures.kept().all[0].noted = before;
            failures.pass_time();
            assert_eq!(failures.kept().all[0].said[0].kept_bytes(), 0);
            assert_eq!(failures.newest()[0].said[0].bytes, 2);
        }
    }
}
