//! A worker's message as it is read. Answers to events are the many: they are read in one go, and no name becomes a text of its own.

use crate::bounds::{BESIDE_BYTES_MAX, BESIDE_MAX};
use crate::message::Ack;
use crate::name::Name;
use crate::order::{Awaited, COMMANDS, Order, Sending};
use crate::proto;
use crate::proto::command::What;
use crate::weight::is_crowded;
use bytes::{Buf, Bytes};
use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};
use prost::{DecodeError, Message};

/// Number of the field `FromWorker.beside`.
const BESIDE: u32 = 7;
/// First bytes of the fields that are read here: `Command.ack`, and the fields of `Ack`.
const ACK: u8 = 0x12;
const SOCKET: u8 = 0x0a;
const NUMBER: u8 = 0x10;
const ARGS: u8 = 0x1a;
const ATTACHMENT: u8 = 0x22;

/// A message of a worker.
#[derive(Debug, Default, PartialEq)]
pub struct Frame {
    /// Without its commands.
    pub(crate) said: proto::FromWorker,
    pub(crate) orders: Vec<Order>,
}

impl Frame {
    /// Payloads are parts of the message: none is copied.
    ///
    /// # Errors
    /// It is no `FromWorker`.
    pub fn decode(mut message: Bytes) -> Result<Self, DecodeError> {
        let mut frame = Self::default();
        while message.has_remaining() {
            let (field, kind) = decode_key(&mut message)?;
            if (field, kind) == (COMMANDS, WireType::LengthDelimited) {
                frame.orders.push(read_order(&mut message)?);
            } else if field == BESIDE && is_too_long(&message, kind, &frame.said) {
                let context = DecodeContext::default();
                skip_field(kind, field, &mut message, context)?;
                // No row: the message is refused for it.
                frame.said.beside = vec![0];
            } else {
                let context = DecodeContext::default();
                frame.said.merge_field(field, kind, &mut message, context)?;
            }
        }
        Ok(frame)
    }

    pub fn into_hello(self) -> Option<proto::Hello> {
        self.said.hello
    }

    /// Commands that send events.
    pub fn sendings(&mut self) -> impl Iterator<Item = Sending<'_>> {
        let all = self.orders.iter_mut();
        all.filter_map(Sending::of)
    }

    /// Commands that belong to a trace, and which trace.
    pub fn traced(&self) -> impl Iterator<Item = (&str, Option<&What>)> {
        let traced = self.orders.iter().filter_map(|order| match order {
            Order::Other(command) if !command.traceparent.is_empty() => Some(command),
            _ => None,
        });
        traced.map(|command| (command.traceparent.as_str(), command.what.as_ref()))
    }
}

impl From<proto::FromWorker> for Frame {
    fn from(mut said: proto::FromWorker) -> Self {
        let commands = std::mem::take(&mut said.commands);
        let orders = commands.into_iter().map(Order::Other).collect();
        Self { said, orders }
    }
}

fn read_order(message: &mut Bytes) -> Result<Order, DecodeError> {
    let mut rest = &message[..];
    let crowded = take_part(&mut rest).filter(|command| is_crowded(command));
    if let Some(command) = crowded {
        let (awaited, behind) = (awaited(command), rest.len());
        message.advance(message.len() - behind);
        return Ok(Order::Crowded(awaited));
    }
    match read_ack(message) {
        Some(ack) => Ok(Order::Ack(ack)),
        None => proto::Command::decode_length_delimited(message).map(Order::Other),
    }
}

/// The parts of a `Command` that are read of one with too long lists: who waits for it.
#[derive(Clone, PartialEq, Eq, Message)]
struct Answering {
    #[prost(message, optional, tag = "2")]
    ack: Option<Answered>,
    #[prost(message, optional, tag = "11")]
    reply: Option<Numbered>,
    #[prost(message, optional, tag = "13")]
    verdict: Option<Numbered>,
}

/// Of an `Ack`.
#[derive(Clone, PartialEq, Eq, Message)]
struct Answered {
    #[prost(string, tag = "1")]
    socket: String,
    #[prost(uint64, tag = "2")]
    ack: u64,
}

/// Of a `Reply` or a `Verdict`.
#[derive(Clone, PartialEq, Eq, Message)]
struct Numbered {
    #[prost(uint64, tag = "1")]
    number: u64,
}

fn awaited(command: &[u8]) -> Option<Awaited> {
    let answering = Answering::decode(command).ok()?;
    if let Some(ack) = answering.ack {
        return Some(Awaited::Ack(Name::parse(&ack.socket)?, ack.ack));
    }
    let reply = answering.reply.map(|reply| Awaited::Reply(reply.number));
    let verdict = answering.verdict;
    reply.or_else(|| verdict.map(|verdict| Awaited::Verdict(verdict.number)))
}

/// Rows of numbers that no worker says: they would take ten times the room of the message.
fn is_too_long(message: &Bytes, kind: WireType, said: &proto::FromWorker) -> bool {
    let bytes = match kind {
        WireType::LengthDelimited => decode_varint(&mut &message[..]).unwrap_or(0),
        _ => 0,
    };
    bytes > BESIDE_BYTES_MAX || said.beside.len() > BESIDE_MAX
}

