//! One Kafka broker that is its own controller (KRaft): it can be stopped, killed, frozen and started again on the same port with the
//! same data.

use crate::{free_ports, freeze, program, wait_for};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

/// Quick to start, little memory.
const JAVA: &str = "-Xms64m -Xmx384m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Dorg.slf4j.simpleLogger.defaultLogLevel=warn";
/// Of the cluster: any will do.
const ID: &str = "4L6g3nShT-eMCtK--X86sw";
/// An ApiVersions request, version 0, number 1, of a client without a name.
const VERSIONS: [u8; 14] = [0, 0, 0, 10, 0, 18, 0, 0, 0, 0, 0, 1, 255, 255];

#[derive(Debug)]
pub struct Kafka {
    port: u16,
    child: Child,
    folder: TempDir,
}

impl Kafka {
    /// No topics; it takes records of 32 MiB. A topic that nobody made does not come by itself.
    pub fn start() -> Kafka {
        let mut kafka = Kafka::stopped();
        kafka.restart();
        kafka
    }

    /// As brokers are by default: a topic that a client asks for is made.
    pub fn that_makes_topics() -> Kafka {
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
        let folder = tempfile::tempdir().expect("a temporary folder");
        let settings = settings(folder.path(), port, controller);
        std::fs::write(folder.path().join("server.properties"), settings).expect("a file");
        let mut child = java(
            folder.path(),
            &["kafka.tools.StorageTool", "format", "-t", ID, "-c"],
        );
        let formatted = child.wait().expect("it ends");
        let kafka = Kafka {
            port,
            child,
            folder,
        };
        assert!(formatted.success(), "{}", kafka.log());
        kafka
    }

    /// Host and port, as clients name a broker.
    pub fn brokers(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// SIGKILL, as a machine that fails. What was acknowledged is in the files: the kernel has not failed.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// SIGTERM, as an operator stops it.
    pub fn stop(&mut self) {
        self.signal(Signal::TERM);
        let _ = self.child.wait();
    }

    /// SIGSTOP: connections stay, and nothing answers.
    pub fn freeze(&self) {
        freeze(self.child.id());
    }

    /// Ends [`Kafka::freeze`].
    pub fn thaw(&self) {
        self.signal(Signal::CONT);
    }

    /// Starts it on the same port and with the files that are there; one that runs is killed first.
    pub fn restart(&mut self) {
        self.kill();
        self.child = java(self.folder.path(), &["kafka.Kafka"]);
        wait_for("Kafka answers", || {
            let ended = self.child.try_wait().expect("a child of ours");
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
        let id = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        // One that has ended is as it should be.
        let _ = kill_process(id.expect("a process id"), signal);
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }
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

fn settings(folder: &Path, port: u16, controller: u16) -> String {
    format!(
        "process.roles=broker,controller
node.id=1
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
controller.quorum.voters=1@127.0.0.1:{controller}
log.dirs={}
auto.create.topics.enable=false
message.max.bytes=33554432
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
group.min.session.timeout.ms=1000
",
        folder.join("data").display()
    )
}
