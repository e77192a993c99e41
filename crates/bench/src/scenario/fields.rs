//! Owns the reading of one TOML table: known keys, typed values, and a problem with its place for
//! everything else. A value that is wrong reads as absent, so that all problems show at once.

use super::problem::{Problem, suggestion};
use super::template::{Template, Variables};
use super::value;
use std::time::Duration;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

pub type Value<'a> = Spanned<DeValue<'a>>;

/// Collects what is wrong with one text.
#[derive(Debug)]
pub struct Reader<'t> {
    pub text: &'t str,
    pub problems: Vec<Problem>,
    pub variables: Variables,
}

/// One table and what messages call it.
#[derive(Clone, Debug)]
pub struct Fields<'d> {
    pub what: String,
    /// Where the table begins.
    pub at: usize,
    table: &'d DeTable<'d>,
}

impl<'t> Reader<'t> {
    pub fn problem(&mut self, at: usize, message: impl Into<String>) {
        self.problems.push(Problem::new(self.text, at, message));
    }

    /// Opens a table; keys outside of `known` are problems.
    pub fn open<'d>(
        &mut self,
        what: impl Into<String>,
        at: usize,
        table: &'d DeTable<'d>,
        known: &[&str],
    ) -> Fields<'d> {
        let what = what.into();
        for key in table.keys() {
            let name: &str = key.get_ref();
            if !known.contains(&name) {
                let hint = suggestion(name, known.iter().copied());
                self.problem(
                    key.span().start,
                    format!("unknown key {name:?} in {what}{hint}"),
                );
            }
        }
        Fields { what, at, table }
    }

    /// Applies `read` to a text; its error becomes a problem at the value's place.
    pub fn text<T>(
        &mut self,
        fields: &Fields<'_>,
        key: &str,
        read: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<T> {
        let value = fields.get(key)?;
        self.text_value(key, value, read)
    }

    pub fn text_value<T>(
        &mut self,
        key: &str,
        value: &Value<'_>,
        read: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<T> {
        let Some(text) = value.get_ref().as_str() else {
            self.wrong_kind(key, value, "a text in quotes");
            return None;
        };
        read(text)
            .map_err(|error| self.problem(value.span().start, format!("{key}: {error}")))
            .ok()
    }

    pub fn duration(&mut self, fields: &Fields<'_>, key: &str) -> Option<Duration> {
        self.text(fields, key, value::duration)
    }

    pub fn rate(&mut self, fields: &Fields<'_>, key: &str) -> Option<f64> {
        self.text(fields, key, value::rate)
    }

    pub fn template(&mut self, fields: &Fields<'_>, key: &str) -> Option<Template> {
        let variables = std::mem::take(&mut self.variables);
        let template = self.text(fields, key, |text| Template::compile(text, &variables));
        self.variables = variables;
        template
    }

    pub fn boolean(&mut self, fields: &Fields<'_>, key: &str) -> Option<bool> {
        let value = fields.get(key)?;
        match value.get_ref() {
            DeValue::Boolean(on) => Some(*on),
            _ => {
                self.wrong_kind(key, value, "true or false");
                None
            }
        }
    }

    /// A whole number from `min` on.
    pub fn count(&mut self, fields: &Fields<'_>, key: &str, min: u32) -> Option<u32> {
        let value = fields.get(key)?;
        let number = integer(value.get_ref());
        let Some(number) = number else {
            self.wrong_kind(key, value, "a whole number");
            return None;
        };
        let count = u32::try_from(number).ok().filter(|&count| count >= min);
        if count.is_none() {
            let at = value.span().start;
            self.problem(
                at,
                format!("{key}: {number} is out of range: {min} or more"),
            );
        }
        count
    }

    /// A share between 0 and 1.
    pub fn share(&mut self, fields: &Fields<'_>, key: &str) -> Option<f64> {
        let value = fields.get(key)?;
        let number = match value.get_ref() {
            DeValue::Float(number) => number.as_str().parse::<f64>().ok(),
            other => integer(other).map(|number| number as f64),
        };
        let share = number.filter(|share| (0.0..=1.0).contains(share));
        if share.is_none() {
            self.wrong_kind(key, value, "a number from 0 to 1");
        }
        share
    }

    pub fn missing(&mut self, fields: &Fields<'_>, key: &str) {
        self.problem(fields.at, format!("{} needs {key:?}", fields.what));
    }

    pub fn wrong_kind(&mut self, key: &str, value: &Value<'_>, wanted: &str) {
        let given = match value.get_ref() {
            DeValue::String(_) => "a text",
            DeValue::Integer(_) | DeValue::Float(_) => "a number",
            DeValue::Boolean(_) => "true or false",
            DeValue::Datetime(_) => "a date",
            DeValue::Array(_) => "a list",
            DeValue::Table(_) => "a table",
        };
        self.problem(
            value.span().start,
            format!("{key}: {wanted} is needed, not {given}"),
        );
    }
}

impl<'d> Fields<'d> {
    pub fn get(&self, key: &str) -> Option<&'d Value<'d>> {
        let mut pairs = self.table.iter();
        pairs.find_map(|(name, value)| (name.get_ref() == key).then_some(value))
    }

    pub fn has(&self, key: &str) -> bool {
        self.get(key).is_some()
    }
}

/// Entries of a table in the order of the file: name, place, value.
pub fn in_order<'d>(table: &'d DeTable<'d>) -> Vec<(String, usize, &'d Value<'d>)> {
    let mut entries: Vec<_> = table
        .iter()
        .map(|(name, value)| (name.get_ref().to_string(), name.span().start, value))
        .collect();
    entries.sort_by_key(|(_, at, _)| *at);
    entries
}

pub fn integer(value: &DeValue<'_>) -> Option<i64> {
    match value {
        DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix()).ok(),
        _ => None,
    }
}
