//! Owns the reading of a whole scenario file: its head, variables, payloads, phases and flows.

use super::check::{check_payload, socket_io_event};
use super::fields::{Fields, Reader, Value, in_order, integer};
use super::problem::{Problem, Problems};
use super::steps::{FlowReader, Names};
use super::template::{Template, Variable};
use super::value;
use super::{
    Backoff, Endpoint, Flow, OnLoss, Pace, Payload, Phase, Protocol, Scenario, Share, Step,
    Transport,
};
use std::collections::BTreeMap;
use std::time::Duration;
use toml::de::{DeTable, DeValue};

const ENDPOINT_KEYS: [&str; 8] = [
    "protocol",
    "transport",
    "compression",
    "path",
    "namespace",
    "join_event",
    "leave_event",
    "spread",
];
const PHASE_KEYS: [&str; 5] = ["name", "duration", "connections", "arrivals", "rate"];
/// More users than any machine of today has ports and memory for.
const CONNECTIONS_MAX: u32 = 10_000_000;
const WEIGHT_MAX: u32 = 1_000_000;

pub fn read(file: &str, text: &str) -> Result<Scenario, Problems> {
    let (table, errors) = DeTable::parse_recoverable(text);
    let mut reader = Reader::new(text);
    for error in errors {
        let at = error.span().map_or(0, |span| span.start);
        let message = error.message().replace('\n', "; ");
        reader.problem(at, format!("cannot read TOML: {message}"));
    }
    // What a broken file seems to say is not worth checking further.
    let scenario = match reader.problems.is_empty() {
        true => read_scenario(&mut reader, table.get_ref()),
        false => None,
    };
    let mut list = reader.problems;
    list.sort_by_key(|problem: &Problem| (problem.line, problem.column));
    match scenario.filter(|_| list.is_empty()) {
        Some(scenario) => Ok(Scenario {
            file: file.into(),
            text: text.into(),
            ..scenario
        }),
        None => Err(Problems {
            file: file.into(),
            list,
        }),
    }
}

fn read_scenario(reader: &mut Reader<'_>, table: &DeTable<'_>) -> Option<Scenario> {
    let known = ["name", "about", "variables", "payloads", "phases", "flows"];
    let known = [&known[..], &ENDPOINT_KEYS].concat();
    let head = reader.open("the scenario", 0, table, &known);
    read_variables(reader, &head);
    let payloads = read_payloads(reader, &head);
    let phases = read_phases(reader, &head);
    let names = Names {
        payloads,
        phases: phases.iter().map(|phase| phase.name.clone()).collect(),
        has_rate: phases.iter().any(|phase| phase.rate.is_some()),
    };
    let endpoint = read_endpoint(reader, &head, None);
    let faults = reader.faults;
    let flows = read_flows(reader, &head, &names, endpoint.as_ref());
    if reader.faults == faults {
        check_rates(reader, &head, &flows);
    }
    let name = reader.name(&head, "name");
    if !head.has("name") {
        reader.missing(&head, "name");
    }
    let about = reader.text(&head, "about", |text| Ok(text.to_owned()));
    let scenario = Scenario {
        name: name?,
        about: about.unwrap_or_default(),
        file: String::new(),
        text: String::new(),
        scale: 1.0,
        time_scale: 1.0,
        phases,
        flows,
    };
    if reader.problems.is_empty() && scenario.users() == 0 {
        reader.problem(
            0,
            "no phase brings any users: give one \"connections\" or \"arrivals\"",
        );
    }
    if reader.problems.is_empty()
        && let Err(why) = scenario.check_counts()
    {
        reader.problem(0, why);
    }
    Some(scenario)
}

