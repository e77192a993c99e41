//! Whoever else comes to the socket.

use super::chain::{Chain, said};
use super::later;
use super::troubles::Pair;
use handoff::{Batch, Fit, Hello, Kind, Said, Welcome, takes};
use prost::Message;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::time::Duration;

const CONFIG: &str = "profile = \"socket.io\"\n[server]\nshards = 2\n";

/// A successor that says what it likes. Descriptors that come to it are dropped by the kernel: it has no room for them.
pub struct Peer(UnixStream);

impl Peer {
    fn connect(chain: &Chain) -> Self {
        let stream = UnixStream::connect(chain.socket()).expect("connect");
        stream
            .set_read_timeout(Some(Duration::from_secs(15)))
            .expect("a timeout");
        Self(stream)
    }

    pub fn say(&mut self, kind: Kind, message: &impl Message) {
        let body = message.encode_to_vec();
        let mut bytes = vec![kind as u8];
        bytes.extend_from_slice(&(body.len() as u32).to_be_bytes());
        bytes.extend_from_slice(&body);
        self.0.write_all(&bytes).expect("written");
    }

    fn hear(&mut self) -> (Kind, Vec<u8>) {
        let mut header = [0; 5];
        self.0.read_exact(&mut header).expect("a header");
        let [kind, len @ ..] = header;
        let mut body = vec![0; u32::from_be_bytes(len) as usize];
        self.0.read_exact(&mut body).expect("a body");
        (Kind::of(kind).expect("a kind"), body)
    }

    pub fn expect<M: Message + Default>(&mut self, wanted: Kind) -> M {
        let (kind, body) = self.hear();
        let said = Said::decode(&*body).unwrap_or_default();
        assert_eq!(kind, wanted, "{}", said.text);
        M::decode(&*body).expect("readable")
    }

    /// The byte that carries descriptors.
    fn skip_descriptors(&mut self) {
        self.0.read_exact(&mut [0]).expect("the byte");
    }
}

fn hello() -> Hello {
    hello_of(&[])
}

fn hello_of(unix: &[String]) -> Hello {
    Hello {
        oldest: 1,
        newest: 1,
        pid: 1,
        program: "a stranger".into(),
        fit: Some(Fit {
            node: 0,
            shards: 2,
            listen: vec!["127.0.0.1:0".into()],
            secure: Vec::new(),
            unix: unix.to_vec(),
            admin: "127.0.0.1:0".into(),
            ..Fit::default()
        }),
        takes: takes::ALL & !takes::KEEPSAKES,
    }
}

/// How far a successor comes before it is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    Nothing,
    Hello,
    Welcome,
    Listeners,
    Ready,
    FirstBatch,
    Taken,
    Complete,
    Built,
}

pub const STEPS: [Step; 9] = [
    Step::Nothing,
    Step::Hello,
    Step::Welcome,
    Step::Listeners,
    Step::Ready,
    Step::FirstBatch,
    Step::Taken,
    Step::Complete,
    Step::Built,
];

/// The process has two sessions.
pub fn go_until(chain: &Chain, last: Step) -> Peer {
    go_until_of(chain, &[], last)
}

