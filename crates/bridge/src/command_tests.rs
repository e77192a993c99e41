//! Records of all kinds, read as commands.

use super::*;

fn rights(namespaces: &[&str], operators: &[Operator]) -> Rights {
    let namespaces = namespaces.iter().map(|name| (*name).to_owned()).collect();
    Rights::new("the topic in", namespaces, operators.to_vec())
}

fn read<'a>(
    headers: &[RawHeader<'a>],
    value: Option<&'a [u8]>,
) -> Result<(Target, Action<'a>), String> {
    let rights = rights(&["/", "/chat"], &Operator::ALL);
    let command = Command::read(&rights, headers, value);
    command
        .map(|command| (command.of, command.action))
        .map_err(|flaw| flaw.to_string())
}

fn one(name: &str) -> Vec<String> {
    vec![name.to_owned()]
}

#[test]
fn each_operator_names_its_target() {
    type Named = fn(&mut Target);
    let all: [(&[RawHeader<'_>], Named); 4] = [
        (
            &[("X-Operator", Some(b"unicast")), ("X-ID", Some(b"s"))],
            |of| of.sockets = one("s"),
        ),
        (
            &[("X-Operator", Some(b"user")), ("X-Uid", Some(b"u"))],
            |of| of.users = one("u"),
        ),
        (
            &[("X-Operator", Some(b"room")), ("X-Guid", Some(b"r"))],
            |of| of.rooms = one("r"),
        ),
        (
            &[("X-Operator", Some(b"broadcast")), ("X-ID", None)],
            |of| of.all = true,
        ),
    ];
    for (headers, name) in all {
        let mut of = Target {
            namespace: "/".to_owned(),
            ..Target::default()
        };
        name(&mut of);
        let action = Action::Emit {
            encoding: Encoding::Json,
            attachments: None,
            body: b"[1]",
        };
        assert_eq!(read(headers, Some(b"[1]")), Ok((of, action)));
    }
}

#[test]
fn internal_commands_need_no_value() {
    let of = |word: &'static [u8]| {
        let headers: [RawHeader<'static>; 5] = [
            ("X-Operator", Some(b"internal")),
            ("X-Inner", Some(word)),
            ("X-Uid", Some(b"u")),
            ("X-Guid", Some(b"r")),
            ("X-Sockeye-Namespace", Some(b"/chat")),
        ];
        read(&headers, None)
    };
    let user = Target {
        namespace: "/chat".to_owned(),
        users: one("u"),
        ..Target::default()
    };
    for (word, action) in [
        (&b"join"[..], Action::Join { room: "r" }),
        (b"leave", Action::Leave { room: "r" }),
        (b"disconnect", Action::Disconnect),
    ] {
        assert_eq!(of(word), Ok((user.clone(), action)));
    }
    let flaw = of(b"explode").expect_err("no such word");
    assert_eq!(
        flaw,
        "the header X-Inner is \"explode\": known are join, leave, disconnect"
    );
}

#[test]
fn a_flaw_names_header_and_value() {
    let long = [b'x'; HEADER_BYTES_MAX + 1];
    let operator: RawHeader<'_> = ("X-Operator", Some(b"unicast"));
    let cases: [(&[RawHeader<'_>], &str); 9] = [
        (&[], "the header X-Operator is missing or null"),
        (
            &[("X-Operator", None)],
            "the header X-Operator is missing or null",
        ),
        (
            &[("X-Operator", Some(b"Unicast"))],
            "the header X-Operator is \"Unicast\": known are unicast, user, room, broadcast, internal",
        ),
        (&[operator], "the header X-ID is missing or null"),
        (
            &[operator, operator],
            "the header X-Operator stands there twice",
        ),
        (
            &[operator, ("X-ID", Some(b""))],
            "the header X-ID has 0 bytes: 1 to 1024 are allowed",
        ),
        (
            &[operator, ("X-ID", Some(&long))],
            "the header X-ID has 1025 bytes: 1 to 1024 are allowed",
        ),
        (
            &[operator, ("X-ID", Some(b"\xff"))],
            "the header X-ID is not UTF-8",
        ),
        (
            &[operator, ("X-Sockeye-Namespace", Some(b"/admin"))],
            "the topic in has no right to the namespace \"/admin\"",
        ),
    ];
    for (headers, flaw) in cases {
        assert_eq!(read(headers, Some(b"[1]")), Err(flaw.to_owned()));
    }
    let sent: [RawHeader<'_>; 2] = [operator, ("X-ID", Some(b"s"))];
    for value in [None, Some(&b""[..])] {
        let flaw = read(&sent, value).expect_err("nothing to send");
        assert_eq!(flaw, "the record has no value: nothing can be sent");
    }
}

#[test]
fn an_operator_that_the_topic_lacks_is_refused() {
    let rights = rights(&["/"], &[Operator::Room]);
    let headers: [RawHeader<'_>; 1] = [("X-Operator", Some(b"broadcast"))];
    let flaw = Command::read(&rights, &headers, Some(b"[1]")).expect_err("no right");
    assert_eq!(
        flaw.to_string(),
        "the topic in has no right to the operator broadcast"
    );
}
