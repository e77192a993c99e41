//! Owns what texts of a scenario must be for servers: payloads and credentials that are JSON, names of events.

use super::Payload;
use super::expression::shown;
use super::template::{Scope, Template};
use fastrand::Rng;

/// Renders one and looks at it as a server would.
pub fn check_payload(payload: &Payload) -> Result<(), String> {
    let Payload { body, size } = payload;
    if body.is_empty() {
        return Err("it is empty: JSON is needed, such as '{}'".into());
    }
    if body.stamps() > 1 {
        return Err("\"${stamp}\" may stand in it once only".into());
    }
    if body.marks_before_stamp() {
        return Err("no \"~\" may stand before \"${stamp}\"".into());
    }
    let mut out = vec![b'['];
    body.render(
        &mut out,
        &Scope::default(),
        &mut Rng::with_seed(1),
        *size,
        |out| {
            crate::engine::identity::Identity::default().write(out);
        },
    );
    let bytes = out.len() - 1;
    out.push(b']');
    if let Err(error) = serde_json::from_slice::<serde_json::Value>(&out) {
        return Err(not_json(&error, &out[1..=bytes]));
    }
    if body.has_fill() && bytes > *size && *size > 0 {
        return Err(format!(
            "{size} bytes are too few, what it holds is {bytes} bytes long"
        ));
    }
    Ok(())
}

/// Fills the holes and looks for the object that Socket.IO wants.
pub fn check_auth(auth: &Template) -> Result<(), String> {
    let mut out = Vec::new();
    auth.render(
        &mut out,
        &Scope::default(),
        &mut Rng::with_seed(1),
        0,
        |_| {},
    );
    match serde_json::from_slice::<serde_json::Value>(&out) {
        Ok(serde_json::Value::Object(_)) => Ok(()),
        Ok(_) => Err(format!(
            "it is no JSON object when filled in, such as {{\"token\":\"…\"}}: {}",
            shown(&String::from_utf8_lossy(&out))
        )),
        Err(error) => Err(not_json(&error, &out)),
    }
}

fn not_json(error: &serde_json::Error, text: &[u8]) -> String {
    let text = String::from_utf8_lossy(&text[..text.len().min(60)]).into_owned();
    format!("it is not JSON when filled in, {error}: {text}")
}

/// An event's name as it can stand in a message.
pub fn event(text: &str) -> Result<String, String> {
    match text {
        "" => Err("\"\" names nothing".into()),
        _ if text.contains(['"', '\\']) => Err(format!("{text:?} holds a quote or a backslash")),
        _ => Ok(text.to_owned()),
    }
}

/// The same without the names that only libraries may send: who does is disconnected.
pub fn socket_io_event(text: &str) -> Result<String, String> {
    match wire::socketio::is_reserved(text) {
        true => Err(format!(
            "{text:?} belongs to Socket.IO itself, servers cut off who sends it; take another name"
        )),
        false => event(text),
    }
}
