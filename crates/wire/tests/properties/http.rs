//! Request heads under any chunking, and query strings.

use crate::values;
use proptest::collection::vec;
use proptest::prelude::*;
use wire::http::{HeadError, parse_head, query_pairs, query_param};

/// What is put into a good head.
const DAMAGE: &str =
    "(\r\n|\n|\r|\0| |:|,|\t|HTTP|Host: b|Content-Length: 1|Transfer-Encoding: chunked|\u{fc}|)";

/// What a connection learns from a head.
fn judge(bytes: &[u8]) -> Result<Option<(usize, String, usize)>, HeadError> {
    let head = parse_head(bytes)?;
    Ok(head.map(|head| (head.len, head.target.to_owned(), head.headers().count())))
}

fn head() -> impl Strategy<Value = String> {
    let name = "[A-Za-z0-9-]{1,12}";
    let value = "[ -~ü]{0,20}";
    (
        "(GET|POST|DELETE)",
        "/[!-~]{0,30}",
        vec((name, value), 0..8),
    )
        .prop_map(|(method, target, headers)| {
            let lines: String = headers
                .iter()
                .map(|(name, value)| format!("X-{name}: {value}\r\n"))
                .collect();
            format!("{method} {target} HTTP/1.1\r\nHost: a\r\n{lines}\r\n")
        })
}

proptest! {
    #[test]
    fn heads_are_complete_at_their_last_byte_and_not_before(
        head in head(),
        body in "[\\x00-\\x7f]{0,20}",
        sizes in values::chunk_sizes(),
    ) {
        let text = format!("{head}{body}");
        let expected = judge(text.as_bytes());
        let len = expected.as_ref().ok().and_then(|head| head.as_ref()).map(|(len, ..)| *len);
        prop_assert_eq!(len, Some(head.len()), "{:?}", expected);
        for end in values::pieces(text.len(), &sizes) {
            let judged = judge(&text.as_bytes()[..end]);
            prop_assert_eq!(judged, if end < head.len() { Ok(None) } else { expected.clone() });
        }
    }

    #[test]
    fn damaged_heads_end_the_same_in_any_chunks(
        head in head(),
        damages in vec((any::<prop::sample::Index>(), DAMAGE), 1..4),
        sizes in values::chunk_sizes(),
    ) {
        let mut bytes = head.into_bytes();
        for (index, replacement) in damages {
            let index = index.index(bytes.len());
            bytes.splice(index..=index, replacement.bytes());
        }
        let whole = judge(&bytes);
        for end in values::pieces(bytes.len(), &sizes) {
            match judge(&bytes[..end]) {
                Ok(None) => {}
                Ok(complete) => prop_assert_eq!(Ok(complete), whole.clone()),
                // An early refusal must be one in the end, though another fault may be named.
                Err(_) => prop_assert!(whole.is_err()),
            }
        }
    }

    #[test]
    fn random_bytes_are_judged_without_panic(bytes in vec(any::<u8>(), 0..200)) {
        if let Ok(Some((len, ..))) = judge(&bytes) {
            prop_assert!(len <= bytes.len());
        }
    }

    #[test]
    fn query_values_survive_encoding(pairs in vec((values::string(), values::string()), 1..5)) {
        let encode = |text: &str| -> String {
            text.bytes().map(|byte| format!("%{byte:02X}")).collect()
        };
        let query: Vec<String> = pairs
            .iter()
            .map(|(key, value)| format!("{}={}", encode(key), encode(value)))
            .collect();
        let query = query.join("&");
        let decoded: Vec<(String, String)> = query_pairs(&query)
            .map(|(key, value)| (key.into_owned(), value.into_owned()))
            .collect();
        prop_assert_eq!(&decoded, &pairs);
        let (name, value) = &pairs[0];
        let found = query_param(&query, name);
        prop_assert_eq!(found.as_deref(), Some(value.as_str()));
    }

    #[test]
    fn any_query_is_decoded_without_panic(query in "[%+&=a-f0-9ü]{0,40}") {
        let decoded: usize = query_pairs(&query).map(|(key, value)| key.len() + value.len()).sum();
        // U+FFFD, three bytes, may stand for one `%xx`, also three.
        prop_assert!(decoded <= query.len());
    }
}
