//! A plan reckoned by hand, and everything that must be refused.

use super::measured::Figure;
use super::workload::tests::round;
use super::*;

fn figure(value: f64) -> Option<Figure> {
    Some(Figure {
        value,
        source: "by hand".to_owned(),
    })
}

fn measured() -> Measured {
    Measured {
        delivery_us: figure(10.0),
        is_all_in: false,
        message_us: figure(5.0),
        connect_us: figure(20.0),
        connection_bytes: figure(1_000.0),
        node_bytes: figure(100_000_000.0),
    }
}

fn question() -> Question {
    Question {
        workload: round(),
        instance: Some("c7g.large".to_owned()),
        poll_seconds: 5,
        poll_header_bytes: 679,
    }
}

fn close(seen: f64, by_hand: f64) {
    assert!(
        (seen - by_hand).abs() <= by_hand.abs() * 1e-9,
        "{seen} is not {by_hand}"
    );
}

#[test]
fn a_small_plan_is_as_reckoned_by_hand() {
    let prices = Prices::load(None).unwrap();
    let plan = plan(&question(), &measured(), &prices).unwrap();
    // 10,000 deliveries × 10 us + 1,400 messages and heartbeats × 5 us + 16.67 connects × 20 us
    let cores = 0.1 + 0.007 + 10_000.0 / 600.0 * 20e-6;
    // One further node hears 1,000 messages × 15 us.
    close(plan.nodes.cpu_share, (cores + 0.015) / 4.0);
    close(plan.nodes.cpu_share_after_failure, cores / 2.0);
    assert_eq!((plan.nodes.needed, plan.nodes.count), (1.0, 2.0));
    assert_eq!(plan.nodes.connections_each, 5_000.0);
    // 10,000 × (1,000 + 5,000) B on two nodes and 100 MB each
    let gib = (30_000_000.0 + 100_000_000.0) / 1_073_741_824.0;
    close(plan.nodes.memory_gib_each, gib);
    close(plan.nodes.per_month, 2.0 * 0.0725 * 730.0);
    // 1,000 messages in and out, for one other node; three masters with a replica each
    close(plan.redis.messages_per_s, 2_000.0);
    assert_eq!((plan.redis.masters, plan.redis.replicas), (3.0, 3.0));
    close(plan.redis.per_month, 6.0 * 0.032 * 730.0);
    // 1,774,800 B/s at the peak, half of it on average
    let gb = 1_774_800.0 * 0.5 * 730.0 * 3_600.0 / 1e9;
    close(plan.bill.traffic_gb, gb);
    close(plan.bill.traffic, (gb - 100.0) * 0.09);
    let balancer = (0.0225 + gb / 730.0 * 0.006) * 730.0;
    close(plan.bill.load_balancer, balancer);
    close(plan.bill.people, 600.0);
    let infrastructure = 105.85 + 140.16 + balancer + (gb - 100.0) * 0.09;
    close(plan.bill.infrastructure, infrastructure);
    close(
        plan.bill.infrastructure_per_user,
        infrastructure / 100_000.0,
    );
    assert!(!plan.bill.meets_target);
}

#[test]
fn many_messages_need_nodes_for_each_other() {
    let prices = Prices::load(None).unwrap();
    let mut busy = question();
    busy.workload.messages_per_minute = 120.0;
    let plan = plan(&busy, &measured(), &prices).unwrap();
    // 20,000 messages/s, 200,000 deliveries/s: 2 + 0.102 + 0.00033 cores; a node offers 1 and
    // spends 0.3 on each further one: n ≥ 2.10233 + (n − 1) × 0.3 holds from 3 on.
    assert_eq!((plan.nodes.needed, plan.nodes.count), (3.0, 4.0));
    let cores = 2.0 + 20_400.0 * 5e-6 + 10_000.0 / 600.0 * 20e-6;
    close(plan.nodes.cpu_share_after_failure, (cores + 0.6) / 6.0);
    assert!(plan.nodes.cpu_share_after_failure <= *prices.sizing.cpu_target);
}

