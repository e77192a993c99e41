//! A TCP client that sends exact bytes and says exactly what came back: HTTP and WebSocket.

use crate::PATIENCE;
use crate::websocket::{self, Frame, OpCode};
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// Any key will do; the answer to this one is in RFC 6455 §1.3.
pub const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";
const ACCEPT: &str = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";

#[derive(Debug)]
pub struct RawConn {
    stream: Stream,
    unread: Vec<u8>,
    /// Compression was agreed on: frames may say that they are compressed.
    deflate: bool,
}

/// TCP, or TLS on it as rustls' client speaks it.
#[derive(Debug)]
enum Stream {
    Tcp(TcpStream),
    Tls(Box<rustls::StreamOwned<rustls::ClientConnection, TcpStream>>),
}

impl Stream {
    fn socket(&self) -> &TcpStream {
        match self {
            Stream::Tcp(stream) => stream,
            Stream::Tls(stream) => &stream.sock,
        }
    }
}

impl Read for Stream {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.read(buf),
            Stream::Tls(stream) => stream.read(buf),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, buf: &[u8]) -> std::io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.write(buf),
            Stream::Tls(stream) => stream.write(buf),
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        match self {
            Stream::Tcp(stream) => stream.flush(),
            Stream::Tls(stream) => stream.flush(),
        }
    }
}

/// How a connection was ended by the gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// FIN; over TLS, close_notify.
    Cleanly,
    /// RST; over TLS, an end without close_notify too.
    Reset,
    /// Not at all within the time.
    Open,
}

#[derive(Clone, Debug)]
pub struct Response {
    pub status: u16,
    /// Head as sent, with the status line.
    pub head: String,
    pub body: String,
}

enum Got {
    Bytes,
    End(Ended),
    Nothing,
}

impl Response {
    /// First value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().skip(1).find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then_some(value.trim())
        })
    }
}

impl From<TcpStream> for RawConn {
    fn from(stream: TcpStream) -> Self {
        RawConn {
            stream: Stream::Tcp(stream),
            unread: Vec::new(),
            deflate: false,
        }
    }
}

impl RawConn {
    pub fn connect(addr: SocketAddr) -> RawConn {
        RawConn::try_connect(addr).expect("connect to the gateway")
    }

    pub fn try_connect(addr: SocketAddr) -> std::io::Result<RawConn> {
        let stream = TcpStream::connect_timeout(&addr, PATIENCE)?;
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(RawConn {
            stream: Stream::Tcp(stream),
            unread: Vec::new(),
            deflate: false,
        })
    }

    /// From another address of loopback: to the gateway, another peer.
    pub fn connect_from(source: [u8; 4], addr: SocketAddr) -> RawConn {
        use socket2::{Domain, Socket, Type};
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
        let local = SocketAddr::from((source, 0));
        socket
            .bind(&local.into())
            .expect("an address of the loopback");
        socket.connect(&addr.into()).expect("the gateway listens");
        RawConn::over(TcpStream::from(socket))
    }

    /// On a connection that was made before, of any kind: to the system a stream is a stream.
    pub fn over(stream: impl Into<std::os::fd::OwnedFd>) -> RawConn {
        let stream = TcpStream::from(stream.into());
        let timeout = stream.set_write_timeout(Some(PATIENCE));
        timeout.expect("set the write timeout");
        RawConn {
            stream: Stream::Tcp(stream),
            unread: Vec::new(),
            deflate: false,
        }
    }

