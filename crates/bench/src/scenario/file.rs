//! Owns the reading of a whole scenario file: its head, variables, payloads, phases and flows.

use super::fields::{Fields, Reader, Value, in_order, integer};
use super::problem::{Problem, Problems, suggestion};
use super::steps::{FlowReader, Names};
use super::template::{Dice, Scope, Template, Variable};
use super::value;
use super::{
    Backoff, Endpoint, Flow, OnLoss, Payload, Phase, Protocol, Scenario, Share, Transport,
};
use std::collections::BTreeMap;
use std::time::Duration;
use toml::de::{DeTable, DeValue};

const ENDPOINT_KEYS: [&str; 7] = [
    "protocol",
    "transport",
    "path",
    "namespace",
    "join_event",
    "leave_event",
    "spread",
];
const PHASE_KEYS: [&str; 5] = ["name", "duration", "connections", "arrivals", "rate"];
/// More users than any machine of today has ports and memory for.
const CONNECTIONS_MAX: u32 = 10_000_000;

pub fn read(file: &str, text: &str) -> Result<Scenario, Problems> {
    let (table, errors) = DeTable::parse_recoverable(text);
    let mut reader = Reader {
        text,
        problems: Vec::new(),
        variables: BTreeMap::new(),
    };
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
    let flows = read_flows(reader, &head, &names, endpoint.as_ref());
    let name = reader.text(&head, "name", |text| Ok(text.to_owned()));
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
        phases,
        flows,
    };
    if reader.problems.is_empty() && scenario.users() == 0 {
        reader.problem(
            0,
            "no phase brings any users: give one \"connections\" or \"arrivals\"",
        );
    }
    Some(scenario)
}

fn read_variables(reader: &mut Reader<'_>, head: &Fields<'_>) {
    let Some(table) = table_of(reader, head, "variables") else {
        return;
    };
    for (name, at, value) in in_order(table) {
        if matches!(
            &*name,
            "user" | "users" | "iteration" | "seq" | "random" | "stamp" | "fill" | "text"
        ) {
            reader.problem(
                at,
                format!("{name:?} has a meaning of its own and cannot be a variable"),
            );
            continue;
        }
        let variable = match value.get_ref() {
            DeValue::Integer(_) => integer(value.get_ref()).map(Variable::Number),
            DeValue::String(text) => match Template::compile(text, &reader.variables) {
                Ok(template) => Some(Variable::Text(template)),
                Err(error) => {
                    reader.problem(value.span().start, format!("{name}: {error}"));
                    None
                }
            },
            _ => {
                reader.wrong_kind(&name, value, "a whole number or a text");
                None
            }
        };
        // A variable that could not be read still has a name, or every use would be a problem too.
        reader
            .variables
            .insert(name, variable.unwrap_or(Variable::Number(0)));
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
        let what = format!("payload {name:?}");
        let fields = reader.open(what, at, table, &["size", "body"]);
        let size = match fields
            .get("size")
            .map(|value| (value, integer(value.get_ref())))
        {
            Some((_, Some(bytes))) => usize::try_from(bytes).ok(),
            Some((value, None)) => reader.text_value("size", value, value::size),
            None => Some(0),
        };
        let body = match fields.has("body") {
            true => reader.template(&fields, "body"),
            false => Template::compile("\"${stamp}${fill}\"", &BTreeMap::new()).ok(),
        };
        let (Some(size), Some(body)) = (size, body) else {
            continue;
        };
        let payload = Payload { body, size };
        let at = fields.get("body").map_or(at, |value| value.span().start);
        match check_payload(&payload) {
            Ok(()) => drop(payloads.insert(name, payload)),
            Err(error) => reader.problem(at, format!("payload {name:?}: {error}")),
        }
    }
    payloads
}

/// Renders one and looks at it as a server would.
pub fn check_payload(payload: &Payload) -> Result<(), String> {
    let Payload { body, size } = payload;
    if body.stamps() > 1 {
        return Err("\"${stamp}\" may stand in it once only".into());
    }
    if body.marks_before_stamp() {
        return Err("no \"~\" may stand before \"${stamp}\"".into());
    }
    let mut out = vec![b'['];
    body.render(
        &mut out,
        &Scope::default(),
        &mut Dice::seeded(1),
        *size,
        |out| {
            crate::engine::identity::Identity::default().write(out);
        },
    );
    let bytes = out.len() - 1;
    out.push(b']');
    if let Err(error) = serde_json::from_slice::<serde_json::Value>(&out) {
        let text = String::from_utf8_lossy(&out[1..=bytes.min(60)]).into_owned();
        return Err(format!("it is not JSON when filled in, {error}: {text}"));
    }
    if body.has_fill() && bytes > *size && *size > 0 {
        return Err(format!(
            "{size} bytes are too few, what it holds is {bytes} bytes long"
        ));
    }
    Ok(())
}

