//! API keys of operators. The configuration holds their SHA-256 only: who reads it learns no key, and since keys are
//! random and long, a slow hash would protect nothing more.

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::{digest, rand};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hyper::{HeaderMap, header};
use std::fmt;
use std::sync::Arc;
use tokio::sync::watch;

/// What a key begins with, so that scanners for lost secrets know it.
const PREFIX: &str = "sockeye_";
const RANDOM_BYTES: usize = 32;
const HASH_BYTES: usize = 32;
const NAME_BYTES_MAX: usize = 64;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ApiKeys(Vec<ApiKey>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct ApiKey {
    caller: Caller,
    hash: [u8; HASH_BYTES],
}

/// The keys of a door as they are now: an operator may change them while the process runs. Clones are the same ring.
#[derive(Clone, Debug, Default)]
pub struct Keyring(Arc<watch::Sender<ApiKeys>>);

/// The hash of what somebody showed for a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shown([u8; HASH_BYTES]);

/// A known key that somebody showed, for as long as it is on the ring.
#[derive(Debug)]
pub struct Lease {
    shown: Shown,
    keys: watch::Receiver<ApiKeys>,
}

/// A key's name, and the scopes it has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    name: String,
    /// Empty = all.
    scopes: Vec<Scope>,
    /// Empty = all.
    namespaces: Vec<String>,
    /// A person at the console shows it, and no program.
    at_console: bool,
}

/// The key that a request showed.
#[derive(Clone, Debug)]
pub struct Operator(pub Caller);

/// Looks at the key or login of a caller that stays.
#[derive(Clone)]
pub struct Standing(Arc<dyn Fn() -> Option<Caller> + Send + Sync>);

impl fmt::Debug for Standing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Standing").finish_non_exhaustive()
    }
}

impl Standing {
    pub fn new(look: impl Fn() -> Option<Caller> + Send + Sync + 'static) -> Self {
        Self(Arc::new(look))
    }

    /// The caller as it is now; `None`: its key was taken away, or its login has ended.
    pub fn caller(&self) -> Option<Caller> {
        (self.0)()
    }
}

/// A scope of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// To send events.
    Emit,
    /// To put sockets into rooms, and take them out.
    Members,
    /// To put sockets out.
    Disconnect,
    /// To see sockets, rooms, nodes and metrics.
    Read,
    /// To read what rooms said.
    History,
    /// To delete it.
    Forget,
    /// To look inside the process, and to change what it does.
    Operate,
    /// To follow what passes.
    Trace,
    /// To see arguments of events there as they are.
    Payload,
}

impl Scope {
    const ALL: [(Scope, &str); 9] = [
        (Scope::Emit, "emit"),
        (Scope::Members, "members"),
        (Scope::Disconnect, "disconnect"),
        (Scope::Read, "read"),
        (Scope::History, "history"),
        (Scope::Forget, "forget"),
        (Scope::Operate, "operate"),
        (Scope::Trace, "trace"),
        (Scope::Payload, "trace:payload"),
    ];

    pub fn name(self) -> &'static str {
        let row = Self::ALL.iter().find(|(scope, _)| *scope == self);
        row.map_or("", |(_, name)| name)
    }

    fn of(name: &str) -> Option<Self> {
        let row = Self::ALL.iter().find(|(_, known)| *known == name);
        row.map(|(scope, _)| *scope)
    }
}

impl Caller {
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The same key, shown at the console.
    pub fn at_the_console(self) -> Self {
        Self {
            at_console: true,
            ..self
        }
    }

    pub fn is_at_console(&self) -> bool {
        self.at_console
    }

