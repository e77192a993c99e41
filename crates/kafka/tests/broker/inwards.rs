//! Commands in: order, offsets, groups, and brokers in trouble.

use crate::{Program, broadcast, committed, make_topics, reading, settings};
use kafka::{Action, Command, Inlet, Place, Settings, Unhandled};
use servers::{Kafka, wait_for};
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command as Process, Stdio};
use std::sync::{Arc, Mutex};

/// Bodies that were handed over, as numbers with their partition.
#[derive(Clone, Default)]
struct Basket(Arc<Mutex<Vec<(i32, u64)>>>);

impl Basket {
    fn hand(&self) -> impl FnMut(Place<'_>, Command<'_>) -> Result<(), Unhandled> + Send + 'static {
        let basket = self.clone();
        move |place, command| {
            let Action::Emit { body, .. } = command.action else {
                return Err("not expected".to_owned().into());
            };
            let number = String::from_utf8_lossy(body).parse().expect("a number");
            let mut all = basket.0.lock().expect("nobody panics");
            all.push((place.partition, number));
            Ok(())
        }
    }

    fn all(&self) -> Vec<(i32, u64)> {
        self.0.lock().expect("nobody panics").clone()
    }

    fn wait(&self, count: usize) {
        wait_for("all commands", || (self.all().len() >= count).then_some(()));
    }
}

/// Numbers go round the partitions.
fn write(program: &Program, partitions: i32, numbers: std::ops::Range<u64>) {
    for n in numbers {
        let partition = (n % partitions as u64) as i32;
        program.write("in", partition, broadcast(), Some(n.to_string().as_bytes()));
    }
    program.flush();
}

/// One that nobody takes is handed over again, before those behind it.
#[test]
#[ignore = "needs Kafka: cargo xtask test foreign"]
fn a_command_that_must_wait_is_handed_over_again() {
    let kafka = Kafka::start();
    make_topics(&kafka, &["in"], 1);
    write(&Program::new(&kafka), 1, 0..3);
    let basket = Basket::default();
    let (mut hand, mut refusals) = (basket.hand(), 2);
    let inlet = Inlet::start(
        &settings(&kafka),
        reading(&["in"]),
        move |place: Place<'_>, command: Command<'_>| {
            if refusals > 0 {
                refusals -= 1;
                return Err(Unhandled::Later);
            }
            hand(place, command)
        },
    );
    let inlet = inlet.expect("it reads");
    basket.wait(3);
    inlet.stop();
    assert_once_and_in_order(&basket.all(), 3);
}

/// Each of them once, those of a partition in order.
fn assert_once_and_in_order(all: &[(i32, u64)], count: u64) {
    let mut of: HashMap<i32, Vec<u64>> = HashMap::new();
    for (partition, number) in all {
        of.entry(*partition).or_default().push(*number);
    }
    for (partition, numbers) in of {
        assert!(numbers.is_sorted(), "partition {partition}: {numbers:?}");
    }
    let mut numbers: Vec<u64> = all.iter().map(|(_, number)| *number).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (0..count).collect::<Vec<_>>());
}

#[test]
#[ignore = "needs Kafka: cargo xtask test foreign"]
fn a_reader_that_stops_goes_on_where_it_was() {
    let kafka = Kafka::start();
    make_topics(&kafka, &["in", "dead"], 3);
    let program = Program::new(&kafka);
    write(&program, 3, 0..300);
    let basket = Basket::default();
    let start = || Inlet::start(&settings(&kafka), reading(&["in"]), basket.hand());
    let inlet = start().expect("it reads");
    basket.wait(300);
    assert_eq!(inlet.figures().handed, 300);
    inlet.stop();
    assert_eq!(committed(&kafka, "in", 3).expect("offsets"), 300);
    write(&program, 3, 300..600);
    let inlet = start().expect("it reads");
    basket.wait(600);
    wait_for("no lag", || (inlet.figures().lag == 0).then_some(()));
    inlet.stop();
    assert_once_and_in_order(&basket.all(), 600);
}

/// Before a command is handed over it is not committed: a reader that does not come back leaves it to the others.
#[test]
#[ignore = "needs Kafka: cargo xtask test foreign"]
fn what_is_not_handed_over_is_not_committed() {
    let kafka = Kafka::start();
    make_topics(&kafka, &["in", "dead"], 1);
    let program = Program::new(&kafka);
    write(&program, 1, 0..3);
    let (entered, enters) = std::sync::mpsc::channel();
    let (leave, leaves) = std::sync::mpsc::channel::<()>();
    let mut count = 0;
    let inlet = Inlet::start(&settings(&kafka), reading(&["in"]), move |_, _| {
        count += 1;
        if count == 4 {
            let _ = entered.send(());
            let _ = leaves.recv();
        }
        Ok(())
    });
    let inlet = inlet.expect("it reads");
    wait_for("three are committed", || {
        (committed(&kafka, "in", 1).ok()? == 3).then_some(())
    });
    write(&program, 1, 3..10);
    enters.recv().expect("the fourth is at hand");
    std::thread::sleep(std::time::Duration::from_millis(1_500));
    assert_eq!(committed(&kafka, "in", 1).expect("offsets"), 3);
    leave.send(()).expect("it waits");
    inlet.stop();
}

