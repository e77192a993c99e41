//! Traces: a collector of the test reads them with OpenTelemetry's own messages.

use crate::backend::receiver::{Receiver, Reply, Told};
use crate::harness::client::SOCKETIO;
use crate::harness::{Gateway, PATIENCE, RawConn, SocketIo, eventually};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::trace::v1::Span;
use serde_json::json;
use tonic_prost::prost::Message;

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const SPAN: &str = "00f067aa0ba902b7";

/// A client's trace.
fn parent(flags: &str) -> String {
    format!("00-{TRACE}-{SPAN}-{flags}")
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn collector() -> Receiver {
    Receiver::open(|_| Reply::empty())
}

fn section(collector: &Receiver, more: &str) -> String {
    let addr = collector.addr;
    format!("[traces]\nendpoint = \"http://{addr}/v1/traces\"\nservice = \"kitchen\"\n{more}\n")
}

/// All spans that a collector has got.
fn spans(collector: &Receiver) -> Vec<Span> {
    let requests = collector.told();
    let requests = requests.iter().map(|told| {
        assert_eq!(told.path, "/v1/traces");
        assert_eq!(told.header("content-type"), Some("application/x-protobuf"));
        ExportTraceServiceRequest::decode(told.body.as_slice()).expect("OTLP")
    });
    let resources = requests.flat_map(|request| request.resource_spans);
    let scopes = resources.flat_map(|of_resource| {
        let resource = of_resource.resource.expect("a resource");
        let service = resource.attributes.iter();
        let mut service = service.filter(|attribute| attribute.key == "service.name");
        assert!(format!("{:?}", service.next()).contains("kitchen"));
        of_resource.scope_spans
    });
    scopes.flat_map(|of_scope| of_scope.spans).collect()
}

fn span(collector: &Receiver, name: &str) -> Span {
    let find = || spans(collector).into_iter().find(|span| span.name == name);
    let found = eventually(PATIENCE, || find().is_some());
    assert!(found, "{name} among {:?}", spans(collector));
    let span = find().expect("a span");
    assert!(span.start_time_unix_nano > 1_700_000_000_000_000_000);
    assert!(span.end_time_unix_nano >= span.start_time_unix_nano);
    span
}

fn endpoint(told: &Told) -> Reply {
    match told.events()[0]["type"].as_str() {
        Some("event") => Reply::json(&json!({"commands": [{"ack": {"args": ["done"]}}]})),
        _ => Reply::empty(),
    }
}

fn shop(addr: std::net::SocketAddr) -> String {
    format!(
        "profile = \"socket.io\"\n[server]\nshards = 2\n[namespaces.\"/\"]\nbackend = \"shop\"\n\
         [backends.shop]\nurl = \"http://{addr}/\"\nprivate_addresses = true\n"
    )
}

fn client(gateway: &Gateway, query: &str, header: &str) -> SocketIo {
    let conn = RawConn::websocket_with(gateway.addr, &format!("{SOCKETIO}{query}"), header);
    let mut client = SocketIo::over(conn);
    client.join_namespace("/", "");
    client
}

#[test]
fn a_clients_trace_goes_on_through_its_endpoint_and_back() {
    let (collector, receiver) = (collector(), Receiver::open(endpoint));
    let config = shop(receiver.addr) + &section(&collector, "one_in = 0");
    let gateway = Gateway::start(&config);
    let header = format!("Traceparent: {}\r\n", parent("01"));
    let mut traced = client(&gateway, "", &header);
    let mut untraced = client(&gateway, "", "");
    assert_eq!(traced.ask(1, &json!(["order"])), json!(["done"]));
    assert_eq!(untraced.ask(1, &json!(["order"])), json!(["done"]));
    let connect = span(&collector, "connect /");
    let event = span(&collector, "event order");
    for first in [&connect, &event] {
        assert_eq!(hex(&first.trace_id), TRACE);
        assert_eq!(hex(&first.parent_span_id), SPAN);
    }
    let ack = span(&collector, "command ack");
    let calls = spans(&collector).into_iter();
    let calls: Vec<Span> = calls.filter(|span| span.name == "call shop").collect();
    let call = calls.iter().find(|call| call.span_id == ack.parent_span_id);
    let call = call.expect("the call that the command came of");
    assert_eq!(call.parent_span_id, event.span_id);
    assert!(call.start_time_unix_nano <= ack.start_time_unix_nano);
    let told = receiver.told().into_iter();
    let told = told.filter(|told| told.events()[0]["type"] == "event");
    let said: Vec<Option<String>> = told
        .map(|told| told.header("traceparent").map(str::to_owned))
        .collect();
    let expected = format!("00-{TRACE}-{}-01", hex(&call.span_id));
    assert_eq!(said, [Some(expected), None], "the second has no trace");
    assert!(
        spans(&collector)
            .iter()
            .all(|span| hex(&span.trace_id) == TRACE)
    );
}

#[test]
fn without_a_collector_the_endpoint_still_gets_the_clients_trace() {
    let receiver = Receiver::open(endpoint);
    let gateway = Gateway::start(&shop(receiver.addr));
    let mut client = client(&gateway, &format!("&traceparent={}", parent("00")), "");
    assert_eq!(client.ask(1, &json!(["order"])), json!(["done"]));
    for told in receiver.told() {
        assert_eq!(told.header("traceparent"), Some(&*parent("00")));
        assert_eq!(told.events()[0]["traceparent"], parent("00"));
    }
    assert_eq!(receiver.told().len(), 2);
}

#[test]
fn an_event_to_a_room_has_a_span_and_one_for_its_fan_out() {
    let collector = collector();
    let rules = "profile = \"socket.io\"\n[namespaces.\"/\"]\nauto_join = [\"all\"]\n";
    let gateway = Gateway::start(&format!("{rules}{}", section(&collector, "one_in = 1")));
    // One that its client does not sample, one that is, one without a trace.
    let mut skipped = client(&gateway, &format!("&traceparent={}", parent("00")), "");
    let mut chosen = client(&gateway, &format!("&traceparent={}", parent("01")), "");
    let mut new = client(&gateway, "", "");
    skipped.emit(&json!(["skipped"]));
    chosen.emit(&json!(["chosen"]));
    new.emit(&json!(["new"]));
    let above = span(&collector, "event chosen");
    let below = span(&collector, "fan-out chosen");
    assert_eq!(hex(&above.trace_id), TRACE);
    assert_eq!(
        (below.parent_span_id, &below.trace_id),
        (above.span_id, &above.trace_id)
    );
    let root = span(&collector, "event new");
    assert!(root.parent_span_id.is_empty() && hex(&root.trace_id) != TRACE);
    let mut all = spans(&collector).into_iter();
    assert!(all.all(|span| !span.name.ends_with("skipped")));
}

#[test]
fn a_collector_that_refuses_costs_its_spans_and_nothing_else() {
    let collector = Receiver::open(|_| Reply(400, "", String::new()));
    let rules = "profile = \"socket.io\"\n[namespaces.\"/\".events.echo]\naction = \"reply\"\n";
    let gateway = Gateway::start(&format!("{rules}{}", section(&collector, "one_in = 1")));
    let mut client = client(&gateway, "", "");
    for at in 0..100 {
        assert_eq!(client.ask(at, &json!(["echo", at])), json!([at]));
    }
    let dropped = r#"sockeye_trace_spans_total{outcome="dropped"}"#;
    assert!(gateway.reaches(dropped, 101.0) >= 101.0);
    assert!(gateway.logged("cannot send traces", PATIENCE));
}
