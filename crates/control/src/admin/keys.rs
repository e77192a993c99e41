//! API keys of operators. The configuration holds their SHA-256 only: who reads it learns no key, and since keys are
//! random and long, a slow hash would protect nothing more.

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::{digest, rand};
use axum::http::{HeaderMap, header};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// What a key begins with, so that scanners for lost secrets know it.
const PREFIX: &str = "sockeye_";
const RANDOM_BYTES: usize = 32;
const HASH_BYTES: usize = 32;
const NAME_BYTES_MAX: usize = 64;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ApiKeys(Vec<ApiKey>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct ApiKey {
    name: String,
    hash: [u8; HASH_BYTES],
}

impl ApiKeys {
    /// Reads `NAME:SHA256` for each key.
    pub fn parse(entries: &[String]) -> Result<Self, String> {
        let mut keys: Vec<ApiKey> = Vec::new();
        for (index, entry) in entries.iter().enumerate() {
            // An entry in the wrong form may be a key itself: it is not repeated.
            let key = parse(entry).ok_or_else(|| {
                format!(
                    "cannot use entry {}: NAME:SHA256 is needed, with the hash in 64 hexadecimal digits; \
                     `sockeye api-key NAME` makes a key and its entry",
                    index + 1
                )
            })?;
            if keys.iter().any(|other| other.name == key.name) {
                return Err(format!("cannot use the name {:?} twice", key.name));
            }
            keys.push(key);
        }
        Ok(Self(keys))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Name of the key that a request shows: `Authorization: Bearer` or `X-API-Key`.
    pub fn identify(&self, headers: &HeaderMap) -> Option<&str> {
        let shown = shown(headers)?;
        let hash = digest::digest(&digest::SHA256, shown.as_bytes());
        // All are compared, so that the time tells nothing of which one came close.
        let mut found = None;
        for key in &self.0 {
            if verify_slices_are_equal(hash.as_ref(), &key.hash).is_ok() {
                found = Some(key.name.as_str());
            }
        }
        found
    }
}

fn parse(entry: &str) -> Option<ApiKey> {
    let (name, digits) = entry.split_once(':')?;
    let plain = |byte: u8| byte.is_ascii_graphic() && byte != b'"';
    if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.bytes().all(plain) {
        return None;
    }
    if digits.len() != HASH_BYTES * 2 || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let mut hash = [0; HASH_BYTES];
    for (byte, pair) in hash.iter_mut().zip(digits.as_bytes().chunks_exact(2)) {
        let pair = std::str::from_utf8(pair).ok()?;
        *byte = u8::from_str_radix(pair, 16).ok()?;
    }
    Some(ApiKey {
        name: name.to_owned(),
        hash,
    })
}

fn shown(headers: &HeaderMap) -> Option<&str> {
    let bearer = headers.get(header::AUTHORIZATION).and_then(|value| {
        let (scheme, key) = value.to_str().ok()?.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then(|| key.trim())
    });
    bearer.or_else(|| headers.get("x-api-key")?.to_str().ok())
}

/// A new key, and its entry for the configuration.
pub fn generate(name: &str) -> Result<(String, String), String> {
    let mut bytes = [0; RANDOM_BYTES];
    rand::fill(&mut bytes).map_err(|_| "the system gives no random bytes")?;
    let key = format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(bytes));
    let hash = digest::digest(&digest::SHA256, key.as_bytes());
    let digits: String = hash
        .as_ref()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let entry = format!("{name}:{digits}");
    match parse(&entry) {
        Some(_) => Ok((key, entry)),
        None => Err(format!(
            "cannot use the name {name:?}: 1 to {NAME_BYTES_MAX} visible letters without `:` and `\"` are needed"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    fn with(name: &'static str, value: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(name, HeaderValue::from_str(value).expect("value"));
        headers
    }

    #[test]
    fn a_key_is_known_by_its_hash_in_either_header() {
        let (ops, ops_entry) = generate("ops").expect("key");
        let (ci, ci_entry) = generate("ci").expect("key");
        let keys = ApiKeys::parse(&[ops_entry, ci_entry.to_uppercase().replace("CI:", "ci:")]);
        let keys = keys.expect("entries");
        assert_eq!(
            keys.identify(&with("authorization", &format!("Bearer {ops}"))),
            Some("ops")
        );
        assert_eq!(
            keys.identify(&with("authorization", &format!("bearer {ci}"))),
            Some("ci")
        );
        assert_eq!(keys.identify(&with("x-api-key", &ci)), Some("ci"));
        for wrong in ["", "x", &ops[1..], &format!("{ops}x")] {
            assert_eq!(keys.identify(&with("x-api-key", wrong)), None, "{wrong}");
        }
        assert_eq!(
            keys.identify(&with("authorization", &format!("Basic {ops}"))),
            None
        );
        assert_eq!(keys.identify(&HeaderMap::new()), None);
    }

    /// FIPS 180-4's own example.
    #[test]
    fn the_hash_is_that_of_the_standard() {
        let entry = "x:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad".to_owned();
        let keys = ApiKeys::parse(&[entry]).expect("entry");
        assert_eq!(keys.identify(&with("x-api-key", "abc")), Some("x"));
    }

    #[test]
    fn entries_in_another_form_are_refused_and_not_repeated() {
        let hash = "a".repeat(64);
        for wrong in [
            "hunter2".to_owned(),
            "ops:hunter2".to_owned(),
            format!(":{hash}"),
            format!("ops:{hash}0"),
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
        assert!(generate("a:b").is_err() && generate("").is_err());
    }
}
