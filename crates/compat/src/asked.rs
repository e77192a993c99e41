//! Questions of ours to servers of a dialect, until all have answered that will.
//!
//! Redis tells how many subscribers there are, not which. One may be a ghost: a connection that died unnoticed, or a tool that
//! listens. So a wait ends when all that were counted have answered. It also ends when as many have answered as were heard of in the
//! last seconds, and a second went by in which nobody else did.

use crate::bounds::{OPEN_MAX, PATIENCE_MS};
use std::collections::HashMap;

/// Open questions; `T` is what the driver wants to know of each.
#[derive(Debug)]
pub struct Asked<T> {
    open: HashMap<String, Question<T>>,
}

#[derive(Debug)]
struct Question<T> {
    what: T,
    wait: Wait,
    answered: u64,
    /// Sockets that the servers asked, and those of them that answered.
    sockets: u64,
    acks: u64,
    last_ms: u64,
}

/// How a question ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// Servers that answered.
    pub answered: u64,
    /// Servers that were counted and did not.
    pub silent: u64,
    /// Sockets that were asked and did not answer.
    pub owed: u64,
}

/// What an answer changes.
#[derive(Debug, PartialEq, Eq)]
pub enum Step<T> {
    /// More are to come.
    Open,
    /// It was the last.
    Closed(T, End),
    /// Nobody asked that, or the wait is over.
    Unknown,
}

impl<T> Default for Asked<T> {
    fn default() -> Self {
        Self {
            open: HashMap::new(),
        }
    }
}

/// How many are to answer, and how long it may take.
#[derive(Clone, Copy, Debug)]
pub struct Wait {
    /// Servers that Redis counts, without our own nodes.
    pub expected: u64,
    /// Those that were heard of lately.
    pub heard: u64,
    /// When it ends at the latest.
    pub deadline_ms: u64,
}

impl<T> Asked<T> {
    /// Opens a question. `Err`: nobody is expected to answer, or too many questions are open.
    pub fn open(&mut self, request: String, what: T, wait: Wait, now_ms: u64) -> Result<(), T> {
        if wait.expected == 0 || self.open.len() == OPEN_MAX {
            return Err(what);
        }
        let question = Question {
            what,
            wait,
            answered: 0,
            sockets: 0,
            acks: 0,
            last_ms: now_ms,
        };
        self.open.insert(request, question);
        Ok(())
    }

    /// What is known of an open question.
    pub fn get(&mut self, request: &str) -> Option<&mut T> {
        Some(&mut self.open.get_mut(request)?.what)
    }

    /// A server answered; `sockets` of it will.
    pub fn server(&mut self, request: &str, sockets: u64, now_ms: u64) -> Step<T> {
        self.note(request, now_ms, |question| {
            question.answered += 1;
            question.sockets = question.sockets.saturating_add(sockets);
        })
    }

    /// A socket of a server answered. Its answer may overtake the server's.
    pub fn socket(&mut self, request: &str, now_ms: u64) -> Step<T> {
        self.note(request, now_ms, |question| {
            question.acks += 1;
        })
    }

    fn note(
        &mut self,
        request: &str,
        now_ms: u64,
        change: impl FnOnce(&mut Question<T>),
    ) -> Step<T> {
        let Some(question) = self.open.get_mut(request) else {
            return Step::Unknown;
        };
        change(question);
        question.last_ms = now_ms;
        if question.owed() > 0 || question.answered < question.wait.expected {
            return Step::Open;
        }
        self.close(request)
    }

    fn close(&mut self, request: &str) -> Step<T> {
        let ended = self.open.remove(request).map(Question::end);
        ended.map_or(Step::Unknown, |(what, end)| Step::Closed(what, end))
    }

    /// Ends the waits that are over.
    pub fn expire(&mut self, now_ms: u64) -> Vec<(T, End)> {
        let over = self.open.iter();
        let over = over.filter(|(_, question)| question.is_over(now_ms));
        let over: Vec<String> = over.map(|(request, _)| request.clone()).collect();
        let ended = over.iter().filter_map(|request| self.open.remove(request));
        ended.map(Question::end).collect()
    }