    /// Names of its scopes; none = all.
    pub fn scope_names(&self) -> Vec<&'static str> {
        self.scopes.iter().map(|scope| scope.name()).collect()
    }

    /// Its namespaces; none = all.
    pub fn namespaces(&self) -> &[String] {
        &self.namespaces
    }

    pub fn may(&self, scope: Scope) -> bool {
        self.scopes.is_empty() || self.scopes.contains(&scope)
    }

    /// Whether it may do that in this namespace.
    pub fn may_in(&self, namespace: &str) -> bool {
        self.namespaces.is_empty() || self.namespaces.iter().any(|own| own == namespace)
    }

    /// Whether it may do what is about all of them.
    pub fn may_everywhere(&self, scope: Scope) -> bool {
        self.namespaces.is_empty() && self.may(scope)
    }
}

impl ApiKeys {
    /// Reads `NAME:SHA256` or `NAME:SHA256:ALLOWED` for each key.
    pub fn parse(entries: &[String]) -> Result<Self, String> {
        let mut keys: Vec<ApiKey> = Vec::new();
        for (index, entry) in entries.iter().enumerate() {
            let key = parse(entry).map_err(|fault| {
                format!(
                    "cannot use entry {}: {fault}; `sockeye api-key NAME` makes a key and its entry",
                    index + 1
                )
            })?;
            let name = &key.caller.name;
            if keys.iter().any(|other| other.caller.name == *name) {
                return Err(format!("cannot use the name {name:?} twice"));
            }
            keys.push(key);
        }
        Ok(Self(keys))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn find(&self, shown: Shown) -> Option<&Caller> {
        // All are compared, so that the time tells nothing of which one came close.
        let mut found = None;
        for key in &self.0 {
            if verify_slices_are_equal(&shown.0, &key.hash).is_ok() {
                found = Some(&key.caller);
            }
        }
        found
    }
}

impl Keyring {
    pub fn new(keys: ApiKeys) -> Self {
        Self(Arc::new(watch::Sender::new(keys)))
    }

    /// Other keys from now on.
    pub fn set(&self, keys: ApiKeys) {
        self.0.send_replace(keys);
    }

    pub fn is_empty(&self) -> bool {
        self.0.borrow().is_empty()
    }

    /// Whose key a request shows: `Authorization: Bearer` or `X-API-Key`.
    pub fn find(&self, headers: &HeaderMap) -> Option<Caller> {
        let shown = Shown::in_headers(headers)?;
        self.0.borrow().find(shown).cloned()
    }

    /// The caller that has this key.
    pub fn of(&self, shown: Shown) -> Option<Caller> {
        self.0.borrow().find(shown).cloned()
    }

