//! One setting's value: the kinds a key can have, how each is read from TOML or from text
//! (environment, flags), and how it is written back.

use super::units;
use ::units::nearest;
use hub::bounds::NODES_MAX;
use hub::config::Rate;
use identity::Secret;
use std::time::Duration;
use toml::de::DeValue;

/// What a key accepts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    Bool,
    Integer {
        min: u64,
        max: u64,
    },
    Duration,
    Size,
    Text,
    Choice(&'static [&'static str]),
    /// Strings; in the environment separated by commas.
    List,
    Rate,
    /// JSON text, or a TOML table of the same meaning.
    Json,
    /// A node number or the word `hostname`.
    Node,
    /// A text that is never shown.
    Secret,
}

/// What stands for a secret wherever settings are shown.
const MASK: &str = "***";

/// Highest node number: every id has room for so many.
pub const NODE_MAX: u64 = NODES_MAX as u64 - 1;

/// Largest size: sums of two and small multiples of one are far from the end of 64 bits.
const SIZE_MAX: u64 = 1 << 50;

#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Bool(bool),
    Integer(u64),
    Duration(Duration),
    Size(u64),
    Text(String),
    List(Vec<String>),
    Rate(Rate),
    Json(String),
    Secret(Secret),
}

impl Kind {
    /// Reads a TOML value; the error says what is needed instead.
    pub fn read(self, value: &DeValue<'_>) -> Result<Value, String> {
        let read = match (self, value) {
            (Kind::Bool, DeValue::Boolean(on)) => Some(Value::Bool(*on)),
            (Kind::Integer { .. } | Kind::Node, DeValue::Integer(_)) => {
                self.read_text(&plain(value))
            }
            (Kind::Size, DeValue::Integer(_)) => plain(value).parse().ok().and_then(size),
            (Kind::List, DeValue::Array(items)) => {
                let texts = items
                    .iter()
                    .map(|item| item.get_ref().as_str().map(str::to_owned));
                texts.collect::<Option<Vec<_>>>().map(Value::List)
            }
            (Kind::Json, DeValue::Table(_)) => Some(Value::Json(json(value).to_string())),
            (Kind::Bool | Kind::Integer { .. } | Kind::List, _) => None,
            (_, DeValue::String(text)) => self.read_text(text),
            _ => None,
        };
        read.ok_or_else(|| match self {
            Kind::Secret => format!("{} is needed", self.describe()),
            _ => {
                let (needed, hint) = (self.describe(), self.hint(value));
                let hint = hint.map_or(String::new(), |hint| format!("; {hint}"));
                format!("{needed} is needed, not {}{hint}", plain(value))
            }
        })
    }

    /// The value that was probably meant.
    fn hint(self, value: &DeValue<'_>) -> Option<String> {
        match (self, value) {
            (Kind::Choice(names), DeValue::String(text)) => {
                let name = nearest(text, names.iter().copied())?;
                Some(format!("did you mean {}?", quoted(name)))
            }
            (Kind::List, DeValue::String(text)) => Some(format!("write [{}]", quoted(text))),
            // Node's options are in milliseconds.
            (Kind::Duration, DeValue::Integer(_)) => {
                let millis = Duration::from_millis(plain(value).parse().ok()?);
                let meant = quoted(&units::format_duration(millis));
                Some(format!("in milliseconds, that is {meant}"))
            }
            // It is written well, so it is too large.
            (Kind::Size, DeValue::String(text)) => units::parse_size(text).map(|_| largest_size()),
            (Kind::Size, DeValue::Integer(_)) => {
                let bytes = plain(value).parse::<u64>().ok();
                bytes.map(|_| largest_size())
            }
            _ => None,
        }
    }

    /// Reads a value that came as bare text.
    pub fn read_bare(self, text: &str) -> Result<Value, String> {
        let read = self.read_text(text);
        read.ok_or_else(|| format!("{} is needed, not {text:?}", self.describe()))
    }

    fn read_text(self, text: &str) -> Option<Value> {
        match self {
            Kind::Bool => text.parse().ok().map(Value::Bool),
            Kind::Integer { min, max } => {
                let number = text.replace('_', "").parse().ok()?;
                (min..=max)
                    .contains(&number)
                    .then_some(Value::Integer(number))
            }
            Kind::Duration => units::parse_duration(text).map(Value::Duration),
            Kind::Size => units::parse_size(text).and_then(size),
            Kind::Text => Some(Value::Text(text.to_owned())),
            Kind::Choice(names) => names.contains(&text).then(|| Value::Text(text.to_owned())),
            Kind::List => {
                let items = text
                    .split(',')
                    .map(str::trim)
                    .filter(|item| !item.is_empty());
                Some(Value::List(items.map(str::to_owned).collect()))
            }
            Kind::Rate => units::parse_rate(text).map(Value::Rate),
            Kind::Json => {
                let json: Result<serde_json::Value, _> = serde_json::from_str(text);
                json.ok().map(|_| Value::Json(text.to_owned()))
            }
            Kind::Secret => Some(Value::Secret(Secret::new(text))),
            Kind::Node if text == "hostname" || text == "auto" => {
                Some(Value::Text(text.to_owned()))
            }
            Kind::Node => Kind::Integer {
                min: 0,
                max: NODE_MAX,
            }
            .read_text(text),
        }
    }

