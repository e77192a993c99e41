//! Records of what clients do, for Kafka and NATS: the rule of an event says whether it is written, a namespace whether the beginnings and
//! ends of its sockets are. Those who write are outside.

use crate::trace::TraceParent;
use hub::{AckTo, Context, DisconnectReason, Event, Member, SocketKey};
use std::collections::HashMap;
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;
use wire::json;

/// Tokens of these questions have it, those of all others do not.
const TOKEN_MARK: u64 = 1 << 61;
/// Bits of a number of a record that its shard has for itself.
const OWN_BITS: u32 = 44;
/// The bus's own time has ended before this one.
const GRACE: Duration = Duration::from_secs(2);

/// What carries records to programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bus {
    /// Records of topics.
    Kafka,
    /// Messages of subjects.
    Nats,
}

impl Bus {
    /// Both.
    pub const ALL: [Bus; 2] = [Bus::Kafka, Bus::Nats];

    /// Questions about its answers begin with it; those about history and large events begin otherwise.
    fn mark(self) -> u8 {
        match self {
            Bus::Kafka => b'k',
            Bus::Nats => b'n',
        }
    }

    pub(crate) fn place(self) -> usize {
        match self {
            Bus::Kafka => 0,
            Bus::Nats => 1,
        }
    }
}

/// Some of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "a field says what it is")]
pub struct Buses {
    pub kafka: bool,
    pub nats: bool,
}

impl Buses {
    /// Whether this one is among them.
    pub fn has(self, bus: Bus) -> bool {
        match bus {
            Bus::Kafka => self.kafka,
            Bus::Nats => self.nats,
        }
    }

    pub(crate) fn any(self) -> bool {
        Bus::ALL.into_iter().any(|bus| self.has(bus))
    }
}

/// Their ways out.
pub(crate) type Recorders = [Option<Arc<dyn Recorder>>; 2];

/// What a record is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// A socket joined its namespace.
    Connect,
    /// A client sent an event.
    Message,
    /// A socket left its namespace.
    Disconnect,
}

/// What the event did with the membership of its sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inner {
    /// It joined the first room of the record.
    Join,
    /// It left that.
    Leave,
}

/// One record.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "a field says what it is")]
pub struct Record<'a> {
    pub moment: Moment,
    pub client: Client<'a>,
    /// The one that the event names, then those of the socket, if they [are read](Recorder::reads_rooms).
    pub rooms: &'a [String],
    pub inner: Option<Inner>,
    /// W3C trace id.
    pub trace: Option<u128>,
    pub namespace: &'a str,
    pub name: &'a str,
    /// Counts the records of the socket.
    pub sequence: u64,
    /// A JSON array of name and arguments, and the attachments behind it.
    pub body: &'a [u8],
    /// Their sizes in bytes, separated by commas.
    pub attachments: Option<&'a str>,
}

/// The client whose socket a record is about.
#[derive(Clone, Copy, Debug)]
pub struct Client<'a> {
    socket: &'a str,
    user: Option<&'a str>,
    claim: Option<&'a str>,
    by_backend: bool,
}

impl<'a> Client<'a> {
    /// `socket`: its id. `by_backend`: a backend let it in.
    fn of(socket: &'a str, member: &'a Member<'_>, by_backend: bool) -> Self {
        Self {
            socket,
            user: member.user(),
            claim: member.label(),
            by_backend,
        }
    }

    /// The id of its socket.
    pub fn socket(&self) -> &'a str {
        self.socket
    }

    /// The user that it is.
    pub fn user(&self) -> Option<&'a str> {
        self.user
    }

    /// Of its token, the claim that the configuration names.
    pub fn claim(&self) -> Option<&'a str> {
        self.claim
    }

    /// How it was let in: by a `backend`, by a `token`, or by `none` of them.
    pub fn auth(&self) -> &'static str {
        match (self.by_backend, self.user) {
            (true, _) => "backend",
            (false, Some(_)) => "token",
            (false, None) => "none",
        }
    }
}

/// Why a record is not known to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unwritten {
    /// Too much waits for it.
    Busy,
    /// It does not answer.
    Away,
    /// It, or the bound of a record, speaks against it.
    Refused,
}

/// Which bus has not written a record, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    bus: Bus,
    why: Unwritten,
}

