//! Many sessions by WebTransport that stay: `benchmarks/webtransport.py` counts with several of these what a gateway needs for them.
//!
//! crowd ADDR CERT FROM SESSIONS SECONDS
//!
//! They come from one address, `FROM`, by a few UDP sockets, and leave when the input ends or after so many seconds. Each line of input
//! makes each of them ask one question. The state is a line of JSON each second.

mod peer;

use peer::{Ear, Failure, say};
use std::io::BufRead;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};
use tokio::sync::{Semaphore, watch};
use web_transport_quinn::Session;
use web_transport_quinn::quinn::{self, Endpoint};

/// So many come through one door at the same time.
const OPENING_MAX: usize = 16;
const SOCKETS: usize = 8;
/// A heartbeat is a question of the gateway's; each session answers so many before it counts as one that stays.
const BEATS: u64 = 2;
const TRIES: u64 = 5;

struct Crowd {
    addr: SocketAddr,
    config: quinn::ClientConfig,
    doors: Semaphore,
    counts: Counts,
}

#[derive(Default)]
struct Counts {
    open: AtomicU64,
    /// Handshakes that did not succeed, and were tried again.
    tried_again: AtomicU64,
    asked: AtomicU64,
    answered: AtomicU64,
    slowest_us: AtomicU64,
    beats: AtomicU64,
    /// Sessions with so many [`BEATS`].
    stayed: AtomicU64,
    ended: AtomicU64,
    /// How the first one ended.
    first_end: Mutex<String>,
}

fn main() -> Result<(), Failure> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [addr, cert, from, sessions, seconds] = args.as_slice() else {
        return Err("crowd ADDR CERT FROM SESSIONS SECONDS".into());
    };
    let crowd = Arc::new(Crowd {
        addr: addr.parse()?,
        config: peer::quic(peer::tls(cert)?)?,
        doors: Semaphore::new(OPENING_MAX),
        counts: Counts::default(),
    });
    let (from, sessions, life) = (
        from.parse()?,
        sessions.parse()?,
        Duration::from_secs(seconds.parse()?),
    );
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().build()?;
    runtime.block_on(live(crowd, from, sessions, life))
}

async fn live(
    crowd: Arc<Crowd>,
    from: IpAddr,
    sessions: usize,
    life: Duration,
) -> Result<(), Failure> {
    let sockets = (0..SOCKETS).map(|_| Endpoint::client((from, 0).into()));
    let sockets = sockets.collect::<Result<Vec<_>, _>>()?;
    let (ask, asked) = watch::channel(0_u64);
    let (over, mut is_over) = watch::channel(false);
    std::thread::spawn(move || {
        for _ in std::io::stdin().lock().lines().map_while(Result::ok) {
            ask.send_modify(|asked| *asked += 1);
        }
        let _ = over.send(true);
    });
    for n in 0..sessions {
        let (crowd, socket, asked) = (
            Arc::clone(&crowd),
            sockets[n % SOCKETS].clone(),
            asked.clone(),
        );
        tokio::spawn(async move {
            let end = stay(&crowd, &socket, asked).await;
            let why = end.err().map_or_else(String::new, |why| why.to_string());
            crowd.counts.ended.fetch_add(1, Relaxed);
            let first = crowd.counts.first_end.lock();
            let mut first = first.unwrap_or_else(std::sync::PoisonError::into_inner);
            if first.is_empty() {
                *first = why;
            }
        });
    }
    let until = Instant::now() + life;
    while Instant::now() < until && !*is_over.borrow() {
        let _ = tokio::time::timeout(Duration::from_secs(1), is_over.changed()).await;
        println!("{}", crowd.counts.state());
    }
    Ok(())
}

impl Counts {
    fn state(&self) -> String {
        let first_end = self.first_end.lock();
        let first_end = first_end.unwrap_or_else(std::sync::PoisonError::into_inner);
        format!(
            "{{\"open\":{},\"tried_again\":{},\"asked\":{},\"answered\":{},\"slowest_ms\":{},\"beats\":{},\"stayed\":{},\"ended\":{},\"first_end\":{:?}}}",
            self.open.load(Relaxed),
            self.tried_again.load(Relaxed),
            self.asked.load(Relaxed),
            self.answered.load(Relaxed),
            self.slowest_us.load(Relaxed) / 1_000,
            self.beats.load(Relaxed),
            self.stayed.load(Relaxed),
            self.ended.load(Relaxed),
            first_end.as_str(),
        )
    }
}

/// A session of WebTransport; the gateway lets only so many in at once.
async fn enter(crowd: &Crowd, socket: &Endpoint) -> Result<Session, Failure> {
    let mut tries = 0;
    loop {
        let _door = crowd.doors.acquire().await?;
        match peer::webtransport(socket, crowd.config.clone(), crowd.addr).await {
            Err(_) if tries < TRIES => {
                tries += 1;
                crowd.counts.tried_again.fetch_add(1, Relaxed);
            }
            entered => return entered,
        }
        tokio::time::sleep(Duration::from_millis(100 << tries)).await;
    }
}

/// Until the session ends.
async fn stay(
    crowd: &Crowd,
    socket: &Endpoint,
    mut questions: watch::Receiver<u64>,
) -> Result<(), Failure> {
    let session = enter(crowd, socket).await?;
    match talk(crowd, &session, &mut questions).await {
        // A refusal says more than the end of a stream.
        Err(_) => Err(session.closed().await.into()),
        ended => ended,
    }
}

async fn talk(
    crowd: &Crowd,
    session: &Session,
    questions: &mut watch::Receiver<u64>,
) -> Result<(), Failure> {
    let counts = &crowd.counts;
    let (mut send, mut recv) = session.open_bi().await?;
    let mut ear = Ear::default();
    send.write_all(&[1, b'0']).await?;
    say(&mut send, "40", true).await?;
    while !ear.next(&mut recv, true).await?.starts_with("40{") {}
    counts.open.fetch_add(1, Relaxed);
    let (mut asked_at, mut beats) = (Instant::now(), 0);
    loop {
        tokio::select! {
            changed = questions.changed() => {
                changed?;
                counts.asked.fetch_add(1, Relaxed);
                asked_at = Instant::now();
                say(&mut send, "421[\"echo\",\"hello\"]", true).await?;
            }
            heard = ear.next(&mut recv, true) => {
                let heard = heard?;
                if heard == "2" {
                    say(&mut send, "3", true).await?;
                    beats += 1;
                    counts.beats.fetch_add(1, Relaxed);
                    counts.stayed.fetch_add(u64::from(beats == BEATS), Relaxed);
                } else if heard.starts_with("431[") {
                    counts.answered.fetch_add(1, Relaxed);
                    let took = asked_at.elapsed().as_micros() as u64;
                    counts.slowest_us.fetch_max(took, Relaxed);
                }
            }
        }
    }
}