    /// Speaks TLS on a new connection and has finished the handshake. `preface` goes before it, in the clear.
    pub fn try_secure(
        addr: SocketAddr,
        client: rustls::ClientConnection,
        preface: &[u8],
    ) -> std::io::Result<RawConn> {
        let mut stream = TcpStream::connect_timeout(&addr, PATIENCE)?;
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(PATIENCE))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.write_all(preface)?;
        let mut stream = Box::new(rustls::StreamOwned::new(client, stream));
        while stream.conn.is_handshaking() {
            stream.conn.complete_io(&mut stream.sock)?;
        }
        Ok(RawConn {
            stream: Stream::Tls(stream),
            unread: Vec::new(),
            deflate: false,
        })
    }

    /// The TLS side of the connection.
    ///
    /// # Panics
    /// When there is none.
    pub fn tls(&mut self) -> &mut rustls::ClientConnection {
        match &mut self.stream {
            Stream::Tcp(_) => panic!("not a TLS connection"),
            Stream::Tls(stream) => &mut stream.conn,
        }
    }

    /// Sends one request and reads its answer on a connection of its own.
    pub fn exchange(addr: SocketAddr, request: impl AsRef<[u8]>) -> Response {
        let mut conn = RawConn::connect(addr);
        conn.send(&request);
        // RFC 9110 §9.3.2: the head of what a GET would get, and nothing behind it.
        if request.as_ref().starts_with(b"HEAD ") {
            let deadline = Instant::now() + PATIENCE;
            return conn.response_head(deadline).expect("a head");
        }
        conn.response()
    }

    /// Opens a WebSocket.
    pub fn websocket(addr: SocketAddr, target: &str) -> RawConn {
        RawConn::websocket_with(addr, target, "")
    }

    /// Opens a WebSocket with more header lines, each ending in CRLF.
    pub fn websocket_with(addr: SocketAddr, target: &str, extra: &str) -> RawConn {
        RawConn::connect(addr).upgraded(target, extra)
    }

    /// Sends bytes past the TLS that the connection speaks.
    pub fn send_below_tls(&mut self, bytes: &[u8]) {
        let mut socket = self.stream.socket();
        socket.write_all(bytes).expect("send to the gateway");
    }

    /// Makes a WebSocket of it.
    pub fn upgraded(mut self, target: &str, extra: &str) -> RawConn {
        self.send(upgrade_request(target, extra));
        let response = self.response();
        assert_eq!(response.status, 101, "{response:?}");
        assert_eq!(response.header("sec-websocket-accept"), Some(ACCEPT));
        self.deflate = response.header("sec-websocket-extensions").is_some();
        self
    }

    // ---- sending ---------------------------------------------------------------------------------

    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream
            .write_all(bytes.as_ref())
            .expect("send to the gateway");
    }

    /// Sends to a gateway that may have had enough; `false` when it has.
    pub fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        self.stream.write_all(bytes.as_ref()).is_ok()
    }

    pub fn send_frame(&mut self, fin: bool, opcode: OpCode, payload: impl AsRef<[u8]>) {
        self.send(masked(fin, opcode, payload));
    }

    /// A whole message, to a gateway that may have had enough; `false` when it has.
    pub fn try_send_frame(&mut self, opcode: OpCode, payload: impl AsRef<[u8]>) -> bool {
        self.try_send(masked(true, opcode, payload))
    }

    pub fn send_text(&mut self, text: impl AsRef<[u8]>) {
        self.send_frame(true, OpCode::Text, text);
    }

    pub fn send_binary(&mut self, bytes: impl AsRef<[u8]>) {
        self.send_frame(true, OpCode::Binary, bytes);
    }

    /// Ends the sending side only.
    pub fn half_close(&self) {
        self.stream
            .socket()
            .shutdown(Shutdown::Write)
            .expect("half-close");
    }

    /// Ends the connection with RST instead of FIN.
    pub fn reset(self) {
        rustix::net::sockopt::set_socket_linger(self.stream.socket(), Some(Duration::ZERO))
            .expect("set SO_LINGER");
    }

    /// Bytes that the kernel keeps for us before the gateway must wait.
    pub fn shrink_receive_buffer(&self, bytes: usize) {
        rustix::net::sockopt::set_socket_recv_buffer_size(self.stream.socket(), bytes)
            .expect("set SO_RCVBUF");
    }

    // ---- receiving -------------------------------------------------------------------------------

    /// The next HTTP response.
    ///
    /// # Panics
    /// When none comes in time, or the connection ends first.
    pub fn response(&mut self) -> Response {
        self.response_within(PATIENCE).expect("an HTTP response")
    }

    /// The next HTTP response; `Err` says how the connection stands instead.
    pub fn response_within(&mut self, within: Duration) -> Result<Response, Ended> {
        let deadline = Instant::now() + within;
        let mut response = self.response_head(deadline)?;
        if response.status >= 200 && response.status != 204 {
            response.body = self.body(response.header("content-length"), deadline)?;
        }
        Ok(response)
    }

    fn response_head(&mut self, deadline: Instant) -> Result<Response, Ended> {
        let end = loop {
            let end = self
                .unread
                .windows(4)
                .position(|bytes| bytes == b"\r\n\r\n");
            if let Some(end) = end {
                break end + 4;
            }
            self.fill(deadline)?;
        };
        let head = String::from_utf8_lossy(&self.unread[..end]).into_owned();
        self.unread.drain(..end);
        let status = head.get(9..12).and_then(|digits| digits.parse().ok());
        Ok(Response {
            status: status.unwrap_or_else(|| panic!("not a status line: {head}")),
            head,
            body: String::new(),
        })
    }

    /// The next bytes of a protocol that this client does not speak; `Err` says how the connection stands instead.
    pub fn bytes_within(&mut self, count: usize, within: Duration) -> Result<Vec<u8>, Ended> {
        let deadline = Instant::now() + within;
        while self.unread.len() < count {
            self.fill(deadline)?;
        }
        Ok(self.unread.drain(..count).collect())
    }

    /// Everything until the end of the stream, as it came.
    pub fn rest(&mut self, within: Duration) -> String {
        let deadline = Instant::now() + within;
        while self.fill(deadline).is_ok() {}
        String::from_utf8_lossy(&self.unread).into_owned()
    }

    /// As long as the header says, else to the end of the stream.
    fn body(&mut self, length: Option<&str>, deadline: Instant) -> Result<String, Ended> {
        let length: Option<usize> = length.map(|length| length.parse().expect("a length"));
        while length.is_none_or(|length| self.unread.len() < length) {
            match self.fill(deadline) {
                Ok(()) => {}
                Err(Ended::Cleanly) if length.is_none() => break,
                Err(ended) => return Err(ended),
            }
        }
        let length = length.unwrap_or(self.unread.len());
        let body: Vec<u8> = self.unread.drain(..length).collect();
        Ok(String::from_utf8_lossy(&body).into_owned())
    }

    /// The next frame.
    ///
    /// # Panics
    /// When none comes in time, or the connection ends first.
    pub fn frame(&mut self) -> Frame {
        self.frame_within(PATIENCE).expect("a frame")
    }

    /// The next frame; `Err` says how the connection stands instead.
    pub fn frame_within(&mut self, within: Duration) -> Result<Frame, Ended> {
        let deadline = Instant::now() + within;
        loop {
            if let Some(frame) = Frame::take(&mut self.unread, self.deflate) {
                return Ok(frame);
            }
            self.fill(deadline)?;
        }
    }

    /// Skips to the close frame and returns its status (1005 for none), then waits for the end of TCP.
    ///
    /// # Panics
    /// When either does not come in time.
    pub fn close_code(&mut self, within: Duration) -> u16 {
        let started = Instant::now();
        loop {
            let left = within.saturating_sub(started.elapsed());
            let frame = self.frame_within(left).expect("a close frame");
            if frame.opcode == OpCode::Close {
                let left = within.saturating_sub(started.elapsed());
                assert_ne!(
                    self.ended(left),
                    Ended::Open,
                    "no end of TCP after the close frame"
                );
                return frame.close_code().unwrap_or(1005);
            }
        }
    }

    /// Reads and drops everything until the gateway ends the connection.
    pub fn ended(&mut self, within: Duration) -> Ended {
        let deadline = Instant::now() + within;
        loop {
            self.unread.clear();
            if let Err(ended) = self.fill(deadline) {
                return ended;
            }
        }
    }

    /// Whether nothing arrives for this long and the connection stays open.
    pub fn is_quiet(&mut self, time: Duration) -> bool {
        self.unread.is_empty() && self.fill(Instant::now() + time) == Err(Ended::Open)
    }

    fn fill(&mut self, deadline: Instant) -> Result<(), Ended> {
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.read_once(left.max(Duration::from_millis(1))) {
                Got::Bytes => return Ok(()),
                Got::End(ended) => return Err(ended),
                Got::Nothing if left.is_zero() => return Err(Ended::Open),
                Got::Nothing => {}
            }
        }
    }

    fn read_once(&mut self, timeout: Duration) -> Got {
        self.stream
            .socket()
            .set_read_timeout(Some(timeout))
            .expect("set the read timeout");
        let mut buf = [0; 16 * 1024];
        match self.stream.read(&mut buf) {
            Ok(0) => Got::End(Ended::Cleanly),
            Ok(n) => {
                self.unread.extend_from_slice(&buf[..n]);
                Got::Bytes
            }
            Err(error) => match error.kind() {
                ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted => {
                    Got::Nothing
                }
                _ => Got::End(Ended::Reset),
            },
        }
    }
}

/// A good upgrade request; `extra` are header lines, each ending in CRLF.
pub fn upgrade_request(target: &str, extra: &str) -> Vec<u8> {
    let request = format!(
        "GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {KEY}\r\n{extra}\r\n"
    );
    request.into_bytes()
}

/// A client's frame.
pub fn masked(fin: bool, opcode: OpCode, payload: impl AsRef<[u8]>) -> Vec<u8> {
    websocket::masked(fin, opcode, payload.as_ref())
}