impl Refusal {
    /// For the client.
    pub(crate) fn message(self) -> &'static str {
        match (self.bus, self.why) {
            (Bus::Kafka, Unwritten::Busy) => "Too much waits for Kafka: try again later",
            (Bus::Nats, Unwritten::Busy) => "Too much waits for NATS: try again later",
            (Bus::Kafka, Unwritten::Away) => {
                "Kafka has not acknowledged the event in time: it may be stored all the same"
            }
            (Bus::Nats, Unwritten::Away) => {
                "NATS has not acknowledged the event in time: it may be stored all the same"
            }
            (Bus::Kafka, Unwritten::Refused) => "Kafka does not take the event",
            (Bus::Nats, Unwritten::Refused) => "NATS does not take the event",
        }
    }

    /// For its program.
    pub(crate) fn code(self) -> &'static str {
        match (self.bus, self.why) {
            (Bus::Kafka, Unwritten::Busy) => "KAFKA_BUSY",
            (Bus::Nats, Unwritten::Busy) => "NATS_BUSY",
            (Bus::Kafka, Unwritten::Away) => "KAFKA_AWAY",
            (Bus::Nats, Unwritten::Away) => "NATS_AWAY",
            (Bus::Kafka, Unwritten::Refused) => "KAFKA_REFUSED",
            (Bus::Nats, Unwritten::Refused) => "NATS_REFUSED",
        }
    }
}

/// The way of records to a bus. It is called in the middle of a turn, so it must not block.
pub trait Recorder: Send + Sync {
    /// Takes a record. With a number, a question about the bus's answer follows ([`read_question`]).
    fn write(&self, record: &Record<'_>, asked: Option<u64>) -> Result<(), Unwritten>;
    /// Records need the rooms of their socket.
    fn reads_rooms(&self) -> bool;
    /// The ack of a client means that the bus has the event.
    fn waits(&self) -> Option<Waits>;
    /// A record was refused before it came here: too many clients wait.
    fn refused(&self);
}

/// How clients wait for a bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waits {
    /// It has so long.
    pub time: Duration,
    /// Acks of one shard that may wait. Other questions share their table with them: tokens, decisions of workers.
    pub acks_max: usize,
}

/// The bus, and the number of the record that a shard asks about; `None`: the question is about something else.
pub fn read_question(question: &[u8]) -> Option<(Bus, u64)> {
    let (mark, number) = question.split_first()?;
    let bus = Bus::ALL.into_iter().find(|bus| bus.mark() == *mark)?;
    Some((bus, u64::from_be_bytes(number.try_into().ok()?)))
}

fn write_question(bus: Bus, number: u64) -> Box<[u8]> {
    let mut question = vec![bus.mark()];
    question.extend_from_slice(&number.to_be_bytes());
    question.into()
}

/// The answer to such a question.
pub fn write_answer(answer: Result<(), Unwritten>) -> Box<[u8]> {
    let word: &[u8] = match answer {
        Ok(()) => b"+",
        Err(Unwritten::Busy) => b"b",
        Err(Unwritten::Away) => b"a",
        Err(Unwritten::Refused) => b"r",
    };
    word.into()
}

fn read_answer(answer: Option<&[u8]>) -> Result<(), Unwritten> {
    match answer {
        Some(b"+") => Ok(()),
        Some(b"b") => Err(Unwritten::Busy),
        Some(b"r") => Err(Unwritten::Refused),
        _ => Err(Unwritten::Away),
    }
}

/// What an event says, while its ack is somebody else's.
#[derive(Clone, Copy)]
pub(crate) struct Said<'a> {
    pub(crate) name: &'a str,
    pub(crate) args: &'a str,
    pub(crate) attachments: &'a [Vec<u8>],
}

impl<'a> Said<'a> {
    pub(crate) fn of(event: &Event<'a>) -> Self {
        Self {
            name: event.name,
            args: event.args,
            attachments: event.attachments,
        }
    }
}

/// What is known of an event beside its words.
#[derive(Clone, Copy, Default)]
pub(crate) struct Around<'a> {
    /// The room that it names.
    pub(crate) room: Option<&'a str>,
    pub(crate) inner: Option<Inner>,
    pub(crate) trace: Option<TraceParent>,
    /// A backend decided about the socket.
    pub(crate) backend: bool,
}

/// The records of one shard.
pub(crate) struct Records {
    recorders: Recorders,
    shard: u16,
    made: u64,
    /// Records of each socket so far, for each bus.
    sequences: HashMap<SocketKey, [u64; 2]>,
    /// Clients that wait for a bus.
    waiting: HashMap<u64, (Bus, SocketKey, AckTo)>,
}

impl Records {
    pub(crate) fn new(recorders: Recorders, shard: u16) -> Self {
        Self {
            recorders,
            shard,
            made: 0,
            sequences: HashMap::new(),
            waiting: HashMap::new(),
        }
    }

    /// A socket is in.
    pub(crate) fn connected(&mut self, buses: Buses, socket: &Member<'_>, around: Around<'_>) {
        self.tell(buses, socket, Moment::Connect, said("connect", ""), around);
    }

