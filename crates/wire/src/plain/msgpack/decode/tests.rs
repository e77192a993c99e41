//! Every form of the format, as clients write it and as attackers do.

use super::*;

#[test]
fn values_of_every_form_become_json() {
    let cases: [(&[u8], &str); 34] = [
        (b"\xc0", "null"),
        (b"\xc2", "false"),
        (b"\xc3", "true"),
        (b"\x7f", "127"),
        (b"\xe0", "-32"),
        (b"\xcc\xff", "255"),
        (b"\xcd\xff\xff", "65535"),
        (b"\xce\xff\xff\xff\xff", "4294967295"),
        (
            b"\xcf\xff\xff\xff\xff\xff\xff\xff\xff",
            "18446744073709551615",
        ),
        (b"\xd0\x80", "-128"),
        (b"\xd1\x80\x00", "-32768"),
        (b"\xd2\x80\x00\x00\x00", "-2147483648"),
        (
            b"\xd3\x80\x00\x00\x00\x00\x00\x00\x00",
            "-9223372036854775808",
        ),
        (b"\xca\x3f\xc0\x00\x00", "1.5"),
        (b"\xca\x7f\x80\x00\x00", "null"),
        (b"\xcb\x3f\xf8\x00\x00\x00\x00\x00\x00", "1.5"),
        (b"\xcb\x40\x59\x00\x00\x00\x00\x00\x00", "100"),
        (b"\xcb\x7f\xf8\x00\x00\x00\x00\x00\x00", "null"),
        (b"\xa3a\"b", r#""a\"b""#),
        (b"\xd9\x01a", r#""a""#),
        (b"\xda\x00\x01a", r#""a""#),
        (b"\xdb\x00\x00\x00\x01a", r#""a""#),
        (b"\x92\x01\x90", "[1,[]]"),
        (b"\xdc\x00\x01\x01", "[1]"),
        (b"\xdd\x00\x00\x00\x01\x01", "[1]"),
        (b"\x82\xa1a\x01\xa1b\x80", r#"{"a":1,"b":{}}"#),
        (b"\xde\x00\x01\xd9\x01a\x01", r#"{"a":1}"#),
        (b"\xdf\x00\x00\x00\x01\xa1a\x01", r#"{"a":1}"#),
        // notepack: undefined, Date, invalid Date
        (b"\xd4\x00\x00", "null"),
        (
            b"\xd7\x00\x00\x00\x01\x8b\xcf\xe5\x68\x7b",
            r#""2023-11-14T22:13:20.123Z""#,
        ),
        (b"\xd7\x00\x7f\xff\xff\xff\xff\xff\xff\xff", "null"),
        // timestamps of 4, 8 and 12 bytes
        (b"\xd6\xff\x65\x53\xf1\x00", r#""2023-11-14T22:13:20.000Z""#),
        (
            b"\xd7\xff\x1d\x53\x53\x00\x65\x53\xf1\x00",
            r#""2023-11-14T22:13:20.123Z""#,
        ),
        (
            b"\xc7\x0c\xff\x07\x54\xd4\xc0\xff\xff\xff\xff\xff\xff\xff\xff",
            r#""1969-12-31T23:59:59.123Z""#,
        ),
    ];
    for (bytes, expected) in cases {
        let decoded = decode(bytes).map(|decoded| (decoded.json, decoded.attachments.len()));
        assert_eq!(decoded, Some((expected.to_owned(), 0)), "{bytes:02x?}");
    }
}

#[test]
fn binaries_become_attachments() {
    let cases: [(&[u8], &[u8]); 9] = [
        (b"\xc4\x00", b""),
        (b"\xc4\x02\x01\x02", b"\x01\x02"),
        (b"\xc5\x00\x01\x01", b"\x01"),
        (b"\xc6\x00\x00\x00\x01\x01", b"\x01"),
        // notepack's ArrayBuffer, also of the lengths that have a fixed form
        (b"\xc7\x01\x00\x01", b"\x01"),
        (b"\xc7\x08\x0001234567", b"01234567"),
        (b"\xc8\x00\x01\x00\x01", b"\x01"),
        (b"\xc9\x00\x00\x00\x01\x00\x01", b"\x01"),
        (b"\xd4\x00\x01", b"\x01"),
    ];
    for (bytes, expected) in cases {
        let decoded = decode(bytes).map(|decoded| (decoded.json, decoded.attachments));
        let placeholder = r#"{"_placeholder":true,"num":0}"#.to_owned();
        assert_eq!(
            decoded,
            Some((placeholder, vec![expected.to_vec()])),
            "{bytes:02x?}"
        );
    }
}

#[test]
fn what_has_no_json_form_is_refused() {
    let cases: [&[u8]; 22] = [
        b"",
        b"\xc1",
        b"\x01\x01",
        b"\xcd\x01",
        b"\xcb\x00",
        b"\xa2a",
        b"\xa1\xff",
        b"\xd9",
        b"\xdb\xff\xff\xff\xffa",
        b"\xc6\xff\xff\xff\xffa",
        b"\x91",
        b"\xdd\xff\xff\xff\xff\x01",
        b"\xdf\xff\xff\xff\xff\xa1a\x01",
        b"\x81\x01\x01",
        b"\x81\xc0\x01",
        b"\x81\xc4\x01a\x01",
        b"\x81\xa1\xff\x01",
        b"\x81\xa1a",
        b"\xd4\x01\x00",
        b"\xd5\xff\x00\x00",
        // 10^9 nanoseconds
        b"\xd7\xff\xee\x6b\x28\x00\x00\x00\x00\x00",
        b"\xc7\x05\xff\x00\x00\x00\x00\x00",
    ];
    for bytes in cases {
        assert!(decode(bytes).is_none(), "{bytes:02x?}");
    }
}

#[test]
fn what_cannot_be_decoded_has_an_outline() {
    let behind = b"\x01\xa1b\x81\x05\xc4\x01x\xa1c\x07";
    let deep: [&[u8]; 3] = [b"\x83\xa1a", &[0x91; 100_000], behind];
    let empty = b"\xc4\x00".repeat(ATTACHMENTS_MAX + 1);
    let binaries: [&[u8]; 3] = [b"\x82\xa1a\xdc\x00\x0b", &empty, b"\xa1b\xc3"];
    let (deep, binaries) = (deep.concat(), binaries.concat());
    let cases: [(&[u8], &str); 8] = [
        (&deep, r#"{"a":null,"b":null,"c":7}"#),
        (&binaries, r#"{"a":null,"b":true}"#),
        (b"\x81\xa1a\x91", "{}"),
        (b"\x82\xa1a\x02\xa1b\xdd\xff\xff\xff\xff\x01", r#"{"a":2}"#),
        (b"\xdf\xff\xff\xff\xff\xa1a\x01", r#"{"a":1}"#),
        // An unknown ext type, and a key that is no string.
        (b"\x82\xa1a\x01\xa1b\x91\xd4\x01\x00", r#"{"a":1}"#),
        (b"\x82\xa1a\x01\x02\x03", r#"{"a":1}"#),
        (b"\x80", "{}"),
    ];
    for (bytes, expected) in cases {
        assert_eq!(outline(bytes).as_deref(), Some(expected), "{expected}");
    }
    for bytes in [&b""[..], b"\x91\x80", b"\x01", b"\xde\x00", b"\xc1"] {
        assert_eq!(outline(bytes), None, "{bytes:02x?}");
    }
}

#[test]
fn depth_and_attachments_are_bounded() {
    let nested = |depth| [vec![0x91; depth], vec![0x01]].concat();
    assert!(decode(&nested(DEPTH_MAX)).is_some());
    assert!(decode(&nested(DEPTH_MAX + 1)).is_none());
    assert!(decode(&nested(100_000)).is_none());
    let binaries = |count| [vec![0xdc, 0, count], [0xc4, 0].repeat(count.into())].concat();
    assert!(decode(&binaries(ATTACHMENTS_MAX as u8)).is_some());
    assert!(decode(&binaries(ATTACHMENTS_MAX as u8 + 1)).is_none());
}
