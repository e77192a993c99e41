//! Records of all kinds, read as commands.

use super::*;

fn rights(namespaces: &[&str], operators: &[Operator]) -> Rights {
    let namespaces = namespaces.iter().map(|name| (*name).to_owned()).collect();
    Rights::new("the topic in", namespaces, operators.to_vec())
}

fn read<'a>(
    headers: &[RawHeader<'a>],
    value: Option<&'a [u8]>,
) -> Result<(&'a str, Action<'a>), String> {
    let rights = rights(&["/", "/chat"], &Operator::ALL);
    let command = Command::read(&rights, headers, value);
    command
        .map(|command| (command.namespace, command.action))
        .map_err(|flaw| flaw.to_string())
}

fn emit(to: Target<'_>) -> Action<'_> {
    Action::Emit {
        to,
        encoding: Encoding::Json,
        attachments: None,
        body: b"[1]",
    }
}

#[test]
fn each_operator_names_its_target() {
    let all: [(&[RawHeader<'_>], Action<'_>); 4] = [
        (
            &[("X-Operator", Some(b"unicast")), ("X-ID", Some(b"s"))],
            emit(Target::Socket("s")),
        ),
        (
            &[("X-Operator", Some(b"user")), ("X-Uid", Some(b"u"))],
            emit(Target::User("u")),
        ),
        (
            &[("X-Operator", Some(b"room")), ("X-Guid", Some(b"r"))],
            emit(Target::Room("r")),
        ),
        (
            &[("X-Operator", Some(b"broadcast")), ("X-ID", None)],
            emit(Target::Namespace),
        ),
    ];
    for (headers, action) in all {
        assert_eq!(read(headers, Some(b"[1]")), Ok(("/", action)));
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
    let who = Who::User("u");
    assert_eq!(of(b"join"), Ok(("/chat", Action::Join { who, room: "r" })));
    assert_eq!(
        of(b"leave"),
        Ok(("/chat", Action::Leave { who, room: "r" }))
    );
    assert_eq!(of(b"disconnect"), Ok(("/chat", Action::Disconnect { who })));
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
