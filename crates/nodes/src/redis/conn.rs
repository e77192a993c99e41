//! One connection to one server: TCP, TLS, login, and what the server says of itself.

use super::settings::{Addr, Login, Mode, Settings};
use crate::engine::Trouble;
use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, Cmd, Pipeline, ProtocolVersion, PushInfo, PushKind, RedisConnectionInfo,
    RedisError, Value,
};
use rustix::net::sockopt;
use rustls::pki_types::ServerName;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

/// Until a connection can be used.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// The first probe of an idle connection, and the pause between probes: a count of subscribers is wrong while the server believes
/// in a peer that is gone.
const KEEPALIVE: Duration = Duration::from_secs(15);
const VERSION_MIN: (u32, u32) = (6, 2);
/// The first with sharded channels.
const CLUSTER_VERSION_MIN: (u32, u32) = (7, 0);

/// A connection; it is closed when this goes.
#[derive(Debug)]
pub(super) struct Conn {
    pub(super) addr: Addr,
    pub(super) hello: Hello,
    link: MultiplexedConnection,
    driver: AbortHandle,
    gone: Arc<Notify>,
}

impl Drop for Conn {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

/// What a server answers to HELLO.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Hello {
    pub(super) name: String,
    pub(super) version: String,
    /// `standalone`, `sentinel` or `cluster`.
    pub(super) mode: String,
    /// `master` or `replica`.
    pub(super) role: String,
}

/// Takes what a server sends without being asked.
pub(super) type OnPush = Box<dyn Fn(PushInfo) + Send + Sync>;

impl Conn {
    pub(super) async fn open(
        addr: &Addr,
        login: &Login,
        settings: &Settings,
        on_push: Option<OnPush>,
    ) -> Result<Conn, Trouble> {
        let opened = timeout(CONNECT_TIMEOUT, connect(addr, login, settings, on_push)).await;
        opened.unwrap_or_else(|_| {
            let seconds = CONNECT_TIMEOUT.as_secs();
            let why = "is it overloaded, stopped, or behind a firewall?";
            Err(Trouble::new(format!(
                "cannot reach Redis at {addr}: no answer in {seconds} s; {why}"
            )))
        })
    }

    /// Ends when the other side has closed it.
    pub(super) async fn gone(&self) -> Trouble {
        self.gone.notified().await;
        closed(&self.addr)
    }

    /// Sends commands in one write and returns an answer for each.
    ///
    /// # Errors
    /// The connection is lost, or was silent for too long. Nobody knows which commands were carried out.
    pub(super) async fn send(
        &self,
        pipeline: &Pipeline,
        patience: Duration,
    ) -> Result<Vec<Value>, Trouble> {
        let mut link = self.link.clone();
        let sent = link.send_packed_commands(pipeline, 0, pipeline.len());
        match timeout(patience, sent).await {
            Ok(answered) => answered.map_err(|error| lost(&self.addr, &error)),
            Err(_) => Err(Trouble::new(format!(
                "Redis at {} did not answer in {} ms",
                self.addr,
                patience.as_millis()
            ))),
        }
    }

    pub(super) async fn ask(&self, command: Cmd, patience: Duration) -> Result<Value, Trouble> {
        let mut pipeline = Pipeline::new();
        pipeline.add_command(command);
        let mut answers = self.send(&pipeline, patience).await?;
        Ok(answers.pop().unwrap_or_default())
    }
}

pub(super) fn closed(addr: &Addr) -> Trouble {
    let why = "was closed by the server, or the network failed";
    Trouble::new(format!("the connection to Redis at {addr} {why}"))
}

fn lost(addr: &Addr, error: &RedisError) -> Trouble {
    Trouble::new(format!(
        "the connection to Redis at {addr} was lost: {error}"
    ))
}

async fn connect(
    addr: &Addr,
    login: &Login,
    settings: &Settings,
    on_push: Option<OnPush>,
) -> Result<Conn, Trouble> {
    let refuse =
        |why: &dyn std::fmt::Display| Trouble::new(format!("cannot reach Redis at {addr}: {why}"));
    let stream = TcpStream::connect((&*addr.host, addr.port)).await;
    let stream = stream.map_err(|error| refuse(&error))?;
    prepare(&stream).map_err(|error| refuse(&error))?;
    let Some(tls) = &settings.tls else {
        return log_in(addr, login, stream, on_push).await;
    };
    let name = ServerName::try_from(addr.host.to_string()).map_err(|error| refuse(&error))?;
    let connected = TlsConnector::from(Arc::clone(tls))
        .connect(name, stream)
        .await;
    let stream = connected.map_err(|error| refuse(&format!("TLS: {error}")))?;
    log_in(addr, login, stream, on_push).await
}

fn prepare(stream: &TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, KEEPALIVE)?;
    sockopt::set_tcp_keepintvl(stream, KEEPALIVE)?;
    Ok(sockopt::set_tcp_keepcnt(stream, 2)?)
}