fn read_variables(reader: &mut Reader<'_>, head: &Fields<'_>) {
    let Some(table) = table_of(reader, head, "variables") else {
        return;
    };
    let mut entries = in_order(table);
    entries.retain(|(name, at, _)| {
        let taken = matches!(
            &**name,
            "user" | "users" | "iteration" | "seq" | "random" | "stamp" | "fill" | "text"
        );
        if taken {
            reader.problem(
                *at,
                format!("{name:?} has a meaning of its own and cannot be a variable"),
            );
        }
        !taken
    });
    let names = entries
        .iter()
        .map(|(name, ..)| (name.clone(), Variable::Below));
    reader.variables = names.collect();
    for (name, _, value) in entries {
        let variable = match value.get_ref() {
            DeValue::Integer(_) => integer(value.get_ref()).map(Variable::Number).or_else(|| {
                let why = format!("{name}: it is out of range, {} is the most", i64::MAX);
                reader.problem(value.span().start, why);
                None
            }),
            DeValue::String(_) => {
                let variables = std::mem::take(&mut reader.variables);
                let template =
                    reader.text_value(&name, value, |text| Template::compile(text, &variables));
                reader.variables = variables;
                template.map(Variable::Text)
            }
            _ => {
                reader.wrong_kind(&name, value, "a whole number or a text");
                None
            }
        };
        // A variable that could not be read still has a name, or every use would be a problem too.
        reader
            .variables
            .insert(name, variable.unwrap_or(Variable::Unreadable));
    }
}

fn read_payloads(reader: &mut Reader<'_>, head: &Fields<'_>) -> BTreeMap<String, Payload> {
    let mut payloads = BTreeMap::new();
    let Some(table) = table_of(reader, head, "payloads") else {
        return payloads;
    };
    for (name, at, value) in in_order(table) {
        let DeValue::Table(table) = value.get_ref() else {
            reader.wrong_kind(&name, value, "a table");
            continue;
        };
        let payload = read_payload(reader, &name, at, table);
        // One that is wrong still has a name, or every use would be a problem too.
        payloads.insert(name, payload.unwrap_or_else(Payload::plain));
    }
    payloads
}

fn read_payload(
    reader: &mut Reader<'_>,
    name: &str,
    at: usize,
    table: &DeTable<'_>,
) -> Option<Payload> {
    let fields = reader.open(format!("payload {name:?}"), at, table, &["size", "body"]);
    let size = match fields.get("size") {
        None => Some(0),
        Some(value) => read_size(reader, value),
    };
    let body = match fields.has("body") {
        true => reader.body(&fields, "body"),
        false => Some(Payload::plain().body),
    };
    let payload = Payload {
        body: body?,
        size: size?,
    };
    check_payload(&payload)
        .map_err(|error| reader.problem(fields.place("body"), format!("payload {name:?}: {error}")))
        .ok()?;
    Some(payload)
}

/// A text with a unit, or a number of bytes.
fn read_size(reader: &mut Reader<'_>, value: &Value<'_>) -> Option<usize> {
    let DeValue::Integer(digits) = value.get_ref() else {
        return reader.text_value("size", value, value::size);
    };
    let bytes = integer(value.get_ref()).unwrap_or(i64::MAX);
    let size = value::whole_size(bytes);
    let told = size.map_err(|why| format!("size: {} {why}", digits.as_str()));
    told.map_err(|told| reader.problem(value.span().start, told))
        .ok()
}

/// A rate that no loop follows would be silence that looks like a load.
fn check_rates(reader: &mut Reader<'_>, head: &Fields<'_>, flows: &[Flow]) {
    let mut steps = flows.iter().flat_map(|flow| &flow.steps);
    if steps.any(|step| matches!(step, Step::Loop(repeat) if repeat.pace == Pace::Phase)) {
        return;
    }
    let Some(DeValue::Array(phases)) = head.get("phases").map(|value| value.get_ref()) else {
        return;
    };
    for phase in phases.iter().filter_map(|phase| phase.get_ref().as_table()) {
        for (_, at, _) in in_order(phase).iter().filter(|(key, ..)| key == "rate") {
            reader.problem(
                *at,
                "rate: no loop follows it; give one pace = \"phase\", or leave the rate out",
            );
        }
    }
}

