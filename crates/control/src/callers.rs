//! Callers for tests.

use identity::keys::{ApiKeys, Caller, Keyring, Shown, generate};

/// The key of a name, which allows everything.
pub(crate) fn caller(name: &str) -> Caller {
    limited(name, &[])
}

/// One that allows only this.
pub(crate) fn limited(name: &str, allowed: &[&str]) -> Caller {
    let allowed: Vec<String> = allowed.iter().map(|word| (*word).to_owned()).collect();
    let (key, entry) = generate(name, &allowed).expect("a key");
    let keys = Keyring::new(ApiKeys::parse(&[entry]).expect("an entry"));
    keys.of(Shown::of(&key)).expect("a caller")
}
