//! The one task in which everything is compared. It hears all words in one order, and gives the copies what they get.

use crate::own;
use crate::packet::{Budget, Packet};
use crate::play::{Deed, Play};
use crate::report::Report;
use crate::server::Server;
use crate::sessions::{Word, lock};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::mpsc::{Receiver, Sender, channel};

/// Words that wait to be heard.
pub const WORDS_MAX: usize = 65_536;
/// Packets that wait for one copy.
const PACKETS_MAX: usize = 4_096;
const TICK: Duration = Duration::from_millis(50);

#[derive(Debug)]
pub struct Conductor {
    play: Play,
    copies: HashMap<u64, Sender<Packet>>,
    gateway: Server,
    /// For the copies' own words.
    words: Sender<Word>,
    budget: Budget,
    shown: Arc<Mutex<Report>>,
    started: Instant,
}

impl Conductor {
    pub fn new(
        play: Play,
        gateway: Server,
        (words, budget): (Sender<Word>, Budget),
        shown: Arc<Mutex<Report>>,
    ) -> Self {
        Self {
            play,
            copies: HashMap::new(),
            gateway,
            words,
            budget,
            shown,
            started: Instant::now(),
        }
    }

    /// Until `stop` is told; then what waits is judged.
    pub async fn run(mut self, mut heard: Receiver<Word>, stop: impl Future<Output = ()>) {
        let mut ticks = tokio::time::interval(TICK);
        let mut stop = std::pin::pin!(stop);
        loop {
            tokio::select! {
                word = heard.recv() => {
                    let Some(word) = word else { break };
                    self.hear(word);
                    while let Ok(word) = heard.try_recv() {
                        self.hear(word);
                    }
                }
                _ = ticks.tick() => {
                    let now_ms = self.now_ms();
                    self.play.pass_time(now_ms);
                    self.carry_out();
                    self.show();
                }
                () = &mut stop => break,
            }
        }
        let now_ms = self.now_ms();
        self.play.finish(now_ms);
        self.show();
    }

    fn show(&mut self) {
        self.play.report.seconds = self.started.elapsed().as_secs();
        *lock(&self.shown) = self.play.report.clone();
    }

    fn now_ms(&self) -> u64 {
        self.started.elapsed().as_millis() as u64
    }

    fn hear(&mut self, word: Word) {
        let now_ms = self.now_ms();
        match word {
            Word::Opened(session, opening) => {
                let (sender, packets) = channel(PACKETS_MAX);
                self.copies.insert(session, sender);
                self.play.opened(session);
                let copy = own::run(
                    session,
                    self.gateway.clone(),
                    opening,
                    packets,
                    (self.words.clone(), self.budget.clone()),
                );
                tokio::spawn(copy);
            }
            Word::Client(session, packet) => self.play.client(now_ms, session, packet),
            Word::Said(side, session, packet) => {
                let now = SystemTime::now().duration_since(UNIX_EPOCH);
                let now_s = now.unwrap_or_default().as_secs_f64();
                self.play.said(now_ms, now_s, side, session, &packet);
            }
            Word::Gone(session) => self.play.client_gone(now_ms, session),
            Word::Skipped(session, why) => self.play.skipped(session, why),
            Word::CopyEnded(session) => {
                self.copies.remove(&session);
                self.play.copy_ended(now_ms, session);
            }
            Word::NotCompared(why) => self.play.report.skip(why),
            Word::Switched => self.play.report.switched += 1,
        }
        self.carry_out();
    }

    fn carry_out(&mut self) {
        for (session, deed) in self.play.take_deeds() {
            match deed {
                Deed::Send(packet) => {
                    let sent = self.copies.get(&session).map(|copy| copy.try_send(packet));
                    if let Some(Err(TrySendError::Full(_))) = sent {
                        self.play
                            .skipped(session, "the gateway took its packets too slowly");
                    }
                }
                Deed::Close => drop(self.copies.remove(&session)),
            }
        }
    }
}
