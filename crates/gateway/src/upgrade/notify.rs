//! What systemd is told of this process, if it asks by `NOTIFY_SOCKET`.

use std::env;
use std::ffi::OsStr;
use std::os::unix::net::UnixDatagram;
use std::process;

const VARIABLE: &str = "NOTIFY_SOCKET";

/// The process serves. Its number is told, too: it may be another than the supervisor began.
pub fn ready() {
    tell(&format!(
        "MAINPID={}\nREADY=1\nSTATUS=serving",
        process::id()
    ));
}

/// It was told to stop, and sends its clients away.
pub fn stopping() {
    tell("STOPPING=1\nSTATUS=draining");
}

/// Another process has taken over: it is the main one from now on.
pub fn main_is(pid: u32) {
    tell(&format!("MAINPID={pid}"));
}

/// Best effort: a supervisor that does not listen changes nothing for clients.
fn tell(text: &str) {
    let Some(name) = env::var_os(VARIABLE).filter(|name| !name.is_empty()) else {
        return;
    };
    if let Err(error) = send(&name, text.as_bytes()) {
        tracing::warn!(%error, "cannot tell the supervisor: look at NOTIFY_SOCKET");
    }
}

fn send(name: &OsStr, text: &[u8]) -> std::io::Result<()> {
    let socket = UnixDatagram::unbound()?;
    #[cfg(target_os = "linux")]
    if let Some(name) = name.as_encoded_bytes().strip_prefix(b"@") {
        use std::os::linux::net::SocketAddrExt;
        let addr = std::os::unix::net::SocketAddr::from_abstract_name(name)?;
        return socket.send_to_addr(text, &addr).map(drop);
    }
    socket.send_to(text, name).map(drop)
}
