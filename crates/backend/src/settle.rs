//! Sockets without a worker get one.

use crate::entry::Entry;
use crate::home::Phase;
use crate::message::Down;
use crate::name::Name;
use crate::proto;
use crate::proto::item::What;
use crate::queue::Queue;
use crate::worker::Worker;

/// Clients that came back begin to live anew, where nothing is left of the life before.
pub(crate) fn next_lives(queue: &mut Queue) {
    for name in queue.homes.begin_next() {
        if let (Some(endpoint), Some(home)) = (&mut queue.endpoint, queue.homes.get_mut(&name)) {
            endpoint.line_up(name, home, queue.now_ms);
            continue;
        }
        queue.homes.lacks_worker(name);
        queue.homes.look_by(name, queue.now_ms);
        one(queue, name);
    }
}

/// All that have none, if there is one for them.
pub(crate) fn all(queue: &mut Queue) {
    if queue.workers.choose(queue.now_ms).is_some() {
        let all: Vec<Name> = queue.homes.homeless().iter().copied().collect();
        all.into_iter().for_each(|name| one(queue, name));
    }
}

/// The same for one. A socket that had a worker is described by its shard first.
pub(crate) fn one(queue: &mut Queue, name: Name) {
    let Some(home) = queue.homes.get_mut(&name) else {
        return;
    };
    if home.worker.is_some() {
        return;
    }
    match home.phase {
        Phase::Deciding { .. } => move_in(queue, name, None),
        Phase::Gone => {
            let rooms = home.items.last_rooms();
            move_in(queue, name, Some((rooms, "{}".to_owned())));
        }
        Phase::In if home.describing => {}
        Phase::In => {
            if queue.workers.choose(queue.now_ms).is_some() {
                home.describing = true;
                queue.outlet.tell(name, Down::Describe { socket: name });
            }
        }
    }
}

/// Its shard has described it.
pub(crate) fn on_described(queue: &mut Queue, name: Name, rooms: Vec<String>, data: String) {
    let Some(home) = queue.homes.get_mut(&name) else {
        return;
    };
    if std::mem::take(&mut home.describing) && home.phase == Phase::In {
        move_in(queue, name, Some((rooms, data)));
    }
}

/// Gives a socket to a worker, if there is one, with all that waits for it.
fn move_in(queue: &mut Queue, name: Name, known: Option<(Vec<String>, String)>) {
    let Some(home) = queue.homes.get_mut(&name) else {
        return;
    };
    let takes = |id: &u64| queue.workers.get(*id).is_some_and(Worker::takes_sockets);
    let opener = home.opener.filter(takes);
    let Some(id) = opener.or_else(|| queue.workers.choose(queue.now_ms)) else {
        return;
    };
    if let Some((rooms, data)) = known {
        // `Resume` says what these said, and it is newer.
        let is_said =
            |entry: &Entry| matches!(entry.what(), Some(What::Moved(_) | What::Upgraded(_)));
        for said in home.items.take_held(is_said) {
            queue.ledger.release(said.bytes);
        }
        let resume = proto::Resume {
            connect: Some(home.introduction.open()),
            rooms,
            data,
        };
        let mut entry = Entry::new(Some(name), What::Resume(Box::new(resume)), queue.now_ms);
        home.items.book_beside(&mut entry);
        queue.ledger.take(entry.bytes);
        home.items.hold_first(entry);
        queue.outlet.counts.moved += 1;
    }
    home.worker = Some(id);
    home.since_ms = queue.now_ms;
    queue.workers.enqueue(id, home.items.take_all());
    if let Some(worker) = queue.workers.get_mut(id) {
        worker.sockets.insert(name);
    }
    queue.homes.has_worker(name);
}
