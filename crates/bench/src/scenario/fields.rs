//! Owns the reading of one TOML table: known keys, typed values, and a problem with its place for
//! everything else. A value that is wrong reads as absent, so that all problems show at once.

use super::Protocol;
use super::expression::shown;
use super::problem::{Problem, suggestion};
use super::template::{TOLD, Template, Variable, Variables};
use super::value;
use outcome::number::digits;
use std::cell::{Cell, RefCell};
use std::ops::RangeInclusive;
use std::time::Duration;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

pub type Value<'a> = Spanned<DeValue<'a>>;

/// Collects what is wrong with one text.
#[derive(Debug)]
pub struct Reader<'t> {
    text: &'t str,
    /// Spoken in place of what the text says.
    pub instead: Option<Protocol>,
    problems: RefCell<Vec<Problem>>,
    /// What could not be read so far, told again or not: what follows from it is no news.
    faults: Cell<usize>,
    variables: RefCell<Variables>,
}

/// One table and what messages call it.
#[derive(Clone, Debug)]
pub struct Fields<'d> {
    pub reader: &'d Reader<'d>,
    what: String,
    /// Where the table begins.
    at: usize,
    table: &'d DeTable<'d>,
}

impl<'t> Reader<'t> {
    pub fn new(text: &'t str, instead: Option<Protocol>) -> Self {
        Reader {
            text,
            instead,
            problems: RefCell::default(),
            faults: Cell::default(),
            variables: RefCell::default(),
        }
    }

    pub fn problem(&self, at: usize, message: impl Into<String>) {
        self.faults.set(self.faults.get() + 1);
        let problem = Problem::new(self.text, at, message);
        self.problems.borrow_mut().push(problem);
    }

    pub fn faults(&self) -> usize {
        self.faults.get()
    }

    pub fn problems(self) -> Vec<Problem> {
        self.problems.into_inner()
    }

    pub fn has_problems(&self) -> bool {
        !self.problems.borrow().is_empty()
    }

    pub fn define(&self, name: &str, variable: Variable) {
        let mut variables = self.variables.borrow_mut();
        variables.insert(name.to_owned(), variable);
    }

