//! A plan computed by hand, and everything that must be refused.

use super::measured::Reading;
use super::*;
use clap::Parser;
use outcome::{Outcome, ResultFile, ServerProcess, Totals, save};

#[derive(Debug, Parser)]
#[command(args_override_self = true)]
struct Cli {
    #[command(flatten)]
    args: PlanArgs,
}

/// What is typed after `sockeye plan`.
pub fn parsed(line: &str) -> Result<PlanArgs, String> {
    let words = ["plan"].into_iter().chain(line.split_whitespace());
    let cli = Cli::try_parse_from(words).map_err(|error| error.to_string())?;
    Ok(cli.args)
}

/// 10,000 connections, 1,000 messages/s, 10,000 deliveries/s on the smallest machines; what is given besides wins.
fn question(more: &str) -> Question {
    const ROUND: &str = "--users 100000 --connected 0.1 --load-factor 0.5 --messages-per-minute 6 --room 10 --payload 100 \
                         --session-minutes 10 --instance c7g.large";
    let mut question = parsed(&format!("{ROUND} {more}")).unwrap().question;
    question.instance = question.instance.filter(|name| name != "any");
    question
}

pub fn close(seen: f64, by_hand: f64) {
    let off = (seen - by_hand).abs();
    assert!(off <= by_hand.abs() * 1e-9, "{seen} is not {by_hand}");
}

fn measured() -> Measured {
    let reading = |value| {
        let source = "by hand".to_owned();
        Some(Reading { value, source })
    };
    Measured {
        delivery_us: reading(10.0),
        is_all_in: false,
        message_us: reading(5.0),
        connect_us: reading(20.0),
        connection_bytes: reading(1_000.0),
        node_bytes: reading(100_000_000.0),
    }
}

/// The plan that follows from flags, looked at.
fn planned<T>(flags: &str, measured: &Measured, look: impl Fn(&Plan) -> T) -> Result<T, String> {
    let (question, prices) = (question(flags), Prices::load(None).unwrap());
    let plan = plan(&question, measured, &prices).map_err(|error| format!("{error:#}"))?;
    Ok(look(&plan))
}

/// The plan for the flags has these values in these lines of these sections.
macro_rules! derived {
    ($flags:expr, $measured:expr; $($title:literal $what:literal: $value:expr;)*) => {
        planned($flags, &$measured, |plan| { $(close(plan.sheet.value($title, $what), $value);)* }).unwrap()
    };
}

/// The two halves of each line of a table.
pub fn rows(table: &str) -> impl Iterator<Item = (&str, &str)> {
    let rows = table.trim().lines().map(|row| row.split_once('|').unwrap());
    rows.map(|(left, right)| (left.trim(), right.trim()))
}

#[test]
fn a_small_plan_is_as_computed_by_hand() {
    // 10,000 deliveries × 10 us + 1,400 messages and heartbeats × 5 us + 16.67 connects × 20 us
    let cores = 0.1 + 0.007 + 10_000.0 / 600.0 * 20e-6;
    // 100 + 14 + 2 + 52 = 168 B a delivery; 400 × 55 B pings; 1,400 × 52 B TCP acks; half of the peak on average
    let bytes = 10_000.0 * 168.0 + 400.0 * 55.0 + 1_400.0 * 52.0;
    let gb = bytes * 0.5 * 730.0 * 3_600.0 / 1e9;
    let (traffic, balancer) = ((gb - 100.0) * 0.09, (0.0225 + gb / 730.0 * 0.006) * 730.0);
    let infrastructure = 105.85 + 140.16 + balancer + traffic;
    derived! { "", measured();
        "Load" "connections": 10_000.0;
        "Load" "deliveries": 10_000.0;
        "Load" "connects": 10_000.0 / 600.0;
        "Load" "heartbeats": 400.0;
        "Bandwidth" "together": bytes;
        "Nodes: c7g" "needed": 1.0;
        // One further node hears 1,000 messages × 10 us.
        "Nodes of" "processors busy": (cores + 0.01) / 4.0 * 100.0;
        "After a failure" "processors busy": cores / 2.0 * 100.0;
        "Nodes of" "connections of a node": 5_000.0;
        // 10,000 × (1,000 + 5,000) B on two nodes and 100 MB each
        "Nodes of" "memory of a node": 130_000_000.0 / 1_073_741_824.0;
        "Nodes of" "cost": 2.0 * 0.0725 * 730.0;
        // 1,000 messages in and out, for one other node; three masters with a replica each
        "Redis" "messages in and out": 2_000.0;
        "Redis" "cost": 6.0 * 0.032 * 730.0;
        "Cost" "traffic to clients": gb;
        "Cost" "traffic": traffic;
        "Cost" "balancer": balancer;
        "Cost" "people": 600.0;
        "Cost" "together": infrastructure + 600.0;
        "Cost" "by user, without people": infrastructure / 100_000.0;
    }
    derived! { "--ack --tls", measured();
        // 1,000 acks × 77 B, and 22 B TLS around 10,400 other frames
        "Bandwidth" "together": bytes + 1_000.0 * 77.0 + 10_400.0 * 22.0;
    }
    for (payload, header) in [(111, 2.0), (112, 4.0), (65_521, 4.0), (65_522, 10.0)] {
        // RFC 6455 §5.2: 14 B of envelope, and a header by size
        derived! { &format!("--payload {payload}"), measured();
            "Bandwidth" "a delivery": f64::from(payload) + 14.0 + header + 52.0;
        }
    }
}

