//! `sockeye init`: each file that it writes passes the check, does what it says, and keeps strangers out.

use crate::backend::worker::{Worker, introduced, open, runtime};
use crate::harness::{Gateway, PATIENCE, RawConn, SocketIo};
use client::OpCode;
use serde_json::{Value, json};
use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};
use tempfile::TempDir;

const SIO: &str = "/socket.io/?EIO=4&transport=websocket";

fn sockeye(folder: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sockeye"));
    command.args(args).current_dir(folder);
    command.output().expect("run sockeye")
}

/// Both outputs of a run that goes well.
fn said(folder: &Path, args: &[&str]) -> (String, String) {
    let run = sockeye(folder, args);
    assert!(run.status.success(), "{args:?}: {run:?}");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    (text(run.stdout), text(run.stderr))
}

/// A folder in which `sockeye init` ran, and the lines that it printed.
struct Begun {
    folder: TempDir,
    printed: String,
}

impl Begun {
    /// The file passes the check without a word about it.
    fn with(kind: &[&str]) -> Begun {
        let folder = tempfile::tempdir().expect("a folder");
        let (printed, _) = said(folder.path(), &[&["init"], kind].concat());
        let checked = said(folder.path(), &["config", "check"]);
        let valid = "configuration is valid (sockeye.toml)\n".to_owned();
        assert_eq!(checked, (valid, String::new()), "{kind:?}");
        let begun = Begun { folder, printed };
        let settings = begun.file("sockeye.toml");
        let settings = settings.lines().filter(|line| line.contains('='));
        assert!(settings.count() <= 10, "{kind:?}");
        begun
    }

    fn file(&self, name: &str) -> String {
        fs::read_to_string(self.folder.path().join(name)).expect(name)
    }

    /// A gateway with the file. The harness copies it, and chooses free ports.
    fn start(&self) -> Gateway {
        let secret = self.folder.path().join("sockeye.secret");
        let mut variables = vec![("SOCKEYE__WORKERS__LISTEN", "127.0.0.1:0")];
        if secret.exists() {
            let path = secret.to_str().expect("UTF-8");
            variables = vec![("SOCKEYE__AUTH__SECRET_FILE", path)];
        }
        let gateway = Gateway::start_in(&self.file("sockeye.toml"), &variables);
        let told = gateway.log().join("\n");
        assert!(!told.contains("\"WARN\""), "{told}");
        gateway
    }

    /// By the command that was printed.
    fn token(&self, name: &str) -> String {
        let line = self.printed.lines().find(|line| line.contains(" token "));
        let command = line.and_then(|line| line.strip_prefix("then   "));
        let command = command
            .expect("a command for tokens")
            .replace("--uid ada", &format!("--uid {name}"));
        let words: Vec<&str> = command.split(' ').skip(1).collect();
        said(self.folder.path(), &words).0.trim().to_owned()
    }
}

/// A Socket.IO client that showed a token.
fn member(addr: SocketAddr, token: &str) -> SocketIo {
    let mut client = SocketIo::open(addr);
    client.join_namespace("/", &json!({ "token": token }).to_string());
    client
}

/// The answer to a stock client without a token, or with one that nobody here signed.
fn told_stranger(addr: SocketAddr, auth: &str) -> String {
    let mut client = SocketIo::over(RawConn::websocket(addr, SIO));
    client.send(&format!("40{auth}"));
    client.packet_starting("4")
}