/// With these Unix sockets of the process.
pub fn go_until_of(chain: &Chain, unix: &[String], last: Step) -> Peer {
    let mut peer = Peer::connect(chain);
    if last == Step::Nothing {
        return peer;
    }
    peer.say(Kind::Hello, &hello_of(unix));
    if last == Step::Hello {
        return peer;
    }
    let welcome = loop {
        match peer.hear() {
            (Kind::Welcome, body) => break Welcome::decode(&*body).expect("readable"),
            (Kind::Refused, body) => {
                // The one before has gone, and the gateway may not know it yet.
                let said = Said::decode(&*body).expect("readable");
                assert!(said.text.contains("under way"), "{}", said.text);
                std::thread::sleep(Duration::from_millis(20));
                peer = Peer::connect(chain);
                peer.say(Kind::Hello, &hello_of(unix));
            }
            (kind, _) => panic!("{kind:?}"),
        }
    };
    assert_eq!((welcome.version, welcome.sessions), (1, 2));
    if last == Step::Welcome {
        return peer;
    }
    let batch: Batch = peer.expect(Kind::Listeners);
    // Two shards, and the operators'.
    assert_eq!(batch.listeners.len(), 3 + unix.len());
    peer.skip_descriptors();
    peer.say(Kind::Taken, &());
    peer.expect::<()>(Kind::Complete);
    if last == Step::Listeners {
        return peer;
    }
    peer.say(Kind::Ready, &());
    let mut sessions = 0;
    loop {
        match peer.hear() {
            (Kind::Shard, _) if last == Step::Ready => return peer,
            (Kind::Shard, _) => {}
            (Kind::Sessions, body) => {
                let batch = Batch::decode(&*body).expect("readable");
                sessions += batch.sessions.len();
                // It has not said that it takes them.
                assert!(batch.keepsakes.is_empty());
                if later::descriptors(Kind::Sessions, &body) > 0 {
                    peer.skip_descriptors();
                }
                if last == Step::FirstBatch {
                    return peer;
                }
                peer.say(Kind::Taken, &());
                if last == Step::Taken {
                    return peer;
                }
            }
            (Kind::Complete, _) => break,
            (kind, body) => panic!("{kind:?}: {:?}", Said::decode(&*body)),
        }
    }
    assert_eq!(sessions, 2);
    if last == Step::Built {
        // The last moment: the word that all is built is torn in the middle.
        peer.0
            .write_all(&[Kind::Built as u8, 0, 0])
            .expect("written");
    }
    peer
}

/// Takes everything, also what is kept of those who are away, and is gone before the last word.
pub fn take_all_and_end(chain: &Chain, shards: u32) {
    let mut peer = Peer::connect(chain);
    let fit = hello().fit.map(|fit| Fit { shards, ..fit });
    let hello = Hello {
        fit,
        takes: takes::ALL,
        ..hello()
    };
    peer.say(Kind::Hello, &hello);
    peer.expect::<Welcome>(Kind::Welcome);
    peer.expect::<Batch>(Kind::Listeners);
    peer.skip_descriptors();
    peer.say(Kind::Taken, &());
    peer.expect::<()>(Kind::Complete);
    peer.say(Kind::Ready, &());
    loop {
        match peer.hear() {
            (Kind::Sessions, body) => {
                if later::descriptors(Kind::Sessions, &body) > 0 {
                    peer.skip_descriptors();
                }
                peer.say(Kind::Taken, &());
            }
            (Kind::Complete, _) => return,
            (Kind::Shard | Kind::Kept, _) => {}
            (kind, body) => panic!("{kind:?}: {:?}", Said::decode(&*body)),
        }
    }
}

/// At each step it ends, or says nothing more: the clients of the process notice nothing, and the next upgrade succeeds.
#[test]
fn a_successor_that_ends_at_any_step_changes_nothing() {
    let mut chain = Chain::start(CONFIG);
    let mut pair = Pair::join(&chain);
    for step in STEPS {
        let peer = go_until(&chain, step);
        drop(peer);
        pair.talk();
        println!("ended at {step:?}: nobody noticed");
    }
    chain.upgrade();
    pair.talk();
}

/// It stands still while the shards do: after its time they go on.
#[test]
fn a_successor_that_falls_silent_is_given_up() {
    let mut chain = Chain::start(CONFIG);
    let mut pair = Pair::join(&chain);
    let mut peer = go_until(&chain, Step::Complete);
    let (kind, body) = peer.hear();
    assert_eq!(kind, Kind::Refused);
    let said = Said::decode(&*body).expect("readable");
    assert!(
        said.text.contains("does not speak in time"),
        "{}",
        said.text
    );
    pair.talk();
    chain.upgrade();
    pair.talk();
}