#[test]
#[ignore = "needs Kafka: cargo xtask test foreign"]
fn two_readers_share_the_partitions_while_one_comes_and_goes() {
    const COUNT: u64 = 3_000;
    let kafka = Kafka::start();
    make_topics(&kafka, &["in", "dead"], 6);
    let (first_basket, second_basket) = (Basket::default(), Basket::default());
    let start = |basket: &Basket| {
        let inlet = Inlet::start(&settings(&kafka), reading(&["in"]), basket.hand());
        inlet.expect("it reads")
    };
    let first = start(&first_basket);
    let program = Program::new(&kafka);
    let writer = std::thread::spawn(move || {
        for n in 0..COUNT / 10 {
            write(&program, 6, 10 * n..10 * n + 10);
            std::thread::sleep(std::time::Duration::from_millis(30));
        }
    });
    first_basket.wait(100);
    let second = start(&second_basket);
    second_basket.wait(100);
    second.stop();
    writer.join().expect("it writes");
    wait_for("all commands", || {
        let count = first_basket.all().len() + second_basket.all().len();
        (count as u64 >= COUNT).then_some(())
    });
    first.stop();
    let mut all = first_basket.all();
    all.extend(second_basket.all());
    all.sort_by_key(|(_, number)| *number);
    assert_once_and_in_order(&all, COUNT);
}

#[test]
#[ignore = "needs Kafka: cargo xtask test foreign"]
fn a_broker_that_is_away_at_the_start_and_killed_later_loses_and_repeats_nothing() {
    let mut kafka = Kafka::stopped();
    let basket = Basket::default();
    let inlet = Inlet::start(&settings(&kafka), reading(&["in"]), basket.hand());
    let inlet = inlet.expect("brokers may be away");
    kafka.restart();
    make_topics(&kafka, &["in", "dead"], 2);
    let program = Program::new(&kafka);
    write(&program, 2, 0..200);
    basket.wait(200);
    kafka.kill();
    kafka.restart();
    write(&program, 2, 200..400);
    basket.wait(400);
    inlet.stop();
    assert_once_and_in_order(&basket.all(), 400);
}

/// Names the broker to the process that is to be killed.
const VICTIM: &str = "SOCKEYE_TEST_KAFKA_VICTIM";

/// Reads, and says each number, until it is killed.
fn be_killed(brokers: &str) {
    let settings = Settings::new(brokers, []).expect("good settings");
    let _inlet = Inlet::start(&settings, reading(&["in"]), |place, command| {
        if let Action::Emit { body, .. } = command.action {
            let body = String::from_utf8_lossy(body);
            let mut out = std::io::stdout().lock();
            let told = writeln!(out, "handed {} {body}", place.partition);
            told.and_then(|()| out.flush()).expect("someone listens");
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        Ok(())
    });
    loop {
        std::thread::park();
    }
}

/// This test once more, as the process that is killed.
fn victim(kafka: &Kafka) -> Child {
    let name = "inwards::a_reader_that_is_killed_leaves_the_rest_to_another";
    Process::new(std::env::current_exe().expect("this program"))
        .args(["--exact", name, "--ignored", "--nocapture"])
        .env(VICTIM, kafka.brokers())
        .stdout(Stdio::piped())
        .spawn()
        .expect("a process")
}

/// At least once: 0 lost, and what comes twice is what was handed over since the last commit.
#[test]
#[ignore = "needs Kafka: cargo xtask test foreign"]
fn a_reader_that_is_killed_leaves_the_rest_to_another() {
    const COUNT: usize = 2_000;
    if let Ok(brokers) = std::env::var(VICTIM) {
        return be_killed(&brokers);
    }
    let kafka = Kafka::start();
    make_topics(&kafka, &["in", "dead"], 3);
    write(&Program::new(&kafka), 3, 0..COUNT as u64);
    let mut victim = victim(&kafka);
    let said = BufReader::new(victim.stdout.take().expect("its output"));
    let mut first: Vec<(i32, u64)> = Vec::new();
    for line in said.lines() {
        let line = line.expect("a line");
        let pair = line
            .split_once("handed ")
            .and_then(|(_, rest)| rest.split_once(' '));
        let Some((partition, number)) = pair else {
            continue;
        };
        first.push((
            partition.parse().expect("a number"),
            number.parse().expect("a number"),
        ));
        if first.len() == 1_000 {
            victim.kill().expect("it is ours");
            break;
        }
    }
    victim.wait().expect("it ends");
    let basket = Basket::default();
    let inlet = Inlet::start(&settings(&kafka), reading(&["in"]), basket.hand());
    let inlet = inlet.expect("it reads");
    let union = || {
        let mut all: Vec<_> = first.iter().copied().chain(basket.all()).collect();
        all.sort_by_key(|(_, number)| *number);
        all.dedup();
        all
    };
    wait_for("all commands", || (union().len() >= COUNT).then_some(()));
    inlet.stop();
    assert_once_and_in_order(&union(), COUNT as u64);
    // Those of a second, and not all over again: it had said 1,000 in two seconds or more.
    let twice = first.len() + basket.all().len() - COUNT;
    assert!(twice < 900, "{twice} of {} came twice", first.len());
}
