//! `sockeye token`: what it makes, `sockeye token check` accepts, and what others made it judges in words.

use serde_json::Value;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

const SECRET: &str = "0123456789abcdef0123456789abcdef";

fn sockeye(folder: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sockeye"));
    command.args(args).current_dir(folder);
    command.output().expect("run sockeye")
}

/// Standard output of a run that goes well.
fn output(folder: &Path, args: &[&str]) -> String {
    let run = sockeye(folder, args);
    assert!(run.status.success(), "{args:?}: {run:?}");
    String::from_utf8(run.stdout)
        .expect("UTF-8")
        .trim()
        .to_owned()
}

fn folder(config: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("folder");
    fs::write(folder.path().join("sockeye.toml"), config).expect("write");
    folder
}

/// Exit status and what a check says.
fn check(folder: &Path, token: &str) -> (Option<i32>, String) {
    let run = sockeye(folder, &["token", "check", token]);
    (
        run.status.code(),
        String::from_utf8(run.stdout).expect("UTF-8"),
    )
}

#[test]
fn a_token_of_the_configured_secret_is_accepted_with_all_it_grants() {
    let config = format!(
        "[auth]\nsecret = \"{SECRET}\"\nissuer = [\"me\"]\naudience = [\"chat\"]\nuid_claim = \"/user/id\"\n"
    );
    let folder = folder(&config);
    let args = [
        "token",
        "--uid",
        "ada",
        "--rooms",
        "a,b",
        "--permission",
        "join:x",
        "--permission",
        "publish:*",
    ];
    let token = output(folder.path(), &args);
    let (code, said) = check(folder.path(), &token);
    assert_eq!(code, Some(0), "{said}");
    for line in [
        "accepted     user \"ada\"",
        "rooms        a, b",
        "may join     x",
        "may publish  every room",
    ] {
        assert!(said.lines().any(|got| got == line), "{line} in {said}");
    }
    assert!(said.contains("\nexpires      in 3"), "{said}");
    let json = output(
        folder.path(),
        &[
            &args[..],
            &["--json", "--claim", "level=7", "--expires", "never"],
        ]
        .concat(),
    );
    let json: Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(json["claims"]["user"]["id"], "ada");
    assert_eq!(json["claims"]["level"], 7);
    assert_eq!(
        (&json["claims"]["exp"], &json["alg"]),
        (&Value::Null, &"HS256".into())
    );
    let (code, said) = check(folder.path(), json["token"].as_str().expect("token"));
    assert_eq!(code, Some(1));
    assert!(
        said.starts_with("refused      claim \"exp\" is missing"),
        "{said}"
    );
}

#[test]
fn a_refused_token_is_told_why() {
    let folder = folder(&format!(
        "[auth]\nsecret = \"{SECRET}\"\naudience = [\"chat\"]\n"
    ));
    let foreign = "x".repeat(32);
    let make = |args: &[&str]| output(folder.path(), &[&["token", "--uid", "ada"], args].concat());
    for (token, words) in [
        (make(&["--secret", &foreign]), "its signature is wrong"),
        (make(&["--claim", "exp=1000000000"]), "it expired "),
        (
            make(&["--claim", "aud=mail"]),
            "its audience (aud) holds none",
        ),
        (make(&["--claim", "nbf=9000000000"]), "it is not valid yet"),
        (make(&["--claim", "rooms=7"]), "claim \"rooms\" is no list"),
        ("x".to_owned(), "it is not a signed JWT"),
    ] {
        let (code, said) = check(folder.path(), &token);
        assert_eq!(code, Some(1), "{said}");
        assert!(said.contains(words), "{words} in {said}");
        assert!(said.contains("clients see  "), "{said}");
    }
}

#[test]
fn keys_of_every_kind_are_made_and_used() {
    for alg in ["RS256", "ES256", "ES384", "EdDSA"] {
        let config = "[auth]\njwks_file = \"k1.jwks.json\"\nalgorithms = [\"RS256\", \"ES256\", \"ES384\", \"EdDSA\"]\n";
        let folder = tempfile::tempdir().expect("folder");
        output(
            folder.path(),
            &["token", "key", "--alg", alg, "--kid", "k1"],
        );
        fs::write(folder.path().join("sockeye.toml"), config).expect("write");
        let token = output(
            folder.path(),
            &["token", "--uid", "ada", "--key", "k1.pem", "--kid", "k1"],
        );
        let (code, said) = check(folder.path(), &token);
        assert_eq!(code, Some(0), "{alg}: {said}");
        let set = fs::read_to_string(folder.path().join("k1.jwks.json")).expect("key set");
        let set: Value = serde_json::from_str(&set).expect("JSON");
        assert_eq!(set["keys"][0]["alg"], alg);
        assert_eq!(
            set["keys"][0]["d"],
            Value::Null,
            "the private part was published"
        );
        use std::os::unix::fs::PermissionsExt;
        let mode = fs::metadata(folder.path().join("k1.pem"))
            .expect("key")
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
        let again = sockeye(
            folder.path(),
            &["token", "key", "--alg", alg, "--kid", "k1"],
        );
        assert_eq!(again.status.code(), Some(2), "a key was overwritten");
    }
}

#[test]
fn a_token_may_come_from_stdin_and_what_is_missing_is_named() {
    let folder = folder("");
    let missing = sockeye(folder.path(), &["token", "--uid", "ada"]);
    let said = String::from_utf8_lossy(&missing.stderr).into_owned();
    assert_eq!(missing.status.code(), Some(2));
    assert!(said.contains("--secret-file or --key"), "{said}");
    let short = sockeye(
        folder.path(),
        &["token", "--uid", "ada", "--secret", "short"],
    );
    let said = String::from_utf8_lossy(&short.stderr).into_owned();
    assert!(
        short.status.code() == Some(2) && said.contains("32 bytes or more"),
        "{said}"
    );
    let unconfigured = sockeye(folder.path(), &["token", "check", "x"]);
    assert_eq!(unconfigured.status.code(), Some(2));

    fs::write(folder.path().join("secret"), format!("{SECRET}\n")).expect("write");
    fs::write(
        folder.path().join("sockeye.toml"),
        "[auth]\nsecret_file = \"secret\"\n",
    )
    .expect("write");
    let token = output(folder.path(), &["token", "--uid", "ada"]);
    let mut child = Command::new(env!("CARGO_BIN_EXE_sockeye"))
        .args(["token", "check", "-"])
        .current_dir(folder.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("run sockeye");
    let mut stdin = child.stdin.take().expect("stdin");
    writeln!(stdin, "{token}").expect("write");
    drop(stdin);
    let run = child.wait_with_output().expect("end");
    assert!(run.status.success(), "{run:?}");
}

#[test]
fn a_secret_is_shown_by_no_command() {
    let folder = folder(&format!("[auth]\nsecret = \"{SECRET}\"\nleeway = \"6m\"\n"));
    for args in [
        &["config", "show"][..],
        &["config", "show", "--json"],
        &["config", "check"],
    ] {
        let run = sockeye(folder.path(), args);
        let all = [run.stdout, run.stderr].concat();
        let all = String::from_utf8_lossy(&all).into_owned();
        assert!(!all.contains(SECRET), "{args:?}: {all}");
    }
}
