//! A connection to Redis, in its second protocol.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

/// What Redis says.
#[derive(Debug, PartialEq)]
pub enum Reply {
    Text(String),
    Number(i64),
    Bytes(Vec<u8>),
    List(Vec<Reply>),
    Nothing,
}

impl Reply {
    pub fn bytes(self) -> Vec<u8> {
        match self {
            Reply::Bytes(bytes) => bytes,
            other => panic!("{other:?} is no string"),
        }
    }

    pub fn list(self) -> Vec<Reply> {
        match self {
            Reply::List(list) => list,
            other => panic!("{other:?} is no list"),
        }
    }
}

pub struct Connection {
    stream: BufReader<TcpStream>,
}

impl Connection {
    pub fn open(addr: &str) -> Connection {
        let stream = TcpStream::connect(addr).expect("Redis listens");
        let stream = BufReader::new(stream);
        Connection { stream }
    }

    pub fn send(&mut self, command: &[&[u8]]) {
        let mut bytes = format!("*{}\r\n", command.len()).into_bytes();
        for word in command {
            bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
            bytes.extend_from_slice(word);
            bytes.extend_from_slice(b"\r\n");
        }
        self.stream
            .get_mut()
            .write_all(&bytes)
            .expect("Redis reads");
    }

    pub fn ask(&mut self, command: &[&[u8]]) -> Reply {
        self.send(command);
        self.read().expect("Redis answers")
    }

    /// `None`: the connection ended.
    pub fn read(&mut self) -> Option<Reply> {
        let mut line = String::new();
        self.stream.read_line(&mut line).ok()?;
        let (kind, rest) = line.trim_end().split_at_checked(1)?;
        let number = || rest.parse::<i64>().expect("a number");
        Some(match (kind, number) {
            ("+", _) => Reply::Text(rest.to_owned()),
            ("-", _) => panic!("Redis says {rest}"),
            (":", number) => Reply::Number(number()),
            ("$", number) => self.bytes(number()),
            ("*", number) => match number() {
                -1 => Reply::Nothing,
                len => Reply::List((0..len).map_while(|_| self.read()).collect()),
            },
            _ => panic!("Redis says {line:?}"),
        })
    }

    fn bytes(&mut self, len: i64) -> Reply {
        let Ok(len) = usize::try_from(len) else {
            return Reply::Nothing;
        };
        let mut bytes = vec![0; len + 2];
        self.stream
            .read_exact(&mut bytes)
            .expect("the whole string");
        bytes.truncate(len);
        Reply::Bytes(bytes)
    }
}
