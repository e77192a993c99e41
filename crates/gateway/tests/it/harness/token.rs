//! Tokens of users, as `sockeye token` makes them.

use std::process::Command;

pub const SECRET: &str = "a-secret-of-more-than-thirty-two-bytes";

/// A token of this user.
pub fn token(user: &str) -> String {
    token_with(&["--uid", user])
}

/// A token made with these words.
pub fn token_with(words: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sockeye"));
    command.args(["token", "--secret", SECRET]).args(words);
    let output = command.output().expect("sockeye token runs");
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).expect("text");
    text.trim().to_owned()
}
