//! Names and numbers in what clients hear.

/// All numbers in a text.
pub(crate) fn digits(text: &str) -> Vec<u64> {
    text.split(|c: char| !c.is_ascii_digit())
        .filter_map(|digits| digits.parse().ok())
        .collect()
}

/// The user of a client.
pub(crate) fn user(client: usize) -> String {
    format!("user-{client}")
}