fn read_phases(reader: &mut Reader<'_>, head: &Fields<'_>) -> Vec<Phase> {
    let mut phases: Vec<Phase> = Vec::new();
    for (number, (at, table)) in tables_of(reader, head, "phases").into_iter().enumerate() {
        let fields = reader.open("[[phases]]", at, table, &PHASE_KEYS);
        let name = reader.text(&fields, "name", |text| Ok(text.to_owned()));
        let name = name.unwrap_or_else(|| format!("phase {}", number + 1));
        let duration = reader.duration(&fields, "duration");
        if !fields.has("duration") {
            reader.missing(&fields, "duration");
        }
        if phases.iter().any(|phase| phase.name == name) {
            reader.problem(at, format!("a phase named {name:?} was there already"));
        }
        let connections = reader.count(&fields, "connections", 1);
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
        if connections.is_some_and(|count| count > CONNECTIONS_MAX) {
            reader.problem(at, format!("connections: more than {CONNECTIONS_MAX}"));
        }
        phases.push(Phase {
            name,
            duration: duration.unwrap_or(Duration::ZERO),
            connections,
            arrivals: reader.rate(&fields, "arrivals"),
            rate: reader.rate(&fields, "rate"),
        });
    }
    phases
}

/// A flow's own settings stand above those of the whole scenario.
fn read_endpoint(
    reader: &mut Reader<'_>,
    fields: &Fields<'_>,
    outer: Option<&Endpoint>,
) -> Option<Endpoint> {
    let choice = |names: &'static [&'static str], noun: &'static str| {
        move |text: &str| {
            let hint = suggestion(text, names.iter().copied());
            format!("{text:?} is no {noun}{hint}")
        }
    };
    let unknown = choice(&Protocol::NAMES, "protocol");
    let protocol = reader.text(fields, "protocol", |text| {
        Protocol::named(text).ok_or_else(|| unknown(text))
    });
    let unknown = choice(&Transport::NAMES, "transport");
    let transport = reader.text(fields, "transport", |text| {
        Transport::named(text).ok_or_else(|| unknown(text))
    });
    let path = reader.template(fields, "path");
    let namespace = reader.text(fields, "namespace", |text| match text.starts_with('/') {
        true => Ok(text.to_owned()),
        false => Err(format!("{text:?} does not begin with a slash")),
    });
    let join_event = reader.text(fields, "join_event", |text| Ok(text.to_owned()));
    let leave_event = reader.text(fields, "leave_event", |text| Ok(text.to_owned()));
    let new_protocol = protocol.filter(|own| outer.is_none_or(|outer| outer.protocol != *own));
    let protocol = protocol
        .or(outer.map(|outer| outer.protocol))
        .unwrap_or(Protocol::SocketIo);
    let transport = transport
        .or(outer.map(|o| o.transport))
        .unwrap_or(Transport::WebSocket);
    if fields.has("transport") && protocol != Protocol::SocketIo {
        let at = fields
            .get("transport")
            .map_or(fields.at, |value| value.span().start);
        reader.problem(
            at,
            format!(
                "transport: only socket.io has a choice of transports, not {}",
                protocol.name()
            ),
        );
    }
    let spread = reader.template(fields, "spread");
    let by_user = || Template::compile("${user}", &BTreeMap::new()).ok();
    let usual = || Template::compile(protocol.usual_path(), &BTreeMap::new()).ok();
    let inherited = outer
        .filter(|_| new_protocol.is_none())
        .map(|outer| outer.path.clone());
    Some(Endpoint {
        protocol,
        transport,
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
    let Some(table) = table_of(reader, head, "flows") else {
        if !head.has("flows") {
            reader.problem(0, "the scenario needs a flow: [flows.NAME] with \"steps\"");
        }
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
    let count = reader.count(&fields, "count", 1);
    let weight = reader.count(&fields, "weight", 1);
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
