//! From the claims of a genuine token to what the hub is told: times, issuer and audience are
//! checked, user, rooms and permissions read, each within bounds.

use super::rejection::Rejection;
use super::settings::Settings;
use hub::claims::{Claims, Grants};
use serde_json::Value;
use std::sync::Arc;

/// Names of users go into rooms, logs and messages.
const UID_BYTES_MAX: usize = 256;
/// Claims that operators see, and characters of their names.
const KINDS_MAX: usize = 24;
const NAME_CHARS_MAX: usize = 40;
/// Words of the permissions claim, known or not.
const PERMISSIONS_MAX: usize = 1_024;

/// Checks and reads the claims of a token whose signature is good.
pub(crate) fn read(claims: &Value, settings: &Settings, now_s: u64) -> Result<Claims, Rejection> {
    let expires_s = times(claims, settings, now_s)?;
    if !settings.issuer.is_empty() && !names_one_of(claims.get("iss"), &settings.issuer) {
        return Err(Rejection::Issuer);
    }
    if !settings.audience.is_empty() && !names_one_of(claims.get("aud"), &settings.audience) {
        return Err(Rejection::Audience);
    }
    Ok(Claims {
        uid: uid(claims, &settings.uid_claim)?,
        expires_s,
        rooms: rooms(claims, settings)?,
        grants: grants(claims, settings)?,
        label: label(claims, settings)?,
        kinds: kinds(claims),
    })
}

/// A claim by its name, or by a JSON pointer (RFC 6901).
fn find<'a>(claims: &'a Value, name: &str) -> Option<&'a Value> {
    let found = match name.starts_with('/') {
        true => claims.pointer(name),
        false => claims.get(name),
    };
    found.filter(|value| !value.is_null())
}

/// RFC 7519 §4.1.4 to §4.1.6, with leeway on each side. The time from which it grants nothing.
fn times(claims: &Value, settings: &Settings, now_s: u64) -> Result<Option<u64>, Rejection> {
    let leeway = settings.leeway.as_secs();
    for name in ["nbf", "iat"] {
        if numeric_date(claims, name)?.is_some_and(|begins| begins > now_s.saturating_add(leeway)) {
            return Err(Rejection::NotYetValid);
        }
    }
    let Some(expires) = numeric_date(claims, "exp")? else {
        if settings.require_expiry {
            let why = "is missing, and auth.require_expiry asks for it";
            return Err(Rejection::claim("exp", why));
        }
        return Ok(None);
    };
    let ends = expires.saturating_add(leeway);
    if now_s >= ends {
        return Err(Rejection::Expired {
            by_s: now_s.saturating_sub(expires),
        });
    }
    Ok(Some(ends))
}

/// Seconds since 1970, fractions allowed (RFC 7519 §2); what lies before is long over.
fn numeric_date(claims: &Value, name: &str) -> Result<Option<u64>, Rejection> {
    let Some(value) = find(claims, name) else {
        return Ok(None);
    };
    if let Some(seconds) = value.as_u64() {
        return Ok(Some(seconds));
    }
    match value.as_f64() {
        Some(seconds) if seconds.is_finite() => Ok(Some(seconds.max(0.0) as u64)),
        _ => Err(Rejection::claim(name, "is no time in seconds")),
    }
}

/// `iss` is a string, `aud` a string or a list.
fn names_one_of(claim: Option<&Value>, accepted: &[String]) -> bool {
    let is_accepted = |value: &Value| {
        value
            .as_str()
            .is_some_and(|name| accepted.iter().any(|a| a == name))
    };
    match claim {
        Some(Value::Array(names)) => names.iter().any(is_accepted),
        Some(name) => is_accepted(name),
        None => false,
    }
}

fn uid(claims: &Value, name: &str) -> Result<String, Rejection> {
    let uid = match find(claims, name) {
        None => {
            return Err(Rejection::claim(
                name,
                "is missing: it says who the user is",
            ));
        }
        Some(Value::String(text)) => text.clone(),
        Some(Value::Number(number)) if !number.is_f64() => number.to_string(),
        Some(_) => {
            return Err(Rejection::claim(
                name,
                "is neither a string nor a whole number",
            ));
        }
    };
    if uid.is_empty() || uid.len() > UID_BYTES_MAX {
        return Err(Rejection::claim(name, "has not 1 to 256 bytes"));
    }
    if uid.chars().any(char::is_control) {
        return Err(Rejection::claim(name, "holds control characters"));
    }
    Ok(uid)
}