    /// What is accepted, for messages and the reference page.
    pub fn describe(self) -> String {
        match self {
            Kind::Bool => "true or false".to_owned(),
            Kind::Integer { min, max } => format!("a whole number from {min} to {max}"),
            Kind::Duration => "a duration such as \"25s\" or \"300ms\"".to_owned(),
            Kind::Size => "a size such as \"64KiB\" or \"1MB\"".to_owned(),
            Kind::Text | Kind::Secret => "a string".to_owned(),
            Kind::Choice(names) => {
                let quoted: Vec<_> = names.iter().map(|name| format!("\"{name}\"")).collect();
                quoted.join(" or ")
            }
            Kind::List => "a list of strings".to_owned(),
            Kind::Rate => "a rate such as \"10/s\", \"100/60s\" or \"100/60s fixed\"".to_owned(),
            Kind::Json => "JSON as a string, or a table".to_owned(),
            Kind::Node => format!("a whole number from 0 to {NODE_MAX}, \"hostname\", or \"auto\""),
        }
    }
}

impl Value {
    /// The value as it would be written in the configuration file.
    pub fn to_toml(&self) -> String {
        match self {
            Value::Bool(on) => on.to_string(),
            Value::Integer(number) => number.to_string(),
            Value::Duration(duration) => quoted(&units::format_duration(*duration)),
            Value::Size(bytes) => quoted(&units::format_size(*bytes)),
            Value::Text(text) | Value::Json(text) => quoted(text),
            Value::List(items) => {
                let items: Vec<_> = items.iter().map(|item| quoted(item)).collect();
                format!("[{}]", items.join(", "))
            }
            Value::Rate(rate) => quoted(&units::format_rate(*rate)),
            Value::Secret(_) => quoted(MASK),
        }
    }

    /// A number, or the bytes of a size.
    pub fn number(&self) -> Option<u64> {
        match self {
            Value::Integer(number) | Value::Size(number) => Some(*number),
            _ => None,
        }
    }

    pub fn to_json(&self) -> serde_json::Value {
        match self {
            Value::Bool(on) => (*on).into(),
            Value::Integer(number) => (*number).into(),
            Value::Duration(duration) => units::format_duration(*duration).into(),
            Value::Size(bytes) => units::format_size(*bytes).into(),
            Value::Text(text) => text.clone().into(),
            Value::Json(text) => serde_json::from_str(text).unwrap_or_default(),
            Value::List(items) => items.clone().into(),
            Value::Rate(rate) => units::format_rate(*rate).into(),
            Value::Secret(_) => MASK.into(),
        }
    }
}

/// `None` above [`SIZE_MAX`].
fn size(bytes: u64) -> Option<Value> {
    (bytes <= SIZE_MAX).then_some(Value::Size(bytes))
}

fn largest_size() -> String {
    format!("{} at most", quoted(&units::format_size(SIZE_MAX)))
}

/// A TOML basic string.
pub fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

/// A TOML value as it may appear in a message.
fn plain(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => format!("{text:?}"),
        DeValue::Integer(number) => match i128::from_str_radix(number.as_str(), number.radix()) {
            Ok(decimal) => decimal.to_string(),
            Err(_) => number.to_string(),
        },
        DeValue::Float(number) => number.as_str().to_owned(),
        DeValue::Boolean(on) => on.to_string(),
        DeValue::Datetime(moment) => moment.to_string(),
        DeValue::Array(items) => {
            let items: Vec<_> = items.iter().map(|item| plain(item.get_ref())).collect();
            format!("[{}]", items.join(", "))
        }
        DeValue::Table(_) => "a table".to_owned(),
    }
}

