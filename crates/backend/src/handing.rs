//! The state of a backend as a record for the process that comes next. Nothing changes here: the handover may be given up.

use crate::deadlines::Deadlines;
use crate::entry::Entry;
use crate::home::{Bond, Home, Phase};
use crate::name::Name;
use crate::parts::Parts;
use handoff::backend::{
    Backend, Due, Home as HomeRecord, Item, NodeGone, Past, Question, Wait, Worker,
};

/// Requests for sessions stay: their connections do. No call of an endpoint is under way.
pub(crate) fn record(parts: &Parts, deadlines: &Deadlines) -> Backend {
    let queue = &parts.queue;
    let now_ms = queue.now_ms;
    let workers = queue.workers.iter();
    let workers: Vec<Worker> = workers
        .map(|(id, worker)| worker.record(id, now_ms))
        .collect();
    let questions = parts.questions.as_they_stand();
    let questions = questions.map(|(number, (worker, query), answer)| Question {
        number,
        worker,
        query,
        item: Some(Entry::new(None, answer, now_ms).record(now_ms)),
    });
    let of_home = |(name, home)| of_home(name, home, now_ms);
    let homes = queue.homes.iter().map(of_home);
    let later = queue.homes.all_later().map(of_home);
    let mut waits: Vec<(u64, Name, u64)> = deadlines.waits().collect();
    waits.retain(|(_, name, ack)| {
        let home = queue.homes.last(name);
        home.is_some_and(|home| home.items.awaits(*ack))
    });
    waits.sort_by_key(|(came_ms, _, _)| *came_ms);
    let waits = waits.into_iter().map(|(came_ms, name, ack)| Wait {
        socket: name.as_str().to_owned(),
        ack,
        age_ms: now_ms.saturating_sub(came_ms),
    });
    let decisions = deadlines.decisions();
    let undecided =
        decisions.filter(|(_, name, number)| queue.homes.waits_for_decision(name, *number));
    let decisions = undecided.map(|(due_ms, name, _)| Due {
        socket: name.as_str().to_owned(),
        left_ms: due_ms.saturating_sub(now_ms),
    });
    let endpoint = queue.endpoint.as_ref();
    let (failures, rests_ms) = endpoint.map_or((0, 0), |endpoint| endpoint.health(now_ms));
    let past = queue.workers.past().iter();
    let nodes_gone = parts.nodes_gone.iter();
    Backend {
        workers,
        homes: homes.collect(),
        later: later.collect(),
        lives: queue.homes.lives(),
        waits: waits.collect(),
        decisions: decisions.collect(),
        past: past
            .map(|(instance, commands)| Past {
                instance: instance.to_owned(),
                commands,
            })
            .collect(),
        nodes_gone: nodes_gone
            .map(|gone| NodeGone {
                node: gone.node,
                life: gone.life,
            })
            .collect(),
        hired: queue.workers.made(),
        asked: parts.questions.made(),
        questions: questions.collect(),
        failures,
        rests_ms,
    }
}

fn of_home(name: &Name, home: &Home, now_ms: u64) -> HomeRecord {
    let items = |entry: &Entry| entry.record(now_ms);
    let held: Vec<Item> = home.items.held().iter().map(items).collect();
    HomeRecord {
        socket: name.as_str().to_owned(),
        introduction: home.introduction.as_bytes().to_vec(),
        phase: match home.phase {
            Phase::Deciding { .. } => 0,
            Phase::In => 1,
            Phase::Gone => 2,
        },
        admitted: home.admitted,
        worker: home.worker,
        closing: home.closing,
        bond: match home.bond {
            Bond::Whole => 0,
            Bond::Ending => 1,
            Bond::Parting => 2,
            Bond::Over => 3,
        },
        age_ms: now_ms.saturating_sub(home.since_ms),
        sequence: home.items.sequence(),
        held,
        attempts: home.turn.attempts,
        pause_ms: home.turn.not_before_ms.saturating_sub(now_ms),
        owed: home.items.owed().iter().map(items).collect(),
        life: home.items.life(),
        number: home.deciding().unwrap_or(0),
    }
}
