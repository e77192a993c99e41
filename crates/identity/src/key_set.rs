//! The keys of one source, and which of them a token may be checked with.

use super::key::Key;
use super::rejection::Rejection;
use super::token::Token;
use jsonwebtoken::Algorithm;
use serde_json::Value;

/// Keys of one set; a server that publishes more is broken.
const KEYS_MAX: usize = 100;
/// Signatures checked for a token that does not name its key.
const TRIED_MAX: usize = 4;

#[derive(Clone, Debug, Default)]
pub(crate) struct KeySet {
    pub(crate) keys: Vec<Key>,
    /// Members that could not be used, and why.
    pub(crate) skipped: Vec<String>,
}

impl KeySet {
    /// Reads a JWK set (RFC 7517 §5: members that are not understood are left out).
    pub(crate) fn from_jwks(
        text: &[u8],
        allowed: &[Algorithm],
        secrets: bool,
    ) -> Result<Self, String> {
        let json: Value = serde_json::from_slice(text).map_err(|error| {
            format!("it is not JSON: {error}; a JWK set such as {{\"keys\":[…]}} is needed")
        })?;
        let members = json.get("keys").and_then(Value::as_array);
        let members = members.ok_or("it has no list \"keys\": a JWK set is needed")?;
        if members.len() > KEYS_MAX {
            return Err(format!(
                "it holds {} keys, at most {KEYS_MAX} are read",
                members.len()
            ));
        }
        let mut set = KeySet::default();
        for (index, jwk) in members.iter().enumerate() {
            match Key::from_jwk(jwk, allowed, secrets) {
                Ok(key) => set.keys.push(key),
                Err(why) => {
                    let kid = jwk.get("kid").and_then(Value::as_str);
                    let name = kid.map_or_else(|| format!("#{index}"), |kid| format!("{kid:?}"));
                    set.skipped.push(format!("key {name}: {why}"));
                }
            }
        }
        if set.keys.is_empty() {
            let why = set.skipped.join("; ");
            let why = if why.is_empty() { "it is empty" } else { &why };
            return Err(format!("it holds no key that can be used: {why}"));
        }
        Ok(set)
    }
}

/// Whether one of the keys of all sources signed this token.
pub(crate) fn authenticate(sets: &[&KeySet], token: &Token<'_>) -> Result<(), Rejection> {
    let all = || sets.iter().flat_map(|set| &set.keys);
    let named = |key: &&Key| token.kid.is_some() && key.kid == token.kid;
    let mut candidates: Vec<&Key> = all().filter(named).collect();
    let by_name = !candidates.is_empty();
    if !by_name {
        // A name that no key has may still belong to a key that was configured without one.
        candidates = all()
            .filter(|key| token.kid.is_none() || key.kid.is_none())
            .collect();
    }
    let configured = !candidates.is_empty();
    candidates.retain(|key| key.algorithms.contains(&token.algorithm));
    if candidates.is_empty() && configured {
        return Err(Rejection::Algorithm(format!("{:?}", token.algorithm)));
    }
    if candidates.len() > TRIED_MAX {
        let why = "it names none (kid), and too many would fit".to_owned();
        return Err(Rejection::UnknownKey(why));
    }
    if candidates.iter().any(|key| token.is_signed_by(key)) {
        return Ok(());
    }
    match &token.kid {
        Some(kid) if !by_name && !configured => Err(Rejection::UnknownKey(format!("kid {kid:?}"))),
        None if !configured => Err(Rejection::UnknownKey("there is none yet".to_owned())),
        _ => Err(Rejection::Signature),
    }
}

/// Whether a key of this name is there.
pub(crate) fn knows(sets: &[&KeySet], kid: &str) -> bool {
    let mut keys = sets.iter().flat_map(|set| &set.keys);
    keys.any(|key| key.kid.as_deref() == Some(kid))
}
