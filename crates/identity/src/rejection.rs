//! Why a token was turned down, in the detail that operators need. Clients learn [`Denied`] only.

use hub::claims::{Denied, Refused};
use std::fmt;

/// A token may name a key in kilobytes.
const WHY_CHARS_MAX: usize = 200;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rejection {
    /// Longer than any token has to be.
    TooLong,
    /// Not a signed JWT in compact form.
    Malformed(&'static str),
    /// `alg` is none that the key is for.
    Algorithm(String),
    /// No key of that name, or too many that might be meant.
    UnknownKey(String),
    Signature,
    Expired {
        by_s: u64,
    },
    NotYetValid,
    Issuer,
    Audience,
    /// A claim is absent, of the wrong type or out of bounds.
    Claim {
        name: String,
        why: &'static str,
    },
    /// The key set could not be fetched.
    Unavailable,
}

impl Rejection {
    /// Label values of the metric, in the order of `index`; the first is for tokens that were accepted.
    pub(crate) const NAMES: [&'static str; 12] = [
        "accepted",
        "too_long",
        "malformed",
        "algorithm",
        "unknown_key",
        "signature",
        "expired",
        "not_yet_valid",
        "issuer",
        "audience",
        "claim",
        "unavailable",
    ];

    pub(crate) fn index(&self) -> usize {
        match self {
            Self::TooLong => 1,
            Self::Malformed(_) => 2,
            Self::Algorithm(_) => 3,
            Self::UnknownKey(_) => 4,
            Self::Signature => 5,
            Self::Expired { .. } => 6,
            Self::NotYetValid => 7,
            Self::Issuer => 8,
            Self::Audience => 9,
            Self::Claim { .. } => 10,
            Self::Unavailable => 11,
        }
    }

    /// What the client may know: the same for all that is wrong with a token, but that a good one ran out, which it can
    /// mend by itself. The log and `sockeye_auth_tokens_total` tell operators the rest.
    pub fn denied(&self) -> Denied {
        match self {
            Self::Unavailable => Denied::Unavailable,
            Self::Expired { .. } => Denied::Expired,
            _ => Denied::Invalid,
        }
    }

    /// The same with what operators may know.
    pub(crate) fn refused(&self) -> Refused {
        let why: String = self.to_string().chars().take(WHY_CHARS_MAX).collect();
        Refused {
            denied: self.denied(),
            cause: Self::NAMES[self.index()],
            why: Some(why.into()),
        }
    }

    pub(crate) fn claim(name: &str, why: &'static str) -> Self {
        Self::Claim {
            name: name.to_owned(),
            why,
        }
    }
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong => write!(f, "it is longer than {} bytes", super::TOKEN_BYTES_MAX),
            Self::Malformed(why) => write!(f, "it is not a signed JWT: {why}"),
            Self::Algorithm(alg) => {
                write!(f, "its algorithm {alg:?} is none that the key is used with")
            }
            Self::UnknownKey(why) => write!(f, "no key to check it with: {why}"),
            Self::Signature => write!(f, "its signature is wrong"),
            Self::Expired { by_s } => write!(f, "it expired {by_s} s ago"),
            Self::NotYetValid => write!(f, "it is not valid yet (nbf or iat in the future)"),
            Self::Issuer => write!(f, "its issuer (iss) is none of auth.issuer"),
            Self::Audience => write!(f, "its audience (aud) holds none of auth.audience"),
            Self::Claim { name, why } => write!(f, "claim {name:?} {why}"),
            Self::Unavailable => write!(f, "the key set could not be fetched"),
        }
    }
}

impl std::error::Error for Rejection {}
