//! The body of a call, as JSON. Arguments stay the text that the client wrote.

use backend::News;
use backend::proto::item::What;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use prost::bytes::Bytes;
use wire::json;

/// `{"events":[…]}`.
pub(super) fn of(news: &[News]) -> Vec<u8> {
    written(news, event)
}

/// The same for operators: how clients prove who they are is left out.
pub(super) fn shown(news: &[News]) -> Vec<u8> {
    written(news, |object, news| {
        let mut news = news.clone();
        if let Some(What::Connect(connect)) = &mut news.item.what {
            connect.auth = Bytes::from_static(b"\"(left out)\"");
            connect.query = "(left out)".to_owned();
            for header in &mut connect.headers {
                header.value = Bytes::from_static(b"(left out)");
            }
        }
        event(object, &news);
    })
}

fn written(news: &[News], event: impl Fn(&mut Object<'_>, &News)) -> Vec<u8> {
    let mut out = b"{\"events\":[".to_vec();
    for (at, news) in news.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        event(&mut Object::open(&mut out), news);
        out.push(b'}');
    }
    out.extend_from_slice(b"]}");
    out
}

/// Names the event among all that there ever are: it is the same when it comes again.
pub(super) fn id(news: &News) -> String {
    format!("{}:{}", news.about, news.item.sequence)
}

/// The trace that it belongs to; empty = none.
pub(super) fn traceparent(news: &News) -> &str {
    match &news.item.what {
        Some(What::Connect(connect)) => &connect.traceparent,
        Some(What::Event(event)) => &event.traceparent,
        _ => "",
    }
}

fn event(object: &mut Object<'_>, news: &News) {
    object.text("id", &id(news));
    if news.item.redelivered {
        object.raw("redelivered", b"true");
    }
    if !matches!(news.item.what, Some(What::NodeGone(_))) {
        object.text("socket", &news.about);
        object.raw("sequence", news.item.sequence.to_string().as_bytes());
        object.text("namespace", &news.namespace);
        if !news.user.is_empty() {
            object.text("user", &news.user);
        }
    }
    if !traceparent(news).is_empty() {
        object.text("traceparent", traceparent(news));
    }
    match &news.item.what {
        Some(What::Connect(connect)) => {
            object.text("type", if news.decides { "connect" } else { "connected" });
            object.raw("auth", &connect.auth);
            object.text("query", &connect.query);
            object.text("address", &connect.address);
            object.text("protocol", &connect.protocol);
            let headers = connect.headers.iter();
            object.list("headers", headers, |out, header| {
                out.push(b'[');
                json::quote(out, &header.name);
                out.push(b',');
                json::quote(out, &String::from_utf8_lossy(&header.value));
                out.push(b']');
            });
        }
        Some(What::Event(event)) => {
            object.text("type", "event");
            object.text("event", &event.event);
            object.raw("args", &[b"[", &event.args[..], b"]"].concat());
            if !event.attachments.is_empty() {
                let attachments = event.attachments.iter();
                object.list("attachments", attachments, |out, bytes| {
                    json::quote(out, &STANDARD.encode(bytes));
                });
            }
            object.raw("ack", if event.ack == 0 { b"false" } else { b"true" });
        }
        Some(What::Gone(gone)) => {
            object.text("type", "disconnected");
            object.text("reason", &gone.reason);
            let rooms = gone.rooms.iter();
            object.list("rooms", rooms, |out, room| json::quote(out, room));
        }
        Some(What::NodeGone(lost)) => {
            object.text("type", "node_gone");
            object.raw("node", lost.node.to_string().as_bytes());
        }
        // Nothing else is made for endpoints.
        _ => object.text("type", "unknown"),
    }
}

/// An object that is being written.
struct Object<'a> {
    out: &'a mut Vec<u8>,
}

impl<'a> Object<'a> {
    fn open(out: &'a mut Vec<u8>) -> Self {
        out.push(b'{');
        Self { out }
    }

    fn name(&mut self, name: &str) {
        if self.out.last() != Some(&b'{') {
            self.out.push(b',');
        }
        json::quote(self.out, name);
        self.out.push(b':');
    }

    fn raw(&mut self, name: &str, value: &[u8]) {
        self.name(name);
        self.out.extend_from_slice(value);
    }

    fn text(&mut self, name: &str, value: &str) {
        self.name(name);
        json::quote(self.out, value);
    }

    fn list<T>(
        &mut self,
        name: &str,
        items: impl Iterator<Item = T>,
        write: impl Fn(&mut Vec<u8>, T),
    ) {
        self.name(name);
        self.out.push(b'[');
        for (at, item) in items.enumerate() {
            if at > 0 {
                self.out.push(b',');
            }
            write(self.out, item);
        }
        self.out.push(b']');
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use backend::proto::{self, Item};

    fn news(what: What) -> News {
        News {
            about: "AAAAAAAAAAAAAAAAAAAB".to_owned(),
            item: Item {
                redelivered: true,
                sequence: 7,
                alone: false,
                what: Some(what),
            },
            namespace: "/\"n".to_owned(),
            user: "ann".to_owned(),
            decides: true,
        }
    }

    #[test]
    fn every_kind_of_event_is_json() {
        let socket = "AAAAAAAAAAAAAAAAAAAB".to_owned();
        let connect = proto::Connect {
            socket: socket.clone(),
            auth: b"{\"a\":1e400}".to_vec().into(),
            headers: vec![proto::Header {
                name: "x".to_owned(),
                value: vec![b'\xff', b'"'].into(),
            }],
            ..proto::Connect::default()
        };
        let event = proto::Event {
            socket: socket.clone(),
            event: "a\nb".to_owned(),
            args: b"1,{\"_placeholder\":true,\"num\":0}".to_vec().into(),
            attachments: vec![vec![0, 1, 255].into()],
            ack: 3,
            traceparent: "00-1".to_owned(),
        };
        let gone = proto::Gone {
            socket,
            reason: "transport close".to_owned(),
            rooms: vec!["a".to_owned(), "b".to_owned()],
        };
        let all = [
            news(What::Connect(connect.into())),
            news(What::Event(event)),
            news(What::Gone(gone)),
            news(What::NodeGone(proto::NodeGone { node: 4, life: 9 })),
        ];
        let body = of(&all);
        json::validate(&body).expect("JSON");
        let body = String::from_utf8(body).expect("text");
        assert!(body.contains(r#""args":[1,{"_placeholder":true,"num":0}]"#));
        assert!(
            body.contains(r#""attachments":["AAH/"],"ack":true"#),
            "{body}"
        );
        assert!(body.contains(r#""rooms":["a","b"]"#), "{body}");
        assert!(body.contains(r#""type":"node_gone","node":4"#), "{body}");
        assert_eq!(id(&all[1]), "AAAAAAAAAAAAAAAAAAAB:7");
    }
}
