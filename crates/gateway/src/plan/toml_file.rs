//! Owns reading prices that people write. A mistake is told with file, line, column and, for a key
//! nobody knows, the nearest one that is known.

use anyhow::{Context, Result, anyhow};
use serde::de::DeserializeOwned;
use std::path::Path;
use units::{nearest, position};

/// The text of a file.
pub fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

/// Reads a text into a structure that denies unknown fields; `name` is what messages call the text.
pub fn parse<T: DeserializeOwned>(text: &str, name: &str) -> Result<T> {
    toml::from_str(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        let (line, column) = position(text, at);
        let hint = suggestion(error.message());
        anyhow!("{name}:{line}:{column}: {}{hint}", error.message())
    })
}

/// Serde names the unknown word first and what it expected after it, all in backticks.
fn suggestion(message: &str) -> String {
    if !message.starts_with("unknown ") {
        return String::new();
    }
    let mut quoted = message.split('`').skip(1).step_by(2);
    let Some(unknown) = quoted.next() else {
        return String::new();
    };
    match nearest(unknown, quoted) {
        Some(known) => format!("; did you mean `{known}`?"),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Menu {
        #[serde(rename = "dish")]
        _dishes: Vec<Dish>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Dish {
        #[serde(rename = "name")]
        _name: String,
        #[serde(rename = "usd_per_plate")]
        _usd_per_plate: f64,
    }

    fn refusal(text: &str) -> String {
        parse::<Menu>(text, "menu.toml").unwrap_err().to_string()
    }

    #[test]
    fn an_unknown_key_is_told_with_its_place_and_the_nearest_name() {
        let error = refusal("[[dish]]\nname = \"soup\"\n  usd_per_plat = 3\n");
        assert!(error.starts_with("menu.toml:3:3: unknown field"), "{error}");
        assert!(error.ends_with("did you mean `usd_per_plate`?"), "{error}");
    }

    #[test]
    fn a_key_like_no_other_gets_no_suggestion() {
        let error = refusal("[[dish]]\nname = \"soup\"\nusd_per_plate = 3\nweather = 1\n");
        assert!(error.starts_with("menu.toml:4:1:"), "{error}");
        assert!(!error.contains("did you mean"), "{error}");
    }

    #[test]
    fn wrong_kinds_and_broken_syntax_have_their_place() {
        let kind = refusal("[[dish]]\nname = \"soup\"\nusd_per_plate = \"three\"\n");
        assert!(kind.starts_with("menu.toml:3:17: invalid type"), "{kind}");
        let missing = refusal("[[dish]]\nname = \"soup\"\n");
        assert!(
            missing.contains("missing field `usd_per_plate`"),
            "{missing}"
        );
        let syntax = refusal("[[dish]]\nname = \n");
        assert!(syntax.starts_with("menu.toml:2:"), "{syntax}");
    }
}