async fn log_in(
    addr: &Addr,
    login: &Login,
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    on_push: Option<OnPush>,
) -> Result<Conn, Trouble> {
    let mut info = RedisConnectionInfo::default().set_protocol(ProtocolVersion::RESP3);
    if let Some(user) = &login.user {
        info = info.set_username(user);
    }
    if let Some(password) = &login.password {
        info = info.set_password(password);
    }
    info = info.set_db(login.database);
    // The time is bounded by the caller.
    let gone = Arc::new(Notify::new());
    let tell_gone = Arc::clone(&gone);
    let config = AsyncConnectionConfig::new()
        .set_response_timeout(None)
        .set_push_sender(move |push: PushInfo| -> Result<(), ()> {
            if push.kind == PushKind::Disconnection {
                tell_gone.notify_one();
            }
            if let Some(on_push) = &on_push {
                on_push(push);
            }
            Ok(())
        });
    let opened = MultiplexedConnection::new_with_config(&info, stream, config).await;
    let (link, driver) = opened.map_err(|error| refused(addr, login, &error))?;
    let mut conn = Conn {
        addr: addr.clone(),
        hello: Hello::default(),
        link,
        driver: tokio::spawn(driver).abort_handle(),
        gone,
    };
    let mut hello = Cmd::new();
    hello.arg("HELLO");
    let answer = conn.ask(hello, CONNECT_TIMEOUT).await?;
    conn.hello = Hello::read(&answer);
    conn.hello.check(addr)?;
    Ok(conn)
}

/// Why a server did not let us in, and what to do.
fn refused(addr: &Addr, login: &Login, error: &RedisError) -> Trouble {
    let text = error.to_string();
    let user = login.user.as_deref().unwrap_or("default");
    let advice = if text.contains("unknown command") {
        "it does not know HELLO: version 6.2 or later is needed".to_owned()
    } else if text.contains("WRONGPASS") || text.contains("WRONG") {
        format!("user {user:?} or its password is wrong")
    } else if text.contains("NOAUTH") {
        "it wants a password, and none is configured".to_owned()
    } else {
        format!("as user {user:?}")
    };
    let text = format!("cannot log in to Redis at {addr}: {advice}: {error}");
    let lasting = ["WRONG", "NOAUTH", "NOPERM", "unknown command"];
    match lasting.iter().any(|why| text.contains(why)) {
        true => Trouble::lasting(text),
        false => Trouble::new(text),
    }
}

impl Hello {
    fn read(answer: &Value) -> Self {
        let mut hello = Self::default();
        let Some(fields) = answer.as_map_iter() else {
            return hello;
        };
        for (key, value) in fields {
            let value = text(value);
            match text(key).as_str() {
                "server" => hello.name = value,
                "version" => hello.version = value,
                "mode" => hello.mode = value,
                "role" => hello.role = value,
                _ => {}
            }
        }
        hello
    }

    /// Whether commands may go to this server.
    pub(super) fn suits(&self, addr: &Addr, mode: &Mode) -> Result<(), Trouble> {
        let why = match (mode, self.mode.as_str()) {
            (Mode::Cluster, "cluster") => return Ok(()),
            (Mode::Cluster, _) => "it is not a node of a cluster",
            (_, "cluster") => "it is a node of a cluster, and is not configured as such",
            (_, "sentinel") => "it is a Sentinel, and is not configured as such",
            _ if self.role != "master" => "it is a replica; messages would not reach the others",
            _ => return Ok(()),
        };
        Err(Trouble::new(format!("cannot use Redis at {addr}: {why}")))
    }

    fn check(&self, addr: &Addr) -> Result<(), Trouble> {
        let Hello { name, version, .. } = self;
        let (min, what) = match self.mode.as_str() {
            "cluster" => (CLUSTER_VERSION_MIN, "a cluster"),
            _ => (VERSION_MIN, "Sockeye"),
        };
        if number(version).is_some_and(|found| found >= min) {
            return Ok(());
        }
        Err(Trouble::lasting(format!(
            "cannot use {name} {version} at {addr}: {what} needs version {}.{} or later",
            min.0, min.1
        )))
    }
}

/// The first two parts of a version.
fn number(version: &str) -> Option<(u32, u32)> {
    let mut parts = version.split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// What a server said instead of an answer.
pub(super) fn refusal(value: &Value) -> Option<String> {
    let Value::ServerError(error) = value else {
        return None;
    };
    Some(match error.details() {
        Some(details) => format!("{} {details}", error.code()),
        None => error.code().to_owned(),
    })
}

/// A string, in whatever form it comes.
pub(super) fn text(value: &Value) -> String {
    match value {
        Value::BulkString(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Value::SimpleString(text) | Value::VerbatimString { text, .. } => text.clone(),
        Value::Int(number) => number.to_string(),
        Value::Okay => "OK".to_owned(),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_that_are_too_old_are_refused() {
        let addr = Addr {
            host: "r".into(),
            port: 1,
        };
        let check = |version: &str, mode: &str| {
            let hello = Hello {
                name: "redis".to_owned(),
                version: version.to_owned(),
                mode: mode.to_owned(),
                role: "master".to_owned(),
            };
            hello.check(&addr).map_err(|trouble| trouble.to_string())
        };
        assert_eq!(check("6.2.0", "standalone"), Ok(()));
        assert_eq!(check("10.0.1", "cluster"), Ok(()));
        let error = check("6.0.16", "standalone").expect_err("too old");
        assert_eq!(
            error,
            "cannot use redis 6.0.16 at r:1: Sockeye needs version 6.2 or later"
        );
        assert!(check("6.2.14", "cluster").is_err());
        assert!(check("unstable", "standalone").is_err());
    }
}
