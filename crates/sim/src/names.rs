//! Names and numbers in what clients hear.

/// All numbers in a text.
pub(crate) fn digits(text: &str) -> Vec<u64> {
    text.split(|c: char| !c.is_ascii_digit())
        .filter_map(|digits| digits.parse().ok())
        .collect()
}

/// The id of a session, as its client knows it.
pub(crate) fn sid(bytes: &[u8]) -> String {
    let bytes = bytes.try_into().expect("15 bytes");
    wire::base64url::Id20(bytes).to_string()
}

/// The user of a client.
pub(crate) fn user(client: u64) -> String {
    format!("user-{client}")
}
