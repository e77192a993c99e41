//! All that a store has of a room, page by page.

use super::Room;
use super::lines::Line;
use crate::door::{Door, escaped};
use anyhow::Result;
use serde_json::Value;

/// Events of a page.
const PAGE: u16 = 1_000;

/// Reads from one end.
#[derive(Debug)]
pub(super) struct Stored<'a> {
    door: &'a Door<'a>,
    room: &'a Room,
    /// `after` or `before`.
    way: &'static str,
    /// Where the next page begins; `None`: the end was read.
    next: Option<String>,
}

impl<'a> Stored<'a> {
    pub(super) fn oldest_first(door: &'a Door<'a>, room: &'a Room) -> Self {
        Self {
            door,
            room,
            way: "after",
            next: Some("0".to_owned()),
        }
    }

    pub(super) fn newest_first(door: &'a Door<'a>, room: &'a Room) -> Self {
        Self {
            door,
            room,
            way: "before",
            next: Some("z".to_owned()),
        }
    }

    /// `None`: the end. The error says why the page cannot be read.
    pub(super) fn page(&mut self) -> Result<Option<Vec<Result<Line, String>>>> {
        let Some(next) = self.next.take() else {
            return Ok(None);
        };
        let more = match (self.way, next.as_str()) {
            // From the newest.
            ("before", "z") => format!("limit={PAGE}"),
            (way, place) => format!("limit={PAGE}&{way}={}", escaped(place)),
        };
        let page = self.door.call("GET", &self.room.path(&more), None)?;
        self.next = page["next"].as_str().map(str::to_owned);
        let events = page["events"].as_array().into_iter().flatten();
        Ok(Some(events.cloned().map(Line::read).collect::<Vec<_>>()))
    }
}

/// For messages.
pub(super) fn named(event: &Value) -> String {
    let text = |name: &str| event[name].as_str().unwrap_or("-");
    format!(
        "{} of {} ms by {}",
        text("event"),
        event["time"],
        crate::door::plain(text("user"))
    )
}
