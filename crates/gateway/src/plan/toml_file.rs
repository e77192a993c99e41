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
