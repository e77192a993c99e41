//! The answer of an endpoint: `{"commands":[{"emit":{…}},{"join":{…}},…]}`. An answer is taken as a whole or not at all, so that
//! a mistyped `refuse` lets nobody in. What it is, its text says: servers give any type to it.

use backend::News;
use backend::proto;
use backend::proto::command::What;
use backend::proto::item::What as Said;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use prost::bytes::Bytes;
use std::borrow::Cow;
use types::Target;
use wire::json;

/// The members that choose sockets.
const TARGET: [&str; 7] = [
    "namespace",
    "rooms",
    "users",
    "sockets",
    "except",
    "local",
    "all",
];

/// Why a content has no commands that can be carried out.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// It is something else: `OK` in words, a page, an object without `commands`.
    NoAnswer(String),
    /// It is an answer, and something in it is wrong.
    Wrong(String),
}

/// The commands of an answer.
pub(super) fn read(body: &[u8], news: &[News]) -> Result<Vec<What>, Fault> {
    let none = |why: &str| Fault::NoAnswer(why.to_owned());
    let text = std::str::from_utf8(body).map_err(|_| none("it is no UTF-8"))?;
    json::validate(body).map_err(|_| none("it is no JSON"))?;
    let answer = Members::all(text.trim()).map_err(Fault::NoAnswer)?;
    let Some(commands) = answer.get("commands") else {
        // An object without members is one without commands.
        let known = answer.known(&["commands"]);
        return known.map(|()| Vec::new()).map_err(Fault::NoAnswer);
    };
    let commands = answer.once().and_then(|answer| {
        answer.known(&["commands"])?;
        let list = elements("commands", commands)?;
        list.map(|command| one(command, news)).collect()
    });
    commands.map_err(Fault::Wrong)
}

fn one(command: &str, news: &[News]) -> Result<What, String> {
    let members = Members::of(command)?;
    let [(kind, body)] = members.0.as_slice() else {
        return Err(format!(
            "a command is an object with one member, such as {{\"emit\":{{…}}}}; this is {}",
            brief(command)
        ));
    };
    let body = Members::of(body)?;
    let what = match &**kind {
        "emit" => emit(&body, news),
        "join" => membership(kind, &body, news).map(What::Join),
        "leave" => membership(kind, &body, news).map(What::Leave),
        "disconnect" => disconnect(&body, news),
        "ack" => ack(&body, news),
        "refuse" => refuse(&body, news),
        _ => Err("known commands are emit, join, leave, disconnect, ack and refuse".to_owned()),
    };
    let what = what.and_then(|what| Ok(backend::check(&what).map(|()| what)?));
    what.map_err(|why| format!("{kind:?}: {why}"))
}

fn emit(body: &Members<'_>, news: &[News]) -> Result<What, String> {
    body.choosing(&["event", "args", "attachments", "volatile"])?;
    Ok(What::Emit(Box::new(proto::Emit {
        to: Some(target(body, news)?),
        event: body.text("event")?.ok_or("event is needed")?.into_owned(),
        args: args(body)?,
        attachments: attachments(body)?,
        volatile: body.flag("volatile")?,
    })))
}

/// `kind`: the command, and its member with the rooms.
fn membership(kind: &str, body: &Members<'_>, news: &[News]) -> Result<proto::Membership, String> {
    body.choosing(&[kind])?;
    let rooms = body.strings(kind)?;
    if rooms.is_empty() {
        return Err(format!("{kind:?} is needed: the rooms"));
    }
    types::check_names(kind, &rooms).map_err(|fault| fault.to_string())?;
    Ok(proto::Membership {
        of: Some(target(body, news)?),
        rooms,
    })
}

fn disconnect(body: &Members<'_>, news: &[News]) -> Result<What, String> {
    body.choosing(&["close"])?;
    Ok(What::Disconnect(proto::Disconnect {
        of: Some(target(body, news)?),
        close: body.flag("close")?,
        drop: false,
    }))
}

fn ack(body: &Members<'_>, news: &[News]) -> Result<What, String> {
    body.known(&["args", "attachments"])?;
    let [only] = news else {
        return Err("nobody waits for an ack".to_owned());
    };
    match &only.item.what {
        Some(Said::Event(event)) if event.ack != 0 => Ok(What::Ack(proto::Ack {
            socket: event.socket.clone(),
            ack: event.ack,
            args: args(body)?,
            attachments: attachments(body)?,
        })),
        _ => Err("nobody waits for an ack".to_owned()),
    }
}

fn refuse(body: &Members<'_>, news: &[News]) -> Result<What, String> {
    body.known(&["message", "data"])?;
    let [only] = news else {
        return Err("nobody waits for a decision".to_owned());
    };
    match &only.item.what {
        Some(Said::Connect(connect)) if only.decides => Ok(What::Decision(proto::Decision {
            socket: connect.socket.clone(),
            admit: false,
            message: body
                .text("message")?
                .map_or_else(|| "refused".to_owned(), Cow::into_owned),
            data: body.get("data").unwrap_or_default().to_owned(),
        })),
        _ => Err("nobody waits for a decision".to_owned()),
    }
}

