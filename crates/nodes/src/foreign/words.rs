//! The same deeds in the words of hubs and in those of other servers.

use super::{ASK_MS, FETCH_MS};
use compat::plane::{Part, Told};
use compat::verb::{self, Args, Letter, Selection, Verb};
use hub::foreign::{Deed, Event, What};
use hub::{Answer, Fetched, Found, Response};

/// A deed of ours in the words of other servers; number and timeout in milliseconds of a question.
pub(super) fn said(to: Selection, what: What) -> (Verb, Option<(u64, u64)>) {
    let of = to;
    match what {
        What::Event(event) => {
            let event = event_of(event);
            (Verb::Broadcast { to: of, event }, None)
        }
        What::Ask {
            event,
            round,
            timeout_ms,
        } => {
            let ask = Verb::Ask {
                request: String::new(),
                to: of,
                event: event_of(event),
                timeout_ms: Some(timeout_ms),
            };
            (ask, Some((round, timeout_ms)))
        }
        What::Join(rooms) => (Verb::Join { of, rooms }, None),
        What::Leave(rooms) => (Verb::Leave { of, rooms }, None),
        What::Disconnect { close } => (Verb::Disconnect { of, close }, None),
        What::Fetch { round, timeout_ms } => {
            let request = String::new();
            (Verb::Fetch { request, of }, Some((round, timeout_ms)))
        }
        What::Server { event, round } => {
            let request = None;
            let args = args(event.content).named(&event.name);
            (Verb::ServerEmit { request, args }, round)
        }
    }
}

fn event_of(event: Event) -> verb::Event {
    verb::Event {
        name: event.name,
        args: args(event.content),
        volatile: event.volatile,
    }
}

fn args(answer: Answer) -> Args {
    let Answer { args, attachments } = answer;
    Args {
        json: args,
        attachments,
    }
}

fn answer(args: Args) -> Answer {
    Answer {
        args: args.json,
        attachments: args.attachments,
    }
}

/// What a shard of ours says to a question of other servers. Sockets that could not be asked count: the asker must not take the
/// answers for all.
pub(super) fn part(parts: u16, response: Response) -> Part {
    let parts = u64::from(parts);
    match response {
        Response::Delivered { asked, undelivered } => Part::Asked {
            sockets: asked.saturating_add(undelivered),
            parts,
        },
        Response::Ack(answer) => Part::Ack(args(answer)),
        Response::Gone => Part::Gone,
        Response::Page(page) => Part::Page(sockets(page.sockets)),
        Response::Sockets(found) => Part::Found {
            complete: found.complete,
            sockets: sockets(found.sockets),
            parts,
        },
    }
}

fn sockets(found: Vec<Fetched>) -> Vec<verb::Fetched> {
    let socket = |socket: Fetched| verb::Fetched {
        id: socket.id,
        rooms: socket.rooms,
        data: socket.data,
    };
    found.into_iter().map(socket).collect()
}

/// What other servers say to a question of ours.
pub(super) fn response(told: Told) -> Response {
    match told {
        Told::Count(asked) => Response::Delivered {
            asked: asked.unwrap_or(0),
            undelivered: u64::from(asked.is_none()),
        },
        Told::Ack(args) => Response::Ack(answer(args)),
        Told::Sockets(found) => {
            let complete = found.is_some();
            let socket = |socket: verb::Fetched| Fetched {
                id: socket.id,
                rooms: socket.rooms,
                data: socket.data,
            };
            let sockets = found.unwrap_or_default().into_iter().map(socket).collect();
            Response::Sockets(Found { sockets, complete })
        }
    }
}

/// What other servers want, in the hubs' words.
pub(super) fn deed(letter: Letter, question: Option<u64>) -> Option<Deed> {
    let round = question.unwrap_or(0);
    let (of, what) = match letter.verb {
        Verb::Broadcast { to, event } => (to, What::Event(event_for(event))),
        Verb::Ask {
            to,
            event,
            timeout_ms,
            ..
        } => {
            let ask = What::Ask {
                event: event_for(event),
                round,
                timeout_ms: timeout_ms.unwrap_or(ASK_MS),
            };
            (to, ask)
        }
        Verb::Join { of, rooms } => (of, What::Join(rooms)),
        Verb::Leave { of, rooms } => (of, What::Leave(rooms)),
        Verb::Disconnect { of, close } => (of, What::Disconnect { close }),
        Verb::Fetch { of, .. } => {
            let fetch = What::Fetch {
                round,
                timeout_ms: FETCH_MS,
            };
            (of, fetch)
        }
        Verb::ServerEmit { args, .. } => {
            let (name, args) = args.split_name()?;
            let event = Event {
                name,
                content: answer(args),
                volatile: false,
            };
            let round = question.map(|round| (round, ASK_MS));
            (Selection::default(), What::Server { event, round })
        }
        _ => return None,
    };
    Some(Deed {
        namespace: letter.namespace,
        rooms: of.rooms,
        users: Vec::new(),
        except: of.except,
        what,
    })
}

fn event_for(event: verb::Event) -> Event {
    Event {
        name: event.name,
        content: answer(event.args),
        volatile: event.volatile,
    }
}
