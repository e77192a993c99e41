//! The carrier: its threads, its UDP sockets, its certificates over time.

use crate::door;
use crate::figures::{Counts, Figures};
use crate::house::House;
use crate::openings::Openings;
use crate::quic::{self, H3_NO_ERROR};
use crate::{Bring, Settings};
use rustls::ServerConfig;
use std::net::{SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use web_transport_quinn::quinn::{self, Endpoint, VarInt};

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
    doors: Arc<Mutex<Doors>>,
    /// `None`: it is closed.
    runtime: Mutex<Option<Runtime>>,
}

struct Doors {
    open: Vec<Endpoint>,
    /// What the next one is opened with; `None`: nobody is let in any more.
    server: Option<quinn::ServerConfig>,
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
        let server = quic::server(tls, quic::transport(settings.idle_timeout))?;
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        runtime
            .worker_threads(settings.threads)
            .thread_name("webtransport")
            .enable_all();
        let runtime = runtime.build();
        let runtime = runtime.map_err(|error| format!("cannot start threads: {error}"))?;
        let carrier = Self {
            doors: Arc::new(Mutex::new(Doors {
                open: Vec::new(),
                server: Some(server),
            })),
            house: Arc::new(House {
                settings,
                bring,
                counts: Counts::default(),
                openings: Arc::new(Openings::default()),
            }),
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
            Ok(socket) => open(&doors, runtime.handle(), socket, house),
            Err(error) if self.house.settings.takes_over && is_taken(&error) => {
                let handle = runtime.handle().clone();
                runtime.spawn(async move {
                    let socket = wait_for(addr).await;
                    if let Err(message) = open(&doors, &handle, socket, house) {
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
        let crypto = quic::crypto(tls)?;
        let mut doors = lock(&self.doors);
        let Doors { open, server } = &mut *doors;
        if let Some(server) = server {
            server.crypto = crypto;
            for endpoint in open {
                endpoint.set_server_config(Some(server.clone()));
            }
        }
        Ok(())
    }

    pub fn figures(&self) -> Figures {
        self.house.counts.read()
    }

    /// Lets nobody in any more.
    pub fn stop(&self) {
        let mut doors = lock(&self.doors);
        doors.server = None;
        let open = doors.open.iter();
        open.for_each(|endpoint| endpoint.set_server_config(None));
    }

    /// Lets nobody in any more, waits until the sessions that shards have ended are gone, but no longer than this, ends the others, and gives
    /// the ports back. The second time it does nothing.
    pub fn close(&self, within: Duration) {
        self.stop();
        let Some(runtime) = lock(&self.runtime).take() else {
            return;
        };
        let endpoints = std::mem::take(&mut lock(&self.doors).open);
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

/// A panic elsewhere leaves nothing half-done in what these guard.
fn lock<T>(what: &Mutex<T>) -> MutexGuard<'_, T> {
    what.lock().unwrap_or_else(PoisonError::into_inner)
}

fn open(
    doors: &Mutex<Doors>,
    runtime: &tokio::runtime::Handle,
    socket: UdpSocket,
    house: Arc<House>,
) -> Result<(), String> {
    let mut doors = lock(doors);
    let Some(server) = doors.server.clone() else {
        return Ok(());
    };
    let _context = runtime.enter();
    let endpoint = quic::endpoint(socket, server);
    let endpoint = endpoint.map_err(|error| format!("cannot serve QUIC: {error}"))?;
    doors.open.push(endpoint.clone());
    tokio::spawn(door::serve(endpoint, house));
    Ok(())
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
