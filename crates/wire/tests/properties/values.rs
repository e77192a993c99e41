//! Random JSON values, and text with small random damage.

use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Map, Number, Value};

/// Strings with the characters that codecs trip over more often than chance has them.
pub fn string() -> impl Strategy<Value = String> {
    let character = prop_oneof![
        6 => any::<char>(),
        6 => proptest::char::range(' ', '~'),
        2 => proptest::sample::select(vec![
            '"', '\\', '/', '\n', '\0', '\u{1e}', '\u{2028}', '{', ',',
        ]),
    ];
    vec(character, 0..24).prop_map(String::from_iter)
}

fn number() -> impl Strategy<Value = Value> {
    let double =
        any::<f64>().prop_map(|number| Number::from_f64(number).map_or(Value::Null, Value::Number));
    prop_oneof![
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        (-300_i64..300).prop_map(Value::from),
        double,
    ]
}

/// Any JSON value, some levels deep.
pub fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        number(),
        string().prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 48, 6, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..6).prop_map(Value::from),
            vec((string(), inner), 0..6)
                .prop_map(|pairs| Value::Object(pairs.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

/// The value as text, with or without white space.
pub fn text() -> impl Strategy<Value = String> {
    (value(), any::<bool>()).prop_map(|(value, pretty)| {
        if pretty {
            format!(" {value:#}\n")
        } else {
            value.to_string()
        }
    })
}

/// One small damage: where (as a share of the length), what to put there, and how much it replaces.
pub fn damage() -> impl Strategy<Value = (f64, String, usize)> {
    let significant: Vec<String> = [
        "",
        "\"",
        "\\",
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "0",
        "-",
        ".",
        "e",
        "1e999",
        "true",
        "null",
        "u",
        "\\u",
        "\\ud800",
        "\n",
        "\0",
        "\u{1e}",
        "ü",
        " ",
        "{\"_placeholder\":true,\"num\":0}",
        "{\"_binary\":\"AQ==\"}",
        "[[[[",
        "-1-",
        "/a,",
    ]
    .map(String::from)
    .to_vec();
    (0.0..1.0, proptest::sample::select(significant), 0_usize..3)
}

/// Applies damages to text, character by character.
pub fn apply(text: &str, damages: &[(f64, String, usize)]) -> String {
    let mut characters: Vec<char> = text.chars().collect();
    for (share, replacement, len) in damages {
        let start = (characters.len() as f64 * share) as usize;
        let end = (start + len).min(characters.len());
        characters.splice(start..end, replacement.chars());
    }
    String::from_iter(characters)
}

/// Sizes of the pieces in which bytes arrive; [`pieces`] repeats them.
pub fn chunk_sizes() -> impl Strategy<Value = Vec<usize>> {
    vec(prop_oneof![Just(1), 1_usize..8, 1_usize..400], 1..12)
}

/// Ends of the growing buffers that `len` bytes make when they arrive in these pieces.
pub fn pieces(len: usize, sizes: &[usize]) -> Vec<usize> {
    let mut ends = vec![0];
    for size in sizes.iter().cycle() {
        let end = ends.last().map_or(len, |end| (end + size).min(len));
        ends.push(end);
        if end == len {
            break;
        }
    }
    ends
}
