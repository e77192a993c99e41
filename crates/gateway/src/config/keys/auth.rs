//! The keys of `[auth]`.

use super::{EMPTY_LIST, Profile};
use crate::config::typed::{choice, section};
use hub::config::AuthStyle;
use identity::Secret;
use std::time::Duration;

choice! {
    AuthStyle { "chat" => AuthStyle::Chat, "strict" => AuthStyle::Strict }
}

section! {
    /// What is asked of clients.
    Demands = "auth." {
        required: bool = "false",
            "Clients without a valid token are refused. Otherwise a token is checked when there is one.";
        style: AuthStyle = "strict"
            => on(Profile::Chat, "chat"),
            "How Socket.IO clients are refused: `chat` connects them, emits `error` with the reason and \
             disconnects, `strict` answers with CONNECT_ERROR.";
        query_parameter: String = "token",
            "Parameter of the URL that may hold the token, for clients that can send it in no other \
             way (it may end up in logs of proxies); `\"\"` for none.";
        timeout: Duration = "5s",
            "A check that takes longer refuses the client.";
        warn_before: Duration = "60s",
            "How long before its token expires a client is told, so that it can send a new one.";
    }
}

section! {
    /// Where keys come from.
    Sources = "auth." {
        secret: Option<Secret> = "",
            "Shared secret for HS256, 32 bytes or more. Better placed in a file or in the environment \
             (`SOCKEYE__AUTH__SECRET`).";
        secret_file: Option<String> = "",
            "The same from a file; line ends at its end do not count.";
        public_key_file: Option<String> = "",
            "Public keys in PEM (RSA, P-256, P-384, Ed25519), one or several.";
        jwks_file: Option<String> = "",
            "JWK set. This and the other key files are read again when they change and on SIGHUP.";
        jwks_url: Option<String> = "",
            "JWK set of an identity provider; https, or http to this machine.";
        jwks_refresh: Duration = "10m",
            "How often the set is fetched, `1s` or more. Also at once when a token names a key that is not in it: \
             three times in a row, then once in 10 s.";
    }
}

section! {
    /// What a token has to fulfil.
    Checks = "auth." {
        algorithms: Vec<String> = "HS256,RS256,ES256,EdDSA",
            "Algorithms that keys may be used with; also known: HS384, HS512, RS384, RS512, PS256, PS384, \
             PS512, ES384.";
        issuer: Vec<String> = EMPTY_LIST,
            "Accepted values of `iss`; empty = any.";
        audience: Vec<String> = EMPTY_LIST,
            "`aud` must hold one of these; empty = any.";
        leeway: Duration = "10s",
            "Difference allowed between the clocks, for `exp`, `nbf` and `iat`.";
        require_expiry: bool = "true",
            "Tokens without `exp`, which are good for ever, are refused.";
    }
}

section! {
    /// What a token says.
    Claims = "auth." {
        uid_claim: String = "sub",
            "Claim with the name of the user (string or whole number). Here and below a JSON pointer \
             such as `/user/id` reaches into objects.";
        rooms_claim: String = "rooms",
            "Claim with rooms that the client is put into.";
        permissions_claim: String = "permissions",
            "Claim with permissions: `join:ROOM` and `publish:ROOM`, in a list or in one string with blanks; \
             `*` as the whole room means every room, other words grant nothing. Without the claim \
             the rules of the namespace decide.";
    }
}
