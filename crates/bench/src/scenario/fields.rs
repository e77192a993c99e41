//! Owns the reading of one TOML table: known keys, typed values, and a problem with its place for
//! everything else. A value that is wrong reads as absent, so that all problems show at once.

use super::expression::shown;
use super::problem::{Problem, suggestion};
use super::template::{TOLD, Template, Variables};
use super::value;
use crate::report::number::digits;
use std::ops::RangeInclusive;
use std::time::Duration;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

pub type Value<'a> = Spanned<DeValue<'a>>;

/// Collects what is wrong with one text.
#[derive(Debug)]
pub struct Reader<'t> {
    pub text: &'t str,
    pub problems: Vec<Problem>,
    /// What could not be read so far, told again or not: what follows from it is no news.
    pub faults: usize,
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
    pub fn new(text: &'t str) -> Self {
        Reader {
            text,
            problems: Vec::new(),
            faults: 0,
            variables: Variables::new(),
        }
    }

    pub fn problem(&mut self, at: usize, message: impl Into<String>) {
        self.faults += 1;
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
        match read(text) {
            Ok(read) => return Some(read),
            Err(error) if error == TOLD => self.faults += 1,
            Err(error) => self.problem(value.span().start, format!("{key}: {error}")),
        }
        None
    }

    /// A name of something, which cannot be empty.
    pub fn name(&mut self, fields: &Fields<'_>, key: &str) -> Option<String> {
        self.text(fields, key, |text| match text.is_empty() {
            true => Err("\"\" names nothing".into()),
            false => Ok(text.to_owned()),
        })
    }

    pub fn duration_above_zero(&mut self, fields: &Fields<'_>, key: &str) -> Option<Duration> {
        self.text(fields, key, value::duration_above_zero)
    }

    pub fn duration(&mut self, fields: &Fields<'_>, key: &str) -> Option<Duration> {
        self.text(fields, key, value::duration)
    }

    pub fn rate(&mut self, fields: &Fields<'_>, key: &str) -> Option<f64> {
        self.text(fields, key, value::rate)
    }

    /// A text with holes that is no part of a message.
    pub fn template(&mut self, fields: &Fields<'_>, key: &str) -> Option<Template> {
        let template = self.body(fields, key)?;
        if template.stamps() == 0 && !template.has_fill() {
            return Some(template);
        }
        self.problem(
            fields.place(key),
            format!("{key}: \"${{stamp}}\" and \"${{fill}}\" mean something in payloads only"),
        );
        None
    }

    /// The same where an empty text names nothing.
    pub fn room(&mut self, fields: &Fields<'_>, key: &str) -> Option<Template> {
        let template = self.template(fields, key)?;
        if template.is_empty() {
            self.problem(fields.place(key), format!("{key}: \"\" names no room"));
            return None;
        }
        Some(template)
    }

    /// A text with holes that may carry a message's identity.
    pub fn body(&mut self, fields: &Fields<'_>, key: &str) -> Option<Template> {
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

    /// A verb that takes nothing: `false` would mean that the step is none.
    pub fn affirmed(&mut self, fields: &Fields<'_>, verb: &str) {
        if self.boolean(fields, verb) == Some(false) {
            let message = format!("{verb} = false does nothing: write true, or leave the step out");
            self.problem(fields.place(verb), message);
        }
    }

    pub fn count(
        &mut self,
        fields: &Fields<'_>,
        key: &str,
        range: RangeInclusive<u32>,
    ) -> Option<u32> {
        let value = fields.get(key)?;
        if !matches!(value.get_ref(), DeValue::Integer(_)) {
            self.wrong_kind(key, value, "a whole number");
            return None;
        }
        let number = integer(value.get_ref()).and_then(|number| u32::try_from(number).ok());
        let count = number.filter(|count| range.contains(count));
        if count.is_none() {
            let (min, max) = (range.start(), digits(*range.end()));
            let given = self.given(value);
            self.problem(
                value.span().start,
                format!("{key}: {given} is out of range: from {min} to {max}"),
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

    /// A value as the file has it.
    fn given(&self, value: &Value<'_>) -> &'t str {
        self.text.get(value.span()).unwrap_or_default()
    }

    pub fn missing(&mut self, fields: &Fields<'_>, key: &str) {
        self.problem(fields.at, format!("{} needs {key:?}", fields.what));
    }

    pub fn wrong_kind(&mut self, key: &str, value: &Value<'_>, wanted: &str) {
        let given = match value.get_ref() {
            DeValue::String(text) => shown(text),
            DeValue::Array(_) => "a list".into(),
            DeValue::Table(_) => "a table".into(),
            _ => self.given(value).to_owned(),
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

    /// Where the key's value stands, or else the table.
    pub fn place(&self, key: &str) -> usize {
        self.get(key).map_or(self.at, |value| value.span().start)
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
