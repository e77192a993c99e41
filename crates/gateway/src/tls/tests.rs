//! Tests of `load`: files in, certificates or problems out.

use super::*;
use std::fs;
use tempfile::TempDir;

struct Made {
    folder: TempDir,
}

impl Made {
    fn new() -> Self {
        Made {
            folder: tempfile::tempdir().expect("folder"),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a certificate for `name` until this year as `NAME.pem` and its key as `NAME.key`.
    fn pair(&self, name: &str, year: i32) -> Pair {
        let mut params = rcgen::CertificateParams::new([name.to_owned()]).expect("names");
        params.not_after = rcgen::date_time_ymd(year, 1, 1);
        let key = rcgen::KeyPair::generate().expect("key");
        let cert = params.self_signed(&key).expect("certificate");
        let pair = Pair {
            cert: self.path(&format!("{name}.pem")),
            key: self.path(&format!("{name}.key")),
        };
        fs::write(&pair.cert, cert.pem()).expect("write");
        fs::write(&pair.key, key.serialize_pem()).expect("write");
        pair
    }
}

fn files(pairs: Vec<Pair>) -> Files {
    Files {
        door: Door::Clients,
        pairs,
        only_tls13: false,
        refuse_unknown: false,
        peers: None,
        check_interval: None,
    }
}

fn problem_of(pair: Pair) -> (&'static str, String) {
    let mut problems = load(&files(vec![pair])).expect_err("a problem");
    assert_eq!(problems.len(), 1, "{problems:?}");
    let problem = problems.remove(0);
    (problem.key, problem.message)
}

#[test]
fn good_files_say_for_whom_and_until_when() {
    let made = Made::new();
    let loaded = load(&files(vec![
        made.pair("a.example", 2900),
        made.pair("b.example", 2020),
    ]));
    let loaded = loaded.expect("good files");
    assert_eq!(loaded.facts[0].names, ["a.example"]);
    assert!(loaded.facts[0].days_left > Some(300_000));
    assert!(loaded.facts[1].days_left < Some(-365));
    assert_eq!(loaded.config.alpn_protocols, [b"http/1.1"]);
    assert_eq!(loaded.config.max_early_data_size, 0);
}

#[test]
fn each_bad_file_is_named_with_what_is_wrong() {
    let made = Made::new();
    let (a, b) = (made.pair("a", 2900), made.pair("b", 2900));
    let missing = Pair {
        cert: made.path("none.pem"),
        ..a.clone()
    };
    let (key, message) = problem_of(missing);
    assert_eq!(key, "tls.cert");
    assert!(
        message.contains("none.pem") && message.contains("No such file"),
        "{message}"
    );
    let crossed = Pair {
        key: b.key.clone(),
        ..a.clone()
    };
    let (key, message) = problem_of(crossed);
    assert_eq!(key, "tls.key");
    assert!(
        message.contains("it is not the key of the first certificate in"),
        "{message}"
    );
    fs::write(&b.key, "nothing").expect("write");
    let (key, message) = problem_of(b.clone());
    assert_eq!(key, "tls.key");
    assert!(
        message.contains("there is no private key in it"),
        "{message}"
    );
    let empty = Pair {
        cert: made.path("empty.pem"),
        ..a.clone()
    };
    fs::write(&empty.cert, "").expect("write");
    let (key, message) = problem_of(empty);
    assert_eq!(key, "tls.cert");
    assert!(
        message.contains("there is no certificate in it"),
        "{message}"
    );
    let garbage = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    fs::write(&a.cert, garbage).expect("write");
    let (key, message) = problem_of(a);
    assert_eq!(key, "tls.cert", "{message}");
}

#[test]
fn all_bad_files_are_named_at_once() {
    let made = Made::new();
    let pair = |name: &str| Pair {
        cert: made.path(&format!("{name}.pem")),
        key: made.path(&format!("{name}.key")),
    };
    let pairs = vec![pair("one"), made.pair("good", 2900), pair("two")];
    let problems = load(&files(pairs)).expect_err("problems");
    let named: Vec<(&str, bool)> = problems
        .iter()
        .zip(["one.pem", "one.key", "two.pem", "two.key"])
        .map(|(problem, file)| (problem.key, problem.message.contains(file)))
        .collect();
    let (cert, key) = (("tls.cert", true), ("tls.key", true));
    assert_eq!(named, [cert, key, cert, key], "{problems:?}");
}

#[test]
fn the_same_certificates_are_the_same() {
    let made = Made::new();
    let pair = made.pair("a", 2900);
    let load = || load(&files(vec![pair.clone()])).expect("good files");
    let (first, second) = (load(), load());
    assert!(first.are_those_of(&second));
    made.pair("a", 2901);
    assert!(!first.are_those_of(&load()));
}
