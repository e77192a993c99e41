//! Owns the reading of a whole scenario file: its head, variables, payloads, phases and flows.

use super::check::{check_payload, socket_io_event};
use super::fields::{Fields, Reader, Value, in_order, integer};
use super::problem::{Problem, Problems};
use super::steps::{FlowReader, Names};
use super::template::{Template, Variable};
use super::value;
use super::{
    Backoff, Endpoint, Flow, OnLoss, Payload, Phase, Protocol, Scenario, Share, Source, Transport,
};
use std::collections::BTreeMap;
use std::time::Duration;
use toml::de::{DeTable, DeValue};

const HEAD_KEYS: &[&str] = &["name", "about", "variables", "payloads", "phases", "flows"];
const FLOW_KEYS: &[&str] = &["weight", "count", "on_loss", "steps"];
const PHASE_KEYS: [&str; 5] = ["name", "duration", "connections", "arrivals", "rate"];
const ENDPOINT_KEYS: &[&str] = &[
    "protocol",
    "transport",
    "compression",
    "path",
    "namespace",
    "join_event",
    "leave_event",
    "spread",
];
/// Names in holes that are no variables.
const OWN_NAMES: [&str; 8] = [
    "user",
    "users",
    "iteration",
    "seq",
    "random",
    "stamp",
    "fill",
    "text",
];
/// More users than any machine of today has ports and memory for.
const CONNECTIONS_MAX: u32 = 10_000_000;
const WEIGHT_MAX: u32 = 1_000_000;

pub fn read(source: Source) -> Result<Scenario, Problems> {
    let (table, errors) = DeTable::parse_recoverable(&source.text);
    let reader = Reader::new(&source.text, source.protocol);
    for error in errors {
        let at = error.span().map_or(0, |span| span.start);
        let message = error.message().replace('\n', "; ");
        reader.problem(at, format!("cannot read TOML: {message}"));
    }
    // What a broken file seems to say is not worth checking further.
    let scenario = match reader.has_problems() {
        false => read_scenario(&reader, table.get_ref()),
        true => None,
    };
    let mut list = reader.problems();
    list.sort_by_key(|problem: &Problem| (problem.line, problem.column));
    match scenario.filter(|_| list.is_empty()) {
        Some(scenario) => Ok(Scenario { source, ..scenario }),
        None => Err(Problems {
            file: source.file,
            list,
        }),
    }
}

fn read_scenario(reader: &Reader<'_>, table: &DeTable<'_>) -> Option<Scenario> {
    let known = [HEAD_KEYS, ENDPOINT_KEYS].concat();
    let head = reader.open("the scenario", 0, table, &known);
    read_variables(&head);
    let payloads = read_payloads(&head);
    let tables = tables_of(&head, "phases");
    let phases = read_phases(&head, &tables);
    let names = Names {
        payloads,
        phases: phases.iter().map(|phase| phase.name.clone()).collect(),
        has_rate: phases.iter().any(|phase| phase.rate.is_some()),
    };
    let endpoint = read_endpoint(&head, None);
    let faults = reader.faults();
    let flows = read_flows(&head, &names, endpoint.as_ref());
    if reader.faults() == faults {
        check_rates(reader, &tables, &flows);
    }
    head.need(&["name"]);
    let name = head.name("name");
    let about = head.text("about", |text| Ok(text.to_owned()));
    let scenario = Scenario {
        name: name?,
        about: about.unwrap_or_default(),
        source: Source::default(),
        phases,
        flows,
    };
    if !reader.has_problems() && scenario.users() == 0 {
        head.problem("no phase brings any users: give one \"connections\" or \"arrivals\"");
    }
    if !reader.has_problems()
        && let Err(why) = scenario.check_counts()
    {
        head.problem(why);
    }
    Some(scenario)
}

fn read_variables(head: &Fields<'_>) {
    let reader = head.reader;
    let mut entries = head.entries("variables");
    entries.retain(|(name, at, _)| {
        let taken = OWN_NAMES.contains(&&**name);
        if taken {
            let why = format!("{name:?} has a meaning of its own and cannot be a variable");
            reader.problem(*at, why);
        }
        !taken
    });
    for (name, ..) in &entries {
        reader.define(name, Variable::Below);
    }
    for (name, _, value) in entries {
        let variable = match value.get_ref() {
            DeValue::Integer(_) => integer(value.get_ref()).map(Variable::Number).or_else(|| {
                let why = format!("{name}: it is out of range, {} is the most", i64::MAX);
                reader.problem(value.span().start, why);
                None
            }),
            DeValue::String(_) => reader.template(&name, value).map(Variable::Text),
            _ => reader.wrong_kind(&name, value, "a whole number or a text"),
        };
        // A variable that could not be read still has a name, or every use would be a problem too.
        reader.define(&name, variable.unwrap_or(Variable::Unreadable));
    }
}

