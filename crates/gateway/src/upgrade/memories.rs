//! What rooms said, where only the process remembers it, on its way to the next one: most of it before the pause, the rest in it.

use super::line::{Broken, Line, decode};
use control::history::{Event, History, Kept, Position};
use handoff::Kind;
use handoff::bounds::BATCH_BYTES;
use handoff::history::{Event as Record, Events};
use std::time::Duration;

/// One message.
const STEP: Duration = Duration::from_secs(10);

/// Sends what stands behind a place, and says how far it came.
pub fn send(
    line: &mut Line,
    history: Option<&History>,
    mut place: Position,
) -> Result<Position, Broken> {
    let Some(history) = history else {
        return Ok(place);
    };
    loop {
        let some = history.remembered(place, BATCH_BYTES);
        let Some(last) = some.last() else {
            return Ok(place);
        };
        place = last.at;
        let events = some.into_iter().map(|Kept { at, event }| Record {
            at: at.as_u64(),
            namespace: event.namespace,
            room: event.room,
            name: event.name,
            args: event.args,
            user: event.user,
            time_ms: event.time_ms,
        });
        let events = Events {
            events: events.collect(),
        };
        line.send(Kind::Kept, &events, STEP)?;
    }
}

/// Takes some of it in.
pub fn take(history: Option<&History>, body: &[u8]) -> Result<(), Broken> {
    let events: Events = decode(body)?;
    let kept = events.events.into_iter().map(|record| Kept {
        at: Position::from_u64(record.at),
        event: Event {
            namespace: record.namespace,
            room: record.room,
            name: record.name,
            args: record.args,
            user: record.user,
            time_ms: record.time_ms,
        },
    });
    let taken = history.map(|history| history.remember(kept.collect()));
    taken.unwrap_or(Ok(())).map_err(|fault| {
        Broken::Strange(format!("the history in memory cannot be taken in: {fault}"))
    })
}
