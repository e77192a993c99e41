//! The chat profile: everyone is in room `global`; `chat-message` is checked, stamped and broadcast.

use crate::bounds::{CONTENT_UNITS_MAX, NAME_CHARS_MAX};
use crate::large::{Large, Publication, Queue};
use crate::publishing::may_publish;
use hub::{Author, Context, Emit, Event, Member, notices};
use std::fmt::Write;
use wire::json::{self, member};

/// Room of every chat socket.
pub(crate) const GLOBAL: &str = "global";
/// The event by which people speak.
pub(crate) const MESSAGE: &str = "chat-message";

/// A socket joins: it is in `global` from now on, under the name it gave.
pub(crate) fn connected(socket: &mut Member<'_>, auth: &str) {
    let name = member(auth, "\"name\"").and_then(json::unquote);
    if let Some(name) = name.as_deref().map(str::trim)
        && !name.is_empty()
        && name.chars().count() <= NAME_CHARS_MAX
    {
        let mut data = b"{\"name\":".to_vec();
        json::quote(&mut data, name);
        data.push(b'}');
        socket.set_data(&String::from_utf8_lossy(&data));
    }
    // The name is fixed and the socket new: this cannot be refused.
    let _ = socket.join(GLOBAL);
}

/// `chat-message` `{content, room?}`.
pub(crate) fn message(
    socket: &mut Member<'_>,
    queue: &mut Queue,
    (name, large): (&str, Large),
    event: Event<'_>,
) {
    const INVALID: &str = "Invalid message payload";
    let payload = json::first(event.args).unwrap_or("null");
    let content = member(payload, "\"content\"").filter(|raw| is_content(raw));
    let room = match member(payload, "\"room\"") {
        Some(raw) => json::unquote_name(raw),
        None => Some(event.room.unwrap_or(GLOBAL).into()),
    };
    let (Some(content), Some(room)) = (content, room) else {
        return socket.refuse(event.ack, INVALID, "INVALID_PAYLOAD");
    };
    if let Err(forbidden) = may_publish(socket, &room) {
        return socket.refuse(event.ack, forbidden.message(), forbidden.code());
    }
    let Some(sender) = socket.id() else { return };
    let mut cx = socket.cx();
    let (id, timestamp) = (cx.message_id(), cx.now().wall_ms);
    let said = socket.data().and_then(|data| member(data, "\"name\""));
    let said = said.map_or_else(String::new, |raw| format!(",\"name\":{raw}"));
    let user = socket.user().map_or_else(String::new, user_member);
    let mut quoted = Vec::new();
    json::quote(&mut quoted, &room);
    let args = format!(
        "{{\"id\":\"{id}\",\"sender\":\"{sender}\"{user}{said},\"content\":{content},\"timestamp\":{timestamp},\"room\":{}}}",
        String::from_utf8_lossy(&quoted)
    );
    let mut answer = String::new();
    let _ = write!(answer, "{{\"id\":\"{id}\",\"timestamp\":{timestamp}}}");
    let what = Publication {
        namespace: name,
        rooms: &[&room],
        echo: true,
        event: Emit {
            author: Author::Client(socket.key()),
            ..Emit::new(MESSAGE, &args)
        },
        answer: &answer,
    };
    queue.publish(socket, large, &what, event.ack);
}

/// Who sent it, as far as a token says.
fn user_member(user: &str) -> String {
    let mut member = b",\"user\":".to_vec();
    json::quote(&mut member, user);
    String::from_utf8_lossy(&member).into_owned()
}

/// Tells this shard's members how many are in the room; every shard does so for its own.
pub(crate) fn presence(cx: &mut Context<'_>, namespace: &str, room: &str, count: u64) {
    let mut args = b"{\"room\":".to_vec();
    json::quote(&mut args, room);
    args.extend_from_slice(format!(",\"count\":{count}}}").as_bytes());
    let args = String::from_utf8_lossy(&args);
    let presence = Emit::new(notices::PRESENCE, &args);
    cx.of(namespace).to(&[room]).here().notice(&presence);
}

fn is_content(raw: &str) -> bool {
    json::unquote(raw).is_some_and(|content| {
        !content.is_empty()
            && content.encode_utf16().take(CONTENT_UNITS_MAX + 1).count() <= CONTENT_UNITS_MAX
    })
}