/// Once a node cost every other node all of its messages, and from some number on more nodes did not help.
#[test]
fn more_nodes_than_members_hear_no_more_messages() {
    let connects = 10_000.0 / 600.0 * 20e-6;
    // 20,000 messages/s, 200,000 deliveries/s: a node offers 1 core and spends 0.2 on each further one: n ≥ 2.10233 + (n − 1) × 0.2
    // holds from 3 on.
    derived! { "--messages-per-minute 120", measured();
        "Nodes: c7g" "needed": 3.0;
        "After a failure" "processors busy": (2.0 + 20_400.0 * 5e-6 + connects + 2.0 * 0.2) / 6.0 * 100.0;
    }
    // 100,000 messages/s, 1,000,000 deliveries/s: 10.50233 cores, and 1 for each of ten nodes that hear a message.
    derived! { "--messages-per-minute 600", measured();
        "Nodes: c7g" "needed": 21.0;
        "After a failure" "processors busy": (10.0 + 100_400.0 * 5e-6 + connects + 10.0) / 42.0 * 100.0;
        "Redis" "messages in and out": 100_000.0 * 10.0 * 2.0;
    }
}

#[test]
fn what_cannot_be_is_refused_with_the_flag_or_the_resource() {
    const REFUSED: &str = "
        --connected 1.5     | '--connected <SHARE>': cannot plan with 1.5: it must be a share
        --users 0           | '--users <N>': cannot plan with 0.0: it must be above 0
        --payload NaN       | '--payload <BYTES>': cannot plan with NaN
        --people-hours many | '--people-hours <HOURS>': invalid float literal
        --poll-seconds 0    | 0 is not in 1..=86400
        advise --direction down --latency-ms 0 | '--latency-ms <MS>': cannot plan with 0.0: it must be above 0
        --instance mainframe | instance \"mainframe\": the price file has c7g.large, c7g.xlarge,
        --room 1e7 --instance c7g.2xlarge | cannot carry this with c7g.2xlarge: clients and messages between nodes take
        --room 1e7 --instance c7g.2xlarge | more than 10,000 nodes with 4 usable cores each have; make rooms smaller (--room)
        --payload 1e9 --instance any      | cannot carry this with any instance of the price file, not even c7g.2xlarge: clients are sent
        --payload 1e9                     | Gbit/s, more than 10,000 nodes
        --users 1e12 --instance any       | cores, more than 10,000 nodes with 4 usable cores
        --users 1e12 --messages-per-minute 0 --instance any | connections take 558,794 GiB, more than 10,000 nodes with 11.11 usable GiB";
    for (flags, told) in rows(REFUSED) {
        let plan = |_| planned(flags, &measured(), |_| ()).unwrap_err();
        let error = parsed(flags).map_or_else(|error| error, plan);
        assert!(error.contains(told), "{flags}: {error}");
    }
}

/// Outside the source tree there was no measurement, and no plan.
#[test]
fn the_built_in_figures_are_those_of_the_suite() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../benchmarks");
    let suite = [format!("{root}/results/suite.json")];
    let measured = Measured::load(&suite, "sockeye").unwrap();
    if std::env::var_os("UPDATE").is_some() {
        let text = serde_json::to_string_pretty(&measured).unwrap() + "\n";
        std::fs::write(format!("{root}/figures.json"), text).unwrap();
        return;
    }
    let stale = "benchmarks/figures.json is stale: run `cargo xtask gen`";
    assert_eq!(Measured::built_in().unwrap(), measured, "{stale}");
    let source = measured.delivery_us.unwrap().source;
    assert_eq!(source, "suite.json: hold-18000-rooms-100, sockeye");
    let error = format!("{:#}", Measured::load(&suite, "sokeye").unwrap_err());
    assert!(error.contains("choose with --server"), "{error}");
}

#[test]
fn the_cheapest_machine_is_taken_and_the_others_are_shown() {
    let look = |plan: &Plan| {
        let cost = plan.sheet.value("Nodes of", "cost");
        let dearer = |quote: &Quote| quote.per_month.is_some_and(|month| month.value >= cost);
        let others = &plan.other_machines;
        assert!(others.len() > 1 && others.iter().all(dearer), "{others:?}");
    };
    planned("--instance any", &measured(), look).unwrap();
}

