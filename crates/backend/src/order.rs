//! A worker's command as it is read, in its place among the others.

use crate::message::Ack;
use crate::name::Name;
use crate::proto;
use crate::proto::command::What;

/// Number of the field `FromWorker.commands`.
pub(crate) const COMMANDS: u32 = 4;

#[derive(Debug, PartialEq)]
pub(crate) enum Order {
    /// Answers are the many.
    Ack(Ack),
    Other(proto::Command),
    /// A command whose lists have too many members: nothing is made of it but who waits for it.
    Crowded(Option<Awaited>),
    /// A command that was refused before it came here.
    Refused(&'static str),
}

/// An answer that somebody waits for. A command that is one, and is refused, ends the wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Awaited {
    /// By a client, for its event of this number.
    Ack(Name, u64),
    /// By a newcomer in a namespace.
    Decision(Name),
    /// By a request for a session.
    Verdict(u64),
    /// By another server.
    Reply(u64),
}

impl Awaited {
    pub(crate) fn of(what: &What) -> Option<Self> {
        match what {
            What::Ack(ack) => Some(Self::Ack(Name::parse(&ack.socket)?, ack.ack)),
            What::Decision(decision) => Name::parse(&decision.socket).map(Self::Decision),
            What::Verdict(verdict) => Some(Self::Verdict(verdict.opening)),
            What::Reply(reply) => Some(Self::Reply(reply.told)),
            _ => None,
        }
    }
}

impl Order {
    /// The answer that it is. An ack in a form of its own ends its wait by itself.
    pub(crate) fn awaited(&self) -> Option<Awaited> {
        match self {
            Self::Crowded(awaited) => *awaited,
            Self::Other(command) => Awaited::of(command.what.as_ref()?),
            Self::Ack(_) | Self::Refused(_) => None,
        }
    }

    /// By a target that names nobody, a worker of before `Hello.version` means everybody.
    pub(crate) fn mean_everybody(&mut self) {
        let Self::Other(command) = self else { return };
        let target = match &mut command.what {
            Some(What::Emit(emit)) => emit.to.as_mut(),
            Some(What::Ask(ask)) => ask.emit.as_mut().and_then(|emit| emit.to.as_mut()),
            Some(What::Join(sockets) | What::Leave(sockets)) => sockets.of.as_mut(),
            Some(What::Disconnect(end)) => end.of.as_mut(),
            Some(What::Fetch(fetch)) => fetch.of.as_mut(),
            _ => None,
        };
        if let Some(target) = target {
            target.all = !target.has_names();
        }
    }
}

/// A command that sends an event.
#[derive(Debug)]
pub struct Sending<'a>(&'a mut Order);

impl<'a> Sending<'a> {
    /// `None`: the command sends none.
    pub(crate) fn of(order: &'a mut Order) -> Option<Self> {
        let mut sending = Self(order);
        sending.emit().is_some().then_some(sending)
    }

    /// The event, and for whom it is.
    pub fn emit(&mut self) -> Option<&mut proto::Emit> {
        let Order::Other(command) = &mut *self.0 else {
            return None;
        };
        match &mut command.what {
            Some(What::Emit(emit)) => Some(emit),
            Some(What::Ask(ask)) => ask.emit.as_mut(),
            _ => None,
        }
    }

    /// The worker is told that the command failed.
    pub fn refuse(self, why: &'static str) {
        *self.0 = Order::Refused(why);
    }
}
