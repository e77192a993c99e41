//! What `bench check` says of scenarios that are readable but not sound.

use super::Scenario;

/// Place and text of every problem; empty when the scenario is sound.
fn problems(text: &str) -> Vec<String> {
    let Err(problems) = Scenario::parse("x.toml", text) else {
        return Vec::new();
    };
    let told = problems.list.iter();
    told.map(|p| format!("{}:{}: {}", p.line, p.column, p.message))
        .collect()
}

/// The only problem of a text.
fn problem(text: &str) -> String {
    let mut all = problems(text);
    assert_eq!(all.len(), 1, "{all:?} in\n{text}");
    all.remove(0)
}

/// A sound scenario but for `head`, `phase` and `steps`; the steps stand in line 9 from column 29.
fn text(head: &str, phase: &str, steps: &str) -> String {
    format!(
        "name = \"x\"\n{head}\n[[phases]]\nname = \"go\"\nconnections = 1\n{phase}\n\
         [flows.a]\n\nsteps = [{{ connect = true }},{steps}]\n"
    )
}

fn of_steps(steps: &str) -> Vec<String> {
    problems(&text("", "duration = \"1s\"", steps))
}

fn of_step(step: &str) -> String {
    problem(&text("", "duration = \"1s\"", step))
}

fn of_variables(lines: &str, steps: &str) -> Vec<String> {
    let head = format!("[variables]\n{lines}");
    problems(&text(&head, "duration = \"1s\"", steps))
}

#[test]
fn only_the_last_phase_may_end_within_a_second() {
    let more =
        "duration = \"1200ms\"\n[[phases]]\nduration = \"2s\"\n[[phases]]\nduration = \"1500ms\"";
    let scenario = Scenario::parse("x.toml", &text("", more, "")).unwrap();
    let lengths = scenario.phases.iter().map(|p| p.duration.as_millis());
    assert_eq!(lengths.collect::<Vec<_>>(), [2_000, 2_000, 1_500]);
}

#[test]
fn there_must_be_a_flow() {
    let of = |flows: &str| {
        problem(&format!(
            "name = \"x\"\n[[phases]]\nconnections = 1\nduration = \"1s\"\n{flows}"
        ))
    };
    for flows in ["", "[flows]\n"] {
        assert!(of(flows).contains("needs a flow"), "{flows}");
    }
}

#[test]
fn counts_must_be_enough_for_all_users() {
    let of = |counts: [&str; 2]| {
        let [a, b] = counts;
        problems(&format!(
            "name = \"x\"\n[[phases]]\nconnections = 20\nduration = \"1s\"\n\
             [flows.a]\n{a}\nsteps = [{{ connect = true }}]\n\
             [flows.b]\n{b}\nsteps = [{{ connect = true }}]\n"
        ))
    };
    let told = of(["count = 2", "count = 3"]).join("\n");
    assert!(told.contains("for 5 users and there are 20"), "{told}");
    assert!(of(["count = 2", ""]).is_empty());
    assert!(of(["count = 12", "count = 8"]).is_empty());
}

/// Lines `step => part of what it is told`.
fn told_of_each(table: &str) {
    let lines = table.lines().filter_map(|line| line.split_once(" => "));
    for (step, told) in lines {
        let found = of_step(step.trim());
        assert!(found.contains(told), "{step}: {found}");
    }
}

#[test]
fn a_loop_needs_something_that_takes_time() {
    told_of_each(
        r#"
        { loop = [{ emit = "a" }] } => 9:29: loop: it would never pause; give it "every", "pace", a "think" or an answer
        { loop = [{ emit = "a" }], for = "1s" } => 9:29: loop: it would never pause
        { loop = [{ wait = "go" }] } => "wait" takes no time once its phase has begun
        { loop = [{ think = "0s" }] } => it would never pause
        { loop = [{ emit = "a" }], times = 1000000000 } => 1000000000 rounds without a pause are more than 1000
        { loop = [{ loop = [{ emit = "a" }], times = 40 }], times = 40 } => 1600 rounds without a pause
        { loop = [{ loop = [{ emit = "a" }], every = "1s", times = 1 }] } => it would never pause
        { loop = [{ loop = [{ emit = "a", ack = true }], every = "9s", for = "1s" }] } => it would never pause
        "#,
    );
}

#[test]
fn a_loop_that_takes_time_is_sound() {
    let steps = r#"
        { loop = [{ emit = "a" }], times = 1000 }
        { loop = [{ loop = [{ emit = "a" }], times = 1000 }, { think = "1s" }] }
        { loop = [{ loop = [{ emit = "a" }], times = 1000, every = "1s" }] }
        { loop = [{ emit = "a" }], every = "1s" }
        { loop = [{ emit = "a", ack = true }] }
        { loop = [{ think = { min = "0s", max = "1s" } }] }
        { loop = [{ join = "a" }, { leave = "a" }] }
        { loop = [{ wait = "go" }, { expect = "a" }] }
        { loop = [{ disconnect = true }, { reconnect = true }] }"#;
    for step in steps.lines() {
        assert_eq!(of_steps(step), Vec::<String>::new(), "{step}");
    }
}

