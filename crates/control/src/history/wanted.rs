//! Requests for a page, and pages as JSON.

use super::range::Range;
use ::history::{Fault, Page};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// A client's request. Its room is checked by the rules, with the name that they found in it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Wanted {
    #[expect(dead_code, reason = "the rules have read it")]
    room: serde::de::IgnoredAny,
    before: Option<String>,
    after: Option<String>,
    limit: Option<usize>,
}

impl Wanted {
    /// The error is for the client.
    pub(super) fn read(text: &str) -> Result<Range, String> {
        let wanted: Self = serde_json::from_str(text).map_err(|error| error.to_string())?;
        Range::read(
            wanted.before.as_deref(),
            wanted.after.as_deref(),
            wanted.limit,
        )
    }
}

#[derive(Serialize)]
struct Line<'a> {
    at: String,
    time: u64,
    event: &'a str,
    args: &'a RawValue,
}

#[derive(Serialize)]
struct Answer<'a> {
    events: Vec<Line<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

#[derive(Serialize)]
struct Refusal<'a> {
    error: &'a str,
    code: &'a str,
}

/// The arguments of an event as one JSON array.
pub(super) fn array(args: &str) -> Box<RawValue> {
    // Hubs let nobody say what is no JSON.
    RawValue::from_string(format!("[{args}]")).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

/// The ack of a client that asked for a page.
pub(super) fn answer(page: &Result<Page, Fault>) -> String {
    match page {
        Ok(page) => {
            let args: Vec<_> = page
                .events
                .iter()
                .map(|kept| array(&kept.event.args))
                .collect();
            let events = page.events.iter().zip(&args).map(|(kept, args)| Line {
                at: kept.at.to_string(),
                time: kept.event.time_ms,
                event: &kept.event.name,
                args,
            });
            let answer = Answer {
                events: events.collect(),
                next: page.next.map(|at| at.to_string()),
            };
            serde_json::to_string(&answer).unwrap_or_default()
        }
        // Clients are not told why the store fails.
        Err(_) => refusal("The history cannot be read now", "HISTORY_UNAVAILABLE"),
    }
}

pub(super) fn refusal(error: &str, code: &str) -> String {
    serde_json::to_string(&Refusal { error, code }).unwrap_or_default()
}
