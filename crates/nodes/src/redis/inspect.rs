//! What a Redis is, and whether it is set up for us: for `sockeye doctor` and the log.

use super::conn::text;
use super::item::Place;
use super::{Port, settings::Mode};
use crate::engine::{Buffer, Server, Trouble};
use redis::{Cmd, Value};
use std::time::Duration;

/// A subscriber may have so much waiting at least: less throws nodes out in an ordinary burst.
const BUFFER_MIN: u64 = 32 << 20;
/// A failover begins after the node timeout; longer ones need a larger `cluster.ring_bytes`.
const NODE_TIMEOUT_MAX: Duration = Duration::from_secs(5);

/// Something about a server that an operator should know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remark {
    /// The setting, or what else it is about.
    pub about: &'static str,
    pub value: String,
    /// What would be better; `None` = it is well.
    pub wanted: Option<String>,
    pub why: &'static str,
    /// What to do.
    pub fix: &'static str,
}

/// Judges what a server says of itself.
pub fn judge(server: &Server) -> Vec<Remark> {
    let untested = !matches!(server.name.as_str(), "redis" | "valkey" | "nats" | "memory");
    let mut remarks = vec![Remark {
        about: "engine",
        value: format!("{} {}, {}", server.name, server.version, server.mode),
        wanted: untested.then(|| "Redis or Valkey".to_owned()),
        why: match untested {
            true => "not tested: subscriptions may behave otherwise when a server fails",
            false => "",
        },
        fix: "use Redis 6.2 or later, or Valkey",
    }];
    remarks.extend(server.pubsub_buffer.map(judge_buffer));
    remarks.extend(server.node_timeout.map(|timeout| Remark {
        about: "cluster-node-timeout",
        value: format!("{} ms", timeout.as_millis()),
        wanted: (timeout > NODE_TIMEOUT_MAX)
            .then(|| format!("{} ms or less", NODE_TIMEOUT_MAX.as_millis())),
        why: "messages between nodes wait until a replica has taken over, two to four seconds after this time",
        fix: "redis-cli CONFIG SET cluster-node-timeout 5000, at every node",
    }));
    remarks
}

fn judge_buffer(buffer: Buffer) -> Remark {
    let Buffer {
        hard_bytes,
        soft_bytes,
        soft_time,
    } = buffer;
    let wanted = match hard_bytes {
        0 => Some("a bound"),
        1..BUFFER_MIN => Some("32mb 8mb 60, which is the default"),
        _ => None,
    };
    Remark {
        about: "client-output-buffer-limit pubsub",
        value: format!(
            "{hard_bytes} bytes, or {soft_bytes} for {} s",
            soft_time.as_secs()
        ),
        wanted: wanted.map(str::to_owned),
        why: match hard_bytes {
            0 => "a node that stands still fills the memory of Redis",
            _ => {
                "a node that stands still for longer than this lasts is thrown out, and asks for what it missed"
            }
        },
        fix: "redis-cli CONFIG SET client-output-buffer-limit \"pubsub 32mb 8mb 60\", at every server",
    }
}

impl Port {
    /// What the server says of itself. Fields that it hides from this user are left out.
    pub(super) async fn describe(&self) -> Result<Server, Trouble> {
        let mut command = Cmd::new();
        command.arg("INFO").arg("server");
        let info = text(&self.ask(command, Place::Server(0)).await?);
        let (name, version) = name(&info);
        let buffer = self.setting("client-output-buffer-limit").await;
        let timeout = match self.0.settings.mode {
            Mode::Cluster => self.setting("cluster-node-timeout").await,
            Mode::Single | Mode::Sentinel(_) => None,
        };
        Ok(Server {
            name,
            version,
            mode: match self.0.settings.mode {
                Mode::Single => "single",
                Mode::Sentinel(_) => "sentinel",
                Mode::Cluster => "cluster",
            },
            pubsub_buffer: buffer.as_deref().and_then(read_buffer),
            node_timeout: timeout
                .and_then(|ms| ms.parse().ok())
                .map(Duration::from_millis),
        })
    }

    /// `CONFIG GET`, which many operators of Redis forbid.
    async fn setting(&self, name: &str) -> Option<String> {
        let mut command = Cmd::new();
        command.arg("CONFIG").arg("GET").arg(name);
        let answer = self.ask(command, Place::Server(0)).await.ok()?;
        let value: Option<(&Value, &Value)> = answer.as_map_iter()?.next();
        value.map(|(_, value)| text(value))
    }
}

/// Name and version from `INFO server`.
fn name(info: &str) -> (String, String) {
    let field = |name: &str| {
        let mut fields = info.lines().filter_map(|line| line.split_once(':'));
        fields.find_map(|(key, value)| (key == name).then(|| value.trim()))
    };
    for name in ["valkey", "dragonfly"] {
        if let Some(version) = field(&format!("{name}_version")) {
            return (
                name.to_owned(),
                version.trim_start_matches("df-").to_owned(),
            );
        }
    }
    let version = field("redis_version").unwrap_or("of unknown version");
    // KeyDB gives its version as that of Redis.
    let keydb = field("executable").is_some_and(|path| path.contains("keydb"));
    let name = if keydb { "keydb" } else { "redis" };
    (name.to_owned(), version.to_owned())
}

/// `normal 0 0 0 slave … pubsub 33554432 8388608 60`.
fn read_buffer(limits: &str) -> Option<Buffer> {
    let mut words = limits
        .split(' ')
        .skip_while(|word| *word != "pubsub")
        .skip(1);
    let mut number = || words.next()?.parse().ok();
    Some(Buffer {
        hard_bytes: number()?,
        soft_bytes: number()?,
        soft_time: Duration::from_secs(number()?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_known_by_what_they_say() {
        for (info, wanted) in [
            ("# Server\r\nredis_version:7.0.15\r\n", ("redis", "7.0.15")),
            (
                "redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.1.1\r\n",
                ("valkey", "8.1.1"),
            ),
            (
                "redis_version:7.4.0\r\ndragonfly_version:df-v1.30.0\r\n",
                ("dragonfly", "v1.30.0"),
            ),
            (
                "redis_version:6.3.4\r\nexecutable:/usr/bin/keydb-server\r\n",
                ("keydb", "6.3.4"),
            ),
            ("", ("redis", "of unknown version")),
        ] {
            let (name, version) = name(info);
            assert_eq!((name.as_str(), version.as_str()), wanted);
        }
    }

    #[test]
    fn what_should_be_otherwise_is_said() {
        let mut server = Server {
            name: "dragonfly".to_owned(),
            version: "1.30".to_owned(),
            mode: "cluster",
            pubsub_buffer: read_buffer("normal 0 0 0 slave 1 2 3 pubsub 0 0 0"),
            node_timeout: Some(Duration::from_secs(15)),
        };
        let wanted = |server: &Server| -> Vec<&'static str> {
            let unwell = judge(server).into_iter();
            unwell
                .filter(|remark| remark.wanted.is_some())
                .map(|remark| remark.about)
                .collect()
        };
        let all = [
            "engine",
            "client-output-buffer-limit pubsub",
            "cluster-node-timeout",
        ];
        assert_eq!(wanted(&server), all);
        server.name = "valkey".to_owned();
        server.pubsub_buffer = read_buffer("pubsub 1048576 0 0");
        server.node_timeout = Some(Duration::from_secs(5));
        assert_eq!(wanted(&server), all[1..2]);
        server.pubsub_buffer = read_buffer("pubsub 33554432 8388608 60");
        assert!(wanted(&server).is_empty());
        assert_eq!(read_buffer("normal 0 0 0"), None);
    }
}
