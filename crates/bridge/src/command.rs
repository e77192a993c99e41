//! A command: a program asks for it by headers, and the value is passed on as it is.

use crate::bounds::HEADER_BYTES_MAX;
use crate::event::Encoding;
use crate::headers::{self, Operator};
use crate::rights::Rights;
use std::fmt;
use types::Target;

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action<'a> {
    /// Send an event.
    Emit {
        /// Of the body.
        encoding: Encoding,
        /// Sizes of the attachments that stand behind the JSON in the body, as the header has them.
        attachments: Option<&'a str>,
        /// As the record has it.
        body: &'a [u8],
    },
    /// Let sockets join a room.
    Join {
        /// The room.
        room: &'a str,
    },
    /// Let sockets leave a room.
    Leave {
        /// The room.
        room: &'a str,
    },
    /// Disconnect sockets from the namespace.
    Disconnect,
}

/// A record or message of a program, understood and allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command<'a> {
    /// Which sockets.
    pub of: Target,
    /// What to do.
    pub action: Action<'a>,
}

/// Why a record is no command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flaw(String);

impl Flaw {
    /// In words, with the value that is wrong.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Why a command was not handed over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unhandled {
    /// It is none, for this reason: it becomes a dead letter.
    Flaw(String),
    /// Nobody takes it now: it is handed over again after a second, and what stands behind it waits.
    Later,
}

impl From<String> for Unhandled {
    fn from(text: String) -> Self {
        Self::Flaw(text)
    }
}

/// Name and value; a value may be null.
pub type RawHeader<'a> = (&'a str, Option<&'a [u8]>);

impl<'a> Command<'a> {
    /// Reads what somebody with these rights has written. Headers that it does not know have no meaning; one that is null is as good
    /// as missing.
    ///
    /// # Errors
    /// It is no command, or one that the writer has no right to.
    pub fn read(
        rights: &Rights,
        headers: &[RawHeader<'a>],
        value: Option<&'a [u8]>,
    ) -> Result<Self, Flaw> {
        let headers = Read(headers);
        let namespace = headers.optional(headers::NAMESPACE)?.unwrap_or("/");
        if !rights.allows_namespace(namespace) {
            return Err(Flaw::new(format!(
                "{} has no right to the namespace {namespace:?}",
                rights.holder()
            )));
        }
        let word = headers.needed(headers::OPERATOR)?;
        let operator = Operator::from_word(word)
            .ok_or_else(|| unknown(headers::OPERATOR, word, &Operator::ALL.map(Operator::word)))?;
        if !rights.allows(operator) {
            return Err(Flaw::new(format!(
                "{} has no right to the operator {word}",
                rights.holder()
            )));
        }
        let mut of = Target {
            namespace: namespace.to_owned(),
            ..Target::default()
        };
        let action = headers.action(operator, value, &mut of)?;
        Ok(Self { of, action })
    }
}

fn unknown(header: &str, word: &str, known: &[&str]) -> Flaw {
    Flaw::new(format!(
        "the header {header} is {word:?}: known are {}",
        known.join(", ")
    ))
}

struct Read<'h, 'a>(&'h [RawHeader<'a>]);

impl<'a> Read<'_, 'a> {
    fn optional(&self, name: &str) -> Result<Option<&'a str>, Flaw> {
        let mut values = self
            .0
            .iter()
            .filter(|(header, _)| *header == name)
            .filter_map(|(_, value)| *value);
        let Some(value) = values.next() else {
            return Ok(None);
        };
        if values.next().is_some() {
            return Err(Flaw::new(format!("the header {name} stands there twice")));
        }
        if value.is_empty() || value.len() > HEADER_BYTES_MAX {
            return Err(Flaw::new(format!(
                "the header {name} has {} bytes: 1 to {HEADER_BYTES_MAX} are allowed",
                value.len()
            )));
        }
        let text = std::str::from_utf8(value);
        text.map(Some)
            .map_err(|_| Flaw::new(format!("the header {name} is not UTF-8")))
    }

    fn needed(&self, name: &str) -> Result<&'a str, Flaw> {
        self.optional(name)?
            .ok_or_else(|| Flaw::new(format!("the header {name} is missing or null")))
    }

    fn action(
        &self,
        operator: Operator,
        value: Option<&'a [u8]>,
        of: &mut Target,
    ) -> Result<Action<'a>, Flaw> {
        let needed = |name| self.needed(name).map(str::to_owned);
        match operator {
            Operator::Unicast => of.sockets.push(needed(headers::SOCKET)?),
            Operator::User => of.users.push(needed(headers::USER)?),
            Operator::Room => of.rooms.push(needed(headers::ROOM)?),
            Operator::Broadcast => of.all = true,
            Operator::Internal => return self.internal(of),
        }
        let value = value.filter(|value| !value.is_empty());
        Ok(Action::Emit {
            encoding: self.encoding()?,
            attachments: self.optional(headers::ATTACHMENTS)?,
            body: value.ok_or_else(|| Flaw::new("the record has no value: nothing can be sent"))?,
        })
    }

    fn internal(&self, of: &mut Target) -> Result<Action<'a>, Flaw> {
        let word = self.needed(headers::INNER)?;
        self.choose(of)?;
        let room = || self.needed(headers::ROOM);
        match word {
            "join" => Ok(Action::Join { room: room()? }),
            "leave" => Ok(Action::Leave { room: room()? }),
            "disconnect" => Ok(Action::Disconnect),
            _ => Err(unknown(
                headers::INNER,
                word,
                &["join", "leave", "disconnect"],
            )),
        }
    }

    /// A socket, or all of a user.
    fn choose(&self, of: &mut Target) -> Result<(), Flaw> {
        if let Some(socket) = self.optional(headers::SOCKET)? {
            of.sockets.push(socket.to_owned());
        } else if let Some(user) = self.optional(headers::USER)? {
            of.users.push(user.to_owned());
        } else {
            return Err(Flaw::new(format!(
                "the headers {} and {} are missing or null: one of them must name a socket or a user",
                headers::SOCKET,
                headers::USER
            )));
        }
        Ok(())
    }

    fn encoding(&self) -> Result<Encoding, Flaw> {
        let known = [Encoding::Json, Encoding::Msgpack];
        let Some(word) = self.optional(headers::ENCODING)? else {
            return Ok(Encoding::default());
        };
        let found = known.into_iter().find(|encoding| encoding.word() == word);
        found.ok_or_else(|| unknown(headers::ENCODING, word, &known.map(Encoding::word)))
    }
}

#[cfg(test)]
#[path = "command_tests.rs"]
mod tests;