/// The sockets that are meant.
fn target(body: &Members<'_>, news: &[News]) -> Result<Target, String> {
    let namespace = match body.text("namespace")? {
        Some(namespace) => namespace.into_owned(),
        None => common_namespace(news)?.to_owned(),
    };
    Ok(Target {
        namespace,
        rooms: body.strings("rooms")?,
        users: body.strings("users")?,
        sockets: body.strings("sockets")?,
        except: body.strings("except")?,
        local: body.flag("local")?,
        all: body.flag("all")?,
        without: Vec::new(),
    })
}

/// That of all events of the call.
fn common_namespace(news: &[News]) -> Result<&str, String> {
    let mut all = news.iter().map(|news| news.namespace.as_str());
    let all = all.by_ref().filter(|namespace| !namespace.is_empty());
    let all: Vec<&str> = all.collect();
    match all.split_first() {
        Some((first, rest)) if rest.iter().all(|other| other == first) => Ok(first),
        _ => Err("namespace is needed".to_owned()),
    }
}

fn args(body: &Members<'_>) -> Result<Bytes, String> {
    let list = body.get("args").unwrap_or("[]");
    let raw: Vec<&str> = elements("args", list)?.collect();
    Ok(raw.join(",").into())
}

fn attachments(body: &Members<'_>) -> Result<Vec<Bytes>, String> {
    let texts = body.strings("attachments")?;
    let decoded = texts.iter().map(|text| STANDARD.decode(text));
    let decoded: Result<Vec<_>, _> = decoded.collect();
    let decoded = decoded.map_err(|_| "attachments must be base64")?;
    Ok(decoded.into_iter().map(Into::into).collect())
}

fn elements<'a>(member: &str, raw: &'a str) -> Result<json::Elements<'a>, String> {
    match raw.starts_with('[') {
        true => Ok(json::elements(raw)),
        false => Err(format!(
            "cannot use {} as {member:?}: a list is needed",
            brief(raw)
        )),
    }
}

/// For messages.
fn brief(raw: &str) -> String {
    raw.chars().take(80).collect()
}

/// The members of an object, in their order.
struct Members<'a>(Vec<(Cow<'a, str>, &'a str)>);

impl<'a> Members<'a> {
    fn of(raw: &'a str) -> Result<Self, String> {
        Self::all(raw)?.once()
    }

    /// Of two members with one name, programs read the first or the last.
    fn once(self) -> Result<Self, String> {
        let mut names: Vec<&str> = self.0.iter().map(|(name, _)| &**name).collect();
        names.sort_unstable();
        match names.array_windows().find(|[one, next]| one == next) {
            Some([name, _]) => Err(format!("there are two members {name:?}")),
            None => Ok(self),
        }
    }

    fn all(raw: &'a str) -> Result<Self, String> {
        if !raw.starts_with('{') {
            return Err(format!("cannot use {}: an object is needed", brief(raw)));
        }
        let all = json::members(raw).map(|(name, value)| Some((json::unquote(name)?, value)));
        let all: Option<Vec<_>> = all.collect();
        Ok(Self(all.ok_or("a name is no text")?))
    }

    fn known(&self, names: &[&str]) -> Result<(), String> {
        let mut all = self.0.iter();
        match all.find(|(name, _)| !names.contains(&&**name)) {
            Some((name, _)) => Err(format!(
                "unknown member {name:?}; known: {}",
                names.join(", ")
            )),
            None => Ok(()),
        }
    }

    /// The members of a target, and these of the command.
    fn choosing(&self, own: &[&str]) -> Result<(), String> {
        self.known(&[own, &TARGET].concat())
    }

    fn get(&self, name: &str) -> Option<&'a str> {
        let mut all = self.0.iter().rev();
        all.find(|(known, _)| known == name).map(|(_, raw)| *raw)
    }

    fn text(&self, name: &str) -> Result<Option<Cow<'a, str>>, String> {
        let Some(raw) = self.get(name) else {
            return Ok(None);
        };
        let text = json::unquote(raw).filter(|text| !text.is_empty());
        let text =
            text.ok_or_else(|| format!("cannot use {} as {name:?}: a text is needed", brief(raw)))?;
        Ok(Some(text))
    }

    fn flag(&self, name: &str) -> Result<bool, String> {
        match self.get(name) {
            None | Some("false") => Ok(false),
            Some("true") => Ok(true),
            Some(raw) => Err(format!(
                "cannot use {} as {name:?}: true or false is needed",
                brief(raw)
            )),
        }
    }

    fn strings(&self, name: &str) -> Result<Vec<String>, String> {
        let raw = self.get(name).unwrap_or("[]");
        let all = elements(name, raw)?.map(json::unquote_name);
        let all = all.map(|text| text.map(Cow::into_owned));
        let all: Option<Vec<String>> = all.collect();
        all.ok_or_else(|| format!("cannot use {} as {name:?}: texts are needed", brief(raw)))
    }
}

#[cfg(test)]
#[path = "answer_tests.rs"]
mod tests;
