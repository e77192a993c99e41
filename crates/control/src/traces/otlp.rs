//! The messages of OTLP (opentelemetry.proto.collector.trace.v1), as far as they are needed.

use prost::Message;
use rules::{Doing, Span};

/// A span that is done.
pub(super) struct Ended {
    pub(super) span: Span,
    pub(super) ended_ns: u64,
}

/// The sender.
pub(super) struct Resource(ResourceMessage);

impl Resource {
    pub(super) fn new(service: &str) -> Self {
        let attributes = vec![
            KeyValue::new("service.name", service),
            KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
        ];
        Self(ResourceMessage { attributes })
    }

    pub(super) fn request(&self, spans: impl Iterator<Item = Ended>) -> Request {
        let scope = Scope {
            name: "sockeye".to_owned(),
        };
        let of_scope = ScopeSpans {
            scope: Some(scope),
            spans: spans.map(SpanMessage::from).collect(),
        };
        let of_resource = ResourceSpans {
            resource: Some(self.0.clone()),
            scope_spans: vec![of_scope],
        };
        Request {
            resource_spans: vec![of_resource],
        }
    }
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Request {
    #[prost(message, repeated, tag = "1")]
    resource_spans: Vec<ResourceSpans>,
}

#[derive(Clone, PartialEq, Message)]
struct ResourceSpans {
    #[prost(message, optional, tag = "1")]
    resource: Option<ResourceMessage>,
    #[prost(message, repeated, tag = "2")]
    scope_spans: Vec<ScopeSpans>,
}

#[derive(Clone, PartialEq, Message)]
struct ResourceMessage {
    #[prost(message, repeated, tag = "1")]
    attributes: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, Message)]
struct ScopeSpans {
    #[prost(message, optional, tag = "1")]
    scope: Option<Scope>,
    #[prost(message, repeated, tag = "2")]
    spans: Vec<SpanMessage>,
}

#[derive(Clone, PartialEq, Message)]
struct Scope {
    #[prost(string, tag = "1")]
    name: String,
}

#[derive(Clone, PartialEq, Message)]
struct SpanMessage {
    #[prost(bytes = "vec", tag = "1")]
    trace_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    span_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "4")]
    parent_span_id: Vec<u8>,
    #[prost(string, tag = "5")]
    name: String,
    #[prost(int32, tag = "6")]
    kind: i32,
    #[prost(fixed64, tag = "7")]
    start_time_unix_nano: u64,
    #[prost(fixed64, tag = "8")]
    end_time_unix_nano: u64,
    #[prost(message, repeated, tag = "9")]
    attributes: Vec<KeyValue>,
    #[prost(message, optional, tag = "15")]
    status: Option<Status>,
}

#[derive(Clone, PartialEq, Message)]
struct KeyValue {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(message, optional, tag = "2")]
    value: Option<AnyValue>,
}

#[derive(Clone, PartialEq, Message)]
struct AnyValue {
    #[prost(string, tag = "1")]
    string_value: String,
}

#[derive(Clone, PartialEq, Message)]
struct Status {
    /// 2 = an error.
    #[prost(int32, tag = "3")]
    code: i32,
}

impl KeyValue {
    fn new(key: &str, value: &str) -> Self {
        Self {
            key: key.to_owned(),
            value: Some(AnyValue {
                string_value: value.to_owned(),
            }),
        }
    }
}

impl From<Ended> for SpanMessage {
    fn from(ended: Ended) -> Self {
        let span = ended.span;
        // Numbers of `Span.SpanKind`: internal, server, client.
        let (word, key, kind) = match span.doing {
            Doing::Connect => ("connect", "sockeye.namespace", 2),
            Doing::Event => ("event", "sockeye.event", 2),
            Doing::FanOut => ("fan-out", "sockeye.event", 1),
            Doing::Call => ("call", "sockeye.backend", 3),
            Doing::Command => ("command", "sockeye.command", 1),
        };
        let parent = (span.parent != 0).then(|| span.parent.to_be_bytes().to_vec());
        Self {
            trace_id: span.context.trace.to_be_bytes().to_vec(),
            span_id: span.context.span.to_be_bytes().to_vec(),
            parent_span_id: parent.unwrap_or_default(),
            name: format!("{word} {}", span.name),
            kind,
            start_time_unix_nano: span.began_ns,
            end_time_unix_nano: ended.ended_ns.max(span.began_ns),
            attributes: vec![KeyValue::new(key, &span.name)],
            status: span.failed.then_some(Status { code: 2 }),
        }
    }
}
