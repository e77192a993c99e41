//! docs/first-service.md, step by step: its files, its commands and what they print.

use super::KEY;
use crate::harness::{Gateway, PATIENCE, eventually};
use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Stdio};

const PAGE: &str = include_str!("../../../../../docs/first-service.md");

/// A block of the page by the name in its first line.
fn file(name: &str) -> &'static str {
    let blocks = PAGE.split("```").skip(1).step_by(2);
    let mut files = blocks.filter_map(|block| {
        let (named, text) = block.split_once('\n')?.1.split_once('\n')?;
        let (_, named) = named.split_once(' ')?;
        (named == name).then_some(text)
    });
    files.next().unwrap_or_else(|| panic!("no {name}"))
}

/// The command of the page that begins like this, with the addresses of a gateway.
fn command(begin: &str, gateway: &Gateway) -> String {
    let cells = PAGE.lines().flat_map(|line| line.split('`'));
    let found = cells.map(str::trim).find(|line| line.starts_with(begin));
    let found = found.unwrap_or_else(|| panic!("no {begin}"));
    found
        .replace("localhost:3000", &gateway.addr.to_string())
        .replace("localhost:9090", &gateway.admin.to_string())
}

fn shell(folder: &Path, line: &str) -> Command {
    let mut shell = Command::new("sh");
    let binary = Path::new(env!("CARGO_BIN_EXE_sockeye"));
    let own = binary.parent().expect("a folder").display().to_string();
    let path = std::env::var("PATH").unwrap_or_default();
    shell.args(["-e", "-c", line]).current_dir(folder);
    shell
        .env("PATH", format!("{own}:{path}"))
        .env("KEY", &KEY.0);
    shell.stdin(Stdio::null());
    shell
}

fn told(folder: &Path, line: &str) -> String {
    let output = shell(folder, line).output().expect("run a shell");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{line}: {error}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A program of the page in a terminal of its own; killed when dropped.
struct Terminal(Child, std::path::PathBuf);

impl Terminal {
    fn open(folder: &Path, name: &str, line: &str) -> Terminal {
        let path = folder.join(name);
        let screen = File::create(&path).expect("a file");
        let mut shell = shell(folder, &format!("exec {line}"));
        Terminal(shell.stdout(screen).spawn().expect("run a shell"), path)
    }

    fn prints(&self, line: &str) {
        let read = || std::fs::read_to_string(&self.1).expect("its output");
        let printed = eventually(PATIENCE, || read().lines().any(|own| own == line));
        assert!(printed, "{line:?} is not in {:?}", read());
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
#[ignore = "needs Node: cargo xtask test foreign"]
fn each_step_of_the_first_service_prints_what_the_page_says() {
    let folder = tempfile::tempdir().expect("a folder");
    let here = folder.path();
    let modules = concat!(env!("CARGO_MANIFEST_DIR"), "/../../web/node_modules");
    std::os::unix::fs::symlink(modules, here.join("node_modules")).expect("link the client");
    for name in ["token.mjs", "make_token.py", "client.mjs"] {
        std::fs::write(here.join(name), file(name)).expect("write a file");
    }
    // `token.py` hid a module of Python: every program beside it failed.
    told(here, "python3 -c 'import asyncio'");
    told(here, "openssl rand -base64 48 > secret");
    assert!(told(here, "sockeye api-key shop --allow emit").contains("entry  \"shop:"));
    let secret = here.join("secret").display().to_string();
    let config = file("sockeye.toml").replace("shop:…:emit", &KEY.1);
    let config = config.replace("\"secret\"", &format!("{secret:?}"));
    std::fs::write(here.join("sockeye.toml"), &config).expect("write the configuration");
    let check = told(here, "sockeye config check --config sockeye.toml");
    assert_eq!(check, "configuration is valid (sockeye.toml)\n");
    let gateway = Gateway::start(&config);
    let run = |begin: &str| command(begin, &gateway);
    for program in ["python3 make_token.py ada", "node token.mjs ada"] {
        told(here, &run(program));
        let token = told(here, &run("sockeye token check"));
        assert!(
            token.starts_with("accepted     user \"ada\""),
            "{program}: {token}"
        );
    }
    let stranger = Terminal::open(
        here,
        "stranger",
        &run("node client.mjs http://localhost:3000 nonsense"),
    );
    stranger.prints("refused: Invalid token");
    let ada = Terminal::open(
        here,
        "ada",
        &run("node client.mjs http://localhost:3000 \"$(cat"),
    );
    ada.prints("connected");
    let ben = Terminal::open(
        here,
        "ben",
        &run("node client.mjs http://localhost:3000 \"$(node"),
    );
    ben.prints("connected");
    ada.prints("somebody moved to 1 2");
    told(here, &run("curl -s"));
    ada.prints("news: the game begins");
    ben.prints("news: the game begins");
}