fn read_phases(reader: &mut Reader<'_>, head: &Fields<'_>) -> Vec<Phase> {
    let mut phases: Vec<Phase> = Vec::new();
    for (number, (at, table)) in tables_of(reader, head, "phases").into_iter().enumerate() {
        let fields = reader.open("[[phases]]", at, table, &PHASE_KEYS);
        let name = reader.name(&fields, "name");
        let name = name.unwrap_or_else(|| format!("phase {}", number + 1));
        let duration = reader.duration_above_zero(&fields, "duration");
        if !fields.has("duration") {
            reader.missing(&fields, "duration");
        }
        if phases.iter().any(|phase| phase.name == name) {
            reader.problem(at, format!("a phase named {name:?} was there already"));
        }
        let connections = reader.count(&fields, "connections", 1..=CONNECTIONS_MAX);
        let before = phases.iter().filter_map(|phase| phase.connections).max();
        if let (Some(connections), Some(before)) = (connections, before)
            && connections < before
        {
            reader.problem(
                at,
                format!(
                    "connections: {connections} after {before}: users are added, never taken away"
                ),
            );
        }
        phases.push(Phase {
            name,
            duration: duration.unwrap_or(Duration::ZERO),
            connections,
            arrivals: reader.rate(&fields, "arrivals"),
            rate: reader.rate(&fields, "rate"),
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

fn read_compression(
    reader: &mut Reader<'_>,
    fields: &Fields<'_>,
    protocol: Protocol,
) -> Option<bool> {
    let compression = reader.boolean(fields, "compression");
    if compression == Some(true) && protocol == Protocol::Sse {
        let why = "compression: an event stream has none";
        reader.problem(fields.place("compression"), why);
    }
    compression
}

/// A flow's own settings stand above those of the whole scenario.
fn read_endpoint(
    reader: &mut Reader<'_>,
    fields: &Fields<'_>,
    outer: Option<&Endpoint>,
) -> Option<Endpoint> {
    let protocol = reader.text(fields, "protocol", Protocol::named);
    let transport = reader.text(fields, "transport", Transport::named);
    let path = reader.template(fields, "path");
    let namespace = reader.text(fields, "namespace", |text| match text.starts_with('/') {
        true => Ok(text.to_owned()),
        false => Err(format!("{text:?} does not begin with a slash")),
    });
    let join_event = reader.text(fields, "join_event", socket_io_event);
    let leave_event = reader.text(fields, "leave_event", socket_io_event);
    let new_protocol = protocol.filter(|own| outer.is_none_or(|outer| outer.protocol != *own));
    let protocol = protocol
        .or(outer.map(|outer| outer.protocol))
        .unwrap_or(Protocol::SocketIo);
    let transport = transport
        .or(outer.map(|o| o.transport))
        .unwrap_or(Transport::WebSocket);
    if fields.has("transport") && protocol != Protocol::SocketIo {
        reader.problem(
            fields.place("transport"),
            format!(
                "transport: only socket.io has a choice of transports, not {}",
                protocol.name()
            ),
        );
    }
    let compression = read_compression(reader, fields, protocol);
    let spread = reader.template(fields, "spread");
    let by_user = || Template::compile("${user}", &BTreeMap::new()).ok();
    let usual = || Template::compile(protocol.usual_path(), &BTreeMap::new()).ok();
    let inherited = outer
        .filter(|_| new_protocol.is_none())
        .map(|outer| outer.path.clone());
    Some(Endpoint {
        protocol,
        transport,
        compression: compression
            .or(outer.map(|o| o.compression))
            .unwrap_or(false),
        path: path.or(inherited).or_else(usual)?,
        spread: spread
            .or(outer.map(|o| o.spread.clone()))
            .or_else(by_user)?,
        namespace: namespace
            .or(outer.map(|o| o.namespace.clone()))
            .unwrap_or_else(|| "/".into()),
        join_event: join_event
            .or(outer.map(|o| o.join_event.clone()))
            .unwrap_or_else(|| "join".into()),
        leave_event: leave_event
            .or(outer.map(|o| o.leave_event.clone()))
            .unwrap_or_else(|| "leave".into()),
    })
}

fn read_flows(
    reader: &mut Reader<'_>,
    head: &Fields<'_>,
    names: &Names,
    outer: Option<&Endpoint>,
) -> Vec<Flow> {
    let mut flows = Vec::new();
    let table = table_of(reader, head, "flows");
    if !head.has("flows") || table.is_some_and(|table| table.is_empty()) {
        reader.problem(0, "the scenario needs a flow: [flows.NAME] with \"steps\"");
    }
    let Some(table) = table else {
        return flows;
    };
    for (name, at, value) in in_order(table) {
        let DeValue::Table(table) = value.get_ref() else {
            reader.wrong_kind(&name, value, "a table");
            continue;
        };
        if let Some(flow) = read_flow(reader, name, at, table, names, outer) {
            flows.push(flow);
        }
    }
    // Counted flows come first in `flow_of`; the order of the file decides among equals.
    flows.sort_by_key(|flow: &Flow| matches!(flow.share, Share::Weight(_)));
    flows
}

fn read_flow(
    reader: &mut Reader<'_>,
    name: String,
    at: usize,
    table: &DeTable<'_>,
    names: &Names,
    outer: Option<&Endpoint>,
) -> Option<Flow> {
    let known = [&["weight", "count", "on_loss", "steps"][..], &ENDPOINT_KEYS].concat();
    let fields = reader.open(format!("flow {name:?}"), at, table, &known);
    let endpoint = read_endpoint(reader, &fields, outer)?;
    let count = reader.count(&fields, "count", 1..=CONNECTIONS_MAX);
    let weight = reader.count(&fields, "weight", 1..=WEIGHT_MAX);
    if count.is_some() && weight.is_some() {
        reader.problem(
            at,
            format!("flow {name:?} has both \"count\" and \"weight\""),
        );
    }
    let on_loss = reader.text(&fields, "on_loss", |text| match text {
        "stop" => Ok(OnLoss::Stop),
        "restart" => Ok(OnLoss::Restart(Backoff::default())),
        _ => Err(format!("{text:?} is neither \"stop\" nor \"restart\"")),
    });
    let Some(steps) = fields.get("steps") else {
        reader.missing(&fields, "steps");
        return None;
    };
    let mut flow_reader = FlowReader::new(reader, names, &endpoint);
    flow_reader.read(steps);
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

fn table_of<'d>(reader: &mut Reader<'_>, head: &Fields<'d>, key: &str) -> Option<&'d DeTable<'d>> {
    let value = head.get(key)?;
    match value.get_ref() {
        DeValue::Table(table) => Some(table),
        _ => {
            reader.wrong_kind(key, value, "a table");
            None
        }
    }
}

fn tables_of<'d>(
    reader: &mut Reader<'_>,
    head: &Fields<'d>,
    key: &str,
) -> Vec<(usize, &'d DeTable<'d>)> {
    let Some(value) = head.get(key) else {
        reader.problem(0, format!("the scenario needs [[{key}]]"));
        return Vec::new();
    };
    let DeValue::Array(items) = value.get_ref() else {
        reader.wrong_kind(key, value, &format!("a list, [[{key}]],"));
        return Vec::new();
    };
    let mut tables = Vec::new();
    for item in items.iter() {
        let item: &Value<'_> = item;
        match item.get_ref() {
            DeValue::Table(table) => tables.push((item.span().start, table)),
            _ => reader.wrong_kind(key, item, "a table"),
        }
    }
    tables
}