/// Takes a command off the message if it is an answer and no more. `None`: nothing is taken, and the command is read like all others.
fn read_ack(message: &mut Bytes) -> Option<Ack> {
    let mut rest = &message[..];
    let command = take_part(&mut rest)?;
    let behind = rest.len();
    let mut command = command.strip_prefix(&[ACK])?;
    let mut fields = take_part(&mut command)?;
    if !command.is_empty() {
        return None;
    }
    let (mut socket, mut number) = (None, 0);
    let (mut args, mut attachments) = (Bytes::new(), Vec::new());
    while let Some((key, mut rest)) = fields.split_first() {
        match *key {
            SOCKET => socket = Some(Name::read(take_part(&mut rest)?)?),
            NUMBER => number = decode_varint(&mut rest).ok()?,
            ARGS => args = message.slice_ref(take_part(&mut rest)?),
            ATTACHMENT => attachments.push(message.slice_ref(take_part(&mut rest)?)),
            _ => return None,
        }
        fields = rest;
    }
    let ack = Ack {
        socket: socket?,
        ack: number,
        args,
        attachments,
    };
    message.advance(message.len() - behind);
    Some(ack)
}

/// A part that stands behind its length.
fn take_part<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let len = decode_varint(rest).ok()?;
    let (part, behind) = rest.split_at_checked(usize::try_from(len).ok()?)?;
    *rest = behind;
    Some(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOCKET_ID: &str = "abcdefghijklmnopqrst";

    fn ack(socket: &str, ack: u64, args: &str, attachments: usize) -> proto::Command {
        let what = What::Ack(proto::Ack {
            socket: socket.to_owned(),
            ack,
            args: args.to_owned().into(),
            attachments: vec![Bytes::from_static(b"\x00\xff"); attachments],
        });
        proto::Command {
            what: Some(what),
            ..proto::Command::default()
        }
    }

    /// The orders as the messages that they came from.
    fn commands(frame: &Frame) -> Vec<proto::Command> {
        let all = frame.orders.iter().map(|order| match order {
            Order::Ack(answer) => {
                let args = std::str::from_utf8(&answer.args).unwrap();
                ack(
                    answer.socket.as_str(),
                    answer.ack,
                    args,
                    answer.attachments.len(),
                )
            }
            Order::Other(command) => command.clone(),
            Order::Crowded(_) | Order::Refused(_) => proto::Command::default(),
        });
        all.collect()
    }

    #[test]
    fn a_frame_is_read_as_the_message_says() {
        let traced = proto::Command {
            traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".to_owned(),
            ..ack(SOCKET_ID, 7, "1", 0)
        };
        let said = proto::FromWorker {
            handled: 300,
            first: 12,
            commands: vec![
                ack(SOCKET_ID, 1, "", 0),
                ack(SOCKET_ID, u64::MAX, &"1".repeat(300), 2),
                ack(SOCKET_ID, 0, "[]", 0),
                ack("nobody", 2, "1", 0),
                ack("", 2, "1", 0),
                proto::Command::default(),
                traced.clone(),
                ack(SOCKET_ID, 3, "1", 0),
            ],
            leaving: true,
            ..proto::FromWorker::default()
        };
        let frame = Frame::decode(said.encode_to_vec().into()).unwrap();
        let quick = |order: &Order| matches!(order, Order::Ack(_));
        let quick: Vec<bool> = frame.orders.iter().map(quick).collect();
        assert_eq!(quick, [true, true, true, false, false, false, false, true]);
        assert_eq!(commands(&frame), said.commands);
        assert_eq!(frame.traced().count(), 1);
        assert_eq!(frame.traced().next().unwrap().0, traced.traceparent);
        let rest = proto::FromWorker {
            commands: Vec::new(),
            ..said.clone()
        };
        assert_eq!(frame.said, rest);
        let bytes = said.encode_to_vec();
        for end in 0..bytes.len() {
            let part = Bytes::copy_from_slice(&bytes[..end]);
            let whole = proto::FromWorker::decode(part.clone());
            let read = Frame::decode(part);
            assert_eq!(read.is_ok(), whole.is_ok(), "{end}");
            if let (Ok(read), Ok(whole)) = (read, whole) {
                assert_eq!(commands(&read), whole.commands, "{end}");
            }
        }
    }

    #[test]
    fn rows_beyond_the_bound_take_no_room() {
        let said = |many: usize| proto::FromWorker {
            beside: vec![1; many],
            ..proto::FromWorker::default()
        };
        let read = |bytes: Vec<u8>| Frame::decode(bytes.into()).unwrap().said.beside;
        let packed = said(BESIDE_MAX).encode_to_vec();
        assert_eq!(read(packed.clone()).len(), BESIDE_MAX);
        assert_eq!(read(said(16 << 20).encode_to_vec()), [0]);
        assert!(read(packed.repeat(20)).len() <= 2 * BESIDE_MAX);
        let single = [0x38, 0x01].repeat(1 << 20);
        assert!(read(single).len() <= 2 * BESIDE_MAX);
    }

    #[test]
    fn any_bytes_are_judged_as_the_message_is() {
        let mut rng = fastrand::Rng::with_seed(14);
        let commands = vec![ack(SOCKET_ID, 5, "\"a\"", 1), ack(SOCKET_ID, 600, "1", 0)];
        let said = proto::FromWorker {
            commands,
            ..proto::FromWorker::default()
        };
        let bytes = said.encode_to_vec();
        for _ in 0..20_000 {
            let mut bytes = bytes.clone();
            for _ in 0..rng.usize(1..4) {
                let at = rng.usize(..bytes.len());
                bytes[at] = rng.u8(..);
            }
            let bytes = Bytes::from(bytes);
            let whole = proto::FromWorker::decode(bytes.clone());
            let read = Frame::decode(bytes.clone());
            assert_eq!(read.is_ok(), whole.is_ok(), "{bytes:?}");
            if let (Ok(read), Ok(whole)) = (read, whole) {
                assert_eq!(read.orders.len(), whole.commands.len(), "{bytes:?}");
            }
        }
    }
}
