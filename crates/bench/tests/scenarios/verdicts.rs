//! What a run says of itself when something went otherwise than planned: its verdict, its exit code, its figures.

use crate::node::Node;
use crate::rig::Run;
use crate::stream_server::StreamServer;
use outcome::INTERRUPTED;
use rustix::process::{Signal, kill_process};
use std::process::Command;
use std::time::{Duration, Instant};

/// Five users for `seconds`, with these steps behind the connect.
fn scenario(seconds: u32, phase: &str, steps: &str) -> String {
    format!(
        "name = 'test'\n[[phases]]\nname = 'go'\nconnections = 5\nduration = '{seconds}s'\n{phase}\n\
         [flows.user]\nsteps = [{{ connect = true }}, {steps}]\n"
    )
}

const HEARD: &str =
    "{ join = 'hot' }, { loop = [{ emit = 'message', to = 'hot', echo = true }], every = '100ms' }";
/// The Node peer does not know this event, so nobody answers.
const UNANSWERED: &str = "{ emit = 'nobody-answers', ack = true, within = '50s' }";

#[test]
#[ignore = "needs Node: cargo xtask test foreign"]
fn what_is_expected_in_vain_is_a_fault() {
    let steps = "{ loop = [{ expect = 'never', within = '200ms' }] }";
    let ended = Run::whole(&scenario(1, "", steps), &Node::start().url, &[]);
    ended.tells(2, &["FAULTS"]);
    assert!(
        ended.outcome.totals.failed() >= 5,
        "{:?}",
        ended.outcome.totals
    );
}

#[test]
fn where_nobody_listens_a_run_ends_before_it_begins() {
    let url = format!("http://{}", servers::free_addr());
    let output = Command::new(env!("CARGO_BIN_EXE_sockeye-bench"))
        .args(["run", "chat-10k", "--url", &url])
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{told}");
    let reason = format!("cannot reach the server at {url}");
    assert!(told.contains(&reason) && told.contains("refused"), "{told}");
}

#[test]
#[ignore = "needs Node: cargo xtask test foreign"]
fn a_run_that_nobody_can_take_part_in_ends_before_its_phases() {
    let text =
        scenario(600, "", HEARD).replace("name = 'test'", "name = 'test'\nnamespace = '/nowhere'");
    let ended = Run::whole(&text, &Node::start().url, &[]);
    ended.tells(2, &["no user could connect"]);
    assert_eq!(ended.outcome.totals.failed_connects(), 5);
}

/// The Node peer sends `push` to the others in the room, never to its sender.
#[test]
#[ignore = "needs Node: cargo xtask test foreign"]
fn a_server_that_sends_no_echo_is_not_called_lossy() {
    let steps = "{ join = 'hot' }, { loop = [{ emit = 'push', to = 'hot', echo = true }], every = '100ms' }";
    let ended = Run::whole(
        &scenario(2, "", steps),
        &Node::start().url,
        &["--grace", "1"],
    );
    ended.tells(4, &["MISMATCH", "back to their senders"]);
    let totals = &ended.outcome.totals;
    assert_eq!(totals.echoes_received, 0, "{totals:?}");
    assert_eq!(totals.lost, totals.echoes_expected, "{totals:?}");
}

/// The Node peer sends `pub` to everyone in `bench`, whatever the scenario takes the room to be.
#[test]
#[ignore = "needs Node: cargo xtask test foreign"]
fn a_server_with_other_rooms_is_not_called_lossy() {
    let steps = "{ join = 'bench' }, { loop = [{ emit = 'pub', to = 'elsewhere', echo = true }], every = '100ms' }";
    let ended = Run::whole(
        &scenario(2, "", steps),
        &Node::start().url,
        &["--grace", "1"],
    );
    ended.tells(4, &["outside of the room"]);
}

#[test]
#[ignore = "needs Node: cargo xtask test foreign"]
fn a_strict_run_ends_with_a_code_of_its_own_where_its_figures_are_doubtful() {
    let node = Node::start();
    let run = Run::start(&scenario(60, "", HEARD), &node.url, &["--strict"]).begun();
    kill_process(run.pid(), Signal::INT).unwrap();
    let ended = run.end();
    ended.tells(3, &["DOUBTFUL"]);
}

