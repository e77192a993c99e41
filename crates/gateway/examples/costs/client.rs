//! A Socket.IO client in a few lines: one blocking connection, masks of zeros.

use anyhow::{Result, ensure};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Joins the main namespace; `auth` is the payload of CONNECT, or nothing.
pub fn join(addr: SocketAddr, auth: &str) -> Result<TcpStream> {
    let mut stream = TcpStream::connect(addr)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    stream.write_all(
        b"GET /socket.io/?EIO=4&transport=websocket HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
          Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n",
    )?;
    await_text(&mut stream, b"0{\"sid\"")?;
    stream.write_all(&frame(&format!("40{auth}")))?;
    await_text(&mut stream, b"40{\"sid\"")?;
    Ok(stream)
}

/// A text frame of at most 65,535 bytes.
pub fn frame(text: &str) -> Vec<u8> {
    let mut frame = vec![0x81];
    match text.len() {
        len @ 0..126 => frame.push(0x80 | len as u8),
        len => {
            frame.push(0x80 | 126);
            frame.extend_from_slice(&(len as u16).to_be_bytes());
        }
    }
    frame.extend_from_slice(&[0; 4]);
    frame.extend_from_slice(text.as_bytes());
    frame
}

/// Reads until this was among what came.
pub fn await_text(stream: &mut TcpStream, wanted: &[u8]) -> Result<()> {
    let (mut seen, mut buf) = (Vec::new(), [0; 1024]);
    while !seen.windows(wanted.len()).any(|window| window == wanted) {
        let n = stream.read(&mut buf)?;
        ensure!(n > 0, "closed: {}", String::from_utf8_lossy(&seen));
        seen.extend_from_slice(&buf[..n]);
    }
    Ok(())
}