fn read_payloads(head: &Fields<'_>) -> BTreeMap<String, Payload> {
    let mut payloads = BTreeMap::new();
    for (name, at, value) in head.entries("payloads") {
        if let Some(table) = head.reader.table(&name, value) {
            let what = format!("payload {name:?}");
            let payload = read_payload(
                &what,
                &head.reader.open(&what, at, table, &["size", "body"]),
            );
            // One that is wrong still has a name, or every use would be a problem too.
            payloads.insert(name, payload.unwrap_or_else(Payload::plain));
        }
    }
    payloads
}

fn read_payload(what: &str, fields: &Fields<'_>) -> Option<Payload> {
    let size = match fields.get("size") {
        None => Some(0),
        Some(value) => read_size(fields.reader, value),
    };
    let body = match fields.has("body") {
        true => fields.body("body"),
        false => Some(Payload::plain().body),
    };
    let (body, size) = (body?, size?);
    let payload = Payload { body, size };
    let checked = check_payload(&payload);
    let told = checked.map_err(|error| fields.problem_at("body", format!("{what}: {error}")));
    told.ok().map(|()| payload)
}

/// A text with a unit, or a number of bytes.
fn read_size(reader: &Reader<'_>, value: &Value<'_>) -> Option<usize> {
    if !matches!(value.get_ref(), DeValue::Integer(_)) {
        return reader.text("size", value, value::size);
    }
    let size = value::whole_size(integer(value.get_ref()).unwrap_or(i64::MAX));
    let told = size.map_err(|why| format!("size: {} {why}", reader.given(value)));
    told.map_err(|told| reader.problem(value.span().start, told))
        .ok()
}

/// A rate that no loop follows would be silence that looks like a load.
fn check_rates(reader: &Reader<'_>, phases: &[(usize, &DeTable<'_>)], flows: &[Flow]) {
    if flows.iter().any(Flow::is_paced) {
        return;
    }
    for (_, phase) in phases {
        for (_, at, _) in in_order(phase).iter().filter(|(key, ..)| key == "rate") {
            let why = "rate: no loop follows it; give one pace = \"phase\", or leave the rate out";
            reader.problem(*at, why);
        }
    }
}

fn read_phases(head: &Fields<'_>, tables: &[(usize, &DeTable<'_>)]) -> Vec<Phase> {
    let mut phases: Vec<Phase> = Vec::new();
    if !head.has("phases") {
        head.problem("the scenario needs [[phases]]");
    }
    for (number, (at, table)) in tables.iter().enumerate() {
        let fields = head.reader.open("[[phases]]", *at, table, &PHASE_KEYS);
        let name = fields.name("name");
        let name = name.unwrap_or_else(|| format!("phase {}", number + 1));
        let duration = fields.duration_above_zero("duration");
        fields.need(&["duration"]);
        if phases.iter().any(|phase| phase.name == name) {
            fields.problem(format!("a phase named {name:?} was there already"));
        }
        let connections = fields.count("connections", 1..=CONNECTIONS_MAX);
        let before = phases.iter().filter_map(|phase| phase.connections).max();
        if let Some((now, before)) = connections.zip(before).filter(|(now, before)| now < before) {
            let why = format!("{now} after {before}: users are added, never taken away");
            fields.problem(format!("connections: {why}"));
        }
        phases.push(Phase {
            name,
            duration: duration.unwrap_or(Duration::ZERO),
            connections,
            arrivals: fields.rate("arrivals"),
            rate: fields.rate("rate"),
        });
    }
    // Figures are told by seconds: the second in which a phase ends would be the next one's too.
    let last = phases.len().saturating_sub(1);
    for phase in &mut phases[..last] {
        if phase.duration.subsec_nanos() > 0 {
            phase.duration = Duration::from_secs(phase.duration.as_secs() + 1);
        }
    }
    phases
}

