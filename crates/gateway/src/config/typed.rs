//! Sections of the configuration as types. A row is everything about a key: the field by which the rest of the binary reads
//! it, its kind, its default, when it applies, what it means. A key that is looked up by a wrong name does not compile.

use super::key::{Key, literal};
use super::layer::{Layer, Path, Source};
use super::value::{Kind, NODE_MAX, Value};
use hub::config::Rate;
use identity::Secret;
use std::ops::Deref;
use std::time::Duration;

/// A type that a setting can have.
pub trait Typed: Sized {
    const KIND: Kind;
    fn of(value: &Value) -> Option<Self>;
    /// Of a key that is not set and has no default.
    fn unset() -> Option<Self> {
        None
    }
}

/// One setting, and where it stands.
#[derive(Debug)]
pub struct Field<T> {
    pub path: Path,
    /// Somebody wrote it, rather than that it is so by default.
    pub is_said: bool,
    value: T,
}

impl<T> Deref for Field<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T: Typed> Field<T> {
    /// The merged layers hold a value for each key with a default; where one does not, the default of the row counts.
    pub fn read(layer: &Layer, path: &str, default: &str) -> Self {
        Field::read_at(layer, Path::fixed(path), default)
    }

    pub fn read_at(layer: &Layer, path: Path, default: &str) -> Self {
        let set = layer.settings.get(&path);
        let is_said = set.is_some_and(|setting| setting.source != Source::Default);
        let value = set.and_then(|setting| T::of(&setting.value));
        let value = value.or_else(|| match default {
            "" => T::unset(),
            text => T::of(&literal(&path.to_string(), T::KIND, text)),
        });
        match value {
            Some(value) => Field {
                path,
                is_said,
                value,
            },
            None => panic!("{path} has neither value nor default"),
        }
    }
}

/// A table of the file with fixed names.
pub trait Section {
    fn keys() -> Vec<Key>;
    fn read(layer: &Layer) -> Self;
}

/// Makes the type of a section and its keys from the same rows: `field: Type = "default" => modifiers, "meaning.";`.
macro_rules! section {
    ($(#[$about:meta])* $name:ident = $prefix:literal {
        $($field:ident: $type:ty = $default:expr $(=> $modifier:ident($($arg:expr),*))*, $doc:expr;)*
    }) => {
        $(#[$about])*
        #[derive(Debug)]
        pub struct $name { $(pub $field: $crate::config::typed::Field<$type>),* }

        impl $crate::config::typed::Section for $name {
            fn keys() -> Vec<$crate::config::key::Key> {
                use $crate::config::typed::Typed;
                vec![$(
                    $crate::config::key::Key::new(
                        concat!($prefix, stringify!($field)), <$type>::KIND, $default, $doc,
                    )$(.$modifier($($arg),*))*
                ),*]
            }

            fn read(layer: &$crate::config::layer::Layer) -> Self {
                use $crate::config::typed::Field;
                $name { $($field: Field::read(layer, concat!($prefix, stringify!($field)), $default)),* }
            }
        }
    };
}
pub(super) use section;

/// An enum whose values have names in the configuration.
macro_rules! choice {
    ($($(#[$about:meta])* $type:ty { $($name:literal => $value:expr),* $(,)? })*) => {$(
        impl $crate::config::typed::Typed for $type {
            const KIND: $crate::config::value::Kind = $crate::config::value::Kind::Choice(&[$($name),*]);
            fn of(value: &$crate::config::value::Value) -> Option<Self> {
                match value {
                    $($crate::config::value::Value::Text(text) if text == $name => Some($value),)*
                    _ => None,
                }
            }
        }
    )*};
}
pub(super) use choice;

macro_rules! typed {
    ($($type:ty: $kind:expr, $pattern:pat => $value:expr;)*) => {$(
        impl Typed for $type {
            const KIND: Kind = $kind;
            fn of(value: &Value) -> Option<Self> {
                match value {
                    $pattern => Some($value),
                    _ => None,
                }
            }
        }
    )*};
}

typed! {
    bool: Kind::Bool, Value::Bool(on) => *on;
    Duration: Kind::Duration, Value::Duration(duration) => *duration;
    String: Kind::Text, Value::Text(text) => text.clone();
    Vec<String>: Kind::List, Value::List(items) => items.clone();
    Rate: Kind::Rate, Value::Rate(rate) => *rate;
    Secret: Kind::Secret, Value::Secret(secret) => secret.clone();
    JsonText: Kind::Json, Value::Json(text) => JsonText(text.clone());
    Bytes: Kind::Size, Value::Size(bytes) => Bytes(*bytes);
}

/// A document of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonText(pub String);

/// A size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bytes(pub u64);

impl Bytes {
    pub fn get(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

/// A whole number between these bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Whole<const MIN: u64, const MAX: u64>(u64);

impl<const MIN: u64, const MAX: u64> Whole<MIN, MAX> {
    /// As a smaller type that holds every number up to `MAX`.
    pub fn get<N: TryFrom<u64> + Default>(self) -> N {
        N::try_from(self.0).unwrap_or_default()
    }
}

impl<const MIN: u64, const MAX: u64> Typed for Whole<MIN, MAX> {
    const KIND: Kind = Kind::Integer { min: MIN, max: MAX };
    fn of(value: &Value) -> Option<Self> {
        match value {
            Value::Integer(number) => Some(Whole(*number)),
            _ => None,
        }
    }
}

/// A key that may stay unset.
impl<T: Typed> Typed for Option<T> {
    const KIND: Kind = T::KIND;
    fn of(value: &Value) -> Option<Self> {
        T::of(value).map(Some)
    }
    fn unset() -> Option<Self> {
        Some(None)
    }
}

/// `server.node`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeNumber {
    Given(u16),
    /// The number at the end of the host name.
    OfHostname,
    /// Any that is free.
    Free,
}

impl Typed for NodeNumber {
    const KIND: Kind = Kind::Node;
    fn of(value: &Value) -> Option<Self> {
        match value {
            Value::Integer(number) if *number <= NODE_MAX => {
                u16::try_from(*number).ok().map(NodeNumber::Given)
            }
            Value::Text(text) if text == "auto" => Some(NodeNumber::Free),
            Value::Text(_) => Some(NodeNumber::OfHostname),
            _ => None,
        }
    }
}
