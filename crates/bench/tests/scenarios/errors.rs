//! What a wrong scenario file is told, word for word: people read this in their editor.

use bench::scenario::Scenario;

/// The complaint about a text whose first line is line 1.
fn complaint(text: &str) -> String {
    match Scenario::parse("x.toml", text) {
        Ok(_) => panic!("nothing is wrong with\n{text}"),
        Err(problems) => problems.to_string(),
    }
}

/// A sound scenario but for its steps, which begin at line 6.
fn steps(steps: &str) -> String {
    let text = format!(
        "name = \"x\"\n[[phases]]\nname = \"go\"\nconnections = 1\nduration = \"1s\"\n\
         [flows.a]\nsteps = [\n{steps}\n]\n"
    );
    let complaint = complaint(&text);
    let (first, _) = complaint.split_once("\n").unwrap();
    first.strip_prefix("x.toml:").unwrap().to_owned()
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
    let connect = "{ connect = true },";
    for (step, told) in [
        (
            "{ join = \"a\", emit = \"b\" }",
            "8:20: one step, two verbs: join and emit; write two steps",
        ),
        ("{ }", "8:20: an empty step"),
        (
            "7",
            "8:20: a step: a table such as { join = \"lobby\" } is needed, not 7",
        ),
        (
            "{ emit = \"a\", payload = \"chatt\" }",
            "8:44: payload: there is no payload \"chatt\" (there is none)",
        ),
        (
            "{ emit = \"a\", echo = true }",
            "8:20: emit: \"echo\" says something about \"to\", which is missing",
        ),
        (
            "{ emit = \"a\", to = \"r\", body = '{}' }",
            "8:20: emit: what is sent \"to\" a room is counted, so its payload needs \"${stamp}\"",
        ),
        (
            "{ emit = \"a\", body = '{\"a\":}' }",
            "8:41: body: it is not JSON when filled in, expected value at line 1 column 7: {\"a\":}",
        ),
        (
            "{ emit = \"a\", within = \"1s\" }",
            "8:20: emit: \"within\" needs \"ack = true\"",
        ),
        (
            "{ think = { min = \"2s\", max = \"1s\" } }",
            "8:30: think: min 2s is longer than max 1s",
        ),
        (
            "{ think = { min = \"2s\" } }",
            "8:30: \"think\" needs \"max\"",
        ),
        (
            "{ wait = \"later\" }",
            "8:29: wait: there is no phase \"later\" (known: go)",
        ),
        (
            "{ loop = [{ emit = \"a\" }] }",
            "8:20: loop: it would never pause; give it \"every\", \"pace\", a \"think\" or an answer to wait for (\"ack = true\", \"expect\")",
        ),
        (
            "{ loop = [], pace = \"phase\" }",
            "8:20: loop: its pace is the phase's, but no phase has a \"rate\"",
        ),
        (
            "{ loop = [], pace = \"mine\" }",
            "8:40: pace: \"mine\" is no pace: the only one is \"phase\"",
        ),
        (
            "{ connect = true }",
            "8:20: connect: the user is connected already",
        ),
        (
            "{ emit = \"a\", window = 8 }",
            "8:43: emit: \"window\" is how many may be unanswered: it needs \"ack = true\" or \"echo = true\"",
        ),
        (
            "{ auth = { user = \"u\" } }",
            "8:29: \"auth\" needs \"secret\"",
        ),
        (
            "{ reconnect = true, jitter = 2 }",
            "8:49: jitter: a number from 0 to 1 is needed, not 2",
        ),
        (
            "{ expect = \"a\", count = -1 }",
            "8:44: count: -1 is out of range: from 1 to 4,294,967,295",
        ),
        (
            "{ leave = \"a\", within = \"soon\" }",
            "8:44: within: \"soon\" is no duration: write \"250ms\", \"30s\", \"5m\" or \"1h\"",
        ),
    ] {
        assert_eq!(steps(&format!("{connect}{step}")), told, "{step}");
    }
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