#[test]
fn arithmetic_that_cannot_be_is_told() {
    told_of_each(
        r#"
        { join = "${1/0}" } => 9:38: join: cannot read "1/0": what stands behind '/'
        { join = "${1 +}" } => cannot read "1 +": a number or a name is missing
        { join = "${random(1}" } => cannot read "random(1": ',' is missing
        { join = "${1 2}" } => cannot read "1 2": "2" is not expected there
        { join = "${user / 0}" } => behind '/' is always 0
        { emit = "a", body = '${9223372036854775807 + 1}' } => is too large
        { join = "${random(5,1)}" } => random(5, 1): the first number is above
        { join = "${text(0 - 1)}" } => text(-1): give a number from 0 to 1048576
        "#,
    );
    let deep = format!("{{ join = \"${{{}1}}\" }}", "(".repeat(50_000));
    let found = of_step(&deep);
    assert!(
        found.starts_with("9:38: join: ") && found.contains("longer than 1000 bytes"),
        "{found}"
    );
}

#[test]
fn names_that_name_nothing_are_told() {
    told_of_each(
        r#"
        { join = "" } => 9:38: join: "" names no room
        { leave = "" } => 9:39: leave: "" names no room
        { emit = "" } => 9:38: emit: "" names nothing
        { expect = "" } => 9:40: expect: "" names nothing
        { emit = "a", to = "" } => 9:48: to: "" names no room
        { emit = "a", body = '' } => 9:50: body: it is empty: JSON is needed, such as '{}'
        { join = "r-${stamp}" } => 9:38: join: "${stamp}" and "${fill}" mean something in payloads only
        { join = "r-${fill}" } => 9:38: join: "${stamp}" and "${fill}" mean something in payloads only
        "#,
    );
}

#[test]
fn names_of_socket_io_itself_are_refused_there_only() {
    let names = "connect connect_error disconnect disconnecting newListener removeListener";
    for name in names.split(' ') {
        let step = format!("{{ emit = \"{name}\" }}");
        let (told, start) = (
            of_step(&step),
            format!("9:38: emit: \"{name}\" belongs to Socket.IO"),
        );
        assert!(told.starts_with(&start), "{told}");
        let plain = text("protocol = \"websocket\"", "duration = \"1s\"", &step);
        assert_eq!(problems(&plain), Vec::<String>::new());
    }
    let head = "join_event = \"connect\"";
    let told = problem(&text(head, "duration = \"1s\"", "{ join = \"a\" }"));
    assert!(told.starts_with("2:14: join_event: "), "{told}");
}

#[test]
fn credentials_of_socket_io_are_an_object() {
    told_of_each(
        r#"
        { auth = '{"a"' } => 9:38: auth: it is not JSON when filled in, EOF
        { auth = '"token"' } => 9:38: auth: it is no JSON object
        "#,
    );
    let sound = "{ auth = '{\"token\":\"${text(9)}\",\"n\":${user}}' }";
    assert_eq!(of_steps(sound), Vec::<String>::new());
    let head = "protocol = \"centrifugo\"";
    let bearer = text(head, "duration = \"1s\"", "{ auth = 'abc' }");
    assert_eq!(problems(&bearer), Vec::<String>::new());
}

#[test]
fn a_rate_needs_a_loop_that_follows_it() {
    let of = |step| problems(&text("", "duration = \"1s\"\nrate = \"5/s\"", step));
    let told = "7:1: rate: no loop follows it; give one pace = \"phase\", or leave the rate out";
    assert_eq!(of("{ loop = [{ emit = \"a\" }], every = \"1s\" }"), [told]);
    assert_eq!(
        of("{ loop = [{ emit = \"a\" }], pace = \"phase\" }"),
        Vec::<String>::new()
    );
    // The loop that is misspelt may be the one.
    assert_eq!(
        of("{ lop = [{ emit = \"a\" }], pace = \"phase\" }").len(),
        1
    );
}

#[test]
fn times_without_length_are_told() {
    assert_eq!(
        problem(&text("", "duration = \"0s\"", "{ think = \"1s\" }")),
        "6:12: duration: \"0s\" is too short: it must be above zero"
    );
    told_of_each(
        r#"
        { join = "a", within = "0s" } => "0s" is too short
        { loop = [{ emit = "a" }], every = "0s" } => "0s" is too short
        { loop = [{ emit = "a" }], for = "0s" } => "0s" is too short
        "#,
    );
}