    /// The same, for a caller that stays.
    pub fn lease(&self, headers: &HeaderMap) -> Option<Lease> {
        let shown = Shown::in_headers(headers)?;
        let keys = self.0.subscribe();
        let known = keys.borrow().find(shown).is_some();
        known.then_some(Lease { shown, keys })
    }
}

impl Lease {
    /// Ready when the key is taken from the ring.
    pub async fn ended(&mut self) {
        let shown = self.shown;
        let gone = self.keys.wait_for(|keys| keys.find(shown).is_none());
        let ring_ended = gone.await.is_err();
        if ring_ended {
            // The ring ends with the process.
            std::future::pending::<()>().await;
        }
    }
}

/// An entry in the wrong form may be a key itself: it is not repeated.
/// SHA-256 of no bytes: a header without a key would be right.
const OF_NOTHING: [u8; HASH_BYTES] = [
    0xe3, 0xb0, 0xc4, 0x42, 0x98, 0xfc, 0x1c, 0x14, 0x9a, 0xfb, 0xf4, 0xc8, 0x99, 0x6f, 0xb9, 0x24,
    0x27, 0xae, 0x41, 0xe4, 0x64, 0x9b, 0x93, 0x4c, 0xa4, 0x95, 0x99, 0x1b, 0x78, 0x52, 0xb8, 0x55,
];

fn parse(entry: &str) -> Result<ApiKey, String> {
    let form = || "NAME:SHA256 is needed, with the hash in 64 hexadecimal digits".to_owned();
    let (name, rest) = entry.split_once(':').ok_or_else(form)?;
    let plain = |byte: u8| byte.is_ascii_graphic() && byte != b'"';
    if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.bytes().all(plain) {
        return Err(form());
    }
    let (digits, allowed) = match rest.split_once(':') {
        Some((digits, allowed)) => (digits, Some(allowed)),
        None => (rest, None),
    };
    let hash = hash(digits).ok_or_else(form)?;
    if hash == OF_NOTHING {
        return Err(
            "this is the hash of an empty key, as a pipe without input makes it".to_owned(),
        );
    }
    let mut caller = Caller {
        name: name.to_owned(),
        scopes: Vec::new(),
        namespaces: Vec::new(),
        at_console: false,
    };
    for word in allowed.into_iter().flat_map(|words| words.split(',')) {
        match Scope::of(word) {
            Some(scope) => caller.scopes.push(scope),
            None if word.starts_with('/') => caller.namespaces.push(word.to_owned()),
            None => {
                let known = Scope::ALL.map(|(_, name)| name).join(", ");
                return Err(format!(
                    "a key cannot allow {word:?}: known are {known}, and namespaces, which begin with a slash"
                ));
            }
        }
    }
    Ok(ApiKey { caller, hash })
}

fn hash(digits: &str) -> Option<[u8; HASH_BYTES]> {
    if digits.len() != HASH_BYTES * 2 || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let mut hash = [0; HASH_BYTES];
    for (byte, pair) in hash.iter_mut().zip(digits.as_bytes().chunks_exact(2)) {
        let pair = std::str::from_utf8(pair).ok()?;
        *byte = u8::from_str_radix(pair, 16).ok()?;
    }
    Some(hash)
}

impl Shown {
    pub fn of(key: &str) -> Self {
        let hash = digest::digest(&digest::SHA256, key.as_bytes());
        Self(hash.as_ref().try_into().unwrap_or(OF_NOTHING))
    }

    fn in_headers(headers: &HeaderMap) -> Option<Self> {
        let bearer = headers.get(header::AUTHORIZATION).and_then(|value| {
            let (scheme, key) = value.to_str().ok()?.split_once(' ')?;
            scheme.eq_ignore_ascii_case("bearer").then(|| key.trim())
        });
        let key = bearer.or_else(|| headers.get("x-api-key")?.to_str().ok())?;
        Some(Self::of(key))
    }
}

/// A new key, and its entry for the configuration. `allowed`: scopes and namespaces; none = all.
pub fn generate(name: &str, allowed: &[String]) -> Result<(String, String), String> {
    let mut bytes = [0; RANDOM_BYTES];
    rand::fill(&mut bytes).map_err(|_| "the system gives no random bytes")?;
    let key = format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(bytes));
    let hash = digest::digest(&digest::SHA256, key.as_bytes());
    let digits: String = hash
        .as_ref()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    if name.contains(':') || parse(&format!("{name}:{digits}")).is_err() {
        return Err(format!(
            "cannot use the name {name:?}: 1 to {NAME_BYTES_MAX} visible letters without `:` and `\"` are needed"
        ));
    }
    let entry = match allowed {
        [] => format!("{name}:{digits}"),
        allowed => format!("{name}:{digits}:{}", allowed.join(",")),
    };
    parse(&entry).map_err(|fault| format!("cannot make this key: {fault}"))?;
    Ok((key, entry))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::HeaderValue;

    fn with(name: &'static str, value: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(name, HeaderValue::from_str(value).expect("value"));
        headers
    }

    fn name(keys: &ApiKeys, headers: &HeaderMap) -> Option<String> {
        let caller = keys.find(Shown::in_headers(headers)?)?;
        Some(caller.name().to_owned())
    }

