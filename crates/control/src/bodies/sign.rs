//! Addresses of stored bodies. Whoever has one may read that body until its time is up; nobody can make one, or change it.

use super::key::{Key, unix_seconds};
use aws_lc_rs::{hmac, rand};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use identity::Secret;
use std::borrow::Cow;
use std::fmt;
use std::time::Duration;
use wire::http::query_pairs;

/// The beginning of all paths of bodies.
pub(crate) const ROOT: &str = "/large/";
/// The path of uploads.
pub(crate) const UPLOAD: &str = "/upload";

/// Paths that this part answers.
pub fn is_reserved(path: &str) -> bool {
    path == UPLOAD || path.starts_with(ROOT)
}

/// Makes addresses, and checks them.
pub(crate) struct Signer {
    key: hmac::Key,
    lifetime: Duration,
    /// Before the path.
    origin: String,
}

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signer").finish_non_exhaustive()
    }
}

/// Why an address is not good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bad {
    /// It is not one of ours, or was changed.
    Forged,
    /// Its time is up.
    Expired,
}

/// A good address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Good {
    /// The media type, as its uploader says.
    pub(crate) media_type: Option<String>,
    /// Until its time is up.
    pub(crate) seconds_left: u64,
}

impl Signer {
    /// Without a secret: one that no other process knows. `None`: the system has no randomness.
    pub(crate) fn new(secret: Option<&Secret>, lifetime: Duration, origin: &str) -> Option<Self> {
        let mut own = [0; 32];
        rand::fill(&mut own).ok()?;
        let secret = secret.map_or(&own[..], |secret| secret.reveal().as_bytes());
        Some(Self {
            key: hmac::Key::new(hmac::HMAC_SHA256, secret),
            lifetime,
            origin: origin.trim_end_matches('/').to_owned(),
        })
    }

    /// `media_type`: what an upload is said to be.
    pub(crate) fn url(&self, key: &Key, media_type: Option<&str>) -> String {
        let expires = (unix_seconds() + self.lifetime.as_secs()).to_string();
        let media_type = media_type.unwrap_or_default();
        let tag = hmac::sign(&self.key, &signed(key, &expires, media_type));
        let tag = URL_SAFE_NO_PAD.encode(tag);
        let mut url = format!(
            "{}{ROOT}{key}?expires={expires}&signature={tag}",
            self.origin
        );
        if !media_type.is_empty() {
            url.push_str("&type=");
            // Of the characters of a media type, only `+` means something else there.
            url.push_str(&media_type.replace('+', "%2B"));
        }
        url
    }

    pub(crate) fn check(&self, key: &Key, query: &str) -> Result<Good, Bad> {
        let (mut expires, mut tag, mut media_type) = (None, None, Cow::default());
        for (name, value) in query_pairs(query) {
            match &*name {
                "expires" => expires = Some(value),
                "signature" => tag = Some(value),
                "type" => media_type = value,
                _ => {}
            }
        }
        let (expires, tag) = expires.zip(tag).ok_or(Bad::Forged)?;
        let tag = URL_SAFE_NO_PAD.decode(tag.as_bytes());
        let tag = tag.map_err(|_| Bad::Forged)?;
        let signed = signed(key, &expires, &media_type);
        hmac::verify(&self.key, &signed, &tag).map_err(|_| Bad::Forged)?;
        let expires: u64 = expires.parse().map_err(|_| Bad::Forged)?;
        let seconds_left = expires.saturating_sub(unix_seconds());
        if seconds_left == 0 {
            return Err(Bad::Expired);
        }
        let media_type = (!media_type.is_empty()).then(|| media_type.into_owned());
        Ok(Good {
            media_type,
            seconds_left,
        })
    }
}

/// The key names the namespace.
fn signed(key: &Key, expires: &str, media_type: &str) -> Vec<u8> {
    format!("sockeye large 1\n{key}\n{expires}\n{media_type}").into_bytes()
}

#[cfg(test)]
mod tests {
    use super::super::key::Form;
    use super::*;

    fn signer(secret: &str, lifetime: u64) -> Signer {
        let lifetime = Duration::from_secs(lifetime);
        Signer::new(Some(&Secret::new(secret)), lifetime, "").expect("randomness")
    }

    fn query(url: &str) -> &str {
        url.split_once('?').expect("a query").1
    }

    #[test]
    fn an_address_is_good_for_its_body_its_type_and_its_time() {
        let signer = signer("a", 60);
        let key = Key::make("/a", Form::Upload).expect("randomness");
        let url = signer.url(&key, Some("image/svg+xml"));
        let good = signer.check(&key, query(&url)).expect("good");
        assert_eq!(good.media_type.as_deref(), Some("image/svg+xml"));
        assert!((50..=60).contains(&good.seconds_left));
        let expired = self::signer("a", 0);
        let old = expired.url(&key, None);
        assert_eq!(expired.check(&key, query(&old)), Err(Bad::Expired));
    }

    #[test]
    fn a_changed_address_is_good_for_nothing() {
        let signer = signer("a", 60);
        let key = Key::make("/a", Form::Upload).expect("randomness");
        let url = signer.url(&key, Some("text/plain"));
        let query = query(&url);
        let other = Key::make("/a", Form::Upload).expect("randomness");
        let foreign = Key::make("/b", Form::Upload).expect("randomness");
        for key in [&other, &foreign] {
            assert_eq!(signer.check(key, query), Err(Bad::Forged));
        }
        assert_eq!(self::signer("b", 60).check(&key, query), Err(Bad::Forged));
        for query in [
            String::new(),
            query.replace("text/plain", "text/html"),
            query.replace("expires=", "expires=9"),
            query.replace("signature=", "signature=A"),
            query.replace("signature=", "signed="),
            format!("{query}&type=text/html"),
            format!("{query}&expires=99999999999"),
        ] {
            assert_eq!(signer.check(&key, &query), Err(Bad::Forged), "{query}");
        }
    }
}
