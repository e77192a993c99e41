//! Gateways of one cluster share a consumer group, while one of them comes, leaves, and is killed. A client of the one that stays hears all.

use super::{Program, broker, comes, config, soon};
use crate::harness::{Gateway, PATIENCE, RawConn, Stop};
use servers::{Kafka, Redis};
use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

const PARTITIONS: u64 = 6;
const HANDED: &str = "sockeye_kafka_commands_total{outcome=\"handed\"}";

fn node(kafka: &Kafka, redis: &Redis) -> Gateway {
    let cluster = format!(
        "[cluster]\nadapter = \"redis\"\nurls = [{:?}]\nsecret = \"s\"\n",
        redis.url()
    );
    let node = Gateway::start(&config(&kafka.brokers(), "", &cluster));
    let ready = "GET /ready HTTP/1.1\r\nHost: admin\r\nConnection: close\r\n\r\n";
    soon("it is ready", || {
        RawConn::exchange(node.admin, ready).status == 200
    });
    node
}

/// Numbers go round the partitions, 1,000 a second; how many.
fn write(program: &Program, over: &AtomicBool) -> u64 {
    let mut n = 0;
    while !over.load(Ordering::Relaxed) {
        for _ in 0..20 {
            let partition = (n % PARTITIONS) as i32;
            let headers = [("X-Operator", "broadcast")];
            program.write(partition, &headers, &format!("[\"say\",{n}]"));
            n += 1;
        }
        thread::sleep(Duration::from_millis(20));
    }
    program.flush();
    n
}

/// What came: how many numbers came again, and of how many another one of the partition had come before, although it was written later.
fn faults(heard: &[u64]) -> (usize, usize) {
    let mut known = BTreeSet::new();
    let first: Vec<u64> = heard.iter().copied().filter(|n| known.insert(*n)).collect();
    let mut late = 0;
    for partition in 0..PARTITIONS {
        let of: Vec<u64> = first
            .iter()
            .copied()
            .filter(|n| n % PARTITIONS == partition)
            .collect();
        late += of.windows(2).filter(|pair| pair[0] > pair[1]).count();
    }
    (heard.len() - first.len(), late)
}

#[test]
#[ignore = "needs Kafka: cargo xtask test foreign"]
fn each_command_is_carried_out_once_while_gateways_come_leave_and_are_killed() {
    let (kafka, redis) = (broker(PARTITIONS as i32), Redis::start());
    let stays = node(&kafka, &redis);
    let mut client = comes(&stays, "");
    let program = Program::new(&kafka);
    let (over, heard) = (AtomicBool::new(false), Mutex::new(Vec::new()));
    let come = || heard.lock().expect("nobody panics").len();
    let more = |what: &str| {
        let before = come();
        soon(what, || come() > before + 500);
    };
    let (written, orderly) = thread::scope(|scope| {
        let _stop = Stop(&over);
        let writes = scope.spawn(|| write(&program, &over));
        scope.spawn(|| {
            loop {
                let event = client.next();
                if event.name == "end" {
                    break;
                }
                let n = event.args[0].as_u64().expect("a number");
                heard.lock().expect("nobody panics").push(n);
            }
        });
        more("commands");
        for _ in 0..3 {
            let mut guest = node(&kafka, &redis);
            soon("the guest has a share", || guest.metric(HANDED) > 100.0);
            more("commands while two share them");
            guest.terminate();
            let status = guest.exit_status(PATIENCE);
            assert!(status.is_some_and(|status| status.success()));
            more("commands after the guest has left");
        }
        let orderly = come();
        let mut guest = node(&kafka, &redis);
        soon("the guest has a share", || guest.metric(HANDED) > 500.0);
        guest.kill();
        more("commands after the guest was killed");
        over.store(true, Ordering::Relaxed);
        let written = writes.join().expect("it writes");
        let distinct = || {
            heard
                .lock()
                .expect("nobody panics")
                .iter()
                .collect::<BTreeSet<_>>()
                .len()
        };
        soon("all commands", || distinct() as u64 >= written);
        program.say(&[("X-Operator", "broadcast")], "[\"end\"]");
        (written, orderly)
    });
    let heard = heard.into_inner().expect("nobody panics");
    let (known, (twice, late)) = (heard.iter().collect::<BTreeSet<_>>().len(), faults(&heard));
    assert_eq!(known as u64, written);
    let before = faults(&heard[..orderly]);
    eprintln!(
        "group: {written} commands, 0 lost; three comings and leavings: {} twice, {} late; and a kill: {twice} twice, {late} late",
        before.0, before.1
    );
    assert_eq!(before, (0, 0), "twice, late");
    assert_eq!((twice, late), (0, 0), "with the kill");
    let left_out = stays.metric("sockeye_cluster_repeats_total");
    eprintln!("group: {left_out} times a shard left out a command that it had");
    assert!(left_out >= 1.0, "the kill came just behind a commit");
}
