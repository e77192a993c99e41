//! The keys of `[traces]`.

use crate::config::typed::{Whole, section};
use identity::Secret;

section! {
    /// Where spans go.
    Traces = "traces." {
        endpoint: Option<String> = "",
            "Address of an OpenTelemetry collector (OTLP over HTTP, protobuf), such as `http://127.0.0.1:4318/v1/traces`. Unset: \
             nothing is recorded; the trace that a client says still goes to its backend.";
        header: Option<Secret> = "",
            "A header line for the collector, such as `Authorization: Bearer …`.";
        one_in: Whole<0, 1_000_000_000> = "1000",
            "One of this many connects and events that belong to no trace begins one. 0: none does.";
        trust_clients: bool = "true",
            "A trace that a client says and has sampled is recorded. If not, chance decides (`one_in`).";
        service: String = "sockeye",
            "`service.name` of the spans.";
    }
}
