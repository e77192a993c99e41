//! Heads that are read, and the many that must not be.

use super::*;

fn error(head: &str) -> HeadError {
    match parse_head(head.as_bytes()) {
        Err(error) => error,
        Ok(head) => panic!("taken: {head:?}"),
    }
}

#[test]
fn a_plain_head_is_read_and_its_length_leaves_the_body() {
    let text = "\r\nPOST /socket.io/?EIO=4&sid=a%20b HTTP/1.1\r\nhOsT: a:80\r\n\
            Content-Length: 3\r\n\
                X-Bytes: \u{fc}\r\nConnection: keep-alive\r\n\r\nabcGET";
    let head = parse_head(text.as_bytes())
        .expect("well-formed")
        .expect("complete");
    assert_eq!(head.method, Method::Post);
    assert_eq!(head.target, "/socket.io/?EIO=4&sid=a%20b");
    assert_eq!((head.path, head.query), ("/socket.io/", "EIO=4&sid=a%20b"));
    assert_eq!(
        (head.http11, head.keep_alive, head.content_length),
        (true, true, Some(3))
    );
    assert_eq!(text.get(head.len..), Some("abcGET"));
    assert_eq!(head.header("HOST"), Some(b"a:80".as_slice()));
    assert_eq!(head.header("x-bytes"), Some("\u{fc}".as_bytes()));
    assert_eq!(head.header("origin"), None);
    assert_eq!(head.headers().count(), 4);
}

#[test]
fn every_prefix_of_a_good_head_waits_for_more() {
    let text = "\r\nGET / HTTP/1.1\r\nHost: a\r\nX: y\r\n\r\n";
    for cut in 0..text.len() {
        assert!(
            matches!(parse_head(&text.as_bytes()[..cut]), Ok(None)),
            "{:?}",
            &text[..cut]
        );
    }
}

#[test]
fn targets_are_cut_into_path_and_query() {
    let cases = [
        ("/", "/", ""),
        ("/a?b?c", "/a", "b?c"),
        ("/a?", "/a", ""),
        ("*", "*", ""),
        ("http://h/a?b", "/a", "b"),
        ("HTTPS://h?b", "/", "b"),
        ("http://h", "/", ""),
        ("/a?u=http://h/x", "/a", "u=http://h/x"),
        ("h:80", "h:80", ""),
    ];
    for (target, path, query) in cases {
        let text = format!("OPTIONS {target} HTTP/1.1\r\nHost: a\r\n\r\n");
        let head = parse_head(text.as_bytes())
            .expect("well-formed")
            .expect("complete");
        assert_eq!((head.method, head.target), (Method::Options, target));
        assert_eq!((head.path, head.query), (path, query), "{target}");
    }
}

#[test]
fn framing_that_two_readers_could_judge_differently_is_refused() {
    use HeadError::{BadLength, Malformed, MissingHost, TransferEncoding};
    let cases = [
        (
            "Host: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked",
            BadLength,
        ),
        ("Host: a\r\nTransfer-Encoding: xchunked", TransferEncoding),
        (
            "Host: a\r\nTransfer-Encoding: gzip, chunked",
            TransferEncoding,
        ),
        ("Host: a\r\nContent-Length: +5", BadLength),
        ("Host: a\r\nContent-Length: -5", BadLength),
        ("Host: a\r\nContent-Length: 0x5", BadLength),
        ("Host: a\r\nContent-Length: 5, 5", BadLength),
        ("Host: a\r\nContent-Length:", BadLength),
        ("Host: a\r\nContent-Length: 18446744073709551616", BadLength),
        ("Host: a\r\nContent-Length: 99999999999999999999", BadLength),
        (
            "Host: a\r\nContent-Length: 5\r\nContent-Length: 5",
            BadLength,
        ),
        ("Host: a\r\nContent-Length : 5", Malformed),
        ("Host: a\r\nX: y\r\n z", Malformed),
        (" Host: a", Malformed),
        ("Host: a\r\nX: y\0z", Malformed),
        ("Host: a\r\nX: y\rz", Malformed),
        ("Host: a\r\nX: y\nZ: z", Malformed),
        ("Host: a\r\nX y", Malformed),
        ("Host: a\r\n: y", Malformed),
        ("X: y", MissingHost),
        ("Host: a\r\nHost: a", MissingHost),
        ("Host: a, b", MissingHost),
        ("Host: a/b", MissingHost),
        ("Host: u@a", MissingHost),
    ];
    for (lines, expected) in cases {
        assert_eq!(
            error(&format!("POST / HTTP/1.1\r\n{lines}\r\n\r\n")),
            expected,
            "{lines:?}"
        );
    }
    assert_eq!(
        error("GET / HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n"),
        MissingHost
    );
}

#[test]
fn what_cannot_be_a_request_is_refused_from_its_first_bytes() {
    let cases: [(&[u8], HeadError); 9] = [
        (b"\x16\x03\x01", HeadError::Malformed),
        (b"PRI ", HeadError::Version),
        (b"\0", HeadError::Malformed),
        (b"\xff\xfe", HeadError::Malformed),
        (b"SSH-2.0-x", HeadError::Malformed),
        (b"\r\n\r\n", HeadError::Malformed),
        (b"\n", HeadError::Malformed),
        (b"GET / HTTP/1.1\n", HeadError::Malformed),
        (b"GETGETGETGETGETGETGETGETGET", HeadError::Malformed),
    ];
    for (bytes, expected) in cases {
        assert_eq!(parse_head(bytes).map(|_| ()), Err(expected), "{bytes:?}");
    }
    assert_eq!(
        error("GET / HTTP/2.0\r\nHost: a\r\n\r\n"),
        HeadError::Version
    );
    assert_eq!(error("GET /\r\nHost: a\r\n\r\n"), HeadError::Malformed);
    assert_eq!(
        error("GET /a b HTTP/1.1\r\nHost: a\r\n\r\n"),
        HeadError::Malformed
    );
}

