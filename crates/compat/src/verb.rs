//! What servers tell each other, whatever their dialect.

use wire::json;

/// Begins the uid of every Sockeye node. No uid of Node's adapters begins so and goes on with 16 digits: the classic ones have six
/// characters, the others only hexadecimal digits.
const OWN: &str = "sky";

/// The name under which a node of ours speaks.
pub fn own_uid(node: u16, epoch: u64) -> String {
    format!("{OWN}{node:04x}{:012x}", epoch & 0xffff_ffff_ffff)
}

/// The name is a Sockeye node's.
pub fn is_own(uid: &str) -> bool {
    let digits = uid.strip_prefix(OWN).unwrap_or_default();
    digits.len() == 16 && digits.bytes().all(|digit| digit.is_ascii_hexdigit())
}

/// One message of one server.
#[derive(Clone, Debug, PartialEq)]
pub struct Letter {
    /// Who speaks; empty for emitters that do not say. Answers go there.
    pub from: String,
    /// With its slash.
    pub namespace: String,
    /// What it says.
    pub verb: Verb,
}

/// Sockets that are meant: members of any of the rooms, or all if there are none, less the members of `except`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Selection {
    /// A socket's id names the room that holds just that socket.
    pub rooms: Vec<String>,
    /// Rooms whose members are left out.
    pub except: Vec<String>,
}

/// Arguments: raw JSON elements separated by commas, with placeholders for the bytes among them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Args {
    /// The elements, without brackets.
    pub json: String,
    /// What the placeholders stand for, one each.
    pub attachments: Vec<Vec<u8>>,
}

impl Args {
    /// With a name before them.
    pub fn named(self, name: &str) -> Self {
        let mut list = Vec::new();
        json::quote(&mut list, name);
        if !self.json.is_empty() {
            list.push(b',');
            list.extend_from_slice(self.json.as_bytes());
        }
        Self {
            json: String::from_utf8_lossy(&list).into_owned(),
            ..self
        }
    }

    /// The name before them, and the rest; `None`: there is none.
    pub fn split_name(mut self) -> Option<(String, Self)> {
        let first = json::first(&self.json)?;
        let name = json::unquote(first)?.into_owned();
        let end = first.as_ptr().addr() - self.json.as_ptr().addr() + first.len();
        let rest = self.json[end..].trim_ascii_start();
        self.json = rest.strip_prefix(',').unwrap_or(rest).to_owned();
        Some((name, self))
    }
}

/// An event for clients.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// Its name.
    pub name: String,
    /// Its arguments.
    pub args: Args,
    /// Dropped for clients that cannot take it this instant.
    pub volatile: bool,
}

/// A socket, as `fetchSockets` reports it.
#[derive(Clone, Debug, PartialEq)]
pub struct Fetched {
    /// Its id.
    pub id: String,
    /// Its rooms, its own id among them.
    pub rooms: Vec<String>,
    /// Raw JSON.
    pub data: String,
}

/// What is said. `request` names a question among those of its asker.
#[derive(Clone, Debug, PartialEq)]
pub enum Verb {
    /// An event for sockets.
    Broadcast {
        /// For whom.
        to: Selection,
        /// What.
        event: Event,
    },
    /// The same; the sockets' acks are answers.
    Ask {
        /// Which question.
        request: String,
        /// For whom.
        to: Selection,
        /// What.
        event: Event,
        /// How long the asker waits, if it says so.
        timeout_ms: Option<u64>,
    },
    /// Sockets are to join rooms.
    Join {
        /// Which sockets.
        of: Selection,
        /// Which rooms.
        rooms: Vec<String>,
    },
    /// Sockets are to leave rooms.
    Leave {
        /// Which sockets.
        of: Selection,
        /// Which rooms.
        rooms: Vec<String>,
    },
    /// Sockets are to be disconnected.
    Disconnect {
        /// Which sockets.
        of: Selection,
        /// Their connections, too.
        close: bool,
    },
    /// Which sockets are there?
    Fetch {
        /// Which question.
        request: String,
        /// Which sockets.
        of: Selection,
    },
    /// The ids of sockets in these rooms? Asked by old classic servers.
    Ids {
        /// Which question.
        request: String,
        /// Which sockets.
        rooms: Vec<String>,
    },
    /// Which rooms are there? Asked by classic servers.
    Rooms {
        /// Which question.
        request: String,
    },
    /// An event for the servers themselves.
    ServerEmit {
        /// Which question, if the asker wants an answer.
        request: Option<String>,
        /// Name and arguments.
        args: Args,
    },
    /// What a server says to a question.
    Answer {
        /// Which question.
        request: String,
        /// Whose question, where the dialect's answers name the asker; otherwise empty.
        to: String,
        /// What it says.
        answer: Answer,
    },
    /// The server is there.
    Alive,
    /// The server leaves.
    Bye,
}

/// Answers to questions.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// To [`Verb::Fetch`].
    Sockets(Vec<Fetched>),
    /// To [`Verb::Ids`].
    Ids(Vec<String>),
    /// To [`Verb::Rooms`].
    Rooms(Vec<String>),
    /// To [`Verb::ServerEmit`]: the one argument of the ack, or none.
    Emitted(Args),
    /// To [`Verb::Ask`], first: how many sockets of that server were asked.
    Count(u64),
    /// To [`Verb::Ask`], then: the arguments of one socket's ack. Node sends the first only.
    Ack(Args),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_put_before_arguments_and_taken_off_again() {
        for args in ["", "1,\"b\"", "{\"a\":[1,2]}"] {
            let args = Args {
                json: args.to_owned(),
                ..Args::default()
            };
            let name = "say \"é\"";
            let split = args.clone().named(name).split_name();
            assert_eq!(split, Some((name.to_owned(), args)));
        }
        assert_eq!(Args::default().split_name(), None);
        let json = "1,2".to_owned();
        let unnamed = Args {
            json,
            ..Args::default()
        };
        assert_eq!(unnamed.split_name(), None);
    }

    #[test]
    fn own_names_are_no_names_of_node() {
        let uid = own_uid(7, 0x1234_5678_9abc_def0);
        assert_eq!(uid, "sky000756789abcdef0");
        assert!(is_own(&uid));
        // Random names of Node may begin with the same letters.
        for uid in [
            "skyAbc",
            "5eya000000000001",
            "emitter",
            "",
            "sky",
            "sky00075678 9abcdef0",
        ] {
            assert!(!is_own(uid), "{uid}");
        }
    }
}
