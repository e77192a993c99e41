//! Three brokers of which one leads a partition, until it stops, dies or stands still and another one leads.

use super::troubles::{all_that_is_acknowledged_is_there, more_are_produced};
use super::{Program, client, comes, config, make_topics, soon};
use crate::harness::{Gateway, Stop};
use rdkafka::consumer::{BaseConsumer, Consumer};
use servers::{Kafka, PATIENCE};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

const PARTITIONS: u64 = 2;

/// The broker that leads the first partition of a topic, and how many have all of it.
fn leader(look: &BaseConsumer, topic: &str) -> (usize, usize) {
    let metadata = look.fetch_metadata(Some(topic), 3 * PATIENCE);
    let metadata = metadata.expect("brokers answer");
    let first = &metadata.topics()[0].partitions()[0];
    (first.leader() as usize, first.isr().len())
}

/// Commands, numbered, each behind the one before it in its partition; how many.
fn write(program: &Program, over: &AtomicBool) -> u64 {
    let mut n = 0;
    while !over.load(Ordering::Relaxed) {
        let partition = (n % PARTITIONS) as i32;
        program.write(
            partition,
            &[("X-Operator", "broadcast")],
            &format!("[\"say\",{n}]"),
        );
        n += 1;
        if n.is_multiple_of(20) {
            thread::sleep(Duration::from_millis(20));
        }
    }
    program.flush();
    n
}

/// Both ways at once: each event is there once in the order of its client, each command comes once in the order of its partition.
#[test]
#[ignore = "needs Kafka: cargo xtask test foreign"]
fn nothing_is_lost_or_doubled_while_leaders_change() {
    let mut kafka = Kafka::cluster();
    make_topics(&kafka, PARTITIONS as i32);
    let out = "ack = \"kafka\"\nkey = \"socket\"\ntime = \"60s\"";
    let node = Gateway::start(&config(&super::Brokers::addrs(&kafka), out, ""));
    let program = Program::new(&kafka);
    let mut listener = comes(&node, "");
    let (over, heard) = (AtomicBool::new(false), Mutex::new(Vec::new()));
    let come = || heard.lock().expect("nobody panics").len();
    let look: BaseConsumer = client(&kafka).create().expect("a client");
    let (written, events) = thread::scope(|scope| {
        let _stop = Stop(&over);
        let writes = scope.spawn(|| write(&program, &over));
        scope.spawn(|| {
            loop {
                let event = listener.next();
                if event.name == "end" {
                    break;
                }
                let n = event.args[0].as_u64().expect("a number");
                heard.lock().expect("nobody panics").push(n);
            }
        });
        let events = all_that_is_acknowledged_is_there(&mut kafka, &node, |kafka| {
            for deed in [Kafka::stop, Kafka::kill, |kafka: &mut Kafka| kafka.freeze()] {
                let topic = ["events", "commands"];
                for topic in topic {
                    soon("all brokers have all", || leader(&look, topic).1 == 3);
                }
                let (led, before) = (leader(&look, "events").0, come());
                deed(&mut kafka[led - 1]);
                // Those of the other partition may not have waited for it.
                soon("another one leads", || {
                    let (now, _) = leader(&look, "events");
                    now != led && (1..=kafka.len()).contains(&now)
                });
                more_are_produced(&node, 200.0);
                soon("commands", || come() > before + 200);
                kafka[led - 1].thaw();
                kafka[led - 1].restart();
            }
        });
        over.store(true, Ordering::Relaxed);
        let written = writes.join().expect("it writes");
        soon("all commands", || come() as u64 >= written);
        program.say(&[("X-Operator", "broadcast")], "[\"end\"]");
        (written, events)
    });
    let heard = heard.into_inner().expect("nobody panics");
    for partition in 0..PARTITIONS {
        let of = heard
            .iter()
            .copied()
            .filter(|n| n % PARTITIONS == partition);
        let expected = (0..written).filter(|n| n % PARTITIONS == partition);
        assert!(
            of.eq(expected),
            "partition {partition}: in order, each once"
        );
    }
    eprintln!(
        "leaders: {events} events out, {written} commands in: none lost, twice or out of order"
    );
}