#[test]
fn sizes_are_bounded_whether_the_end_came_or_not() {
    let line = "GET / HTTP/1.1\r\nHost: a\r\n";
    let target = "x".repeat(TARGET_BYTES_MAX);
    assert_eq!(
        error(&format!("GET /{target} HTTP/1.1\r\nHost: a\r\n\r\n")),
        HeadError::TargetTooLong
    );
    assert_eq!(
        error(&format!("GET /{target}{}", "x".repeat(100))),
        HeadError::TargetTooLong
    );
    let value = "x".repeat(HEAD_BYTES_MAX);
    assert_eq!(error(&format!("{line}X: {value}")), HeadError::TooLarge);
    assert_eq!(
        error(&format!("{line}X: {value}\r\n\r\n")),
        HeadError::TooLarge
    );
    let fits = HEAD_BYTES_MAX - line.len() - "X: \r\n\r\n".len();
    let exact = format!("{line}X: {}\r\n\r\n", "x".repeat(fits));
    assert!(matches!(parse_head(exact.as_bytes()), Ok(Some(head)) if head.len == HEAD_BYTES_MAX));
    let unfinished = format!("{line}X: {}", "x".repeat(fits + 4));
    assert_eq!(unfinished.len(), HEAD_BYTES_MAX);
    assert_eq!(error(&unfinished), HeadError::TooLarge);
    assert!(matches!(
        parse_head(&unfinished.as_bytes()[..HEAD_BYTES_MAX - 1]),
        Ok(None)
    ));
    let longer = format!("{line}X: {}\r\n\r\n", "x".repeat(fits + 1));
    assert_eq!(error(&longer), HeadError::TooLarge);
    let many = |count| format!("{line}{}\r\n", "X: y\r\n".repeat(count));
    assert!(matches!(
        parse_head(many(HEADERS_MAX - 1).as_bytes()),
        Ok(Some(_))
    ));
    assert_eq!(error(&many(HEADERS_MAX)), HeadError::TooManyHeaders);
    assert_eq!(error(&many(2_000)), HeadError::TooManyHeaders);
}

#[test]
fn connections_persist_as_version_and_header_say() {
    let cases = [
        ("1.1", "X: y", true),
        ("1.1", "Connection: Close", false),
        ("1.1", "Connection: upgrade,  close", false),
        ("1.0", "X: y", false),
        ("1.0", "Connection: Keep-Alive", true),
    ];
    for (version, line, expected) in cases {
        let text = format!("GET / HTTP/{version}\r\nHost: a\r\n{line}\r\n\r\n");
        let head = parse_head(text.as_bytes())
            .expect("well-formed")
            .expect("complete");
        assert_eq!(head.keep_alive, expected, "{version} {line}");
    }
    assert!(matches!(parse_head(b"GET / HTTP/1.0\r\n\r\n"), Ok(Some(head)) if !head.http11));
}

#[test]
fn tokens_are_found_in_any_line_and_case() {
    let text = "GET / HTTP/1.1\r\nHost: a\r\nConnection: a ,UPGRADE\r\nConnection: b\r\n\r\n";
    let head = parse_head(text.as_bytes())
        .expect("well-formed")
        .expect("complete");
    assert!(head.has_token("connection", "upgrade"));
    assert!(head.has_token("Connection", "B"));
    assert!(!head.has_token("connection", "up"));
    assert!(!head.has_token("upgrade", "a"));
}

#[test]
fn every_error_has_a_status_of_the_client_or_version_kind() {
    let cases = [
        (HeadError::Malformed, 400),
        (HeadError::TooLarge, 431),
        (HeadError::TooManyHeaders, 431),
        (HeadError::TargetTooLong, 414),
        (HeadError::Version, 505),
        (HeadError::MissingHost, 400),
        (HeadError::BadLength, 400),
        (HeadError::TransferEncoding, 400),
    ];
    for (error, status) in cases {
        assert_eq!(error.status(), status, "{error:?}");
    }
}

#[test]
fn expectations_are_known_or_not() {
    let cases = [
        ("HTTP/1.1", "", None),
        (
            "HTTP/1.1",
            "Expect: 100-Continue\r\n",
            Some(Expectation::Continue),
        ),
        (
            "HTTP/1.1",
            "Expect: , 100-continue\r\nexpect:\r\n",
            Some(Expectation::Continue),
        ),
        ("HTTP/1.1", "Expect:\r\n", None),
        ("HTTP/1.1", "Expect: tea\r\n", Some(Expectation::Unknown)),
        (
            "HTTP/1.1",
            "Expect: 100-continue, tea\r\n",
            Some(Expectation::Unknown),
        ),
        (
            "HTTP/1.1",
            "Expect: 100-continue;a=b\r\n",
            Some(Expectation::Unknown),
        ),
        ("HTTP/1.0", "Expect: tea\r\n", None),
    ];
    for (version, lines, expected) in cases {
        let text = format!("POST / {version}\r\nHost: a\r\n{lines}\r\n");
        let head = parse_head(text.as_bytes())
            .expect("well-formed")
            .expect("complete");
        assert_eq!(head.expectation(), expected, "{text}");
    }
}
