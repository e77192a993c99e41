//! The page of the server API: each of its programs is run as it stands there, and the document is what its standard says.

use super::{KEY, config, members};
use crate::harness::Gateway;
use ::client::full::request;
use serde_json::json;
use std::path::Path;
use std::process::Command;

const BINARY: &str = env!("CARGO_BIN_EXE_sockeye");

const PAGE: &str = include_str!("../../../../../docs/server-api.md");

/// The code below a heading, without its fence.
fn program(heading: &str) -> &'static str {
    let section = PAGE
        .split(&format!("\n### {heading}\n"))
        .nth(1)
        .expect(heading);
    let fenced = section.split("```").nth(1).expect("code");
    fenced.split_once('\n').expect("a language").1
}

/// Runs a program of the page beside two clients, who hear of the news and answer. `build`: what comes before.
fn run(heading: &str, file: &str, build: &[&str], command: &[&str]) {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join(file), program(heading)).expect("write the program");
    let gateway = Gateway::start(&config(""));
    let start = |words: &[&str]| {
        let mut program = Command::new(words[0]);
        program.args(&words[1..]).current_dir(folder.path());
        program.env("SOCKEYE", format!("http://{}", gateway.admin));
        program.env("SOCKEYE_API_KEY", &KEY.0);
        let run = program.output();
        let run = run.unwrap_or_else(|error| panic!("run {words:?}: {error}"));
        // The clients wait for it in vain then: this says why.
        let error = String::from_utf8_lossy(&run.stderr);
        assert!(run.status.success(), "{heading}: {error}");
        String::from_utf8_lossy(&run.stdout).trim().to_owned()
    };
    if !build.is_empty() {
        start(build);
    }
    let mut clients = members(&gateway, "sports", 2);
    let printed = std::thread::scope(|scope| {
        let ran = scope.spawn(|| start(command));
        for client in &mut clients {
            assert_eq!(client.expect("news"), [json!("hello")]);
            let question = client.next_named("ready?").ack.expect("an ack is wanted");
            client.answer(question, &[json!(true)]);
        }
        ran.join().expect("an end")
    });
    assert_eq!(printed, "2", "{heading}");
}

#[test]
#[ignore = "needs curl: cargo xtask test foreign"]
fn the_pages_program_for_curl_works() {
    run("curl", "call.sh", &[], &["sh", "-e", "call.sh"]);
}

#[test]
#[ignore = "needs Python: cargo xtask test foreign"]
fn the_pages_program_in_python_works() {
    run("Python", "call.py", &[], &["python3", "call.py"]);
}

#[test]
#[ignore = "needs Go: cargo xtask test foreign"]
fn the_pages_program_in_go_works() {
    run("Go", "call.go", &["go", "build", "call.go"], &["./call"]);
}

#[test]
#[ignore = "needs PHP: cargo xtask test foreign"]
fn the_pages_program_in_php_works() {
    run("PHP", "call.php", &[], &["php", "call.php"]);
}

#[test]
fn the_pages_commands_work() {
    let gateway = Gateway::start(&config(""));
    let folder = Path::new(BINARY).parent().expect("a folder");
    let path = std::env::var("PATH").unwrap_or_default();
    for line in program("Command line").lines() {
        let mut shell = Command::new("sh");
        shell.env("SOCKEYE_API_KEY", &KEY.0);
        shell.env("PATH", format!("{}:{path}", folder.display()));
        // An operator has it in the configuration.
        let words = line.replacen("sockeye", &format!("sockeye --admin {}", gateway.admin), 1);
        let run = shell.args(["-ec", &words]).output().expect("run sh");
        let error = String::from_utf8_lossy(&run.stderr);
        assert!(run.status.success() && error.is_empty(), "{line}: {error}");
    }
}

#[test]
#[ignore = "needs Python: cargo xtask test foreign"]
fn the_document_is_what_its_standard_says() {
    let gateway = Gateway::start(&config(""));
    let document = request(gateway.admin, "GET", "/v1/openapi.json", "", "").body;
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("openapi.json");
    let validator = servers::installed("openapi").join(".venv/bin/openapi-spec-validator");
    let check = |document: &str| {
        std::fs::write(&file, document).expect("write the document");
        let run = Command::new(&validator).arg(&file).output();
        run.expect("run the validator")
    };
    let run = check(&document);
    assert!(
        run.status.success(),
        "{}",
        String::from_utf8_lossy(&run.stdout)
    );
    // The check can fail.
    assert!(
        !check(&document.replace("\"requestBody\"", "\"body\""))
            .status
            .success()
    );
}
