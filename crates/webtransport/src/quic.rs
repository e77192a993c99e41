//! What QUIC may take: bounds of a connection, and its certificates.

use rustix::net::sockopt::set_socket_recv_buffer_size;
use std::net::UdpSocket;
use std::sync::Arc;
use std::time::Duration;
use web_transport_quinn::quinn::crypto::rustls::QuicServerConfig;
use web_transport_quinn::quinn::{
    Endpoint, EndpointConfig, ServerConfig, TokioRuntime, TransportConfig, VarInt,
};
use web_transport_quinn::{ALPN, quinn};

/// The request, the session's stream, and some that are refused.
const STREAMS_MAX: u32 = 8;
/// Streams in one direction: settings and headers of HTTP/3. What else comes by them is not read.
const ONE_WAY_STREAMS_MAX: u32 = 8;
/// What a client may send that is not read yet, bytes.
const STREAM_WINDOW: u32 = 128 * 1024;
const WINDOW: u32 = 192 * 1024;
/// What may be under way to a client, bytes.
const SEND_WINDOW: u64 = 256 * 1024;
/// Browsers insist on datagrams; nobody reads them. The oldest make way.
const DATAGRAM_BYTES: usize = 4 * 1024;
/// First packets that wait until they are looked at.
const INCOMING_MAX: usize = 256;
const INCOMING_BYTES: u64 = 16 * 1024;
/// Packets of all clients of an address that are not read yet. The system's own size is full after some hundred small packets.
const RECEIVE_BUFFER_BYTES: usize = 4 * 1024 * 1024;

pub(crate) fn transport(idle_timeout: Duration) -> Arc<TransportConfig> {
    let mut transport = TransportConfig::default();
    transport
        .max_concurrent_bidi_streams(STREAMS_MAX.into())
        .max_concurrent_uni_streams(ONE_WAY_STREAMS_MAX.into())
        .stream_receive_window(STREAM_WINDOW.into())
        .receive_window(WINDOW.into())
        .send_window(SEND_WINDOW)
        .datagram_receive_buffer_size(Some(DATAGRAM_BYTES))
        .datagram_send_buffer_size(DATAGRAM_BYTES)
        .max_idle_timeout(idle_timeout.try_into().ok());
    Arc::new(transport)
}

/// Certificates as QUIC takes them.
pub(crate) fn crypto(tls: &rustls::ServerConfig) -> Result<Arc<QuicServerConfig>, String> {
    let mut tls = tls.clone();
    tls.alpn_protocols = vec![ALPN.as_bytes().to_vec()];
    let crypto = QuicServerConfig::try_from(tls);
    crypto
        .map(Arc::new)
        .map_err(|error| format!("cannot use the certificates for QUIC: {error}"))
}

/// What an endpoint begins with. New certificates replace its `crypto` alone: proofs of addresses that were given out stay good.
pub(crate) fn server(
    tls: &rustls::ServerConfig,
    transport: Arc<TransportConfig>,
) -> Result<ServerConfig, String> {
    let mut server = ServerConfig::with_crypto(crypto(tls)?);
    server
        .transport_config(transport)
        .max_incoming(INCOMING_MAX)
        .incoming_buffer_size(INCOMING_BYTES)
        .incoming_buffer_size_total(INCOMING_BYTES * INCOMING_MAX as u64);
    Ok(server)
}

/// Within a runtime.
pub(crate) fn endpoint(socket: UdpSocket, server: ServerConfig) -> std::io::Result<Endpoint> {
    socket.set_nonblocking(true)?;
    // Linux gives as much as `net.core.rmem_max` allows, others all or nothing.
    if let Err(error) = set_socket_recv_buffer_size(&socket, RECEIVE_BUFFER_BYTES) {
        tracing::debug!(%error, "the UDP socket keeps the receive buffer of the system");
    }
    let (config, runtime) = (EndpointConfig::default(), Arc::new(TokioRuntime));
    Endpoint::new(config, Some(server), socket, runtime)
}

/// Ends a connection when it is dropped, if nothing else has: handles of it may live on in tasks of the library.
#[derive(Debug)]
pub(crate) struct Ends(pub(crate) quinn::Connection);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.close(VarInt::from_u32(H3_NO_ERROR), b"");
    }
}

/// RFC 9114 §8.1.
pub(crate) const H3_NO_ERROR: u32 = 0x100;
