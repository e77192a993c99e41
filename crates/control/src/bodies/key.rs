//! Names of stored bodies. A name says whose namespace it is in, when it was made, and how the body is written.

use aws_lc_rs::{digest, rand};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rules::large::BodyForm;
use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Characters that stand for a namespace: 96 bits of its hash, so that any name makes a folder.
const FOLDER_CHARS: usize = 16;
/// Hexadecimal digits of the second in which it was made.
const TIME_CHARS: usize = 8;
/// 128 bits: nobody guesses a name.
const SECRET_CHARS: usize = 22;

/// The name of one body: `FOLDER.ID`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    text: String,
    form: Form,
}

/// The written form of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Form {
    /// Of an event: its arguments.
    Json,
    /// Of an event: its arguments and attachments.
    Parts,
    /// Whatever a client uploaded.
    Upload,
}

impl From<BodyForm> for Form {
    fn from(form: BodyForm) -> Self {
        match form {
            BodyForm::Json => Self::Json,
            BodyForm::Parts => Self::Parts,
        }
    }
}

impl Form {
    fn mark(self) -> char {
        match self {
            Self::Json => 'j',
            Self::Parts => 'p',
            Self::Upload => 'u',
        }
    }

    /// `None`: its uploader says what it is.
    pub(crate) fn media_type(self) -> Option<&'static str> {
        match self {
            Self::Json => Some("application/json"),
            Self::Parts => Some(PARTS_TYPE),
            Self::Upload => None,
        }
    }
}

/// An event with attachments ([`BodyForm::Parts`]).
pub(crate) const PARTS_TYPE: &str = "application/vnd.sockeye.parts";

/// Seconds since 1970.
pub(crate) fn unix_seconds() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap_or(Duration::ZERO).as_secs()
}

/// Stands for a namespace in names.
pub(crate) fn folder_of(namespace: &str) -> String {
    let sum = digest::digest(&digest::SHA256, namespace.as_bytes());
    URL_SAFE_NO_PAD.encode(&sum.as_ref()[..FOLDER_CHARS / 4 * 3])
}

impl Key {
    /// A new one. `None`: the system has no randomness.
    pub(crate) fn make(namespace: &str, form: Form) -> Option<Self> {
        let mut secret = [0; 16];
        rand::fill(&mut secret).ok()?;
        let (folder, secret) = (folder_of(namespace), URL_SAFE_NO_PAD.encode(secret));
        let text = format!("{folder}.{:08x}{secret}{}", unix_seconds(), form.mark());
        Some(Self { text, form })
    }

    /// Reads what others say is a name. Nothing else reaches a store.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let is_name = |part: &str| {
            let mut bytes = part.bytes();
            bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
        };
        let (folder, id) = text.split_once('.')?;
        let fits = folder.len() == FOLDER_CHARS && id.len() == TIME_CHARS + SECRET_CHARS + 1;
        if !fits || !is_name(folder) || !is_name(id) {
            return None;
        }
        u64::from_str_radix(&id[..TIME_CHARS], 16).ok()?;
        let form = match id.chars().last()? {
            'j' => Form::Json,
            'p' => Form::Parts,
            'u' => Form::Upload,
            _ => return None,
        };
        let text = text.to_owned();
        Some(Self { text, form })
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }

    pub(crate) fn form(&self) -> Form {
        self.form
    }

    pub(crate) fn is_of(&self, namespace: &str) -> bool {
        self.folder() == folder_of(namespace)
    }

    fn folder(&self) -> &str {
        &self.text[..FOLDER_CHARS]
    }

    fn id(&self) -> &str {
        &self.text[FOLDER_CHARS + 1..]
    }

    /// Its place in a store.
    pub(crate) fn path(&self) -> String {
        format!("{}/{}", self.folder(), self.id())
    }

    /// The name of what a store has there.
    pub(crate) fn of_path(path: &str) -> Option<Self> {
        let (folder, id) = path.split_once('/')?;
        Self::parse(&format!("{folder}.{id}"))
    }

    pub(crate) fn made_seconds(&self) -> u64 {
        u64::from_str_radix(&self.id()[..TIME_CHARS], 16).unwrap_or(0)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_read_back_and_belongs_to_its_namespace() {
        for form in [Form::Json, Form::Parts, Form::Upload] {
            let key = Key::make("/chat", form).expect("randomness");
            assert_eq!(Key::parse(key.as_str()), Some(key.clone()));
            assert_eq!(Key::of_path(&key.path()), Some(key.clone()));
            assert_eq!(key.form(), form);
            assert!(key.is_of("/chat") && !key.is_of("/chat/") && !key.is_of("/"));
            assert!(unix_seconds() - key.made_seconds() < 60);
        }
    }

    #[test]
    fn what_is_no_name_reaches_no_store() {
        let good = Key::make("/", Form::Json).expect("randomness").to_string();
        let bad = [
            String::new(),
            ".".into(),
            "..".into(),
            "../../../../etc/passwd".into(),
            format!("../{good}"),
            format!("{good}/../{good}"),
            format!("{good}#1"),
            format!("{good}%2e"),
            good.replace('.', "/"),
            good.replacen(|c: char| c.is_ascii_alphanumeric(), ".", 1),
            good[1..].to_owned(),
            format!("{good}j"),
            format!("{}x", &good[..good.len() - 1]),
            good.replace('.', "\0"),
            "ä".repeat(16) + &good[16..],
        ];
        for text in bad {
            assert_eq!(Key::parse(&text), None, "{text:?}");
        }
    }
}
