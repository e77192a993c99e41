//! Names of channels.

use crate::refused::Refused;

/// All names of a cluster begin with the same prefix, `socket.io` unless configured otherwise.
#[derive(Clone, Debug)]
pub struct Names {
    prefix: String,
}

/// What a channel is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Channel<'a> {
    /// `P#N#`, `P#N#room#` and, of sharded and streams adapters, `P#N#uid#`.
    Main {
        /// The namespace.
        namespace: &'a str,
        /// The room or uid.
        room: Option<&'a str>,
    },
    /// `P-request#N#`.
    Requests {
        /// The namespace.
        namespace: &'a str,
    },
    /// `P-response#N#` and `P-response#N#uid#`.
    Responses {
        /// The namespace.
        namespace: &'a str,
    },
}

impl Names {
    /// Names that begin with `prefix`.
    pub fn new(prefix: &str) -> Self {
        Self {
            prefix: prefix.to_owned(),
        }
    }

    /// Broadcasts to more than one room, or to all.
    pub fn main(&self, namespace: &str) -> String {
        format!("{}#{namespace}#", self.prefix)
    }

    /// Broadcasts to one room. Of sharded and streams adapters also answers, under the asker's uid.
    pub fn room(&self, namespace: &str, room: &str) -> String {
        format!("{}#{namespace}#{room}#", self.prefix)
    }

    /// The pattern of the two above, for PSUBSCRIBE: its own characters are escaped in names.
    pub fn pattern(&self, namespace: &str) -> String {
        let mut pattern = String::new();
        for character in self.main(namespace).chars() {
            if matches!(character, '*' | '?' | '[' | ']' | '^' | '\\') {
                pattern.push('\\');
            }
            pattern.push(character);
        }
        pattern.push('*');
        pattern
    }

    /// Classic requests.
    pub fn requests(&self, namespace: &str) -> String {
        format!("{}-request#{namespace}#", self.prefix)
    }

    /// Classic answers.
    pub fn responses(&self, namespace: &str) -> String {
        format!("{}-response#{namespace}#", self.prefix)
    }

    /// Classic answers to one asker.
    pub fn responses_to(&self, namespace: &str, uid: &str) -> String {
        format!("{}-response#{namespace}#{uid}#", self.prefix)
    }

    /// What only nodes of ours subscribe to, wherever they subscribe to a channel whose subscribers are counted: the difference are
    /// the others. In a Redis Cluster both are in one slot, on one connection, so that neither is lost without the other.
    pub fn marker(&self, of: &str, channel: &str) -> String {
        format!("{}-sockeye-{of}{{{channel}}}", self.prefix)
    }

    /// What a channel is for. Namespaces with `#` in their names cannot be told from rooms: the messages themselves say which
    /// namespace is meant, and decoders compare.
    pub fn read<'a>(&self, channel: &'a str) -> Result<Channel<'a>, Refused> {
        let rest = channel.strip_prefix(&self.prefix);
        let rest = rest.ok_or(Refused::Elsewhere)?;
        let (kind, rest) = rest.split_once('#').ok_or(Refused::Elsewhere)?;
        let (namespace, room) = rest.split_once('#').ok_or(Refused::Elsewhere)?;
        let room = match room {
            "" => None,
            room => Some(room.strip_suffix('#').ok_or(Refused::Elsewhere)?),
        };
        match (kind, room) {
            ("", room) => Ok(Channel::Main { namespace, room }),
            ("-request", None) => Ok(Channel::Requests { namespace }),
            ("-response", _) => Ok(Channel::Responses { namespace }),
            _ => Err(Refused::Elsewhere),
        }
    }
}

impl<'a> Channel<'a> {
    /// The namespace in the channel's name.
    pub fn namespace(self) -> &'a str {
        match self {
            Channel::Main { namespace, .. }
            | Channel::Requests { namespace }
            | Channel::Responses { namespace } => namespace,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_made() {
        let names = Names::new("socket.io");
        let namespace = "/lab";
        let main = |room| Channel::Main { namespace, room };
        for (name, channel) in [
            (names.main(namespace), main(None)),
            (names.room(namespace, "r1"), main(Some("r1"))),
            (names.room(namespace, "a#b"), main(Some("a#b"))),
            (names.requests(namespace), Channel::Requests { namespace }),
            (names.responses(namespace), Channel::Responses { namespace }),
            (
                names.responses_to(namespace, "3J1VvJ"),
                Channel::Responses { namespace },
            ),
        ] {
            assert_eq!(names.read(&name), Ok(channel), "{name}");
        }
    }

    #[test]
    fn other_channels_are_no_channels_of_ours() {
        let names = Names::new("socket.io");
        for name in [
            "",
            "socket.io",
            "socket.io#",
            "socket.io#/lab",
            "socket.io#/lab#room",
            "socket.io-request#/lab#room#",
            "socket.io-else#/lab#",
            "other#/lab#",
        ] {
            assert_eq!(names.read(name), Err(Refused::Elsewhere), "{name}");
        }
    }

    #[test]
    fn a_pattern_means_its_own_characters_as_they_are() {
        let names = Names::new("a*b");
        assert_eq!(names.pattern("/[x]?"), "a\\*b#/\\[x\\]\\?#*");
    }
}
