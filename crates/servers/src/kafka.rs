//! A Kafka broker that is its own controller, or three that are one cluster (KRaft): each can be stopped, killed, frozen and started again
//! on the same port with the same data.

use crate::{free_ports, freeze, program, wait_for};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use tempfile::TempDir;

/// Quick to start, little memory.
const JAVA: &str = "-Xms64m -Xmx384m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Dorg.slf4j.simpleLogger.defaultLogLevel=warn";
/// Of the cluster: any will do.
const ID: &str = "4L6g3nShT-eMCtK--X86sw";
/// An ApiVersions request, version 0, number 1, of a client without a name.
const VERSIONS: [u8; 14] = [0, 0, 0, 10, 0, 18, 0, 0, 0, 0, 0, 1, 255, 255];

/// A start takes seconds of a core. Those of a dozen tests at once would all take longer than anybody waits.
fn turn() -> MutexGuard<'static, ()> {
    static STARTS: Mutex<()> = Mutex::new(());
    STARTS.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Debug)]
pub struct Kafka {
    port: u16,
    child: Option<Child>,
    folder: TempDir,
}

impl Kafka {
    /// No topics; it takes records of 32 MiB. A topic that nobody made does not come by itself.
    pub fn start() -> Kafka {
        let _turn = turn();
        let mut kafka = Kafka::stopped();
        kafka.restart();
        kafka
    }

    /// As brokers are by default: a topic that a client asks for is made.
    pub fn that_makes_topics() -> Kafka {
        let _turn = turn();
        let mut kafka = Kafka::stopped();
        let file = kafka.folder.path().join("server.properties");
        let settings = std::fs::read_to_string(&file).expect("its settings");
        let (no, yes) = (
            "auto.create.topics.enable=false",
            "auto.create.topics.enable=true",
        );
        assert!(settings.contains(no), "{settings}");
        std::fs::write(file, settings.replace(no, yes)).expect("a file");
        kafka.restart();
        kafka
    }

    /// Ready to be started with [`Kafka::restart`]: nothing answers at its address.
    pub fn stopped() -> Kafka {
        let [port, controller] = free_ports();
        Kafka::prepare(port, 1, &[controller])
    }

    /// Three brokers with the numbers 1 to 3. Without one of them the other two go on.
    pub fn cluster() -> [Kafka; 3] {
        let _turn = turn();
        let controllers: [u16; 3] = free_ports();
        let ports: [u16; 3] = free_ports();
        let mut brokers = [1, 2, 3].map(|id| Kafka::prepare(ports[id - 1], id, &controllers));
        // None of them is up before another one is.
        brokers.iter_mut().for_each(Kafka::begin);
        brokers.iter_mut().for_each(Kafka::wait);
        brokers
    }

    fn prepare(port: u16, id: usize, controllers: &[u16]) -> Kafka {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let settings = settings(folder.path(), port, id, controllers);
        std::fs::write(folder.path().join("server.properties"), settings).expect("a file");
        make_data(&folder.path().join("data"), port, id);
        Kafka {
            port,
            child: None,
            folder,
        }
    }