    /// A socket goes.
    pub(crate) fn disconnecting(
        &mut self,
        buses: Buses,
        socket: &Member<'_>,
        reason: DisconnectReason,
        around: Around<'_>,
    ) {
        let mut args = Vec::new();
        json::quote(&mut args, reason.as_str());
        let args = String::from_utf8_lossy(&args);
        let said = said("disconnect", &args);
        self.tell(buses, socket, Moment::Disconnect, said, around);
    }

    /// A recorder counts what it does not take; nobody waits for this.
    fn tell(
        &mut self,
        buses: Buses,
        socket: &Member<'_>,
        moment: Moment,
        said: Said<'_>,
        around: Around<'_>,
    ) {
        for bus in Bus::ALL.into_iter().filter(|bus| buses.has(*bus)) {
            let _ = self.write(bus, socket, moment, said, around, None);
        }
    }

    /// Nothing is kept of a socket that is gone.
    pub(crate) fn forget(&mut self, socket: SocketKey) {
        self.sequences.remove(&socket);
    }

    /// Of its last record for each bus, if there was any.
    pub(crate) fn numbers_of(&self, socket: SocketKey) -> Vec<u64> {
        let numbers = self.sequences.get(&socket);
        numbers.map_or_else(Vec::new, |numbers| numbers.to_vec())
    }

    /// As the process before had them.
    pub(crate) fn go_on_with(&mut self, socket: SocketKey, numbers: &[u64]) {
        let own = self.sequences.entry(socket).or_default();
        for (own, number) in own.iter_mut().zip(numbers) {
            *own = *number;
        }
    }

    /// An event, beside what else is done with it. Where one bus does not take it, an earlier one has it.
    pub(crate) fn beside(
        &mut self,
        buses: Buses,
        socket: &Member<'_>,
        said: Said<'_>,
        around: Around<'_>,
    ) -> Result<(), Refusal> {
        let mut buses = Bus::ALL.into_iter().filter(|bus| buses.has(*bus));
        buses.try_for_each(|bus| {
            let written = self.write(bus, socket, Moment::Message, said, around, None);
            written.map_err(|why| Refusal { bus, why })
        })
    }

    /// An event that is for a bus alone. Its client's ack means what the configuration says.
    pub(crate) fn alone(
        &mut self,
        bus: Bus,
        socket: &mut Member<'_>,
        event: Event<'_>,
        around: Around<'_>,
    ) {
        let refusal = |why| Refusal { bus, why };
        let recorder = self.recorders[bus.place()].clone();
        let recorder = recorder.filter(|_| event.ack.is_some());
        let waits = recorder.as_ref().and_then(|recorder| recorder.waits());
        let (said, moment) = (Said::of(&event), Moment::Message);
        let Some(Waits { time, acks_max }) = waits else {
            return match self.write(bus, socket, moment, said, around, None) {
                Err(why) => refuse(socket, event.ack, refusal(why)),
                Ok(()) => answer(&mut socket.cx(), event.ack),
            };
        };
        self.made += 1;
        let (number, token) = (self.number(), TOKEN_MARK | self.made);
        let question = write_question(bus, number);
        // First the question: a bound that speaks against it speaks against the record, too.
        let asked =
            self.waiting.len() < acks_max && socket.ask_outside(question, time + GRACE, token);
        if !asked {
            if let Some(recorder) = recorder {
                recorder.refused();
            }
            return refuse(socket, event.ack, refusal(Unwritten::Busy));
        }
        match self.write(bus, socket, moment, said, around, Some(number)) {
            // Nobody answers the question then, and nobody waits for that.
            Err(why) => refuse(socket, event.ack, refusal(why)),
            Ok(()) => {
                if let Some(ack) = event.ack {
                    self.waiting.insert(token, (bus, socket.key(), ack));
                }
            }
        }
    }

    /// A bus's answer. `false`: somebody else asked.
    pub(crate) fn answered(
        &mut self,
        cx: &mut Context<'_>,
        token: u64,
        answer: Option<&[u8]>,
    ) -> bool {
        let Some((bus, socket, ack)) = self.waiting.remove(&token) else {
            return token & TOKEN_MARK != 0;
        };
        match read_answer(answer) {
            Ok(()) => self::answer(cx, Some(ack)),
            Err(why) => refuse(&mut cx.socket(socket), Some(ack), Refusal { bus, why }),
        }
        true
    }

    /// No other record of this process has it.
    fn number(&self) -> u64 {
        (u64::from(self.shard) << OWN_BITS) | self.made
    }