#[test]
#[ignore = "needs Node: cargo xtask test foreign"]
fn returns_are_not_counted_among_first_connects() {
    let steps = "{ wait = 'go' }, { disconnect = true }, { reconnect = true }";
    let ended = Run::whole(&scenario(2, "", steps), &Node::start().url, &[]);
    let latency = &ended.outcome.latency;
    assert_eq!((latency.connect.count(), latency.again.count()), (5, 5));
    assert!(ended.text.contains("5 returns"), "{}", ended.text);
}

#[test]
#[ignore = "needs Node: cargo xtask test foreign"]
fn load_that_was_not_offered_is_told() {
    let steps = format!("{{ loop = [{UNANSWERED}], pace = 'phase' }}");
    let text = scenario(1, "rate = '50/s'", &steps);
    let ended = Run::whole(&text, &Node::start().url, &["--grace", "1"]);
    let totals = &ended.outcome.totals;
    assert!(totals.rounds_unbegun() >= 40, "{totals:?}");
    assert!(ended.text.contains("never offered"), "{}", ended.text);
    let missing = ended
        .outcome
        .errors
        .get("acknowledgement missing at the end");
    assert_eq!(missing, Some(&5), "{:?}", ended.outcome.errors);
}

#[test]
#[ignore = "needs Node: cargo xtask test foreign"]
fn messages_that_nobody_waits_for_are_told_as_such() {
    let steps = "{ loop = [{ emit = 'message', to = 'hot', echo = true }], every = '100ms' }";
    let ended = Run::whole(&scenario(1, "", steps), &Node::start().url, &[]);
    ended.tells(0, &["messages were sent"]);
}

#[test]
#[ignore = "needs Node: cargo xtask test foreign"]
fn a_run_cut_short_has_the_rates_of_a_whole_one() {
    let node = Node::start();
    let workers = ["--workers", "2"];
    let mut run = Run::start(&scenario(60, "", HEARD), &node.url, &workers).begun();
    let told = run.line();
    assert!(
        told.contains("received/s"),
        "figures of the first five seconds: {told}"
    );
    std::thread::sleep(Duration::from_millis(600));
    kill_process(run.pid(), Signal::INT).unwrap();
    let ended = run.end();
    let (outcome, rate) = (&ended.outcome, ended.outcome.received_per_s());
    assert!(outcome.duration_s < 50.0, "{} s", outcome.duration_s);
    // Five users send ten messages a second each, to five: more would mean too short a time.
    assert!(rate < 300.0, "{rate} instead of 250/s");
    // A busy machine makes fewer. Had nothing come in the second that was cut, five sixths would still be left.
    let usual = outcome.timeline[..5].iter().map(|second| second.received);
    let usual = usual.sum::<u64>() as f64 / 5.0;
    assert!(
        usual > 0.0 && rate > usual * 0.75,
        "{rate} instead of {usual}/s"
    );
    assert_eq!(outcome.partial.as_deref(), Some(INTERRUPTED));
    assert_eq!(outcome.totals.lost, 0, "{:?}", outcome.totals);
}

#[test]
#[ignore = "needs Node: cargo xtask test foreign"]
fn stragglers_are_waited_for_no_longer_than_one_likes() {
    let steps = UNANSWERED.to_owned();
    let node = Node::start();
    let run = Run::start(&scenario(1, "", &steps), &node.url, &["--grace", "60"]).begun();
    std::thread::sleep(Duration::from_secs(3));
    let asked = Instant::now();
    kill_process(run.pid(), Signal::INT).unwrap();
    let ended = run.end();
    assert!(asked.elapsed() < Duration::from_secs(20));
    let partial = ended.outcome.partial.as_deref();
    assert_eq!(
        partial,
        Some("interrupted while stragglers were waited for")
    );
    assert!(ended.text.contains("Summary"), "{}", ended.text);
}