/// A plain client without a token is closed before it hears or says anything; an event stream is refused.
fn keeps_plain_strangers_out(gateway: &Gateway) {
    let mut conn = RawConn::websocket(gateway.addr, "/ws");
    conn.send_text(r#"{"type":"join","room":"table-7","id":1}"#);
    let mut codes = Vec::new();
    while let Ok(frame) = conn.frame_within(PATIENCE) {
        match frame.opcode {
            OpCode::Close => codes.push(frame.close_code()),
            _ => assert!(!frame.text().contains("\"ack\""), "{frame:?}"),
        }
    }
    assert!(matches!(codes[..], [Some(4501)]), "{codes:?}");
    let stream = "GET /sse?room=table-7 HTTP/1.1\r\nHost: localhost\r\n\r\n";
    assert_eq!(RawConn::exchange(gateway.addr, stream).status, 401);
}

#[test]
fn rules_relay_the_move_of_a_member_and_nothing_of_a_stranger() {
    for kind in [&[][..], &["--rules"]] {
        let begun = Begun::with(kind);
        let gateway = begun.start();
        let mut ada = member(gateway.addr, &begun.token("ada"));
        let mut ben = member(gateway.addr, &begun.token("ben"));
        ben.emit(&json!(["move", { "x": 1, "y": 2 }]));
        assert_eq!(ada.expect("move"), [json!({ "x": 1, "y": 2 })]);
        let wrong = ben.ask(1, &json!(["move", { "x": 1 }]));
        let why = wrong[0]["error"].as_str().expect("a reason");
        assert!(why.starts_with("Invalid payload: "), "{why}");
        let joined = ben.ask(2, &json!(["join", "another"]));
        assert_eq!(joined[0]["code"], "UNKNOWN_EVENT", "{joined}");
        let forged = ben.ask(3, &json!(["news", "forged"]));
        assert_eq!(forged[0]["code"], "UNKNOWN_EVENT", "{forged}");
        for auth in ["", r#"{"token":"x.y.z"}"#] {
            let told = told_stranger(gateway.addr, auth);
            assert!(told.starts_with("44{"), "{told}");
        }
        let elsewhere = Begun::with(kind).token("eve");
        let told = told_stranger(gateway.addr, &json!({ "token": elsewhere }).to_string());
        assert!(told.starts_with("44{"), "{told}");
        keeps_plain_strangers_out(&gateway);
    }
}

#[test]
fn chat_is_for_those_with_a_token() {
    let begun = Begun::with(&["--chat"]);
    let gateway = begun.start();
    let mut ada = member(gateway.addr, &begun.token("ada"));
    let mut ben = member(gateway.addr, &begun.token("ben"));
    let joined = ben.ask(1, &json!(["join", "kitchen"]));
    assert_eq!(joined, json!([["kitchen"]]));
    ben.emit(&json!(["chat-message", { "content": "hello" }]));
    let heard = ada.expect("chat-message");
    assert_eq!(
        (&heard[0]["content"], &heard[0]["user"]),
        (&json!("hello"), &json!("ben"))
    );
    let page = RawConn::exchange(gateway.addr, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!(page.status, 200);
    // The chat profile lets a client connect, tells it why it may not stay, and ends its socket.
    let mut stranger = SocketIo::open(gateway.addr);
    stranger.send("40");
    stranger.emit(&json!(["chat-message", { "content": "forged" }]));
    let told = stranger.expect("error");
    assert_eq!(told, [json!({ "message": "Authentication required" })]);
    stranger.packet_starting("41");
    keeps_plain_strangers_out(&gateway);
    ben.emit(&json!(["chat-message", { "content": "last" }]));
    assert_eq!(ada.expect("chat-message")[0]["content"], "last");
}

#[test]
fn workers_decide_and_those_without_the_key_do_not() {
    let begun = Begun::with(&["--worker"]);
    let gateway = begun.start();
    let log = gateway.log();
    let line = log.iter().find(|line| line.contains("\"listening\""));
    let line: Value = serde_json::from_str(line.expect("a line")).expect("JSON");
    let workers: SocketAddr = line["workers"]
        .as_str()
        .expect("text")
        .parse()
        .expect("address");
    let key = begun.printed.split("SOCKEYE_KEY=").nth(1).expect("a key");
    let key = key.split_whitespace().next().expect("a key");
    // A program was told the key, and had to guess where to go and by which name.
    let named = "SOCKEYE_GATEWAY=127.0.0.1:9091 SOCKEYE_BACKEND=app ";
    assert!(begun.printed.contains(named), "{}", begun.printed);
    let config = begun.file("sockeye.toml");
    assert!(config.contains("listen = \"127.0.0.1:9091\""), "{config}");

    let other = begun_key();
    let refused = runtime().block_on(open(workers, &other, introduced("app", "thief")));
    let refused = refused.expect_err("a worker with a key of its own making");
    assert_eq!(refused.code(), tonic::Code::Unauthenticated);

    let _worker = Worker::attach_for("app", workers, key, "one");
    let mut client = SocketIo::connect(gateway.addr);
    assert_eq!(client.expect("hello"), [json!(client.sid)]);
    let echoed = client.ask(1, &json!(["echo", 7]));
    assert_eq!(echoed, json!([7]));
    let told = told_stranger(gateway.addr, r#"{"bad":true}"#);
    assert!(told.starts_with("44{\"message\":\"not you\""), "{told}");
}

/// The key of another configuration.
fn begun_key() -> String {
    let printed = Begun::with(&["--worker"]).printed;
    let key = printed.split("SOCKEYE_KEY=").nth(1).expect("a key");
    key.split_whitespace().next().expect("a key").to_owned()
}

#[test]
fn nothing_is_overwritten_and_the_secret_is_its_owner_s() {
    let begun = Begun::with(&["--chat"]);
    let secret = begun.folder.path().join("sockeye.secret");
    let mode = fs::metadata(&secret)
        .expect("the secret")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    let before = (begun.file("sockeye.toml"), begun.file("sockeye.secret"));
    let again = sockeye(begun.folder.path(), &["init", "--worker"]);
    assert_eq!(again.status.code(), Some(1));
    let told = String::from_utf8_lossy(&again.stderr).into_owned();
    assert!(
        told.starts_with("cannot write sockeye.toml: it is there already"),
        "{told}"
    );
    // One of two: neither is left behind.
    fs::remove_file(begun.folder.path().join("sockeye.toml")).expect("remove");
    let half = sockeye(begun.folder.path(), &["init"]);
    assert_eq!(half.status.code(), Some(1));
    assert!(!begun.folder.path().join("sockeye.toml").exists());
    assert_eq!(begun.file("sockeye.secret"), before.1);
    // By another name, which the next commands then have.
    let (printed, _) = said(begun.folder.path(), &["init", "o'ther one.toml"]);
    assert!(
        printed.contains(r"--config 'o'\''ther one.toml'"),
        "{printed}"
    );
    let made = said(
        begun.folder.path(),
        &["config", "check", "--config", "o'ther one.toml"],
    );
    assert_eq!(made.1, "");
    assert_ne!(begun.file("o'ther one.secret"), before.1);
    for wrong in ["sockeye", "a.secret"] {
        let run = sockeye(begun.folder.path(), &["init", wrong]);
        assert_eq!(run.status.code(), Some(1), "{run:?}");
        assert!(!begun.folder.path().join(wrong).exists());
    }
    let both = sockeye(begun.folder.path(), &["init", "--chat", "--worker"]);
    assert_eq!(both.status.code(), Some(2));
}