    /// Opens a table; keys outside of `known` are problems.
    pub fn open<'d>(
        &'d self,
        what: impl Into<String>,
        at: usize,
        table: &'d DeTable<'d>,
        known: &[&str],
    ) -> Fields<'d> {
        let (reader, what) = (self, what.into());
        for key in table.keys() {
            let name: &str = key.get_ref();
            if !known.contains(&name) {
                let hint = suggestion(name, known.iter().copied());
                let message = format!("unknown key {name:?} in {what}{hint}");
                self.problem(key.span().start, message);
            }
        }
        Fields {
            reader,
            what,
            at,
            table,
        }
    }

    /// Applies `read` to a text; its error becomes a problem at the value's place.
    pub fn text<T>(
        &self,
        key: &str,
        value: &Value<'_>,
        read: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<T> {
        let Some(text) = value.get_ref().as_str() else {
            return self.wrong_kind(key, value, "a text in quotes");
        };
        match read(text) {
            Ok(read) => return Some(read),
            Err(error) if error == TOLD => self.faults.set(self.faults.get() + 1),
            Err(error) => self.problem(value.span().start, format!("{key}: {error}")),
        }
        None
    }

    /// A text with holes.
    pub fn template(&self, key: &str, value: &Value<'_>) -> Option<Template> {
        let variables = self.variables.borrow();
        self.text(key, value, |text| Template::compile(text, &variables))
    }

    /// A value as the file has it.
    pub fn given(&self, value: &Value<'_>) -> &'t str {
        self.text.get(value.span()).unwrap_or_default()
    }

    pub fn wrong_kind<T>(&self, key: &str, value: &Value<'_>, wanted: &str) -> Option<T> {
        self.refuse_kind(key, value, wanted);
        None
    }

    pub fn refuse_kind(&self, key: &str, value: &Value<'_>, wanted: &str) {
        let given = match value.get_ref() {
            DeValue::String(text) => shown(text),
            DeValue::Array(_) => "a list".into(),
            DeValue::Table(_) => "a table".into(),
            _ => self.given(value).to_owned(),
        };
        let message = format!("{key}: {wanted} is needed, not {given}");
        self.problem(value.span().start, message);
    }

    pub fn table<'d>(&self, key: &str, value: &'d Value<'d>) -> Option<&'d DeTable<'d>> {
        match value.get_ref() {
            DeValue::Table(table) => Some(table),
            _ => self.wrong_kind(key, value, "a table"),
        }
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
    fn place(&self, key: &str) -> usize {
        self.get(key).map_or(self.at, |value| value.span().start)
    }

    /// Something is wrong with the table.
    pub fn problem(&self, message: impl Into<String>) {
        self.reader.problem(self.at, message);
    }

    /// Something is wrong with the value of a key.
    pub fn problem_at(&self, key: &str, message: impl Into<String>) {
        self.reader.problem(self.place(key), message);
    }

    pub fn need(&self, keys: &[&str]) {
        for key in keys.iter().filter(|key| !self.has(key)) {
            self.problem(format!("{} needs {key:?}", self.what));
        }
    }

    pub fn exclude(&self, key: &str, other: &str, what: &str) {
        if self.has(key) && self.has(other) {
            self.problem(format!("{what} both {key:?} and {other:?}"));
        }
    }

    pub fn text<T>(&self, key: &str, read: impl FnOnce(&str) -> Result<T, String>) -> Option<T> {
        self.reader.text(key, self.get(key)?, read)
    }

    /// A name of something, which cannot be empty.
    pub fn name(&self, key: &str) -> Option<String> {
        self.text(key, |text| match text.is_empty() {
            true => Err("\"\" names nothing".into()),
            false => Ok(text.to_owned()),
        })
    }

    pub fn duration_above_zero(&self, key: &str) -> Option<Duration> {
        self.text(key, value::duration_above_zero)
    }

    pub fn duration(&self, key: &str) -> Option<Duration> {
        self.text(key, value::duration)
    }

    pub fn rate(&self, key: &str) -> Option<f64> {
        self.text(key, value::rate)
    }

    /// A text with holes that is no part of a message.
    pub fn template(&self, key: &str) -> Option<Template> {
        let template = self.body(key)?;
        if template.stamps() == 0 && !template.has_fill() {
            return Some(template);
        }
        let why = "\"${stamp}\" and \"${fill}\" mean something in payloads only";
        self.problem_at(key, format!("{key}: {why}"));
        None
    }

    /// The same where an empty text names nothing.
    pub fn room(&self, key: &str) -> Option<Template> {
        let template = self.template(key)?;
        if template.is_empty() {
            self.problem_at(key, format!("{key}: \"\" names no room"));
            return None;
        }
        Some(template)
    }

    /// A text with holes that may carry a message's identity.
    pub fn body(&self, key: &str) -> Option<Template> {
        self.reader.template(key, self.get(key)?)
    }

    pub fn boolean(&self, key: &str) -> Option<bool> {
        let value = self.get(key)?;
        match value.get_ref() {
            DeValue::Boolean(on) => Some(*on),
            _ => self.reader.wrong_kind(key, value, "true or false"),
        }
    }

    /// A verb that takes nothing: `false` would mean that the step is none.
    pub fn affirmed(&self, verb: &str) {
        if self.boolean(verb) == Some(false) {
            let why = format!("{verb} = false does nothing: write true, or leave the step out");
            self.problem_at(verb, why);
        }
    }

    pub fn count(&self, key: &str, range: RangeInclusive<u32>) -> Option<u32> {
        let value = self.get(key)?;
        if !matches!(value.get_ref(), DeValue::Integer(_)) {
            return self.reader.wrong_kind(key, value, "a whole number");
        }
        let number = integer(value.get_ref()).and_then(|number| u32::try_from(number).ok());
        let count = number.filter(|count| range.contains(count));
        if count.is_none() {
            let (given, min) = (self.reader.given(value), range.start());
            let max = digits(*range.end());
            let why = format!("{key}: {given} is out of range: from {min} to {max}");
            self.problem_at(key, why);
        }
        count
    }

    /// A share between 0 and 1.
    pub fn share(&self, key: &str) -> Option<f64> {
        let value = self.get(key)?;
        let number = match value.get_ref() {
            DeValue::Float(number) => number.as_str().parse::<f64>().ok(),
            other => integer(other).map(|number| number as f64),
        };
        let share = number.filter(|share| (0.0..=1.0).contains(share));
        share.or_else(|| self.reader.wrong_kind(key, value, "a number from 0 to 1"))
    }

    /// The table of tables at a key, in the order of the file: name, place, value.
    pub fn entries(&self, key: &str) -> Vec<(String, usize, &'d Value<'d>)> {
        let table = self
            .get(key)
            .and_then(|value| self.reader.table(key, value));
        table.map(in_order).unwrap_or_default()
    }
}

/// Entries of a table in the order of the file: name, place, value.
pub fn in_order<'d>(table: &'d DeTable<'d>) -> Vec<(String, usize, &'d Value<'d>)> {
    let entries = table.iter();
    let entries = entries.map(|(key, value)| (key.get_ref().to_string(), key.span().start, value));
    let mut entries: Vec<_> = entries.collect();
    entries.sort_by_key(|(_, at, _)| *at);
    entries
}

pub fn integer(value: &DeValue<'_>) -> Option<i64> {
    match value {
        DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix()).ok(),
        _ => None,
    }
}