#[test]
#[ignore = "needs Node: cargo xtask test foreign"]
fn what_is_under_way_when_nobody_waits_any_longer_is_not_called_lost() {
    let steps = "{ join = 'hot' }, { wait = 'go' }, \
                 { emit = 'nobody-answers', to = 'hot', echo = true, ack = true, within = '50s' }";
    let node = Node::start();
    let run = Run::start(&scenario(60, "", steps), &node.url, &["--grace", "60"]).begun();
    // Two signals that come together may be taken for one.
    for _ in 0..2 {
        std::thread::sleep(Duration::from_secs(2));
        kill_process(run.pid(), Signal::INT).unwrap();
    }
    let ended = run.end();
    let totals = &ended.outcome.totals;
    assert_eq!((totals.lost, totals.not_waited_for), (0, 25), "{totals:?}");
    let acks = (totals.acks_missing(), totals.acks_not_waited_for);
    assert_eq!(acks, (0, 5), "{totals:?}");
    assert_eq!(
        ended.outcome.partial.as_deref(),
        Some("interrupted; interrupted while stragglers were waited for")
    );
    ended.tells(0, &["DOUBTFUL"]);
}

#[test]
fn connects_that_are_never_answered_have_failed() {
    let text = "name = 'test'\nprotocol = 'websocket'\n[[phases]]\nname = 'go'\narrivals = '20/s'\nduration = '1s'\n\
                [flows.ignored]\ncount = 5\npath = '/silent'\nsteps = [{ connect = true }]\n\
                [flows.user]\nsteps = [{ connect = true }]\n";
    let ended = Run::whole(text, &StreamServer::start().url, &["--grace", "2"]);
    let totals = &ended.outcome.totals;
    assert_eq!(totals.connects_attempted, 20, "{totals:?}");
    assert_eq!(totals.connects_succeeded, 15, "{totals:?}");
    let failures: Vec<_> = totals.connect_failures.iter().collect();
    assert_eq!(failures, [(&"never answered".to_owned(), &5)]);
    ended.tells(2, &[]);
}

#[test]
#[ignore = "needs Node: cargo xtask test foreign"]
fn a_worker_that_dies_takes_only_what_it_knew() {
    let node = Node::start();
    let run = Run::start(&scenario(60, "", HEARD), &node.url, &["--workers", "2"]).begun();
    std::thread::sleep(Duration::from_millis(2_500));
    kill_process(run.workers()[0], Signal::KILL).unwrap();
    let ended = run.end();
    ended.tells(2, &["broke off"]);
    assert!(
        ended.outcome.totals.received > 0,
        "{:?}",
        ended.outcome.totals
    );
}

#[test]
#[ignore = "needs Node: cargo xtask test foreign"]
fn two_runs_on_one_server_notice_each_other() {
    let node = Node::start();
    let runs = [(); 2].map(|()| Run::start(&scenario(4, "", HEARD), &node.url, &[]));
    for ended in runs.map(Run::end) {
        assert!(
            ended.outcome.totals.foreign > 0,
            "{:?}",
            ended.outcome.totals
        );
        assert!(ended.text.contains("of another run"), "{}", ended.text);
        assert_eq!(ended.outcome.totals.lost, 0, "{:?}", ended.outcome.totals);
    }
}

#[test]
#[ignore = "needs Node: cargo xtask test foreign"]
fn a_full_disk_does_not_cost_the_report() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("scenario.toml");
    std::fs::write(&file, scenario(1, "", HEARD)).unwrap();
    let node = Node::start();
    let run = |json: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sockeye-bench"));
        let command = command.arg("run").arg(&file).args(["--url", &node.url]);
        command.args(["--json", json]).output().unwrap()
    };
    let full = run("/dev/full");
    assert_eq!(full.status.code(), Some(1));
    let text = String::from_utf8_lossy(&full.stdout);
    assert!(text.contains("Summary"), "{text}");
    let nowhere = run("/proc/nowhere/result.json");
    assert_eq!(nowhere.status.code(), Some(1));
    assert!(nowhere.stdout.is_empty(), "it was said only after the run");
}