    fn write(
        &mut self,
        bus: Bus,
        socket: &Member<'_>,
        moment: Moment,
        said: Said<'_>,
        around: Around<'_>,
        asked: Option<u64>,
    ) -> Result<(), Unwritten> {
        let Some(recorder) = &self.recorders[bus.place()] else {
            return Ok(());
        };
        let (Some(id), Some(namespace)) = (socket.id(), socket.namespace()) else {
            return Ok(());
        };
        let sequences = self.sequences.entry(socket.key()).or_default();
        let sequence = &mut sequences[bus.place()];
        *sequence += 1;
        let id = id.to_string();
        // What joins or leaves speaks of that room alone.
        let rooms = match around.inner.is_none() && recorder.reads_rooms() {
            true => rooms(socket, around.room, &id),
            false => around.room.map(str::to_owned).into_iter().collect(),
        };
        let attachments = sizes(said.attachments);
        let record = Record {
            moment,
            client: Client::of(&id, socket, around.backend),
            rooms: &rooms,
            inner: around.inner,
            trace: around.trace.map(|context| context.trace),
            namespace,
            name: said.name,
            sequence: *sequence,
            body: &body(said),
            attachments: attachments.as_deref(),
        };
        recorder.write(&record, asked)
    }
}

fn said<'a>(name: &'a str, args: &'a str) -> Said<'a> {
    Said {
        name,
        args,
        attachments: &[],
    }
}

fn refuse(socket: &mut Member<'_>, ack: Option<AckTo>, refusal: Refusal) {
    socket.refuse(ack, refusal.message(), refusal.code());
}

fn answer(cx: &mut Context<'_>, ack: Option<AckTo>) {
    if let Some(ack) = ack {
        cx.ack(ack, "", &[]);
    }
}

/// The room that the event names, then the others but the socket's own.
fn rooms(socket: &Member<'_>, named: Option<&str>, id: &str) -> Vec<String> {
    let own = socket.rooms().into_iter();
    let own = own.filter(|room| room != id && Some(room.as_str()) != named);
    named.map(str::to_owned).into_iter().chain(own).collect()
}

fn body(said: Said<'_>) -> Vec<u8> {
    let attached: usize = said.attachments.iter().map(Vec::len).sum();
    let mut body = Vec::with_capacity(said.name.len() + said.args.len() + attached + 8);
    body.push(b'[');
    json::quote(&mut body, said.name);
    if !said.args.is_empty() {
        body.push(b',');
        body.extend_from_slice(said.args.as_bytes());
    }
    body.push(b']');
    for attachment in said.attachments {
        body.extend_from_slice(attachment);
    }
    body
}

fn sizes(attachments: &[Vec<u8>]) -> Option<String> {
    let (first, more) = attachments.split_first()?;
    let mut sizes = first.len().to_string();
    for attachment in more {
        let _ = write!(sizes, ",{}", attachment.len());
    }
    Some(sizes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_what_the_client_said_and_its_attachments_behind_it() {
        assert_eq!(body(said("a\"b", "")), br#"["a\"b"]"#);
        let attachments = [b"12".to_vec(), b"345".to_vec()];
        let said = Said {
            name: "say",
            args: r#"{"_placeholder":true,"num":0},1.50"#,
            attachments: &attachments,
        };
        let expected = br#"["say",{"_placeholder":true,"num":0},1.50]12345"#;
        assert_eq!(body(said), expected);
        assert_eq!(sizes(&attachments).as_deref(), Some("2,3"));
        assert_eq!(sizes(&[]), None);
    }

    #[test]
    fn a_backend_is_named_before_a_token() {
        let client = |user, by_backend| Client {
            socket: "s",
            user,
            claim: None,
            by_backend,
        };
        let ways = [
            (Some("ann"), true),
            (None, true),
            (Some("ann"), false),
            (None, false),
        ];
        let ways = ways.map(|(user, by_backend)| client(user, by_backend).auth());
        assert_eq!(ways, ["backend", "backend", "token", "none"]);
    }

    #[test]
    fn questions_and_answers_are_read_as_they_were_written() {
        let number = (3 << OWN_BITS) | 7;
        for bus in Bus::ALL {
            let question = write_question(bus, number);
            assert_eq!(read_question(&question), Some((bus, number)));
            assert_eq!(read_question(&question[..8]), None);
        }
        assert_eq!(read_question(b"h1234567"), None);
        let all = [
            Ok(()),
            Err(Unwritten::Busy),
            Err(Unwritten::Away),
            Err(Unwritten::Refused),
        ];
        for answer in all {
            assert_eq!(read_answer(Some(&write_answer(answer))), answer);
        }
        assert_eq!(read_answer(None), Err(Unwritten::Away));
    }
}
