//! WebTransport: a carrier brings clients' streams to the shards. The crate `webtransport` has it; this module has its place in the
//! process. A build without the feature `webtransport` has the settings only.

#[cfg(feature = "webtransport")]
mod carrier;

use rustls::ServerConfig;
use std::any::Any;
use std::fmt::Debug;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

/// Whether this build has it.
pub const HAS_WEBTRANSPORT: bool = cfg!(feature = "webtransport");

/// Why a build without it does not start.
pub const MISSING: &str = "this build has no WebTransport: build with `--features webtransport`; packages and images have it";

/// How the carrier serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// UDP addresses.
    pub listen: Vec<SocketAddr>,
    /// Another process has these ports, and will let them go.
    pub takes_over: bool,
    /// Prefixes of the paths that sessions are opened at.
    pub paths: Vec<String>,
    /// From a client's first packet to the one that opens a session.
    pub opening_timeout: Duration,
    /// A connection from which nothing comes is over.
    pub idle_timeout: Duration,
    /// For the last words of both sides.
    pub close_timeout: Duration,
    pub threads: usize,
}

/// Takes the end of a socket pair that stands for a client's stream; what it gives back is held until the other end is closed. `None`: there is
/// no room.
pub type Bring = Box<dyn Fn(UnixStream, IpAddr) -> Option<Box<dyn Any + Send>> + Send + Sync>;

/// Why a client came to no session.
pub const TURNED_AWAY: [&str; 5] = ["busy", "slow", "wrong", "full", "refused"];

/// What is counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    pub opening: u64,
    pub opened: u64,
    /// Those that came to no session, by [`TURNED_AWAY`].
    pub turned_away: [u64; TURNED_AWAY.len()],
    pub second_streams: u64,
    pub stalled: u64,
    pub received_bytes: u64,
    pub sent_bytes: u64,
}

pub trait Carrier: Debug + Send + Sync {
    /// Handshakes use these certificates from now on.
    fn renew(&self, tls: &ServerConfig) -> Result<(), String>;
    fn figures(&self) -> Figures;
    /// Lets nobody in any more.
    fn stop(&self);
    /// Waits so long for sessions that shards have ended, and gives the ports back.
    fn close(&self, within: Duration);
}

/// Opens its ports.
pub fn start(
    settings: Settings,
    tls: &ServerConfig,
    bring: Bring,
) -> Result<Arc<dyn Carrier>, String> {
    #[cfg(feature = "webtransport")]
    return Ok(Arc::new(carrier::start(settings, tls, bring)?));
    #[cfg(not(feature = "webtransport"))]
    {
        let _ = (settings, tls, bring);
        Err(MISSING.to_owned())
    }
}