#[test]
fn numbers_out_of_range_are_told_with_value_and_bounds() {
    let table = r#"99999999999999999999 => 99999999999999999999 is out of range: from 1 to 10,000,000
        9_000_000_000_000_000_000 => 9_000_000_000_000_000_000 is out of range: from 1 to
        0x7fffffff => 0x7fffffff is out of range
        1.5 => a whole number is needed, not 1.5
        "many" => a whole number is needed, not "many""#;
    for (given, told) in table.lines().filter_map(|line| line.split_once(" => ")) {
        let given = given.trim();
        let phase = format!(
            "arrivals = \"1/s\"\nduration = \"1s\"\n[[phases]]\nduration = \"1s\"\nconnections = {given}"
        );
        let found = problem(&text("", &phase, "{ think = \"1s\" }"));
        assert!(found.starts_with("10:15: connections: "), "{found}");
        assert!(found.contains(told), "{given}: {found}");
    }
    assert_eq!(
        of_step("{ reconnect = true, jitter = 7 }"),
        "9:58: jitter: a number from 0 to 1 is needed, not 7"
    );
}

#[test]
fn a_fault_is_told_once_and_not_again_where_it_is_used() {
    let payload = |lines: &str| {
        let head = format!("[payloads.p]\n{lines}");
        problem(&text(
            &head,
            "duration = \"1s\"",
            "{ emit = \"a\", payload = \"p\", to = \"r\" }",
        ))
    };
    assert!(payload("body = '{\"a\":}'").contains("payload \"p\": it is not JSON"));
    assert!(payload("body = '${usr}'").contains("unknown name \"usr\""));
    assert_eq!(
        payload("size = -1"),
        "3:8: size: -1 is out of range: from 0 to 64 MiB"
    );
    assert!(payload("size = \"9000GB\"").contains("64 MiB"));
    let uses = "{ loop = [{ join = \"${room}\" }, { emit = \"a\", body = '${room}' }] }";
    for bad in [
        "room = \"${usr}\"",
        "room = 99999999999999999999",
        "room = true",
    ] {
        let found = of_variables(bad, uses);
        assert_eq!(found.len(), 1, "{bad}: {found:?}");
        assert!(found[0].starts_with("3:8: room: "), "{found:?}");
    }
}

#[test]
fn a_variable_stands_above_its_use() {
    let below = "room = \"r-${members}\"\nmembers = 5";
    let told = "3:8: room: variable \"members\" is defined below: it must stand above the first one that uses it";
    assert_eq!(of_variables(below, "{ join = \"${room}\" }"), [told]);
    assert_eq!(of_variables("a = \"${a}\"", "{ join = \"${a}\" }").len(), 1);
    let above = "members = 5\nroom = \"r-${members}\"";
    let sound = of_variables(above, "{ join = \"${room}\" }");
    assert_eq!(sound, Vec::<String>::new());
}

#[test]
fn variables_that_double_each_other_are_refused() {
    let mut lines = "v0 = \"${user}ab\"".to_owned();
    for number in 1..=40 {
        let before = number - 1;
        lines.push_str(&format!("\nv{number} = \"${{v{before}}}${{v{before}}}\""));
    }
    let found = of_variables(&lines, "{ join = \"${v40}\" }");
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains("longer than 1048576 bytes"), "{found:?}");
}

#[test]
fn a_shortened_scenario_brings_as_many_users() {
    let text = "name = 's'\n[[phases]]\nname = 'ramp'\narrivals = '10/s'\nduration = '100s'\n\
                [[phases]]\nname = 'hold'\nduration = '3s'\n[flows.a]\nsteps = [{ connect = true }]";
    let scenario = Scenario::parse("s.toml", text).unwrap().shortened(0.1);
    let lasts: Vec<u64> = scenario
        .phases
        .iter()
        .map(|phase| phase.duration.as_secs())
        .collect();
    assert_eq!(lasts, [10, 1]);
    assert_eq!(
        (scenario.users(), scenario.phases[0].arrivals),
        (1_000, Some(100.0))
    );
}

/// The complaint about a text, word for word: people read it in their editor.
fn complaint(text: &str) -> String {
    Scenario::parse("x.toml", text).unwrap_err().to_string()
}