    /// When `expire` is to be called, if nothing happens before.
    pub fn due_ms(&self) -> Option<u64> {
        self.open.values().map(Question::due_ms).min()
    }
}

impl<T> Question<T> {
    fn end(self) -> (T, End) {
        let end = End {
            answered: self.answered,
            silent: self.wait.expected.saturating_sub(self.answered),
            owed: self.owed(),
        };
        (self.what, end)
    }

    fn owed(&self) -> u64 {
        self.sockets.saturating_sub(self.acks)
    }

    fn due_ms(&self) -> u64 {
        match self.answered >= self.wait.heard.max(1) && self.owed() == 0 {
            true => self.wait.deadline_ms.min(self.last_ms + PATIENCE_MS),
            false => self.wait.deadline_ms,
        }
    }

    fn is_over(&self, now_ms: u64) -> bool {
        now_ms >= self.due_ms()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait(expected: u64, heard: u64) -> Wait {
        Wait {
            expected,
            heard,
            deadline_ms: 5_000,
        }
    }

    fn asked(expected: u64, heard: u64) -> Asked<&'static str> {
        let mut asked = Asked::default();
        let opened = asked.open("q".to_owned(), "what", wait(expected, heard), 0);
        assert_eq!(opened, Ok(()));
        asked
    }

    fn end(answered: u64, silent: u64, owed: u64) -> End {
        End {
            answered,
            silent,
            owed,
        }
    }

    #[test]
    fn a_question_ends_with_the_last_answer() {
        let mut asked = asked(2, 2);
        assert_eq!(asked.server("q", 0, 10), Step::Open);
        assert_eq!(asked.server("other", 0, 10), Step::Unknown);
        assert_eq!(asked.server("q", 0, 20), Step::Closed("what", end(2, 0, 0)));
        assert_eq!(asked.server("q", 0, 30), Step::Unknown, "too late");
    }

    #[test]
    fn sockets_are_waited_for_although_their_answers_may_come_first() {
        let mut asked = asked(2, 2);
        assert_eq!(asked.socket("q", 1), Step::Open);
        assert_eq!(asked.server("q", 2, 2), Step::Open);
        assert_eq!(asked.server("q", 0, 3), Step::Open);
        assert_eq!(asked.socket("q", 4), Step::Closed("what", end(2, 0, 0)));
    }

    #[test]
    fn a_subscriber_that_is_no_server_costs_a_second_and_not_the_whole_wait() {
        let mut asked = asked(3, 2);
        assert_eq!(asked.server("q", 0, 10), Step::Open);
        assert_eq!(
            asked.due_ms(),
            Some(5_000),
            "one that is alive owes an answer"
        );
        assert_eq!(asked.server("q", 0, 20), Step::Open);
        assert_eq!(asked.due_ms(), Some(1_020));
        assert_eq!(asked.expire(1_019), []);
        assert_eq!(asked.expire(1_020), [("what", end(2, 1, 0))]);
    }

    #[test]
    fn a_quiet_server_that_answers_within_a_second_is_waited_for() {
        let mut asked = asked(2, 0);
        assert_eq!(asked.server("q", 0, 10), Step::Open);
        assert_eq!(asked.expire(900), []);
        assert_eq!(
            asked.server("q", 0, 950),
            Step::Closed("what", end(2, 0, 0))
        );
    }

    #[test]
    fn silence_ends_at_the_deadline() {
        let mut asked = asked(1, 0);
        assert_eq!(asked.server("q", 5, 10), Step::Open);
        assert_eq!(asked.socket("q", 20), Step::Open);
        assert_eq!(asked.expire(4_999), []);
        assert_eq!(asked.expire(5_000), [("what", end(1, 0, 4))]);
        assert_eq!(asked.due_ms(), None);
    }

    #[test]
    fn a_question_to_nobody_is_not_opened() {
        let mut asked = Asked::default();
        assert_eq!(asked.open("q".to_owned(), 7, wait(0, 3), 0), Err(7));
    }
}
