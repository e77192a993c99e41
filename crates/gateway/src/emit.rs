//! `sockeye emit`: publishes an event through the operators' listener of a gateway.

use crate::config::{self, Request};
use crate::health::reachable;
use anyhow::{Context, Result, bail};
use clap::Args;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// For connecting, and for each part of the answer.
const PATIENCE: Duration = Duration::from_secs(5);
const ANSWER_BYTES_MAX: u64 = 64 * 1024;

/// Send an event to clients, on whatever node they are.
#[derive(Debug, Args)]
pub struct EmitArgs {
    /// Name of the event.
    event: String,
    /// Arguments, each as JSON; what is no JSON is taken as text.
    args: Vec<String>,
    /// To members of this room, or to the socket of this id; may be given several times. Without rooms and users: to everyone.
    #[arg(long, value_name = "NAME")]
    room: Vec<String>,
    /// To this user; may be given several times.
    #[arg(long, value_name = "UID")]
    user: Vec<String>,
    /// Not to members of this room; may be given several times.
    #[arg(long, value_name = "NAME")]
    except: Vec<String>,
    #[arg(long, value_name = "NAME", default_value = "/")]
    namespace: String,
    /// An API key of the gateway (`sockeye api-key`).
    #[arg(
        long,
        value_name = "KEY",
        env = "SOCKEYE_API_KEY",
        hide_env_values = true
    )]
    key: Option<String>,
}

pub fn run(args: &EmitArgs, request: &Request) -> Result<()> {
    let loaded = config::load(request).map_err(|problems| anyhow::anyhow!("{problems}"))?;
    let admin = loaded.resolved.server.admin;
    let addr =
        admin.context("cannot ask a gateway without an operators' listener: set server.admin")?;
    let addr = reachable(addr);
    let key = args.key.as_deref();
    let key = key.context("cannot publish without an API key: set SOCKEYE_API_KEY, or --key; `sockeye api-key` makes one")?;
    let body = body(args);
    let answer =
        post(addr, key, &body).with_context(|| format!("cannot ask http://{addr}/v1/emit"))?;
    let (status, said) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    if status.split(' ').nth(1) != Some("202") {
        let status = status.lines().next().unwrap_or_default();
        bail!("http://{addr}/v1/emit answers {status}: {said}");
    }
    println!("accepted");
    Ok(())
}

fn body(args: &EmitArgs) -> String {
    let value =
        |text: &String| serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.clone()));
    json!({
        "event": args.event,
        "args": args.args.iter().map(value).collect::<Vec<_>>(),
        "rooms": args.room,
        "users": args.user,
        "except": args.except,
        "namespace": args.namespace,
    })
    .to_string()
}

fn post(addr: std::net::SocketAddr, key: &str, body: &str) -> Result<String> {
    let mut stream = TcpStream::connect_timeout(&addr, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let head = format!(
        "POST /v1/emit HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(&[head.as_bytes(), body.as_bytes()].concat())?;
    let mut answer = Vec::new();
    stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}