#[test]
fn all_problems_are_told_at_once_with_their_places() {
    let text = r#"name = "x"
protocol = "socketio"
speed = 3

[payloads.chat]
size = "12 parsecs"

[[phases]]
name = "ramp"
durration = "10s"
connections = 0
arrivals = "100"

[flows.user]
weight = 1
count = 2
steps = [
  { conect = true },
  { join = "room-${usr}" },
]
"#;
    let expected = r#"x.toml:2:12: protocol: "socketio" is no protocol (did you mean "socket.io"?)
x.toml:3:1: unknown key "speed" in the scenario (known: name, about, variables, payloads, phases, flows, protocol, transport, compression, path, namespace, join_event, leave_event, spread)
x.toml:6:8: size: "12 parsecs" is no size: write "128B", "4KiB" or "1MB"
x.toml:8:1: [[phases]] needs "duration"
x.toml:10:1: unknown key "durration" in [[phases]] (did you mean "duration"?)
x.toml:11:15: connections: 0 is out of range: from 1 to 10,000,000
x.toml:12:12: arrivals: "100" is no rate: write "100/s" or "6/m"
x.toml:14:8: flow "user" has both "count" and "weight"
x.toml:18:5: unknown step "conect" (did you mean "connect"?)
x.toml:19:3: join: the user is not connected here; "connect" comes first
x.toml:19:12: join: unknown name "usr" (did you mean "user"?)
11 problems in the scenario, nothing was connected"#;
    assert_eq!(complaint(text), expected);
}

#[test]
fn broken_toml_is_told_with_its_place() {
    let told = complaint("name = \"x\"\nphases = [\n");
    assert!(
        told.starts_with("x.toml:2:11: cannot read TOML: "),
        "{told}"
    );
}

#[test]
fn what_is_missing_is_told() {
    assert_eq!(
        complaint("about = \"x\"\n"),
        "x.toml:1:1: the scenario needs [[phases]]\n\
         x.toml:1:1: the scenario needs a flow: [flows.NAME] with \"steps\"\n\
         x.toml:1:1: the scenario needs \"name\"\n\
         3 problems in the scenario, nothing was connected"
    );
}

#[test]
fn steps_are_checked_one_by_one() {
    told_of_each(
        r#"
        { join = "a", emit = "b" } => 9:29: one step, two verbs: join and emit; write two steps
        { } => 9:29: an empty step
        7 => 9:29: a step: a table such as { join = "lobby" } is needed, not 7
        { emit = "a", payload = "chatt" } => 9:53: payload: there is no payload "chatt" (there is none)
        { emit = "a", echo = true } => 9:29: emit: "echo" says something about "to", which is missing
        { emit = "a", to = "r", body = '{}' } => 9:29: emit: what is sent "to" a room is counted, so its payload needs "${stamp}"
        { emit = "a", body = '{"a":}' } => 9:50: body: it is not JSON when filled in, expected value at line 1 column 7: {"a":}
        { emit = "a", within = "1s" } => 9:29: emit: "within" needs "ack = true"
        { think = { min = "2s", max = "1s" } } => 9:39: think: min 2s is longer than max 1s
        { think = { min = "2s" } } => 9:39: "think" needs "max"
        { wait = "later" } => 9:38: wait: there is no phase "later" (known: go)
        { loop = [], pace = "phase" } => 9:29: loop: its pace is the phase's, but no phase has a "rate"
        { loop = [], pace = "mine" } => 9:49: pace: "mine" is no pace: the only one is "phase"
        { connect = true } => 9:29: connect: the user is connected already
        { emit = "a", window = 8 } => 9:52: emit: "window" is how many may be unanswered: it needs "ack = true" or "echo = true"
        { auth = { user = "u" } } => 9:38: "auth" needs "secret"
        { reconnect = true, jitter = 2 } => 9:58: jitter: a number from 0 to 1 is needed, not 2
        { expect = "a", count = -1 } => 9:53: count: -1 is out of range: from 1 to 4,294,967,295
        { leave = "a", within = "soon" } => 9:53: within: "soon" is no duration: write "250ms", "30s", "5m" or "1h"
        "#,
    );
}

#[test]
fn an_event_stream_cannot_send() {
    let text = "name = \"x\"\nprotocol = \"sse\"\n[[phases]]\nconnections = 1\nduration = \"1s\"\n\
                [flows.a]\nsteps = [{ connect = true }, { join = \"a\" }]\n";
    assert_eq!(
        complaint(text),
        "x.toml:7:30: join: an event stream goes one way only; name the room in \"connect\" and let \
         another flow send\n1 problem in the scenario, nothing was connected"
    );
}

#[test]
fn a_scenario_that_is_not_there_is_told_with_the_nearest_name() {
    let error = Scenario::load("stairecase").unwrap_err().to_string();
    assert_eq!(
        error,
        "there is no scenario \"stairecase\" (did you mean \"staircase\"?); a file ends in .toml"
    );
    let error = Scenario::load("nowhere.toml").unwrap_err().to_string();
    assert_eq!(error, "cannot read scenario nowhere.toml");
}
