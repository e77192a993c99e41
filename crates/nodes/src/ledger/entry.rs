//! One order as Redis has it: `run DIGEST TOKEN BEAT`, `end DIGEST TOKEN ANSWER`, or `lost DIGEST TOKEN `.

use super::token::Token;

/// An entry that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry<'a> {
    state: &'a str,
    digest: &'a str,
    token: &'a str,
    rest: &'a str,
}

const RUN: &str = "run";
const END: &str = "end";
const LOST: &str = "lost";

impl<'a> Entry<'a> {
    pub(super) fn read(text: &'a str) -> Option<Self> {
        let mut words = text.splitn(4, ' ');
        let entry = Self {
            state: words.next()?,
            digest: words.next()?,
            token: words.next()?,
            rest: words.next()?,
        };
        [RUN, END, LOST].contains(&entry.state).then_some(entry)
    }

    pub(super) fn digest(&self) -> &'a str {
        self.digest
    }

    pub(super) fn token(&self) -> &'a str {
        self.token
    }

    pub(super) fn is_running(&self) -> bool {
        self.state == RUN
    }

    pub(super) fn is_lost(&self) -> bool {
        self.state == LOST
    }

    pub(super) fn answer(&self) -> Option<&'a str> {
        (self.state == END).then_some(self.rest)
    }

    /// The same order, of which nobody knows more.
    pub(super) fn lost(&self) -> String {
        format!("{LOST} {} {} ", self.digest, self.token)
    }
}

impl Entry<'_> {
    /// What all entries of an order under way begin with.
    pub(super) fn run(digest: &str, token: &Token) -> String {
        format!("{RUN} {digest} {token} ")
    }

    pub(super) fn running(digest: &str, token: &Token, beat: u64) -> String {
        format!("{}{beat}", Self::run(digest, token))
    }

    pub(super) fn ended(digest: &str, token: &Token, answer: &str) -> String {
        format!("{END} {digest} {token} {answer}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_read_as_it_was_written() {
        let token = Token::new(255, 1);
        let running = Entry::running("d1", &token, 7);
        let entry = Entry::read(&running).expect("an entry");
        assert!(entry.is_running() && entry.answer().is_none());
        assert_eq!((entry.digest(), entry.token()), ("d1", "ff.1"));
        let ended = Entry::ended("d1", &token, "{\"a b\": 1}");
        let entry = Entry::read(&ended).expect("an entry");
        assert_eq!(entry.answer(), Some("{\"a b\": 1}"));
        let lost = entry.lost();
        assert!(Entry::read(&lost).expect("an entry").is_lost());
        for strange in ["", "run", "run a b", "nothing of ours at all"] {
            assert_eq!(Entry::read(strange), None, "{strange:?}");
        }
    }
}