#[test]
fn the_answer_is_made_of_the_arithmetic() {
    let text = planned("--load-factor 1", &measured(), |plan| plan.text()).unwrap();
    for line in [
        "10,000 connected at the peak, 1,000 messages/s in",
        "every 5 s it would be 172,800,000 requests a day",
        "deliveries: 1,000 messages/s × 10 members = 10,000 deliveries/s",
        "all of them: 10,000 deliveries/s × 10 us ÷ 1,000,000 us/s × 1 measured cores a vCPU = 0.1 cores",
        "cost: 2 nodes × 0.0725 an hour × 730 h = 105.85 USD",
        "people: 8 hours × 75 an hour = 600 USD",
        "requests a day: ⌊10,000 users × 86,400 s ÷ 5 s⌋ = 172,800,000 requests",
        "headers a day: 172,800,000 requests × 679 B = 117,331,200,000 B",
        "news is late on average by: 5 s ÷ 2 = 2.5 s",
    ] {
        assert!(text.contains(line), "{line} is not in {text}");
    }
}

#[test]
fn a_part_of_a_user_polls_too() {
    for (users, requests) in [(1, 1_382.0), (3, 4_147.0), (100_000, 138_240_000.0)] {
        let flags = format!("--users {users} --connected 1 --load-factor 0.08");
        derived! { &flags, measured();
            "The same by polling" "requests a day": requests;
        }
    }
}

#[test]
fn services_bill_as_they_count() {
    let traffic = planned("", &measured(), |plan| plan.sheet.value("Cost", "traffic")).unwrap();
    // 5,000 on average for 43,800 minutes, in 500 rooms; 500 messages in and 5,000 out a second for 2,628,000 s
    let (minutes, channels) = (5_000.0 * 43_800.0, 500.0 * 43_800.0);
    let messages = 5_500.0 * 2_628_000.0;
    // Ten units; 5,000 × 2,628,000 out, 10 million a day free
    let (days, out) = (365.0 / 12.0, 5_000.0 * 2_628_000.0);
    // Two hours of people each.
    derived! { "", measured();
        "AWS API Gateway WebSocket" "with people": messages / 1e6 + minutes / 1e6 * 0.25 + traffic + 150.0;
        "AWS IoT Core" "with people": messages / 1e6 + minutes / 1e6 * 0.08 + traffic + 150.0;
        "Ably" "with people": 29.0 + messages / 1e6 * 2.5 + (minutes + channels) / 1e6 + 150.0;
        "Azure Web PubSub" "with people": 10.0 * 48.97 + (out - 10e6 * days) / 1e6 + 150.0;
    }
    // 100,000 × 0.07 is a little more than 7,000 in binary fractions.
    derived! { "--connected 0.07", measured();
        "Azure Web PubSub" "fee": 7.0 * 48.97;
    }
    // 475 million messages a day and 100,000 users are beyond their published plans.
    let text = planned("", &measured(), |plan| plan.text()).unwrap();
    for line in [
        "Pusher Channels                       –  no published tier",
        "PubNub                                –  no published",
    ] {
        assert!(text.contains(line), "{text}");
    }
}

#[test]
fn a_scenarios_result_gives_all_cpu_by_delivery() {
    let watched = ServerProcess {
        cpu_s: 2.0,
        rss_before_bytes: 10_000_000,
        rss_peak_bytes: 30_000_000,
        ..Default::default()
    };
    let mut run = Outcome {
        scenario: "chat".to_owned(),
        processes: vec![watched],
        totals: Totals {
            received: 150_000,
            acked: 50_000,
            connections_peak: 10_000,
            ..Default::default()
        },
        ..Default::default()
    };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("chat.json");
    let load = |run: &Outcome| {
        save(&ResultFile::Run(Box::new(run.clone())), &path).unwrap();
        Measured::load(&[&path], "sockeye").map_err(|error| format!("{error:#}"))
    };
    let measured = load(&run).unwrap();
    // 2 s by 200,000 messages; 20 MB by 10,000 connections
    derived! { "", measured;
        "Processors" "a delivery": 10.0;
        "Memory" "resident by connection": 2_000.0;
        "After a failure" "processors busy": 0.1 / 2.0 * 100.0;
    }

    run.processes.clear();
    let error = load(&run).unwrap_err();
    assert!(error.contains("--pid"), "{error}");
    std::fs::write(&path, "{\"hello\": 1}").unwrap();
    let error = format!("{:#}", Measured::load(&[&path], "sockeye").unwrap_err());
    assert!(error.contains("chat.json: it is not the result"), "{error}");
}
