//! Messages on channels that programs outside share with clients: plain JSON, in two forms. A whole message names event, rooms and
//! arguments; a bare one is the first argument alone.

use rules::Message;
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;
use types::Target;
use wire::json;

/// The member that marks what a gateway published.
const MARK: &str = "sockeye";

/// One channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Channel {
    pub name: String,
    pub namespace: String,
    /// Events that are published to it.
    pub publish: Vec<String>,
    /// Events that are taken from it.
    pub take: Vec<String>,
    /// Messages go to this room, whatever they name.
    pub room: Option<String>,
    pub bare: bool,
    /// Larger messages are neither published nor taken.
    pub bytes_max: usize,
    /// Messages taken in a second by each node.
    pub per_second_max: u64,
}

/// Why a message is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// A node of this cluster published it: clients have it.
    Own,
    /// It is no JSON, or not in the form of this channel.
    Malformed,
    /// Its event is none of those that are taken.
    Unchosen,
}

/// The publisher of a message.
#[derive(Clone, Debug)]
pub(super) struct Origin {
    pub(super) cluster: String,
    pub(super) node: u16,
}

#[derive(Deserialize)]
struct Mark {
    cluster: String,
}

#[derive(Deserialize)]
struct Whole<'a> {
    event: String,
    #[serde(borrow, default)]
    args: Option<&'a RawValue>,
    #[serde(default)]
    rooms: Vec<String>,
    #[serde(default)]
    users: Vec<String>,
    #[serde(default)]
    all: bool,
}

impl Origin {
    fn mark(&self) -> String {
        json!({"cluster": self.cluster, "node": self.node}).to_string()
    }

    /// An event as it stands on a channel; `None`: it cannot.
    pub(super) fn write(&self, channel: &Channel, event: &hub::Tapped) -> Option<String> {
        if channel.bare {
            return self.write_bare(channel, &event.args);
        }
        let [namespace, name] = [&event.namespace, &event.event].map(|text| json!(text));
        let [rooms, users] = [&event.rooms, &event.users].map(|names| json!(names));
        let all = event.rooms.is_empty() && event.users.is_empty();
        let (args, mark) = (&event.args, self.mark());
        Some(format!(
            "{{\"namespace\":{namespace},\"event\":{name},\"rooms\":{rooms},\"users\":{users},\"all\":{all},\"args\":[{args}],\"{MARK}\":{mark}}}"
        ))
    }

    /// A message that cannot be marked would come back, if the channel is heard as well.
    fn write_bare(&self, channel: &Channel, args: &str) -> Option<String> {
        let first = json::first(args)?.trim();
        let Some(members) = first
            .strip_prefix('{')
            .and_then(|rest| rest.strip_suffix('}'))
        else {
            return channel.take.is_empty().then(|| first.to_owned());
        };
        let comma = if members.trim().is_empty() { "" } else { "," };
        Some(format!("{{{members}{comma}\"{MARK}\":{}}}", self.mark()))
    }

    /// The request of a message on a channel.
    pub(super) fn read(
        &self,
        channel: &Channel,
        body: &[u8],
    ) -> Result<(Target, Message), Refused> {
        json::validate(body).map_err(|_| Refused::Malformed)?;
        let text = std::str::from_utf8(body)
            .map_err(|_| Refused::Malformed)?
            .trim();
        if self.is_own(text) {
            return Err(Refused::Own);
        }
        match channel.bare {
            true => Self::read_bare(channel, text),
            false => Self::read_whole(channel, text),
        }
    }

    fn is_own(&self, text: &str) -> bool {
        // Of members of one name the last counts.
        let marks =
            json::members(text).filter(|(key, _)| json::unquote(key).as_deref() == Some(MARK));
        let mark = marks
            .last()
            .and_then(|(_, mark)| serde_json::from_str::<Mark>(mark).ok());
        mark.is_some_and(|mark| mark.cluster == self.cluster)
    }

    fn read_bare(channel: &Channel, text: &str) -> Result<(Target, Message), Refused> {
        let event = channel.take.first().ok_or(Refused::Unchosen)?;
        let of = target(channel, Target::all_of(channel.namespace.clone()))?;
        Ok((of, message(event, text)))
    }

    fn read_whole(channel: &Channel, text: &str) -> Result<(Target, Message), Refused> {
        let whole: Whole<'_> = serde_json::from_str(text).map_err(|_| Refused::Malformed)?;
        if !channel.take.contains(&whole.event) {
            return Err(Refused::Unchosen);
        }
        let args = match whole.args.map(RawValue::get) {
            None => "",
            Some(list) => list
                .strip_prefix('[')
                .and_then(|rest| rest.strip_suffix(']'))
                .ok_or(Refused::Malformed)?,
        };
        let of = Target {
            namespace: channel.namespace.clone(),
            rooms: whole.rooms,
            users: whole.users,
            all: whole.all,
            ..Target::default()
        };
        let event = message(&whole.event, args.trim());
        Ok((target(channel, of)?, event))
    }
}

