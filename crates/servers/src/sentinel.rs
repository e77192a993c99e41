//! A master with a replica, and three Sentinels that watch them.

use crate::redis::Redis;
use crate::wait_for;
use std::fs;

const NAME: &str = "main";

#[derive(Debug)]
pub struct Sentinels {
    /// The first master and its replica.
    pub servers: Vec<Redis>,
    pub sentinels: Vec<Redis>,
}

impl Sentinels {
    /// Failover begins when the master was silent for so many milliseconds.
    pub fn start(down_after_ms: u32) -> Sentinels {
        let master = Redis::start_with(&["--repl-diskless-sync-delay", "0"]);
        let port = master.port().to_string();
        let replica = Redis::start_with(&[
            "--replicaof",
            "127.0.0.1",
            &port,
            "--repl-diskless-sync-delay",
            "0",
        ]);
        wait_for("the replica follows", || {
            let link = replica.field(&["INFO", "replication"], "master_link_status")?;
            (link == "up").then_some(())
        });
        let watch = format!(
            "sentinel monitor {NAME} 127.0.0.1 {port} 2\n\
             sentinel down-after-milliseconds {NAME} {down_after_ms}\n\
             sentinel failover-timeout {NAME} 6000\n"
        );
        let start = |_| {
            let prepare = |folder: &std::path::Path| {
                fs::write(folder.join("sentinel.conf"), &watch).expect("write");
            };
            Redis::prepare(prepare, &["sentinel.conf", "--sentinel"], &[])
        };
        let set = Sentinels {
            servers: vec![master, replica],
            sentinels: (0..3).map(start).collect(),
        };
        set.wait_until_whole();
        set
    }

    /// What clients ask the Sentinels for.
    pub fn name(&self) -> &'static str {
        NAME
    }

    /// Waits until each Sentinel knows the replica and both others.
    fn wait_until_whole(&self) {
        for sentinel in &self.sentinels {
            wait_for("the Sentinels know each other", || {
                let state = sentinel.ask(&["SENTINEL", "MASTER", NAME]);
                let lines: Vec<&str> = state.lines().map(str::trim).collect();
                let field = |name: &str| {
                    let at = lines.iter().position(|line| *line == name)?;
                    lines.get(at + 1).copied()
                };
                let known = (field("num-slaves"), field("num-other-sentinels"));
                (known == (Some("1"), Some("2"))).then_some(())
            });
        }
    }

    /// Which of the servers the first Sentinel calls master.
    pub fn master(&self) -> Option<usize> {
        let answer = self.sentinels[0].ask(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", NAME]);
        let port = answer.lines().nth(1)?.trim().parse::<u16>().ok()?;
        self.servers.iter().position(|redis| redis.port() == port)
    }

    pub fn addrs(&self) -> Vec<String> {
        self.sentinels.iter().map(Redis::addr).collect()
    }
}