/// The names of all claims and the kinds of their values, in the order of the names. A value may be a secret, and is not shown.
fn kinds(claims: &Value) -> Option<Arc<str>> {
    let line = |(name, value): (&String, &Value)| {
        let name: String = name.chars().filter(|c| !c.is_control()).collect();
        let name: String = name.chars().take(NAME_CHARS_MAX).collect();
        let kind = match value {
            Value::Null => "null",
            Value::Bool(_) => "boolean",
            Value::Number(_) => "number",
            Value::String(_) => "text",
            Value::Array(_) => "list",
            Value::Object(_) => "object",
        };
        format!("{name}\t{kind}")
    };
    let mut lines: Vec<String> = claims.as_object()?.iter().map(line).collect();
    lines.sort_unstable();
    lines.truncate(KINDS_MAX);
    Some(lines.join("\n").into())
}

/// A claim that need not be there.
fn label(claims: &Value, settings: &Settings) -> Result<Option<String>, Rejection> {
    let Some(name) = &settings.label_claim else {
        return Ok(None);
    };
    let text = match find(claims, name) {
        None => return Ok(None),
        Some(Value::String(text)) => text.clone(),
        Some(Value::Number(number)) if !number.is_f64() => number.to_string(),
        Some(_) => {
            let why = "is neither a string nor a whole number";
            return Err(Rejection::claim(name, why));
        }
    };
    if text.is_empty() || text.len() > UID_BYTES_MAX {
        return Err(Rejection::claim(name, "has not 1 to 256 bytes"));
    }
    Ok(Some(text))
}

fn rooms(claims: &Value, settings: &Settings) -> Result<Vec<String>, Rejection> {
    let name = &settings.rooms_claim;
    let Some(value) = find(claims, name) else {
        return Ok(Vec::new());
    };
    let list = value
        .as_array()
        .ok_or_else(|| Rejection::claim(name, "is no list"))?;
    if list.len() > settings.rooms_max {
        return Err(Rejection::claim(
            name,
            "names more rooms than limits.rooms_per_socket_max",
        ));
    }
    list.iter()
        .map(|room| match room.as_str() {
            Some(room) if is_room(room, settings) => Ok(room.to_owned()),
            Some(_) => Err(Rejection::claim(
                name,
                "names a room that is empty, has NUL, or is longer than limits.room_name_bytes_max",
            )),
            None => Err(Rejection::claim(name, "is no list of strings")),
        })
        .collect()
}

fn is_room(room: &str, settings: &Settings) -> bool {
    !room.is_empty() && room.len() <= settings.room_name_bytes_max && !room.contains('\0')
}

/// `join:<room>` and `publish:<room>`, in a list or in one string with blanks (as OAuth's `scope`). Other words are
/// other services' business: they grant nothing here.
fn grants(claims: &Value, settings: &Settings) -> Result<Option<Grants>, Rejection> {
    let name = &settings.permissions_claim;
    let words: Vec<&str> = match find(claims, name) {
        None => return Ok(None),
        Some(Value::String(text)) => text.split_ascii_whitespace().collect(),
        Some(Value::Array(list)) => {
            let words = list.iter().map(Value::as_str).collect::<Option<_>>();
            words.ok_or_else(|| Rejection::claim(name, "is no list of strings"))?
        }
        Some(_) => {
            let why = "is neither a list of strings nor a string";
            return Err(Rejection::claim(name, why));
        }
    };
    if words.len() > PERMISSIONS_MAX {
        return Err(Rejection::claim(name, "has more than 1024 words"));
    }
    let mut grants = Grants::default();
    for word in words {
        let (list, room) = match word.split_once(':') {
            Some(("join", room)) => (&mut grants.join, room),
            Some(("publish", room)) => (&mut grants.publish, room),
            _ => continue,
        };
        if is_room(room, settings) {
            list.push(room.to_owned());
        }
    }
    Ok(Some(grants))
}