/// Once a node cost every other node all of its messages, and from some number on more nodes did not help.
#[test]
fn more_nodes_than_members_hear_no_more_messages() {
    let prices = Prices::load(None).unwrap();
    let mut flood = question();
    flood.workload.messages_per_minute = 600.0;
    let plan = plan(&flood, &measured(), &prices).unwrap();
    // 100,000 messages/s, 1,000,000 deliveries/s: 10.50233 cores, and 1.5 for each of ten nodes that hear a message.
    let cores = 10.0 + 100_400.0 * 5e-6 + 10_000.0 / 600.0 * 20e-6 + 15.0;
    assert_eq!((plan.nodes.needed, plan.nodes.count), (26.0, 27.0));
    close(plan.nodes.cpu_share_after_failure, cores / 52.0);
    close(plan.redis.messages_per_s, 100_000.0 * 10.0 * 2.0);
}

#[test]
fn what_no_machine_carries_is_said_with_the_resource_that_lacks() {
    let prices = Prices::load(None).unwrap();
    let refused = |change: &dyn Fn(&mut Workload)| {
        let mut question = Question {
            instance: None,
            ..question()
        };
        change(&mut question.workload);
        let error = plan(&question, &measured(), &prices).unwrap_err();
        let error = error.to_string();
        let start = "cannot carry this with any instance of the price file, not even c7g.2xlarge: ";
        assert!(error.starts_with(start), "{error}");
        error
    };
    let room = refused(&|workload| workload.room = 1e7);
    assert!(
        room.contains("more than 10,000 nodes with 4 usable cores"),
        "{room}"
    );
    assert!(room.contains("--room"), "{room}");
    let large = refused(&|workload| workload.payload = 1e9);
    assert!(large.contains("Gbit/s, more than 10,000 nodes"), "{large}");
}

#[test]
fn connections_too_large_for_all_nodes_are_said() {
    let prices = Prices::load(None).unwrap();
    let heavy = Measured {
        connection_bytes: figure(1e11),
        ..measured()
    };
    let error = plan(&question(), &heavy, &prices).unwrap_err().to_string();
    assert!(
        error.starts_with("cannot carry this with c7g.large: connections take"),
        "{error}"
    );
    assert!(error.contains("GiB, more than 10,000 nodes"), "{error}");
}

/// Outside the source tree there was no measurement, and no plan.
#[test]
fn the_built_in_figures_are_those_of_the_suite() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../benchmarks");
    let suite = format!("{root}/results/suite.json");
    let measured = Measured::load(&[suite], "sockeye").unwrap();
    if std::env::var_os("UPDATE").is_some() {
        let text = serde_json::to_string_pretty(&measured).unwrap() + "\n";
        std::fs::write(format!("{root}/figures.json"), text).unwrap();
        return;
    }
    assert_eq!(
        Measured::built_in().unwrap(),
        measured,
        "benchmarks/figures.json is stale: run `cargo xtask gen`"
    );
}

#[test]
fn the_cheapest_machine_is_taken_and_the_others_are_shown() {
    let prices = Prices::load(None).unwrap();
    let any = Question {
        instance: None,
        ..question()
    };
    let plan = plan(&any, &measured(), &prices).unwrap();
    for (name, month) in &plan.other_machines {
        let month = month.as_ref().unwrap();
        assert!(*month >= plan.nodes.per_month, "{name}: {month}");
    }
    assert_eq!(plan.other_machines.len(), prices.instances.len() - 1);
}

#[test]
fn the_summary_is_made_of_the_arithmetic() {
    let prices = Prices::load(None).unwrap();
    let mut question = question();
    question.workload.load_factor = 1.0;
    let plan = plan(&question, &measured(), &prices).unwrap();
    assert_eq!(plan.polling.requests_per_day, 172_800_000);
    let (summary, sheet) = (plan.summary(), plan.arithmetic.text());
    for text in [&summary, &sheet] {
        assert!(text.contains("172,800,000"), "{text}");
    }
    for line in [
        "deliveries: 1,000 messages/s × 10 members = 10,000 /s",
        "deliveries: 10,000 /s × 10 us × 0.000001 s/us × 1 measured cores a vCPU = 0.1 cores",
        "machines: 2 nodes × 0.0725 an hour × 730 h = 105.85 USD",
        "people: 8 hours × 75 an hour = 600 USD",
    ] {
        assert!(sheet.contains(line), "{line} is not in {sheet}");
    }
}

