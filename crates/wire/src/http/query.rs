//! Query strings as browsers write them (WHATWG URL, application/x-www-form-urlencoded).

use std::borrow::Cow;

/// Percent-decoded value of a query parameter: the first of that name wins, `+` is a space, what is
/// no UTF-8 becomes U+FFFD; borrowed when nothing is escaped.
pub fn query_param<'a>(query: &'a str, name: &str) -> Option<Cow<'a, str>> {
    query_pairs(query)
        .find(|(key, _)| key == name)
        .map(|(_, value)| value)
}

/// All parameters in order, decoded; empty ones (`&&`) are left out.
pub fn query_pairs(query: &str) -> impl Iterator<Item = (Cow<'_, str>, Cow<'_, str>)> {
    query
        .split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decode(key), decode(value))
        })
}

/// The name of the first parameter that is no UTF-8 once it is decoded. Two such values would be one text.
pub fn undecodable_param(query: &str) -> Option<Cow<'_, str>> {
    let is_text =
        |text: &str| unescape(text).is_none_or(|bytes| std::str::from_utf8(&bytes).is_ok());
    let mut pairs = query.split('&');
    let pair = pairs.find(|pair| !is_text(pair))?;
    Some(decode(pair.split_once('=').map_or(pair, |(name, _)| name)))
}

fn decode(text: &str) -> Cow<'_, str> {
    let Some(bytes) = unescape(text) else {
        return Cow::Borrowed(text);
    };
    let text = String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
    Cow::Owned(text)
}

/// `None`: nothing is escaped.
fn unescape(text: &str) -> Option<Vec<u8>> {
    let first = memchr::memchr2(b'%', b'+', text.as_bytes())?;
    let (plain, mut rest) = text.as_bytes().split_at(first);
    let mut bytes = Vec::with_capacity(text.len());
    bytes.extend_from_slice(plain);
    while let Some((&byte, behind)) = rest.split_first() {
        rest = behind;
        match (byte, behind) {
            (b'+', _) => bytes.push(b' '),
            (b'%', [high, low, behind @ ..])
                if let (Some(high), Some(low)) = (hex(*high), hex(*low)) =>
            {
                bytes.push(high << 4 | low);
                rest = behind;
            }
            // A stray `%` stands for itself, as browsers have it.
            _ => bytes.push(byte),
        }
    }
    Some(bytes)
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).map(|value| value as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_decoded_and_the_first_wins() {
        let cases = [
            ("EIO=4&transport=polling", "transport", Some("polling")),
            ("a=1&a=2", "a", Some("1")),
            ("a&b=2", "a", Some("")),
            ("&&a=1", "a", Some("1")),
            ("a=b=c", "a", Some("b=c")),
            ("a=x%20y+z", "a", Some("x y z")),
            ("a=%C3%BC%e2%82%ac", "a", Some("ü€")),
            ("%61=1", "a", Some("1")),
            ("a=100%", "a", Some("100%")),
            ("a=%zz%4", "a", Some("%zz%4")),
            ("a=%ff!", "a", Some("\u{fffd}!")),
            ("aa=1", "a", None),
            ("", "a", None),
        ];
        for (query, name, expected) in cases {
            assert_eq!(query_param(query, name).as_deref(), expected, "{query}");
        }
        assert!(matches!(
            query_param("sid=abc", "sid"),
            Some(Cow::Borrowed("abc"))
        ));
    }

    #[test]
    fn a_parameter_that_is_no_text_is_named() {
        for (query, name) in [
            ("room=%ff&a=1", Some("room")),
            ("a=1&%72oom=x%C3", Some("room")),
            ("a=1&b=2&x%ff=1", Some("x\u{fffd}")),
            ("%80", Some("\u{fffd}")),
            // Half of a surrogate pair, as CESU-8 has it.
            ("room=%ed%a0%80", Some("room")),
            ("room=%C3%BC&a=%ef%bf%bd&b=+%zz%&&", None),
            ("", None),
        ] {
            assert_eq!(undecodable_param(query).as_deref(), name, "{query}");
        }
    }

    #[test]
    fn pairs_keep_their_order() {
        let pairs: Vec<_> = query_pairs("b=1&a=%2B&b=2").collect();
        let expected = [("b", "1"), ("a", "+"), ("b", "2")];
        assert_eq!(
            pairs,
            expected.map(|(key, value)| (key.into(), value.into()))
        );
    }
}
