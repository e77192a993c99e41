//! Digests of orders and of the names of calls: two calls under one key are the same call if their digests are the same.
//!
//! Nodes of other builds and the process before this one have digests, too: a call that is repeated is to be known to all of them. So each byte
//! that is summed up is written here, and nothing depends on how a type is declared. The form is that of the first build, and does not change.

use aws_lc_rs::digest::{Context, SHA256};
use rules::{Message, Wanted};
use std::time::Duration;
use types::Target;

/// Of the order's meaning, in the words of builds whose target had no `all` and no `sockets`.
pub(super) fn of_order(of: &Target, wanted: &Wanted, stored: bool) -> [u8; 32] {
    let Target {
        namespace,
        rooms,
        except,
        local,
        // Callers are refused who say it.
        without: _,
        users,
        sockets,
        // Nobody is named where all are meant.
        all: _,
    } = of;
    let mut sum = Sum::new();
    sum.text(namespace);
    // A socket's id is the name of a room that holds it alone.
    sum.texts(&[rooms, sockets]);
    sum.texts(&[users]);
    sum.texts(&[except]);
    sum.flag(*local);
    sum.wanted(wanted);
    sum.flag(stored);
    sum.end()
}

/// Of the name of a call: its caller, its namespace and its key.
pub(super) fn of_name(parts: [&str; 3]) -> [u8; 32] {
    let mut sum = Sum::new();
    parts.into_iter().for_each(|part| sum.text(part));
    sum.end()
}

struct Sum(Context);

impl Sum {
    fn new() -> Self {
        Self(Context::new(&SHA256))
    }

    fn end(self) -> [u8; 32] {
        self.0.finish().as_ref().try_into().unwrap_or_default()
    }

    fn number(&mut self, number: u64) {
        self.0.update(&number.to_le_bytes());
    }

    fn flag(&mut self, flag: bool) {
        self.0.update(&[u8::from(flag)]);
    }

    fn time(&mut self, time: Duration) {
        self.number(time.as_secs());
        self.0.update(&time.subsec_nanos().to_le_bytes());
    }

    /// Its end is a byte that no text has.
    fn text(&mut self, text: &str) {
        self.0.update(text.as_bytes());
        self.0.update(&[0xff]);
    }

    /// Lists behind each other, as one.
    fn texts(&mut self, lists: &[&Vec<String>]) {
        let count: usize = lists.iter().map(|list| list.len()).sum();
        self.number(count as u64);
        let texts = lists.iter().copied().flatten();
        texts.for_each(|text| self.text(text));
    }

    fn wanted(&mut self, wanted: &Wanted) {
        match wanted {
            Wanted::Emit(message) => {
                self.number(0);
                self.message(message);
            }
            Wanted::Ask(message, within) => {
                self.number(1);
                self.message(message);
                self.time(*within);
            }
            Wanted::Join(rooms) => {
                self.number(2);
                self.texts(&[rooms]);
            }
            Wanted::Leave(rooms) => {
                self.number(3);
                self.texts(&[rooms]);
            }
            Wanted::Disconnect { close } => {
                self.number(4);
                self.flag(*close);
            }
            Wanted::Fetch(within) => {
                self.number(5);
                self.time(*within);
            }
            Wanted::Present => self.number(6),
            Wanted::Forget(rooms) => {
                self.number(7);
                self.texts(&[rooms]);
            }
        }
    }

