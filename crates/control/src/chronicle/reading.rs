//! The stream of a namespace on its way to the shards of this node.

use super::course::{Sign, What};
use super::{Desk, Office};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::time::sleep;

const PAUSE: Duration = Duration::from_millis(100);
/// Shards with too much before them are asked again so soon.
const BREATH: Duration = Duration::from_millis(2);
/// How often it is looked whether it is still the same Redis.
const LOOK: Duration = Duration::from_millis(500);
/// How often shards are told how far they are.
const TELL: Duration = Duration::from_secs(1);

/// Reads until the process ends.
pub(super) async fn run(office: Arc<Office>, namespace: String) {
    let Some(desk) = office.desks.get(&namespace) else {
        return;
    };
    let course = &desk.course;
    begin(&office, desk).await;
    let (mut looked, mut told) = (Instant::now(), (Instant::now(), 0));
    loop {
        if (office.are_behind)() {
            sleep(BREATH).await;
            continue;
        }
        let at = *course.position.borrow();
        let asks = looked.elapsed() >= LOOK;
        match course.next(at, asks).await {
            Ok((sign, entries)) => {
                if let Some(sign) = sign {
                    looked = Instant::now();
                    look(&office, desk, sign, at);
                }
                desk.reads_fail(false);
                office.note_state(desk);
                pass(&office, desk, entries);
            }
            Err(trouble) => {
                if desk.reads_fail(true) {
                    tracing::warn!(namespace, %trouble, "cannot read what is said in this namespace: its clients get nothing until Redis answers");
                }
                office.note_state(desk);
                // A Redis that comes back may be another.
                looked -= LOOK.min(looked.elapsed());
                sleep(PAUSE).await;
            }
        }
        let at = *course.position.borrow();
        if told.0.elapsed() >= TELL && at > told.1 {
            told = (Instant::now(), at);
            office.deliver(&office.mail.passed(&namespace, at));
        }
    }
}

/// Finds where the stream ends.
async fn begin(office: &Office, desk: &Desk) {
    let course = &desk.course;
    loop {
        match course.look().await {
            Ok(last) => {
                office.chronicle.begins(&course.namespace, last);
                course.position.send_replace(last);
                desk.reads_fail(false);
                return office.note_state(desk);
            }
            Err(trouble) => {
                tracing::warn!(namespace = course.namespace, %trouble, "cannot read what is said in this namespace yet");
                sleep(PAUSE).await;
            }
        }
    }
}

/// Another Redis may lack the last that was said and stored: what clients have of the one before proves nothing there.
fn look(office: &Office, desk: &Desk, sign: Sign, at: u64) {
    let course = &desk.course;
    let before = course.note_generation(sign.generation);
    let is_another = before.is_some_and(|before| !before.is_empty());
    // It may have been away for longer than the stream keeps what is said.
    let is_behind = at != 0 && sign.trimmed > at;
    if is_another || is_behind {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now_ms = now.map_or(0, |now| now.as_millis() as u64);
        let upto = at.max(now_ms << 20);
        tracing::warn!(
            namespace = course.namespace,
            is_behind,
            "Redis failed over or was restarted, or was away for too long: clients whose node dies now come back to what is said from now on"
        );
        office.deliver(&office.mail.lost(&course.namespace, upto));
        course.position.send_replace(at.max(sign.trimmed));
    }
}

fn pass(office: &Office, desk: &Desk, entries: Vec<super::course::Entry>) {
    let course = &desk.course;
    let mut last = None;
    for entry in entries {
        let read = match &entry.what {
            What::Event(letter) => office.mail.said(&course.namespace, entry.number, letter),
            What::Taken { fence, pid } => office.mail.taken(&course.namespace, pid, *fence),
            // Nodes tell each other of orders.
            What::Order(_) => None,
        };
        if let Some(read) = read {
            office.deliver(&read);
        }
        last = Some(entry.number);
    }
    if let Some(last) = last {
        course.position.send_replace(last);
    }
}
