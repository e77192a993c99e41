//! The memory that a worker's message will take, found out before anything of it is made: a list of 16 MiB may have eight million
//! empty members.

use crate::bounds::{COMMANDS_MAX, GROWTH_MAX, NAMES_MAX};
use crate::order::{COMMANDS, Order};
use crate::proto;
use prost::bytes::Buf;
use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};
use std::fmt;

/// Memory of one command, and of one member of a list beside its text: a place, and another one while the list grows.
const COMMAND_BYTES: usize = size_of::<Order>() + size_of::<proto::Emit>();
const NAME_BYTES: usize = 2 * size_of::<proto::Header>();

/// It would take more than one message may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overgrown {
    Commands,
    Bytes(usize),
}

impl fmt::Display for Overgrown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Commands => write!(f, "it has more than {COMMANDS_MAX} commands"),
            Self::Bytes(bytes) => write!(
                f,
                "its commands and their names take {bytes} bytes, and {GROWTH_MAX} are allowed"
            ),
        }
    }
}

/// Kinds of messages in which lists are.
#[derive(Clone, Copy)]
enum Kind {
    Command,
    Emit,
    Membership,
    /// Its field `of` is a target.
    Disconnect,
    Fetch,
    Ask,
    Target,
    Ack,
    Tell,
    Reply,
    Verdict,
}

/// Memory of a client's answer.
pub fn answer_bytes(answer: &proto::Answer) -> usize {
    let attachments: usize = answer.attachments.iter().map(|bytes| bytes.len()).sum();
    size_of::<proto::Answer>() + answer.args.len() + attachments
}

/// Memory of a socket in a list.
pub fn member_bytes(member: &proto::Member) -> usize {
    let rooms = member.rooms.iter();
    let rooms: usize = rooms.map(|room| size_of::<String>() + room.len()).sum();
    size_of::<proto::Member>() + member.socket.len() + member.data.len() + rooms
}

/// The kind of a field.
enum Field {
    Inner(Kind),
    Member,
    /// Numbers, one after the other.
    Packed,
    Single,
}

impl Kind {
    fn field(self, number: u32) -> Field {
        match (self, number) {
            (Self::Command, 2) => Field::Inner(Self::Ack),
            (Self::Command, 3) | (Self::Ask, 2) => Field::Inner(Self::Emit),
            (Self::Command, 4 | 5) => Field::Inner(Self::Membership),
            (Self::Command, 6) => Field::Inner(Self::Disconnect),
            (Self::Command, 8) => Field::Inner(Self::Ask),
            (Self::Command, 9) => Field::Inner(Self::Fetch),
            (Self::Command, 10) => Field::Inner(Self::Tell),
            (Self::Command, 11) => Field::Inner(Self::Reply),
            (Self::Command, 13) => Field::Inner(Self::Verdict),
            (Self::Emit | Self::Membership | Self::Disconnect, 1) | (Self::Fetch, 2) => {
                Field::Inner(Self::Target)
            }
            (Self::Emit | Self::Ack | Self::Verdict, 4)
            | (Self::Membership, 2)
            | (Self::Target, 2 | 3 | 6 | 7)
            | (Self::Tell, 5)
            | (Self::Reply, 3) => Field::Member,
            (Self::Target, 5) => Field::Packed,
            _ => Field::Single,
        }
    }
}

/// Bytes that the commands of a message take beside its own. What cannot be read is not counted: decoding stops there, too.
///
/// # Errors
/// More than a message may.
pub fn growth(message: &[u8]) -> Result<usize, Overgrown> {
    let (mut commands, mut bytes) = (0, 0);
    each(message, |number, part| {
        if let (COMMANDS, Some(part)) = (number, part) {
            commands += 1;
            bytes += COMMAND_BYTES;
            // One with more is not decoded.
            bytes += NAME_BYTES
                * Some(names(part))
                    .filter(|names| *names <= NAMES_MAX)
                    .unwrap_or(0);
        }
        commands <= COMMANDS_MAX
    });
    match (commands, bytes) {
        (commands, _) if commands > COMMANDS_MAX => Err(Overgrown::Commands),
        (_, bytes) if bytes > GROWTH_MAX => Err(Overgrown::Bytes(bytes)),
        _ => Ok(bytes),
    }
}

/// Members of the lists of a command.
fn names(command: &[u8]) -> usize {
    members(Kind::Command, command)
}

/// Its lists have too many members. Each takes a byte at least.
pub(crate) fn is_crowded(command: &[u8]) -> bool {
    command.len() > NAMES_MAX && names(command) > NAMES_MAX
}