    /// A header without a key was right then.
    #[test]
    fn the_hash_of_nothing_was_a_key() {
        let of_nothing = digest::digest(&digest::SHA256, b"");
        let digits: String = of_nothing
            .as_ref()
            .iter()
            .map(|byte| format!("{byte:02X}"))
            .collect();
        let refused = ApiKeys::parse(&[format!("ops:{digits}")]);
        assert!(refused.is_err_and(|why| why.contains("hash of an empty key")));
    }

    #[test]
    fn a_key_is_known_by_its_hash_in_either_header() {
        let (ops, ops_entry) = generate("ops", &[]).expect("key");
        let (ci, ci_entry) = generate("ci", &[]).expect("key");
        let keys = ApiKeys::parse(&[ops_entry, ci_entry.to_uppercase().replace("CI:", "ci:")]);
        let keys = keys.expect("entries");
        assert_eq!(
            name(&keys, &with("authorization", &format!("Bearer {ops}"))),
            Some("ops".to_owned())
        );
        assert_eq!(
            name(&keys, &with("authorization", &format!("bearer {ci}"))),
            Some("ci".to_owned())
        );
        assert_eq!(name(&keys, &with("x-api-key", &ci)), Some("ci".to_owned()));
        for wrong in ["", "x", &ops[1..], &format!("{ops}x")] {
            assert_eq!(name(&keys, &with("x-api-key", wrong)), None, "{wrong}");
        }
        assert_eq!(
            name(&keys, &with("authorization", &format!("Basic {ops}"))),
            None
        );
        assert_eq!(name(&keys, &HeaderMap::new()), None);
    }

    /// FIPS 180-4's own example.
    #[test]
    fn the_hash_is_that_of_the_standard() {
        let entry = "x:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad".to_owned();
        let keys = ApiKeys::parse(&[entry]).expect("entry");
        assert_eq!(name(&keys, &with("x-api-key", "abc")), Some("x".to_owned()));
    }

    #[test]
    fn entries_in_another_form_are_refused_and_not_repeated() {
        let hash = "a".repeat(64);
        for wrong in [
            "hunter2".to_owned(),
            "ops:hunter2".to_owned(),
            format!(":{hash}"),
            format!("ops:{hash}0"),
            format!("ops:{hash}:"),
            format!("ops:{hash}:emit,all"),
            format!("ops:{}g", &hash[1..]),
            format!("o ps:{hash}"),
        ] {
            let error = ApiKeys::parse(std::slice::from_ref(&wrong)).expect_err(&wrong);
            assert!(
                !error.contains("hunter2") && error.contains("entry 1"),
                "{error}"
            );
        }
        let twice = [format!("ops:{hash}"), format!("ops:{}", "b".repeat(64))];
        assert!(
            ApiKeys::parse(&twice)
                .expect_err("twice")
                .contains("\"ops\" twice")
        );
        assert!(generate("a:b", &[]).is_err() && generate("", &[]).is_err());
    }

    #[test]
    fn a_key_allows_what_its_entry_says_and_all_without_a_word() {
        let words = ["emit", "/chat"].map(str::to_owned);
        let (key, entry) = generate("ci", &words).expect("key");
        assert!(entry.ends_with(":emit,/chat"), "{entry}");
        let (all, all_entry) = generate("ops", &[]).expect("key");
        let keys = ApiKeys::parse(&[entry, all_entry]).expect("entries");
        let find = |key: &str| {
            Keyring::new(keys.clone())
                .find(&with("x-api-key", key))
                .expect("a key")
        };
        let (ci, ops) = (find(&key), find(&all));
        for (scope, name) in Scope::ALL {
            assert_eq!((ci.may(scope), ops.may(scope)), (name == "emit", true));
        }
        for (namespace, known) in [("/chat", true), ("/", false), ("/chat/x", false)] {
            assert_eq!((ci.may_in(namespace), ops.may_in(namespace)), (known, true));
        }
        assert!(!ci.may_everywhere(Scope::Emit) && ops.may_everywhere(Scope::Emit));
        assert!(generate("ci", &["al l".to_owned()]).is_err());
    }
}