#[test]
fn services_bill_as_they_count() {
    let prices = Prices::load(None).unwrap();
    let plan = plan(&question(), &measured(), &prices).unwrap();
    let of = |name: &str| {
        let found = plan.managed.iter().find(|quote| quote.name == name);
        found.unwrap().per_month
    };
    // 5,000 on average for 43,800 minutes; 500 in and 5,000 out a second for 2,628,000 s
    let (minutes, messages) = (5_000.0 * 43_800.0, 5_500.0 * 2_628_000.0);
    let gateway = messages / 1e6 + minutes / 1e6 * 0.25 + plan.bill.traffic;
    close(of("AWS API Gateway WebSocket").unwrap(), gateway);
    let iot = messages / 1e6 + minutes / 1e6 * 0.08 + plan.bill.traffic;
    close(of("AWS IoT Core").unwrap(), iot);
    // 1,000 rooms of ten, half of them on average
    let channels = 500.0 * 43_800.0;
    let ably = 29.0 + messages / 1e6 * 2.5 + (minutes + channels) / 1e6;
    close(of("Ably Standard").unwrap(), ably);
    // Ten units; 5,000 × 2,628,000 out, 10 million a day free
    let days = 365.0 / 12.0;
    let out = 5_000.0 * 2_628_000.0;
    let azure = 10.0 * 1.61 * days + (out - 10e6 * days) / 1e6;
    close(of("Azure Web PubSub Standard").unwrap(), azure);
    // 475 million messages a day and 100,000 users are beyond their published plans.
    assert_eq!(of("Pusher Channels"), None);
    assert_eq!(of("PubNub"), None);
}

#[test]
fn measurements_of_the_suite_are_read_with_their_cases() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../benchmarks/results/suite.json"
    );
    let measured = Measured::load(&[path], "sockeye").unwrap();
    let delivery = measured.delivery_us.unwrap();
    assert!(
        delivery.source.contains("hold-18000-rooms-100"),
        "{delivery:?}"
    );
    assert!(measured.message_us.unwrap().source.contains("ack-depth-1"));
    assert!(measured.connection_bytes.unwrap().value > 100.0);
    assert!(!measured.is_all_in);
    let error = Measured::load(&[path], "sokeye").unwrap_err();
    assert!(
        format!("{error:#}").contains("choose with --server"),
        "{error:#}"
    );
}

#[test]
fn a_scenarios_result_gives_all_cpu_by_delivery() {
    let run = bench::outcome::Outcome {
        scenario: "chat".to_owned(),
        processes: vec![bench::outcome::ServerProcess {
            cpu_s: 2.0,
            rss_before_bytes: 10_000_000,
            rss_peak_bytes: 30_000_000,
            ..Default::default()
        }],
        totals: bench::outcome::Totals {
            received: 150_000,
            acked: 50_000,
            connections_peak: 10_000,
            ..Default::default()
        },
        ..Default::default()
    };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("chat.json");
    let file = bench::outcome::ResultFile::Run(Box::new(run.clone()));
    bench::outcome::save(&file, &path).unwrap();
    let measured = Measured::load(&[&path], "sockeye").unwrap();
    // 2 s by 200,000 messages; 20 MB by 10,000 connections
    close(measured.delivery_us.clone().unwrap().value, 10.0);
    close(measured.connection_bytes.clone().unwrap().value, 2_000.0);
    assert!(measured.is_all_in);
    let prices = Prices::load(None).unwrap();
    let plan = plan(&question(), &measured, &prices).unwrap();
    close(plan.nodes.cpu_share_after_failure, 0.1 / 2.0);

    let unwatched = bench::outcome::Outcome {
        processes: Vec::new(),
        ..run
    };
    let file = bench::outcome::ResultFile::Run(Box::new(unwatched));
    bench::outcome::save(&file, &path).unwrap();
    let error = Measured::load(&[&path], "sockeye").unwrap_err();
    assert!(format!("{error:#}").contains("--pid"), "{error:#}");
}

#[test]
fn files_that_are_no_results_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("odd.json");
    std::fs::write(&path, "{\"hello\": 1}").unwrap();
    let error = format!("{:#}", Measured::load(&[&path], "sockeye").unwrap_err());
    assert!(
        error.contains("odd.json") && error.contains("format"),
        "{error}"
    );
    let missing = folder.path().join("missing.json");
    let error = format!("{:#}", Measured::load(&[&missing], "sockeye").unwrap_err());
    assert!(error.contains("cannot read result"), "{error}");
}