fn members(kind: Kind, message: &[u8]) -> usize {
    let mut count = 0;
    each(message, |number, part| {
        count += match (kind.field(number), part) {
            (Field::Inner(kind), Some(part)) => members(kind, part),
            (Field::Member, _) | (Field::Packed, None) => 1,
            (Field::Packed, Some(part)) => part.iter().filter(|byte| **byte < 0x80).count(),
            _ => 0,
        };
        true
    });
    count
}

/// Shows the fields in their order, those with a length with their content, for as long as `go_on` says.
fn each<'a>(message: &'a [u8], mut go_on: impl FnMut(u32, Option<&'a [u8]>) -> bool) {
    let mut rest = message;
    while rest.has_remaining() {
        let Ok((number, kind)) = decode_key(&mut rest) else {
            return;
        };
        let part = match kind {
            WireType::LengthDelimited => {
                let len = decode_varint(&mut rest).ok();
                let len = len.and_then(|len| usize::try_from(len).ok());
                let Some((part, behind)) = len.and_then(|len| rest.split_at_checked(len)) else {
                    return;
                };
                rest = behind;
                Some(part)
            }
            _ => {
                let skipped = skip_field(kind, number, &mut rest, DecodeContext::default());
                if skipped.is_err() {
                    return;
                }
                None
            }
        };
        if !go_on(number, part) {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::Frame;
    use crate::proto::command::What;
    use prost::Message;

    fn said(commands: Vec<What>) -> Vec<u8> {
        let commands = commands.into_iter().map(|what| proto::Command {
            what: Some(what),
            ..proto::Command::default()
        });
        let said = proto::FromWorker {
            commands: commands.collect(),
            ..proto::FromWorker::default()
        };
        said.encode_to_vec()
    }

    fn target(rooms: usize) -> Option<proto::Target> {
        Some(proto::Target {
            rooms: vec![String::new(); rooms - 3],
            users: vec![String::new()],
            sockets: vec![String::new()],
            except: vec![String::new()],
            without: vec![300; 2],
            ..proto::Target::default()
        })
    }

    fn emit(rooms: usize) -> proto::Emit {
        proto::Emit {
            to: target(rooms),
            attachments: vec![Default::default(); 3],
            ..proto::Emit::default()
        }
    }

    fn membership(rooms: usize) -> proto::Membership {
        proto::Membership {
            of: target(rooms),
            rooms: vec![String::new(); 4],
        }
    }

    #[test]
    fn members_of_all_lists_are_counted() {
        let ask = proto::Ask {
            emit: Some(emit(7)),
            ..proto::Ask::default()
        };
        let fetch = proto::Fetch {
            of: target(7),
            ..proto::Fetch::default()
        };
        let end = proto::Disconnect {
            of: target(7),
            ..proto::Disconnect::default()
        };
        let verdict = proto::Verdict {
            headers: vec![proto::Header::default(); 7],
            ..proto::Verdict::default()
        };
        let tell = proto::Tell {
            attachments: vec![Default::default(); 7],
            ..proto::Tell::default()
        };
        let reply = proto::Reply {
            attachments: vec![Default::default(); 7],
            ..proto::Reply::default()
        };
        let ack = proto::Ack {
            attachments: vec![Default::default(); 7],
            ..proto::Ack::default()
        };
        for (what, count) in [
            (What::Emit(emit(7).into()), 12),
            (What::Ask(ask.into()), 12),
            (What::Join(membership(7)), 13),
            (What::Leave(membership(7)), 13),
            (What::Disconnect(end), 9),
            (What::Fetch(fetch), 9),
            (What::Verdict(verdict), 7),
            (What::Tell(tell.into()), 7),
            (What::Reply(reply), 7),
            (What::Ack(ack), 7),
        ] {
            let bytes = said(vec![what]);
            let growth = growth(&bytes);
            assert_eq!(growth, Ok(COMMAND_BYTES + count * NAME_BYTES));
        }
    }

    /// Eight million empty commands made 1.4 GiB of 16 MiB.
    #[test]
    fn a_message_became_ninety_times_as_large() {
        let empty = |count: usize| [COMMANDS as u8 * 8 + 2, 0].repeat(count);
        assert!(growth(&empty(COMMANDS_MAX)).is_ok());
        assert_eq!(growth(&empty(COMMANDS_MAX + 1)), Err(Overgrown::Commands));
        // A million names in many commands.
        let bytes = said(vec![What::Emit(emit(900).into()); 1_000]);
        assert!(matches!(growth(&bytes), Err(Overgrown::Bytes(_))));
        // Of one command with too many, none is made.
        let bytes = said(vec![What::Emit(emit(1_000_000).into())]);
        assert_eq!(growth(&bytes), Ok(COMMAND_BYTES));
        let frame = Frame::decode(bytes.into()).expect("a message");
        assert_eq!(frame.orders, [Order::Crowded(None)]);
    }
}
