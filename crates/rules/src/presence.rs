//! The members of a room: they are told of each other by the event `sockeye:presence`, and may ask by it.

use crate::book::Namespace;
use crate::rooms;
use hub::{Context, Emit, Event, Member, Person, Presence, Who, notices};
use wire::json;

const UNAVAILABLE: &str = "PRESENCE_UNAVAILABLE";
const TOO_OFTEN: &str = "RATE_LIMIT_EXCEEDED";

/// Tells this shard's members who came and who went; every shard does so for its own.
pub(crate) fn tell(cx: &mut Context<'_>, namespace: &str, room: &str, presence: &Presence) {
    let mut args = begin(room);
    if !presence.nameless {
        list(&mut args, "joined", &presence.joined, person);
        list(&mut args, "left", &presence.left, |out, leaver| {
            named(out, &leaver.who);
            if leaver.lost {
                out.extend_from_slice(b",\"lost\":true");
            }
            out.push(b'}');
        });
    }
    let args = end(args, presence.count);
    let news = Emit::new(notices::WHO, &args);
    cx.of(namespace).to(&[room]).here().notice(&news);
}

/// `sockeye:presence` `{room}` with an ack, by a member of the room.
pub(crate) fn asked(socket: &mut Member<'_>, event: Event<'_>, rules: &Namespace) {
    let Some((room, ack)) = rooms::asked(socket, event) else {
        return;
    };
    if !rules.questions.spend(socket) {
        return socket.refuse(Some(ack), "Asked too often who is there", TOO_OFTEN);
    }
    let namespace = socket.namespace().map(str::to_owned);
    let found = namespace.and_then(|namespace| socket.cx().present(&namespace, &room));
    let Some(presence) = found else {
        return socket.refuse(Some(ack), "This room has no presence", UNAVAILABLE);
    };
    let mut args = begin(&room);
    if !presence.nameless {
        list(&mut args, "members", &presence.joined, person);
    }
    let args = end(args, presence.count);
    // The events that change this list follow it.
    socket.cx().ack_now(ack, &args, &[]);
}

fn begin(room: &str) -> Vec<u8> {
    let mut out = b"{\"room\":".to_vec();
    json::quote(&mut out, room);
    out
}

fn end(mut out: Vec<u8>, count: u64) -> String {
    out.extend_from_slice(format!(",\"count\":{count}}}").as_bytes());
    String::from_utf8_lossy(&out).into_owned()
}

fn list<T>(out: &mut Vec<u8>, name: &str, items: &[T], write: impl Fn(&mut Vec<u8>, &T)) {
    out.extend_from_slice(format!(",\"{name}\":[").as_bytes());
    for (n, item) in items.iter().enumerate() {
        if n > 0 {
            out.push(b',');
        }
        write(out, item);
    }
    out.push(b']');
}

fn person(out: &mut Vec<u8>, person: &Person) {
    named(out, &person.who);
    if !person.info.is_empty() {
        out.extend_from_slice(b",\"info\":");
        out.extend_from_slice(person.info.as_bytes());
    }
    out.push(b'}');
}

fn named(out: &mut Vec<u8>, who: &Who) {
    let (member, name) = match who {
        Who::User(name) => ("{\"user\":", name),
        Who::Socket(id) => ("{\"id\":", id),
    };
    out.extend_from_slice(member.as_bytes());
    json::quote(out, name);
}