    /// Host and port, as clients name a broker.
    pub fn brokers(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// SIGKILL, as a machine that fails. What was acknowledged is in the files: the kernel has not failed.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// SIGTERM, as an operator stops it.
    pub fn stop(&mut self) {
        self.signal(Signal::TERM);
        if let Some(mut child) = self.child.take() {
            let _ = child.wait();
        }
    }

    /// SIGSTOP: connections stay, and nothing answers.
    pub fn freeze(&self) {
        freeze(self.child.as_ref().expect("it runs").id());
    }

    /// Ends [`Kafka::freeze`].
    pub fn thaw(&self) {
        self.signal(Signal::CONT);
    }

    /// Starts it on the same port and with the files that are there; one that runs is killed first.
    pub fn restart(&mut self) {
        self.begin();
        self.wait();
    }

    fn begin(&mut self) {
        self.kill();
        self.child = Some(java(self.folder.path(), &["kafka.Kafka"]));
    }

    fn wait(&mut self) {
        wait_for("Kafka answers", || {
            let child = self.child.as_mut().expect("it was begun");
            let ended = child.try_wait().expect("a child of ours");
            assert!(ended.is_none(), "Kafka ended: {}", self.log());
            self.is_up().then_some(())
        });
    }

    /// It takes connections before it answers.
    fn is_up(&self) -> bool {
        let mut answer = [0; 4];
        let asked = TcpStream::connect(("127.0.0.1", self.port)).and_then(|mut conn| {
            conn.set_read_timeout(Some(Duration::from_secs(1)))?;
            conn.write_all(&VERSIONS)?;
            conn.read_exact(&mut answer)
        });
        asked.is_ok()
    }

    fn signal(&self, signal: Signal) {
        let id = self.child.as_ref().map(|child| child.id().cast_signed());
        if let Some(id) = id.and_then(Pid::from_raw) {
            // One that has ended is as it should be.
            let _ = kill_process(id, signal);
        }
    }

    fn log(&self) -> String {
        log(self.folder.path())
    }
}

fn log(folder: &Path) -> String {
    std::fs::read_to_string(folder.join("log")).unwrap_or_default()
}

/// Makes the folder of what a broker keeps. Kafka's own tool does so once, since a JVM takes a second for it; each broker gets its files
/// with a number and an id of its own.
fn make_data(data: &Path, port: u16, id: usize) {
    static MADE: OnceLock<(String, Vec<u8>)> = OnceLock::new();
    let (properties, bootstrap) = MADE.get_or_init(|| {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let settings = settings(folder.path(), 1, 1, &[2]);
        std::fs::write(folder.path().join("server.properties"), settings).expect("a file");
        let tool = ["kafka.tools.StorageTool", "format", "-t", ID, "-c"];
        let formatted = java(folder.path(), &tool).wait().expect("it ends");
        assert!(formatted.success(), "{}", log(folder.path()));
        let read = |name| std::fs::read(folder.path().join("data").join(name)).expect("its file");
        let properties = String::from_utf8(read("meta.properties")).expect("text");
        (properties, read("bootstrap.checkpoint"))
    });
    let own = |line: &str| match line.split_once('=') {
        Some(("node.id", _)) => format!("node.id={id}\n"),
        // 16 bytes in base64.
        Some(("directory.id", _)) => format!("directory.id=sockeye-test-{port:08}A\n"),
        _ => format!("{line}\n"),
    };
    let properties: String = properties.lines().map(own).collect();
    std::fs::create_dir(data).expect("a folder");
    std::fs::write(data.join("meta.properties"), properties).expect("a file");
    std::fs::write(data.join("bootstrap.checkpoint"), bootstrap).expect("a file");
}

impl Drop for Kafka {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("log of Kafka {}:\n{}", self.port, self.log());
        }
        self.kill();
    }
}

fn java(folder: &Path, args: &[&str]) -> Child {
    let log = std::fs::File::options()
        .create(true)
        .append(true)
        .open(folder.join("log"))
        .expect("a log file");
    let output = log.try_clone().expect("a second handle");
    let mut command: Command = program("kafka-java");
    command
        .args(args)
        .arg(folder.join("server.properties"))
        .env("JDK_JAVA_OPTIONS", JAVA)
        .stdin(Stdio::null())
        .stdout(output)
        .stderr(log);
    command
        .spawn()
        .expect("start kafka-java: cargo xtask test installs it")
}

/// `id`: its number among the controllers, from 1 on. What brokers keep has as many copies as there are controllers.
fn settings(folder: &Path, port: u16, id: usize, controllers: &[u16]) -> String {
    let own = controllers[id - 1];
    let voter = |(at, port): (usize, &u16)| format!("{}@127.0.0.1:{port}", at + 1);
    let voters: Vec<String> = controllers.iter().enumerate().map(voter).collect();
    let copies = controllers.len();
    format!(
        "process.roles=broker,controller
node.id={id}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{own}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
controller.quorum.voters={}
log.dirs={}
auto.create.topics.enable=false
message.max.bytes=33554432
min.insync.replicas={}
broker.heartbeat.interval.ms=500
broker.session.timeout.ms=3000
replica.lag.time.max.ms=5000
offsets.topic.num.partitions=1
offsets.topic.replication.factor={copies}
transaction.state.log.replication.factor={copies}
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor={copies}
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
group.min.session.timeout.ms=1000
",
        voters.join(","),
        folder.join("data").display(),
        copies.div_ceil(2)
    )
}