#[test]
fn another_version_of_the_record_is_refused() {
    let chain = Chain::start(CONFIG);
    let mut pair = Pair::join(&chain);
    let mut peer = Peer::connect(&chain);
    peer.say(
        Kind::Hello,
        &Hello {
            oldest: 2,
            newest: 9,
            ..hello()
        },
    );
    let said: Said = peer.expect(Kind::Refused);
    assert!(said.text.contains("version 1 to 1"), "{}", said.text);
    assert!(said.text.contains("2 to 9"), "{}", said.text);
    pair.talk();
}

/// A later build knows more versions, and says what this one does not know: both speak the newest that both know.
#[test]
fn a_successor_of_a_later_build_gets_the_version_that_both_know() {
    let mut chain = Chain::start(CONFIG);
    let mut pair = Pair::join(&chain);
    let mut peer = Peer::connect(&chain);
    let hello = Hello {
        newest: 9,
        ..hello()
    };
    // Field 500, three bytes.
    let body = [&hello.encode_to_vec()[..], &[0xa2, 0x1f, 3, 1, 2, 3]].concat();
    let head = [&[Kind::Hello as u8][..], &(body.len() as u32).to_be_bytes()].concat();
    peer.0.write_all(&[head, body].concat()).expect("written");
    let welcome: Welcome = peer.expect(Kind::Welcome);
    assert_eq!((welcome.version, welcome.sessions), (1, 2));
    drop(peer);
    pair.talk();
    chain.upgrade();
    pair.talk();
}

#[test]
fn garbage_is_answered_and_forgotten() {
    let mut chain = Chain::start(CONFIG);
    let mut pair = Pair::join(&chain);
    for garbage in [
        &b"GET / HTTP/1.1\r\n\r\n"[..],
        &[1, 0, 0, 0, 2, 0xff, 0xff],
        &[1, 0xff, 0xff, 0xff, 0xff],
        &[15, 0, 0, 0, 0],
        &[0; 64],
    ] {
        let mut peer = Peer::connect(&chain);
        peer.0.write_all(garbage).expect("written");
        let said: Said = peer.expect(Kind::Refused);
        assert!(said.text.contains("not understood"), "{}", said.text);
    }
    // Many who say nothing: those behind them are sent away, and come in when they have gone.
    let silent: Vec<_> = (0..300).map(|_| Peer::connect(&chain)).collect();
    pair.talk();
    drop(silent);
    std::thread::sleep(Duration::from_millis(300));
    chain.upgrade();
    pair.talk();
}

/// The file's mode keeps others out; where somebody has changed it, the kernel says who comes.
#[test]
fn another_user_is_sent_away() {
    if !rustix::process::geteuid().is_root() {
        println!("only root can be somebody else");
        return;
    }
    let chain = Chain::start(CONFIG);
    let mode = std::fs::metadata(chain.socket())
        .expect("the socket")
        .permissions();
    assert_eq!(mode.mode() & 0o777, 0o600);
    let open = |path: &std::path::Path, mode| {
        let mode = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(path, mode).expect("the mode");
    };
    open(&chain.socket(), 0o666);
    open(&chain.folder(), 0o755);
    open(&chain.folder().join("sockeye.toml"), 0o644);
    let command = chain.command(&[]);
    let args: Vec<_> = command.get_args().map(ToOwned::to_owned).collect();
    // Where the build folder is closed to others, the program itself could not be started.
    let program = chain.folder().join("sockeye");
    std::fs::copy(command.get_program(), &program).expect("a copy");
    let mut other = Command::new("setpriv");
    other.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]);
    other.arg(program).args(args);
    let output = other.output().expect("setpriv");
    let text = said(&output);
    assert!(!output.status.success(), "{text}");
    let kept_out = text.contains("another user runs this process");
    assert!(kept_out, "{text}");
}

/// One is under way, and its sessions are about to go.
#[test]
fn a_second_upgrade_is_refused_while_one_is_under_way() {
    let mut chain = Chain::start(CONFIG);
    let mut pair = Pair::join(&chain);
    let first = go_until(&chain, Step::Listeners);
    let text = chain.failing_upgrade(&[]);
    assert!(text.contains("another upgrade is under way"), "{text}");
    drop(first);
    pair.talk();
    chain.upgrade();
    pair.talk();
}
