//! The keys of `[auth]`.

use super::{EMPTY_LIST, Key, Profile};
use crate::config::value::Kind;

pub fn keys() -> Vec<Key> {
    let groups = [demands(), sources(), checks(), claims()];
    groups.into_iter().flatten().collect()
}

/// What is asked of clients.
fn demands() -> Vec<Key> {
    vec![
        Key::new(
            "auth.required",
            Kind::Bool,
            "false",
            "Clients without a valid token are refused. Otherwise a token is checked when there is one.",
        ),
        Key::new(
            "auth.style",
            Kind::Choice(&["chat", "strict"]),
            "strict",
            "How Socket.IO clients are refused: `chat` connects them, emits `error` with the reason and \
             disconnects, `strict` answers with CONNECT_ERROR.",
        )
        .on(Profile::Chat, "chat"),
        Key::new(
            "auth.query_parameter",
            Kind::Text,
            "token",
            "Parameter of the URL that may hold the token, for clients that can send it in no other \
             way (it may end up in logs of proxies); `\"\"` for none.",
        ),
        Key::new(
            "auth.timeout",
            Kind::Duration,
            "5s",
            "A check that takes longer refuses the client.",
        ),
        Key::new(
            "auth.warn_before",
            Kind::Duration,
            "60s",
            "How long before its token expires a client is told, so that it can send a new one.",
        ),
    ]
}

/// Where keys come from.
fn sources() -> Vec<Key> {
    vec![
        Key::new(
            "auth.secret",
            Kind::Secret,
            "",
            "Shared secret for HS256, 32 bytes or more. Better placed in a file or in the environment \
             (`SOCKEYE__AUTH__SECRET`).",
        ),
        Key::new(
            "auth.secret_file",
            Kind::Text,
            "",
            "The same from a file; line ends at its end do not count.",
        ),
        Key::new(
            "auth.public_key_file",
            Kind::Text,
            "",
            "Public keys in PEM (RSA, P-256, P-384, Ed25519), one or several.",
        ),
        Key::new(
            "auth.jwks_file",
            Kind::Text,
            "",
            "JWK set. This and the other key files are read again when they change and on SIGHUP.",
        ),
        Key::new(
            "auth.jwks_url",
            Kind::Text,
            "",
            "JWK set of an identity provider; https, or http to this machine.",
        ),
        Key::new(
            "auth.jwks_refresh",
            Kind::Duration,
            "10m",
            "How often the set is fetched, `1s` or more. Also at once when a token names a key that is not in it: \
             three times in a row, then once in 10 s.",
        ),
    ]
}

/// What a token has to fulfil.
fn checks() -> Vec<Key> {
    vec![
        Key::new(
            "auth.algorithms",
            Kind::List,
            "HS256,RS256,ES256,EdDSA",
            "Algorithms that keys may be used with; also known: HS384, HS512, RS384, RS512, PS256, PS384, \
             PS512, ES384.",
        ),
        Key::new(
            "auth.issuer",
            Kind::List,
            EMPTY_LIST,
            "Accepted values of `iss`; empty = any.",
        ),
        Key::new(
            "auth.audience",
            Kind::List,
            EMPTY_LIST,
            "`aud` must hold one of these; empty = any.",
        ),
        Key::new(
            "auth.leeway",
            Kind::Duration,
            "10s",
            "Difference allowed between the clocks, for `exp`, `nbf` and `iat`.",
        ),
        Key::new(
            "auth.require_expiry",
            Kind::Bool,
            "true",
            "Tokens without `exp`, which are good for ever, are refused.",
        ),
    ]
}

/// What a token says.
fn claims() -> Vec<Key> {
    vec![
        Key::new(
            "auth.uid_claim",
            Kind::Text,
            "sub",
            "Claim with the name of the user (string or whole number). Here and below a JSON pointer \
             such as `/user/id` reaches into objects.",
        ),
        Key::new(
            "auth.rooms_claim",
            Kind::Text,
            "rooms",
            "Claim with rooms that the client is put into.",
        ),
        Key::new(
            "auth.permissions_claim",
            Kind::Text,
            "permissions",
            "Claim with permissions: `join:ROOM` and `publish:ROOM`, in a list or in one string with blanks; \
             `*` as the whole room means every room, other words grant nothing. Without the claim \
             the rules of the namespace decide.",
        ),
    ]
}
