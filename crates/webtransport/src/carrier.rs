//! The carrier: its threads, its UDP sockets, its certificates over time.

use crate::door::{self, House};
use crate::figures::{Counts, Figures};
use crate::openings::Openings;
use crate::quic::{self, H3_NO_ERROR};
use crate::{Bring, Settings};
use rustls::ServerConfig;
use std::net::{SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use web_transport_quinn::quinn::{self, Endpoint, TransportConfig, VarInt};

/// How often a port is tried that another process still has.
const PORT_INTERVAL: Duration = Duration::from_millis(50);
/// Then the log says that it is waited for.
const PORT_PATIENCE: Duration = Duration::from_secs(10);
/// How often it is looked whether the last have gone.
const LOOK_INTERVAL: Duration = Duration::from_millis(5);
/// What QUIC itself has to say at the end.
const FAREWELL: Duration = Duration::from_millis(200);

/// Serves until it is closed or dropped.
pub struct Carrier {
    house: Arc<House>,
    doors: Arc<Doors>,
    transport: Arc<TransportConfig>,
    /// `None`: it is closed.
    runtime: Mutex<Option<Runtime>>,
}

/// The endpoints that are open, and what the next one is opened with.
struct Doors {
    endpoints: Mutex<Vec<Endpoint>>,
    server: Mutex<quinn::ServerConfig>,
}

impl std::fmt::Debug for Carrier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Carrier")
            .field("settings", &self.house.settings)
            .finish_non_exhaustive()
    }
}

impl Carrier {
    /// Opens all addresses; those that another process has and will let go are opened then.
    ///
    /// # Errors
    /// An address cannot be listened on, or there is no thread.
    pub fn start(settings: Settings, tls: &ServerConfig, bring: Bring) -> Result<Self, String> {
        let transport = quic::transport(settings.idle_timeout);
        let server = quic::server(tls, &transport)?;
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        runtime
            .worker_threads(settings.threads)
            .thread_name("webtransport")
            .enable_all();
        let runtime = runtime.build();
        let runtime = runtime.map_err(|error| format!("cannot start threads: {error}"))?;
        let carrier = Self {
            doors: Arc::new(Doors {
                endpoints: Mutex::default(),
                server: Mutex::new(server),
            }),
            house: Arc::new(House {
                settings,
                bring,
                counts: Counts::default(),
                openings: Arc::new(Openings::default()),
            }),
            transport,
            runtime: Mutex::new(None),
        };
        for addr in &carrier.house.settings.listen {
            carrier.listen(&runtime, *addr)?;
        }
        *carrier
            .runtime
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = Some(runtime);
        Ok(carrier)
    }

    fn listen(&self, runtime: &Runtime, addr: SocketAddr) -> Result<(), String> {
        let (doors, house) = (Arc::clone(&self.doors), Arc::clone(&self.house));
        match UdpSocket::bind(addr) {
            Ok(socket) => doors.open(runtime.handle(), socket, house),
            Err(error) if self.house.settings.takes_over && is_taken(&error) => {
                let handle = runtime.handle().clone();
                runtime.spawn(async move {
                    let socket = wait_for(addr).await;
                    if let Err(message) = doors.open(&handle, socket, house) {
                        tracing::error!(message, "no WebTransport: restart the gateway");
                    }
                });
                Ok(())
            }
            Err(error) => Err(format!("cannot listen on {addr} by UDP: {error}")),
        }
    }

    /// Handshakes use this from now on. Sessions stay.
    ///
    /// # Errors
    /// QUIC cannot use it; the old one stays.
    pub fn renew(&self, tls: &ServerConfig) -> Result<(), String> {
        let server = quic::server(tls, &self.transport)?;
        let endpoints = self
            .doors
            .endpoints
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        for endpoint in &*endpoints {
            endpoint.set_server_config(Some(server.clone()));
        }
        *self
            .doors
            .server
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = server;
        Ok(())
    }

    pub fn figures(&self) -> Figures {
        self.house.counts.read()
    }

    /// Lets nobody in any more, waits until the sessions that shards have ended are gone, but no longer than this, ends the others, and gives
    /// the ports back. The second time it does nothing.
    pub fn close(&self, within: Duration) {
        let runtime = self
            .runtime
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let Some(runtime) = runtime else { return };
        let endpoints = self
            .doors
            .endpoints
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let endpoints: Vec<Endpoint> = endpoints.clone();
        endpoints
            .iter()
            .for_each(|endpoint| endpoint.set_server_config(None));
        let deadline = Instant::now() + within;
        let is_busy = || {
            endpoints
                .iter()
                .any(|endpoint| endpoint.open_connections() > 0)
        };
        while is_busy() && Instant::now() < deadline {
            std::thread::sleep(LOOK_INTERVAL);
        }
        for endpoint in &endpoints {
            endpoint.close(VarInt::from_u32(H3_NO_ERROR), b"shutting down");
        }
        let _ = runtime.block_on(async {
            let idle = async {
                for endpoint in &endpoints {
                    endpoint.wait_idle().await;
                }
            };
            tokio::time::timeout(FAREWELL, idle).await
        });
        runtime.shutdown_timeout(FAREWELL);
    }
}

impl Drop for Carrier {
    fn drop(&mut self) {
        self.close(Duration::ZERO);
    }
}

impl Doors {
    fn open(
        &self,
        runtime: &tokio::runtime::Handle,
        socket: UdpSocket,
        house: Arc<House>,
    ) -> Result<(), String> {
        let server = self.server.lock().unwrap_or_else(PoisonError::into_inner);
        let _context = runtime.enter();
        let endpoint = quic::endpoint(socket, server.clone());
        let endpoint = endpoint.map_err(|error| format!("cannot serve QUIC: {error}"))?;
        let mut endpoints = self
            .endpoints
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        endpoints.push(endpoint.clone());
        tokio::spawn(door::serve(endpoint, house));
        Ok(())
    }
}

fn is_taken(error: &std::io::Error) -> bool {
    error.kind() == std::io::ErrorKind::AddrInUse
}

/// Another process has the port until its last session is told to come back.
async fn wait_for(addr: SocketAddr) -> UdpSocket {
    let mut warn_at = Some(Instant::now() + PORT_PATIENCE);
    loop {
        match UdpSocket::bind(addr) {
            Ok(socket) => return socket,
            Err(error) if warn_at.is_some_and(|at| Instant::now() > at) => {
                warn_at = None;
                tracing::warn!(%addr, %error, "no WebTransport yet: its UDP port is waited for");
            }
            Err(_) => {}
        }
        tokio::time::sleep(PORT_INTERVAL).await;
    }
}
