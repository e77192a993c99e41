//! Traces: which trace a client's doings belong to, and the way to what records them.

use hub::SocketKey;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

/// A place in a trace: `traceparent` of W3C Trace Context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceParent {
    /// The trace, never 0.
    pub trace: u128,
    /// The span in it, never 0.
    pub span: u64,
    /// Its spans are recorded.
    pub sampled: bool,
}

impl TraceParent {
    /// `None`: it is no valid one, and a new trace begins (W3C Trace Context §3.2.2).
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.splitn(5, '-');
        let mut hex = |len: usize| {
            let part = parts.next()?;
            let lower = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
            let valid = part.len() == len && part.bytes().all(lower);
            u128::from_str_radix(part, 16).ok().filter(|_| valid)
        };
        let (version, trace, span, flags) = (hex(2)?, hex(32)?, hex(16)?, hex(2)?);
        // Later versions may have more fields.
        let more = parts.next().is_some();
        if version == 0xff || (version == 0 && more) || trace == 0 || span == 0 {
            return None;
        }
        Some(Self {
            trace,
            span: span as u64,
            sampled: flags & 1 == 1,
        })
    }

    /// The client's word at the opening of its session: a header line, or `traceparent` in the query, because browsers send no
    /// header lines of their own with a WebSocket.
    pub(crate) fn of(request: &hub::ConnectRequest<'_>) -> Option<Self> {
        let mut headers = request.headers.iter();
        let header = headers.find(|(name, _)| name.eq_ignore_ascii_case("traceparent"));
        let header = header.and_then(|(_, value)| std::str::from_utf8(value).ok());
        let mut query = request.query.split('&');
        let query = || query.find_map(|pair| pair.strip_prefix("traceparent="));
        Self::parse(header.or_else(query)?)
    }
}

impl fmt::Display for TraceParent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let flags = u8::from(self.sampled);
        write!(f, "00-{:032x}-{:016x}-{flags:02x}", self.trace, self.span)
    }
}

/// The subject of a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doing {
    /// A client wants into a namespace.
    Connect,
    /// A client's event is handled.
    Event,
    /// An event is brought to the members of rooms.
    FanOut,
    /// An endpoint is called.
    Call,
    /// A backend's command is handed to the shards.
    Command,
}

/// Something that is being done, and recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// Itself.
    pub context: TraceParent,
    /// The span above it; 0 = none.
    pub parent: u64,
    /// Its subject.
    pub doing: Doing,
    /// Of the event, the namespace, the command or the backend.
    pub name: String,
    /// Nanoseconds since 1970.
    pub began_ns: u64,
    /// It came to nothing.
    pub failed: bool,
}

/// The recorder of spans. It is called in the middle of a turn, so it must not block.
pub trait Tracer: Send + Sync {
    /// `None`: this one is not recorded.
    fn begin(&self, parent: Option<TraceParent>, doing: Doing, name: &str) -> Option<Span>;
    /// It is done.
    fn end(&self, span: Span);
}

/// A client that came with a trace, or whose coming is recorded.
pub(crate) struct Arrival {
    parent: Option<TraceParent>,
    span: Option<Span>,
}

impl Arrival {
    /// The words for a backend.
    pub(crate) fn context(&self) -> Option<TraceParent> {
        self.span.as_ref().map(|span| span.context).or(self.parent)
    }
}

/// The traces of one shard.
#[derive(Default)]
pub(crate) struct Tracks {
    tracer: Option<Arc<dyn Tracer>>,
    /// Is let in at this moment, by no backend.
    arriving: Option<Box<Arrival>>,
    /// Traces that clients came with.
    parents: HashMap<SocketKey, TraceParent>,
}

impl Tracks {
    pub(crate) fn new(tracer: Option<Arc<dyn Tracer>>) -> Self {
        Self {
            tracer,
            ..Self::default()
        }
    }

    pub(crate) fn arrival(&self, request: &hub::ConnectRequest<'_>) -> Option<Box<Arrival>> {
        let parent = TraceParent::of(request);
        let span = self.begin(parent, Doing::Connect, request.namespace);
        let traced = parent.is_some() || span.is_some();
        traced.then(|| Box::new(Arrival { parent, span }))
    }

    /// A client that no backend decides about.
    pub(crate) fn arrives(&mut self, request: &hub::ConnectRequest<'_>) {
        if self.tracer.is_some() {
            self.arriving = self.arrival(request);
        }
    }

    /// It is in. `decided`: by a backend.
    pub(crate) fn arrived(&mut self, socket: SocketKey, decided: Option<Box<Arrival>>) {
        let Some(arrival) = decided.or_else(|| self.arriving.take()) else {
            return;
        };
        if let Some(parent) = arrival.parent {
            self.parents.insert(socket, parent);
        }
        self.end(arrival.span);
    }

    /// It is not let in.
    pub(crate) fn turned_away(&self, arrival: Option<Box<Arrival>>) {
        let span = arrival.and_then(|arrival| arrival.span);
        self.end(span.map(|span| Span {
            failed: true,
            ..span
        }));
    }

    pub(crate) fn left(&mut self, socket: SocketKey) {
        self.parents.remove(&socket);
    }

    pub(crate) fn parent(&self, socket: SocketKey) -> Option<TraceParent> {
        // Most clients came without.
        if self.parents.is_empty() {
            return None;
        }
        self.parents.get(&socket).copied()
    }

    pub(crate) fn begin(
        &self,
        parent: Option<TraceParent>,
        doing: Doing,
        name: &str,
    ) -> Option<Span> {
        self.tracer.as_ref()?.begin(parent, doing, name)
    }

    pub(crate) fn end(&self, span: Option<Span>) {
        if let (Some(span), Some(tracer)) = (span, &self.tracer) {
            tracer.end(span);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_valid_parents_are_taken() {
        let text = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let parent = TraceParent::parse(text).expect("the example of the standard");
        assert_eq!(parent.to_string(), text);
        assert!(parent.sampled);
        let later = format!("cc{}-what-comes-later", &text[2..]);
        assert_eq!(TraceParent::parse(&later), Some(parent));
        let unsampled = format!("{}00", &text[..53]);
        assert!(!TraceParent::parse(&unsampled).expect("valid").sampled);
        for wrong in [
            "",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "00-+bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        ] {
            assert_eq!(TraceParent::parse(wrong), None, "{wrong}");
        }
    }
}