/// The sockets of this node: each node hears the channel, and tells its own.
fn target(channel: &Channel, named: Target) -> Result<Target, Refused> {
    let of = match &channel.room {
        Some(room) => Target::room(channel.namespace.clone(), room.clone()),
        None => named,
    };
    of.check().map_err(|_| Refused::Malformed)?;
    Ok(Target { local: true, ..of })
}

fn message(event: &str, args: &str) -> Message {
    Message {
        event: event.to_owned(),
        args: args.to_owned(),
        ..Message::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin() -> Origin {
        Origin {
            cluster: "sockeye:".to_owned(),
            node: 3,
        }
    }

    fn channel(bare: bool) -> Channel {
        Channel {
            name: "chat:messages".to_owned(),
            namespace: "/".to_owned(),
            publish: vec!["chat-message".to_owned()],
            take: vec!["chat-message".to_owned()],
            room: bare.then(|| "global".to_owned()),
            bare,
            bytes_max: 1_000,
            per_second_max: 10,
        }
    }

    fn tapped(args: &str) -> hub::Tapped {
        hub::Tapped {
            namespace: "/".to_owned(),
            event: "chat-message".to_owned(),
            args: args.to_owned(),
            rooms: vec!["global".to_owned()],
            users: Vec::new(),
        }
    }

    #[test]
    fn what_is_published_is_json_and_known_again() {
        let others = Origin {
            cluster: "other:".to_owned(),
            node: 3,
        };
        let everybody = hub::Tapped {
            rooms: Vec::new(),
            ..tapped("1")
        };
        let text = origin().write(&channel(false), &everybody).expect("text");
        let (chosen, _) = others.read(&channel(false), text.as_bytes()).expect("good");
        assert!(chosen.all, "it was for nobody: {text}");
        for (bare, args) in [
            (false, "{\"content\":\"a\"},2,\"x\""),
            (false, ""),
            (true, "{\"content\":\"a\\\"}\"}"),
            (true, "{}"),
            (true, " {\"sockeye\":{\"cluster\":\"forged\"}} "),
        ] {
            let channel = channel(bare);
            let text = origin().write(&channel, &tapped(args)).expect("text");
            assert!(
                serde_json::from_str::<serde_json::Value>(&text).is_ok(),
                "{text}"
            );
            let own = origin().read(&channel, text.as_bytes());
            assert_eq!(own, Err(Refused::Own), "{text}");
            let (chosen, message) = others.read(&channel, text.as_bytes()).expect("another's");
            assert_eq!(
                (chosen.rooms, chosen.local),
                (vec!["global".to_owned()], true)
            );
            assert_eq!(message.event, "chat-message");
            if !bare {
                assert_eq!(message.args, args);
            }
        }
    }

    #[test]
    fn what_cannot_be_marked_is_published_only_where_nobody_listens() {
        let mut both = channel(true);
        assert_eq!(origin().write(&both, &tapped("\"text\"")), None);
        assert_eq!(origin().write(&both, &tapped("")), None);
        both.take.clear();
        let text = origin().write(&both, &tapped("\"text\",2"));
        assert_eq!(text.as_deref(), Some("\"text\""));
    }

    #[test]
    fn messages_of_strangers_are_read_or_refused_and_nothing_else() {
        let whole = channel(false);
        let read = |text: &str| origin().read(&whole, text.as_bytes());
        let (chosen, message) =
            read(r#" {"event":"chat-message","args":[1, {"a":[2]}],"rooms":["a","b"]}"#)
                .expect("good");
        assert_eq!((chosen.rooms.len(), &*message.args), (2, "1, {\"a\":[2]}"));
        let (chosen, _) = read(r#"{"event":"chat-message","all":true}"#).expect("good");
        assert!(chosen.all && chosen.rooms.is_empty() && chosen.users.is_empty());
        for malformed in [
            "",
            "null",
            "7",
            "{",
            "{}",
            "[1]",
            r#"{"event":7}"#,
            r#"{"event":"chat-message","args":{}}"#,
            r#"{"event":"chat-message","args":"1"}"#,
            r#"{"event":"chat-message"}"#,
            r#"{"event":"chat-message","rooms":[]}"#,
            r#"{"event":"chat-message","rooms":["a"],"all":true}"#,
            r#"{"event":"chat-message","rooms":[""]}"#,
            r#"{"event":"chat-message","rooms":"a"}"#,
            r#"{"event":"chat-message"} {}"#,
        ] {
            assert_eq!(read(malformed), Err(Refused::Malformed), "{malformed}");
        }
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(read(&deep), Err(Refused::Malformed));
        assert_eq!(origin().read(&whole, b"\"\xff\""), Err(Refused::Malformed));
        assert_eq!(read(r#"{"event":"other"}"#), Err(Refused::Unchosen));
        let many: Vec<String> = (0..1_001).map(|n| n.to_string()).collect();
        let many = json!({"event": "chat-message", "rooms": many}).to_string();
        assert_eq!(read(&many), Err(Refused::Malformed));
        let bare = channel(true);
        let (chosen, message) = origin().read(&bare, b"{\"content\":\"hi\"}").expect("good");
        assert_eq!(
            (&*chosen.rooms[0], &*message.args),
            ("global", "{\"content\":\"hi\"}")
        );
        assert_eq!(origin().read(&bare, b"no json"), Err(Refused::Malformed));
    }
}
