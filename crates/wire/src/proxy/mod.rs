//! The PROXY protocol, versions 1 and 2: what a proxy says before the client's first byte about whom it stands for
//! (<https://www.haproxy.org/download/3.0/doc/proxy-protocol.txt>). Whether to believe it is not a codec's business.

mod v1;
mod v2;

use core::net::IpAddr;

pub use crate::bounds::PROXY_HEADER_BYTES_MAX;
pub use v2::write as write_v2;

/// What a proxy said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProxyHeader {
    /// Address of the client; `None` when the proxy speaks for itself (`LOCAL`: a health check) or does not know
    /// (`UNKNOWN`, `UNSPEC`, a Unix socket's path): then whoever connected is the client.
    pub client: Option<IpAddr>,
    /// Bytes of the header; the client's own begin behind it.
    pub len: usize,
}

/// Why there is no header to go by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxyError {
    /// The first bytes are something else: no proxy spoke.
    Absent,
    /// It begins like a header and is none: unknown version, command or family, addresses that do not parse or fit.
    Malformed,
    /// Longer than [`PROXY_HEADER_BYTES_MAX`].
    TooLong,
}

/// Reads the header at the front of `buf`; `Ok(None)` means that more bytes are needed.
///
/// # Errors
/// Any [`ProxyError`]. `Absent` is certain: no further byte could make it a header.
pub fn parse(buf: &[u8]) -> Result<Option<ProxyHeader>, ProxyError> {
    if begins(buf, v2::SIGNATURE) {
        return v2::parse(buf);
    }
    if begins(buf, v1::PREFIX) {
        return v1::parse(buf);
    }
    Err(ProxyError::Absent)
}

/// Whether `buf` is the beginning of `mark`, or begins with it.
fn begins(buf: &[u8], mark: &[u8]) -> bool {
    let len = buf.len().min(mark.len());
    buf[..len] == mark[..len]
}