    fn message(&mut self, message: &Message) {
        let Message {
            event,
            args,
            attachments,
            volatile,
            receipt: _,
            spot: _,
        } = message;
        self.text(event);
        self.text(args);
        self.number(attachments.len() as u64);
        for bytes in attachments {
            self.number(bytes.len() as u64);
            self.0.update(bytes);
        }
        self.flag(*volatile);
        // No caller says `receipt` and `spot`: they come when the order is carried out.
        self.number(0);
        self.number(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Write;

    /// What builds answer by, and answered by when all of it was derived from the types.
    const GOLDEN: [(&str, &str); 9] = [
        (
            "emit",
            "5f3e6fca513748390bd837f129b85ef03cf1708a2ae44b0839cf767d19f1f60f",
        ),
        (
            "ask",
            "0b69ebdee7eaf6d84231a7a0363c08e18776ccb8f08d98c6c2cf72e11996249f",
        ),
        (
            "join",
            "803adee65c4f5c9f00ed5dd0a5370e2ad2b8749b4545c6b043f38e46168f1c40",
        ),
        (
            "leave",
            "9540fd04615b3ca48db9734a059bdedf48c56ea961c6647d47772866531cf757",
        ),
        (
            "disconnect",
            "10508c4478f9e37232c4fba71ce8f809f99499c3de662440e99d6fdcd2f06590",
        ),
        (
            "fetch",
            "04ae5c2250c6135c675842bc22b8fb0d0d614b398a0454d9cd6d52a140891705",
        ),
        (
            "present",
            "a9bc85cfd54b9cfd655273a579ec6a9e0d6cc4c2bd8cab7c99e3ff540bfe9c35",
        ),
        (
            "forget",
            "f4dcec1e9bae92d5bdd51afb78d468bf3155ab5904d617d5ee002eeb1cac4ebd",
        ),
        (
            "name",
            "2b27d443f291969c6afcf8f5f658fb157118b5575abb4b2e25383168c0132af1",
        ),
    ];

    fn list(names: &[&str]) -> Vec<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    fn named() -> Target {
        Target {
            namespace: "/chat".to_owned(),
            rooms: list(&["den"]),
            users: list(&["ada"]),
            sockets: list(&["AAAAAAAAAAAAAAAAAAAA"]),
            except: list(&["bar"]),
            local: true,
            ..Target::default()
        }
    }

    fn message() -> Message {
        Message {
            event: "news".to_owned(),
            args: "1,{}".to_owned(),
            attachments: vec![vec![1, 0xff], Vec::new()],
            volatile: true,
            ..Message::default()
        }
    }

    fn hex(digest: [u8; 32]) -> String {
        digest.iter().fold(String::new(), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        })
    }

    /// A retry behind an upgrade was answered `KEY_REUSED` as soon as a build declared one of the types in another way.
    #[test]
    fn an_order_was_another_one_for_a_build_with_other_types() {
        let all = Target {
            namespace: "/".to_owned(),
            all: true,
            ..Target::default()
        };
        let within = Duration::from_millis(1_500);
        let orders = [
            ("emit", &named(), Wanted::Emit(message())),
            ("ask", &named(), Wanted::Ask(message(), within)),
            ("join", &named(), Wanted::Join(list(&["a", "b"]))),
            ("leave", &named(), Wanted::Leave(list(&["a"]))),
            ("disconnect", &all, Wanted::Disconnect { close: true }),
            ("fetch", &all, Wanted::Fetch(within)),
            ("present", &named(), Wanted::Present),
            ("forget", &all, Wanted::Forget(Vec::new())),
        ];
        let mut digests: Vec<(&str, String)> = orders
            .iter()
            .map(|(name, of, wanted)| (*name, hex(of_order(of, wanted, *name == "emit"))))
            .collect();
        digests.push(("name", hex(of_name(["ci", "/chat", "a"]))));
        let golden = GOLDEN.map(|(name, digest)| (name, digest.to_owned()));
        assert_eq!(digests, golden);
    }

    /// A call that was repeated while the nodes of a cluster were replaced was answered `KEY_REUSED`, and nobody could know whether it had been
    /// carried out.
    #[test]
    fn a_call_was_another_one_at_a_node_of_an_earlier_build() {
        let wanted = Wanted::Disconnect { close: false };
        let now = |of: &Target| of_order(of, &wanted, false);
        // As it was named there.
        let before = Target {
            rooms: list(&["den", "AAAAAAAAAAAAAAAAAAAA"]),
            sockets: Vec::new(),
            ..named()
        };
        assert_eq!(now(&named()), now(&before));
        let all = Target {
            namespace: "/chat".to_owned(),
            all: true,
            ..Target::default()
        };
        let before = Target {
            all: false,
            ..all.clone()
        };
        assert_eq!(now(&all), now(&before));
        assert_ne!(now(&all), now(&named()));
        assert_ne!(now(&all), of_order(&all, &wanted, true));
        let other = Wanted::Disconnect { close: true };
        assert_ne!(now(&all), of_order(&all, &other, false));
    }

    /// Where one text ends and the next begins is a part of the meaning.
    #[test]
    fn texts_do_not_run_into_each_other() {
        let wanted = Wanted::Present;
        let of = |rooms: &[&str], users: &[&str]| {
            let of = Target {
                rooms: list(rooms),
                users: list(users),
                ..Target::default()
            };
            of_order(&of, &wanted, false)
        };
        let all = [
            of(&["ab"], &[]),
            of(&["a", "b"], &[]),
            of(&["a"], &["b"]),
            of(&[], &["a", "b"]),
        ];
        for (at, digest) in all.iter().enumerate() {
            assert!(!all[..at].contains(digest), "{at}");
        }
    }
}
