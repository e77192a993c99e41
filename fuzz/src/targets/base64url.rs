//! Ids: twenty characters of the alphabet and nothing else, one value per text.
use wire::base64url::Id20;

pub fn run(text: &[u8]) {
    let is_alphabet = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_".contains(byte);
    let id = Id20::decode(text);
    assert_eq!(
        id.is_some(),
        text.len() == 20 && text.iter().all(is_alphabet)
    );
    if let Some(id) = id {
        assert_eq!(id.encode(), text);
    }
}