/// A flow's own settings stand above those of the whole scenario; a protocol that is spoken instead has its own path,
/// transport and namespace.
fn read_endpoint(fields: &Fields<'_>, outer: Option<&Endpoint>) -> Option<Endpoint> {
    let reader = fields.reader;
    let own = reader.instead;
    let instead = own.filter(|_| outer.is_none() || fields.has("protocol"));
    let kept = instead.is_none();
    let protocol = fields.text("protocol", Protocol::named);
    let protocol = instead.or(protocol);
    let transport = fields.text("transport", Transport::named);
    let path = fields.template("path");
    let namespace = fields.text("namespace", |text| match text.starts_with('/') {
        true => Ok(text.to_owned()),
        false => Err(format!("{text:?} does not begin with a slash")),
    });
    let join_event = fields.text("join_event", socket_io_event);
    let leave_event = fields.text("leave_event", socket_io_event);
    let is_new = protocol.is_some_and(|own| outer.is_none_or(|outer| outer.protocol != own));
    let protocol = protocol.or(outer.map(|outer| outer.protocol));
    let protocol = protocol.unwrap_or(Protocol::SocketIo);
    if fields.has("transport") && kept && protocol != Protocol::SocketIo {
        let why = "transport: only socket.io has a choice of transports, not";
        fields.problem_at("transport", format!("{why} {}", protocol.name()));
    }
    let compression = fields.boolean("compression");
    if compression == Some(true) && protocol == Protocol::Sse {
        let why = "compression: an event stream has none";
        fields.problem_at("compression", why);
    }
    let spread = fields.template("spread");
    let plain = |text: &str| Template::compile(text, &BTreeMap::new()).ok();
    let path = path.filter(|_| kept);
    let path = path.or(outer.filter(|_| !is_new).map(|outer| outer.path.clone()));
    let usual = Endpoint {
        protocol,
        transport: Transport::WebSocket,
        compression: false,
        path: path.or_else(|| plain(protocol.usual_path()))?,
        spread: plain("${user}")?,
        namespace: "/".into(),
        join_event: "join".into(),
        leave_event: "leave".into(),
    };
    let outer = outer.unwrap_or(&usual);
    Some(Endpoint {
        transport: transport.filter(|_| kept).unwrap_or(outer.transport),
        compression: compression.unwrap_or(outer.compression),
        spread: spread.unwrap_or_else(|| outer.spread.clone()),
        namespace: (namespace.filter(|_| kept)).unwrap_or_else(|| outer.namespace.clone()),
        join_event: join_event.unwrap_or_else(|| outer.join_event.clone()),
        leave_event: leave_event.unwrap_or_else(|| outer.leave_event.clone()),
        ..usual.clone()
    })
}

fn read_flows(head: &Fields<'_>, names: &Names, outer: Option<&Endpoint>) -> Vec<Flow> {
    let entries = head.entries("flows");
    let is_table = |value: &Value<'_>| value.get_ref().is_table();
    if entries.is_empty() && head.get("flows").is_none_or(is_table) {
        head.problem("the scenario needs a flow: [flows.NAME] with \"steps\"");
    }
    let mut flows = Vec::new();
    for (name, at, value) in entries {
        if let Some(table) = head.reader.table(&name, value) {
            flows.extend(read_flow(head.reader, name, at, table, names, outer));
        }
    }
    // Counted flows come first in `flow_of`; the order of the file decides among equals.
    flows.sort_by_key(|flow: &Flow| matches!(flow.share, Share::Weight(_)));
    flows
}

fn read_flow(
    reader: &Reader<'_>,
    name: String,
    at: usize,
    table: &DeTable<'_>,
    names: &Names,
    outer: Option<&Endpoint>,
) -> Option<Flow> {
    let known = [FLOW_KEYS, ENDPOINT_KEYS].concat();
    let fields = reader.open(format!("flow {name:?}"), at, table, &known);
    let endpoint = read_endpoint(&fields, outer)?;
    let count = fields.count("count", 1..=CONNECTIONS_MAX);
    let weight = fields.count("weight", 1..=WEIGHT_MAX);
    fields.exclude("count", "weight", &format!("flow {name:?} has"));
    let on_loss = fields.text("on_loss", |text| match text {
        "stop" => Ok(OnLoss::Stop),
        "restart" => Ok(OnLoss::Restart(Backoff::default())),
        _ => Err(format!("{text:?} is neither \"stop\" nor \"restart\"")),
    });
    fields.need(&["steps"]);
    let mut flow_reader = FlowReader::new(reader, names, &endpoint);
    flow_reader.read(fields.get("steps")?);
    let (steps, expected_events) = flow_reader.finish(at);
    Some(Flow {
        name,
        share: count.map_or(Share::Weight(weight.unwrap_or(1)), Share::Count),
        endpoint,
        on_loss: on_loss.unwrap_or(OnLoss::Stop),
        steps,
        expected_events,
    })
}

fn tables_of<'d>(head: &Fields<'d>, key: &str) -> Vec<(usize, &'d DeTable<'d>)> {
    let Some(value) = head.get(key) else {
        return Vec::new();
    };
    let DeValue::Array(items) = value.get_ref() else {
        let none = head
            .reader
            .wrong_kind(key, value, &format!("a list, [[{key}]],"));
        return none.unwrap_or_default();
    };
    let table = |item: &'d Value<'d>| Some((item.span().start, head.reader.table(key, item)?));
    items.iter().filter_map(table).collect()
}
