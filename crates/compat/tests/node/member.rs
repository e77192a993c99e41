//! A member of a cluster that speaks by this crate: what a Sockeye node will be.

use crate::redis::{Connection, Reply};
use compat::clustered::{self, Post};
use compat::names::Names;
use compat::refused::Refused;
use compat::verb::{Letter, Verb, own_uid};
use compat::{classic, python};
use servers::PATIENCE;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    Classic,
    Sharded,
    Streams,
}

pub const ALL: [Dialect; 3] = [Dialect::Classic, Dialect::Sharded, Dialect::Streams];

impl Dialect {
    /// As the peer's command line names it.
    pub fn name(self) -> &'static str {
        match self {
            Dialect::Classic => "classic",
            Dialect::Sharded => "sharded",
            Dialect::Streams => "streams",
        }
    }
}

/// A message as it came: where, and its bytes or fields.
#[derive(Clone, Debug, PartialEq)]
pub enum Raw {
    Message(String, Vec<u8>),
    Entry(Vec<(Vec<u8>, Vec<u8>)>),
}

pub struct Member {
    pub dialect: Dialect,
    pub uid: String,
    pub namespace: String,
    names: Names,
    messages: Receiver<Raw>,
    commands: Connection,
    /// The last entry of the stream that was read.
    offset: Vec<u8>,
}

const STREAM: &[u8] = b"socket.io";

impl Member {
    pub fn join(addr: &str, dialect: Dialect, namespace: &str) -> Member {
        let (names, uid) = (Names::new("socket.io"), own_uid(1, 1));
        let main = names.main(namespace);
        let inbox = names.room(namespace, &uid);
        let room = names.room(namespace, "r1");
        let responses = names.responses(namespace);
        let topics: Vec<(&str, String)> = match dialect {
            Dialect::Classic => vec![
                ("PSUBSCRIBE", names.pattern(namespace)),
                ("SUBSCRIBE", names.requests(namespace)),
                ("SUBSCRIBE", responses),
            ],
            Dialect::Sharded => [main, inbox, room].map(|name| ("SSUBSCRIBE", name)).into(),
            Dialect::Streams => [main, inbox].map(|name| ("SUBSCRIBE", name)).into(),
        };
        Member {
            dialect,
            uid,
            namespace: namespace.to_owned(),
            names,
            messages: listen(addr, &topics),
            commands: Connection::open(addr),
            offset: b"0-0".to_vec(),
        }
    }

    /// The next message of anybody, our own ones too.
    pub fn next_raw(&mut self) -> Raw {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let wait = match self.dialect {
                Dialect::Streams => Duration::from_millis(20),
                _ => PATIENCE,
            };
            if let Ok(raw) = self.messages.recv_timeout(wait) {
                return raw;
            }
            if let Some(entry) = self.next_entry() {
                return entry;
            }
            assert!(Instant::now() < deadline, "nothing came");
        }
    }

    fn next_entry(&mut self) -> Option<Raw> {
        let offset = self.offset.clone();
        let words: [&[u8]; 6] = [b"XREAD", b"COUNT", b"1", b"STREAMS", STREAM, &offset];
        let Reply::List(streams) = self.commands.ask(&words) else {
            return None;
        };
        let stream = streams.into_iter().next()?.list().pop()?;
        let mut entry = stream.list().pop()?.list().into_iter();
        self.offset = entry.next()?.bytes();
        let words: Vec<Vec<u8>> = entry.next()?.list().into_iter().map(Reply::bytes).collect();
        let pair = |pair: &[Vec<u8>]| (pair[0].clone(), pair[1].clone());
        Some(Raw::Entry(words.chunks(2).map(pair).collect()))
    }

    pub fn decode(&self, raw: &Raw) -> Result<Letter, Refused> {
        match raw {
            Raw::Entry(fields) => {
                let fields = fields.iter();
                clustered::decode_entry(fields.map(|(key, value)| (&key[..], &value[..])))
            }
            Raw::Message(channel, body) => match self.dialect {
                Dialect::Classic => classic::decode(self.names.read(channel)?, body),
                Dialect::Sharded | Dialect::Streams => clustered::decode(&self.namespace, body),
            },
        }
    }

    /// The next letter of another server, and as what it came.
    pub fn next(&mut self) -> (Letter, Raw) {
        loop {
            let raw = self.next_raw();
            match self.decode(&raw) {
                Ok(letter) => return (letter, raw),
                Err(Refused::Own) => {}
                Err(refused) => panic!("{refused:?}: {raw:?}"),
            }
        }
    }

    /// The next answer of another server to this question. Our own answers come back without a name in them.
    pub fn answer(&mut self, question: &str) -> Verb {
        loop {
            let (letter, _) = self.next();
            if matches!(&letter.verb, Verb::Answer { request, .. } if request == question) {
                return letter.verb;
            }
        }
    }

    /// As what a letter goes to Redis.
    pub fn encode(&self, letter: &Letter) -> Raw {
        let message = |publish: classic::Publish| Raw::Message(publish.channel, publish.body);
        match self.dialect {
            Dialect::Classic => message(classic::encode(&self.names, letter).expect("a word")),
            Dialect::Sharded => {
                let publish = clustered::encode_sharded(&self.names, letter);
                message(publish.expect("a word"))
            }
            Dialect::Streams => {
                match clustered::encode_streams(&self.names, letter).expect("a word") {
                    Post::Publish(publish) => message(publish),
                    Post::Entry(fields) => {
                        let bytes = |(key, value): (&str, String)| (key.into(), value.into());
                        Raw::Entry(fields.map(bytes).into())
                    }
                }
            }
        }
    }

    pub fn say(&mut self, verb: Verb) {
        let letter = Letter {
            from: self.uid.clone(),
            namespace: self.namespace.clone(),
            verb,
        };
        let raw = self.encode(&letter);
        self.publish(&raw);
    }

    pub fn publish(&mut self, raw: &Raw) {
        let word: &[u8] = match self.dialect {
            Dialect::Sharded => b"SPUBLISH",
            _ => b"PUBLISH",
        };
        match raw {
            Raw::Message(channel, body) => {
                self.commands.ask(&[word, channel.as_bytes(), body]);
            }
            Raw::Entry(fields) => {
                let mut command: Vec<&[u8]> = vec![b"XADD", STREAM, b"*"];
                command.extend(
                    fields
                        .iter()
                        .flat_map(|(key, value)| [&key[..], &value[..]]),
                );
                self.commands.ask(&command);
            }
        }
    }

    /// What python-socketio says, of another channel.
    pub fn python(addr: &str) -> Receiver<Raw> {
        listen(addr, &[("SUBSCRIBE", python::CHANNEL.to_owned())])
    }
}

/// Messages of channels; Redis has confirmed them all.
fn listen(addr: &str, topics: &[(&str, String)]) -> Receiver<Raw> {
    let (sender, messages) = channel();
    let mut connection = Connection::open(addr);
    for (word, name) in topics {
        let confirmed = connection.ask(&[word.as_bytes(), name.as_bytes()]).list();
        assert_eq!(confirmed[1], Reply::Bytes(name.clone().into_bytes()));
    }
    std::thread::spawn(move || {
        while let Some(reply) = connection.read() {
            let mut words = reply.list();
            let body = words.pop().expect("a body").bytes();
            let channel = words.pop().expect("a channel").bytes();
            let channel = String::from_utf8(channel).expect("UTF-8");
            if sender.send(Raw::Message(channel, body)).is_err() {
                return;
            }
        }
    });
    messages
}
