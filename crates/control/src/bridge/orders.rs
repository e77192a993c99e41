//! Commands on their way in: records become orders, as calls of the server API do.

use super::{Carry, Uncarried};
use ::bridge::{Action, Command, Encoding, Handed, Place, Unhandled};
use hub::Spot;
use rules::{Message, Wanted};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use wire::{json, socketio};

/// Commands that other nodes did not get.
#[derive(Clone, Default)]
pub(crate) struct Counted(Arc<AtomicU64>);

impl Counted {
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// What a reader hands its commands to, and where they stand. `reader`: its bus and its group.
pub(crate) fn counted(
    carry: &Carry,
    partial: &Counted,
    reader: String,
) -> impl FnMut(Option<Place<'_>>, Command<'_>) -> Result<Handed, Unhandled> + Send + use<> {
    let (carry, partial) = (Arc::clone(carry), partial.clone());
    let mut sources = Sources { reader, last: None };
    move |place, command| {
        let mut wanted = read(&command.action)?;
        if let Wanted::Emit(message) = &mut wanted {
            message.spot = place.and_then(|place| sources.spot(place));
        }
        let carrying = carry(command.of, wanted).map_err(|why| match why {
            Uncarried::Flaw(text) => Unhandled::Flaw(text),
            Uncarried::Later => Unhandled::Later,
        })?;
        let partial = partial.clone();
        Ok(Handed::UnderWay(Box::new(move || {
            let carried = carrying.wait();
            if carried.as_ref().is_ok_and(|carried| !carried.everywhere) {
                partial.0.fetch_add(1, Ordering::Relaxed);
            }
            carried.is_ok()
        })))
    }
}

/// Names of what a reader reads, for the shards.
struct Sources {
    reader: String,
    /// Most commands come from where the one before came from.
    last: Option<(String, i32, Arc<str>)>,
}

impl Sources {
    fn spot(&mut self, place: Place<'_>) -> Option<Spot> {
        let Place {
            topic, partition, ..
        } = place;
        let last = self.last.take();
        let last = last.filter(|(name, number, _)| name == topic && *number == partition);
        let (.., source) = self.last.insert(last.unwrap_or_else(|| {
            let source = format!("{}:{topic}/{partition}", self.reader);
            (topic.to_owned(), partition, source.into())
        }));
        Some(Spot {
            source: Arc::clone(source),
            number: place.offset.try_into().ok()?,
            time_ms: place.time_ms.cast_unsigned(),
        })
    }
}

fn read(action: &Action<'_>) -> Result<Wanted, String> {
    Ok(match *action {
        Action::Emit {
            encoding,
            attachments,
            body,
        } => {
            if encoding == Encoding::Msgpack {
                return Err("the gateway reads commands in JSON, and not in MessagePack".to_owned());
            }
            let (json, attachments) = cut(body, attachments.unwrap_or_default())?;
            Wanted::Emit(Message {
                attachments,
                ..message(json)?
            })
        }
        Action::Join { room } => Wanted::Join(vec![room.to_owned()]),
        Action::Leave { room } => Wanted::Leave(vec![room.to_owned()]),
        Action::Disconnect => Wanted::Disconnect { close: false },
    })
}

/// The attachments stand behind the JSON; `sizes` are theirs in bytes, separated by commas.
fn cut<'a>(body: &'a [u8], sizes: &str) -> Result<(&'a [u8], Vec<Vec<u8>>), String> {
    let wrong = || {
        format!(
            "the header X-Sockeye-Attachments is {sizes:?}, and the value has {} bytes: sizes in bytes with commas between them are needed",
            body.len()
        )
    };
    let mut rest = body;
    let mut attachments = Vec::new();
    // From the end, where the JSON is not.
    for size in sizes.rsplit(',').filter(|_| !sizes.is_empty()) {
        let size: usize = size.parse().map_err(|_| wrong())?;
        let at = rest.len().checked_sub(size).ok_or_else(wrong)?;
        let (before, attachment) = rest.split_at(at);
        attachments.push(attachment.to_vec());
        rest = before;
    }
    attachments.reverse();
    Ok((rest, attachments))
}

fn message(body: &[u8]) -> Result<Message, String> {
    let array = "the value is no JSON array of an event's name and its arguments";
    let text = std::str::from_utf8(body).map_err(|_| "the value is not UTF-8".to_owned())?;
    let text = text.trim_matches([' ', '\t', '\n', '\r']);
    if let Err(fault) = json::validate(text.as_bytes()) {
        return Err(match fault {
            json::Error::Syntax => array.to_owned(),
            json::Error::TooDeep => {
                format!("the value is nested deeper than {} levels", json::DEPTH_MAX)
            }
        });
    }
    let name = json::elements(text).next();
    if !text.starts_with('[') || name.is_none_or(|name| !name.starts_with('"')) {
        return Err(array.to_owned());
    }
    let event = socketio::event(text);
    Ok(Message {
        event: event.name.into_owned(),
        args: event.args.to_owned(),
        ..Message::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    fn emit(body: &str) -> Result<Message, String> {
        message(body.as_bytes())
    }

    #[test]
    fn a_value_is_an_event_whose_arguments_stay_as_they_are() {
        let said = emit(" [ \"say\\u0021\" , 1.50,{\"a\": 2} ]\n").expect("an event");
        assert_eq!((&*said.event, &*said.args), ("say!", "1.50,{\"a\": 2}"));
        assert_eq!(emit("[\"say\"]").expect("an event").args, "");
        for body in ["", "{}", "[]", "[1]", "\"say\"", "[\"say\"", "[\"say\"] x"] {
            let why = emit(body).expect_err(body);
            assert!(why.contains("no JSON array"), "{body}: {why}");
        }
        let deep = format!("[\"say\",{}{}]", "[".repeat(200), "]".repeat(200));
        assert!(emit(&deep).expect_err("deep").contains("nested deeper"));
        assert!(message(b"[\"\xff\"]").is_err());
    }

    #[test]
    fn attachments_are_cut_off_from_the_end() {
        let cut = |sizes| cut(b"[\"say\"]12345", sizes);
        let (json, none) = cut("").expect("no attachments");
        assert_eq!((json, none.len()), (&b"[\"say\"]12345"[..], 0));
        let (json, parts) = cut("2,3").expect("two attachments");
        assert_eq!(json, b"[\"say\"]");
        assert_eq!(parts, [b"12".to_vec(), b"345".to_vec()]);
        assert_eq!(cut("0").expect("an empty one").1, [b""]);
        for sizes in [",", "2,", "x", "-1", "99", "8,8"] {
            assert!(cut(sizes).is_err(), "{sizes}");
        }
    }

    #[test]
    fn a_spot_is_named_by_who_reads_and_what() {
        let (reader, last) = ("kafka:g".to_owned(), None);
        let mut sources = Sources { reader, last };
        let mut spot = |partition, offset| {
            let place = Place {
                topic: "t",
                partition,
                offset,
                time_ms: 5,
            };
            let spot = sources.spot(place)?;
            Some((spot.source.to_string(), spot.number, spot.time_ms))
        };
        let of = |source: &str, number| Some((source.to_owned(), number, 5));
        assert_eq!(spot(1, 7), of("kafka:g:t/1", 7));
        assert_eq!(spot(1, 8), of("kafka:g:t/1", 8));
        assert_eq!(spot(2, 8), of("kafka:g:t/2", 8));
        assert_eq!(spot(2, -1), None);
    }
}
