//! A configuration key: its path, its kind, its defaults, and when a changed value takes effect.

use super::value::{Kind, Value};

/// A set of defaults for one use of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    Chat,
    SocketIo,
    Plain,
    Public,
}

impl Profile {
    pub const ALL: [Profile; 4] = [
        Profile::Chat,
        Profile::SocketIo,
        Profile::Plain,
        Profile::Public,
    ];
    pub const NAMES: &'static [&'static str] = &["chat", "socket.io", "plain", "public"];

    pub fn name(self) -> &'static str {
        match self {
            Profile::Chat => "chat",
            Profile::SocketIo => "socket.io",
            Profile::Plain => "plain",
            Profile::Public => "public",
        }
    }

    pub fn from_name(name: &str) -> Option<Self> {
        Profile::ALL
            .into_iter()
            .find(|profile| profile.name() == name)
    }
}

/// When a changed value takes effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reload {
    /// On SIGHUP.
    Live,
    /// At the next start.
    Restart,
}

#[derive(Debug)]
pub struct Key {
    /// `section.key`; a `*` stands for a name the operator chooses.
    pub path: String,
    pub kind: Kind,
    /// None: unset unless the operator sets it.
    pub default: Option<Value>,
    pub profiles: Vec<(Profile, Value)>,
    pub reload: Reload,
    pub doc: &'static str,
}

impl Key {
    pub(super) fn new(path: &str, kind: Kind, default: &str, doc: &'static str) -> Self {
        let default = (!default.is_empty()).then(|| literal(path, kind, default));
        Key::with(path.to_owned(), kind, default, doc)
    }

    pub(super) fn with(
        path: String,
        kind: Kind,
        default: Option<Value>,
        doc: &'static str,
    ) -> Self {
        Key {
            path,
            kind,
            default,
            profiles: Vec::new(),
            reload: Reload::Restart,
            doc,
        }
    }

    pub(super) fn live(mut self) -> Self {
        self.reload = Reload::Live;
        self
    }

    pub(super) fn on(mut self, profile: Profile, default: &str) -> Self {
        self.profiles
            .push((profile, literal(&self.path, self.kind, default)));
        self
    }

    /// The default under `profile`.
    pub fn default_on(&self, profile: Profile) -> Option<&Value> {
        let own = self.profiles.iter().find(|(name, _)| *name == profile);
        own.map(|(_, value)| value).or(self.default.as_ref())
    }

    /// The default as a cell of a table: `` `20s`; chat: `10s` ``.
    pub fn default_cell(&self, shown: impl Fn(&Value) -> String) -> String {
        let shown = |value| format!("`{}`", shown(value));
        let usual = self.default.as_ref().map_or("–".to_owned(), &shown);
        self.profiles.iter().fold(usual, |cell, (profile, value)| {
            format!("{cell}; {}: {}", profile.name(), shown(value))
        })
    }

    pub fn segments(&self) -> impl Iterator<Item = &str> {
        self.path.split('.')
    }

    /// Whether the operator chooses a part of the path.
    pub fn is_pattern(&self) -> bool {
        self.segments().any(|segment| segment == "*")
    }
}

/// A default from this table. Wrong ones can not reach a release: a test reads the whole table.
pub(super) fn literal(path: &str, kind: Kind, text: &str) -> Value {
    match kind.read_bare(text) {
        Ok(value) => value,
        Err(error) => panic!("default of {path}: {error}"),
    }
}
