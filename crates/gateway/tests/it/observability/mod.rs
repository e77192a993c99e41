//! What operators are given: metrics that a real Prometheus scrapes, rules and dashboards made of them, the memory page, the
//! log when nobody reads it, and the doctor.

mod dashboard;
mod doctor;
mod exporters;
mod expressions;
mod logs;
mod memory;
mod prometheus;
mod rules;
mod traces;

use std::path::PathBuf;

/// A file of the repository's `deploy/`.
fn deploy(path: &str) -> PathBuf {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy");
    PathBuf::from(root).join(path)
}

fn read(path: &str) -> String {
    let path = deploy(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Runs Prometheus' own tool; what it printed, and whether it was content.
fn promtool(args: &[&str], input: &str) -> (bool, String) {
    use std::io::Write;
    use std::process::{Command, Stdio};
    let mut command = Command::new("promtool");
    command
        .args(args)
        .current_dir(deploy("prometheus"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let child = command.spawn();
    let mut child = child.expect("run promtool (Debian's package `prometheus`)");
    let mut stdin = child.stdin.take().expect("its standard input");
    stdin
        .write_all(input.as_bytes())
        .expect("write to promtool");
    drop(stdin);
    let output = child.wait_with_output().expect("promtool's output");
    let text = [output.stdout, output.stderr].concat();
    (
        output.status.success(),
        String::from_utf8_lossy(&text).into_owned(),
    )
}