fn json(value: &DeValue<'_>) -> serde_json::Value {
    match value {
        DeValue::String(text) => text.as_ref().into(),
        DeValue::Integer(_) => match plain(value).parse::<i64>() {
            Ok(number) => number.into(),
            Err(_) => serde_json::Value::Null,
        },
        DeValue::Float(number) => match number.as_str().parse::<f64>() {
            Ok(number) => number.into(),
            Err(_) => serde_json::Value::Null,
        },
        DeValue::Boolean(on) => (*on).into(),
        DeValue::Datetime(moment) => moment.to_string().into(),
        DeValue::Array(items) => items.iter().map(|item| json(item.get_ref())).collect(),
        DeValue::Table(table) => {
            let members = table.iter();
            members
                .map(|(name, item)| (name.get_ref().to_string(), json(item.get_ref())))
                .collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use toml::de::DeTable;

    fn read(kind: Kind, toml: &str) -> Result<Value, String> {
        let text = format!("v = {toml}");
        let table = DeTable::parse(&text).expect("valid TOML");
        let (_, value) = table.get_ref().iter().next().expect("one value");
        kind.read(value.get_ref())
    }

    #[test]
    fn each_kind_reads_its_own_spelling_and_writes_it_back() {
        for (kind, toml) in [
            (Kind::Bool, "true"),
            (Kind::Integer { min: 0, max: 9 }, "7"),
            (Kind::Duration, "\"300ms\""),
            (Kind::Size, "\"64KiB\""),
            (Kind::Text, "\"/ws\""),
            (Kind::Choice(&["a", "b"]), "\"b\""),
            (Kind::List, "[\"a\", \"b\"]"),
            (Kind::Rate, "\"10/s\""),
            (Kind::Node, "\"hostname\""),
            (Kind::Node, "\"auto\""),
            (Kind::Node, "1023"),
        ] {
            let value = read(kind, toml).expect(toml);
            assert_eq!(value.to_toml(), toml);
        }
    }

    #[test]
    fn numbers_are_read_in_any_base_toml_knows() {
        assert_eq!(
            read(Kind::Integer { min: 0, max: 99 }, "0x10"),
            Ok(Value::Integer(16))
        );
        assert_eq!(read(Kind::Size, "1_000"), Ok(Value::Size(1_000)));
    }

    #[test]
    fn a_wrong_type_says_what_is_needed_and_what_came() {
        let error = read(Kind::Duration, "25").expect_err("no unit");
        assert_eq!(
            error,
            "a duration such as \"25s\" or \"300ms\" is needed, not 25; in milliseconds, that is \"25ms\""
        );
        let error = read(Kind::Duration, "25000").expect_err("as in Node");
        assert!(
            error.ends_with("not 25000; in milliseconds, that is \"25s\""),
            "{error}"
        );
        let profiles = Kind::Choice(&["chat", "socket.io"]);
        let error = read(profiles, "\"socketio\"").expect_err("no such profile");
        assert!(
            error.ends_with("not \"socketio\"; did you mean \"socket.io\"?"),
            "{error}"
        );
        let error = read(Kind::List, "\"*\"").expect_err("no list");
        assert_eq!(
            error,
            "a list of strings is needed, not \"*\"; write [\"*\"]"
        );
        let error = read(Kind::Integer { min: 0, max: 9 }, "10").expect_err("too large");
        assert_eq!(error, "a whole number from 0 to 9 is needed, not 10");
        let error = read(Kind::List, "[1]").expect_err("numbers");
        assert_eq!(error, "a list of strings is needed, not [1]");
        assert!(read(Kind::Integer { min: 0, max: 9 }, "\"7\"").is_err());
        assert!(read(Kind::Node, "1024").is_err());
        assert!(read(Kind::Bool, "\"true\"").is_err());
    }

    /// The bound of an outbox near the end of 64 bits ended the process when half of it was added.
    #[test]
    fn a_size_leaves_room_to_reckon_with() {
        assert_eq!(
            read(Kind::Size, "\"1048576GiB\""),
            Ok(Value::Size(SIZE_MAX))
        );
        for toml in [
            "1_125_899_906_842_625",
            "18446744073709551615",
            "\"1048577GiB\"",
            "\"18446744073709551615B\"",
        ] {
            let error = read(Kind::Size, toml).expect_err(toml);
            assert!(error.ends_with("; \"1048576GiB\" at most"), "{error}");
        }
        assert!(Kind::Size.read_bare("1048577GiB").is_err());
        let error = read(Kind::Size, "-1").expect_err("below zero");
        assert!(error.ends_with("not -1"), "{error}");
    }

    #[test]
    fn bare_text_needs_no_quotes() {
        assert_eq!(Kind::Bool.read_bare("false"), Ok(Value::Bool(false)));
        let list = Value::List(vec!["a".to_owned(), "b".to_owned()]);
        assert_eq!(Kind::List.read_bare("a, b,"), Ok(list));
        assert!(Kind::Choice(&["a"]).read_bare("c").is_err());
    }

    #[test]
    fn json_may_be_a_table_or_text() {
        let table = read(
            Kind::Json,
            "{ type = \"object\", required = [\"a\"], n = 1 }",
        );
        let text = read(
            Kind::Json,
            "'{\"n\":1,\"required\":[\"a\"],\"type\":\"object\"}'",
        );
        assert_eq!(table.map(|v| v.to_json()), text.map(|v| v.to_json()));
        assert!(read(Kind::Json, "'{'").is_err());
    }
}
