//! From shards to a backend: a queue that is bounded by bytes. News of ends and answers always fit, for losing them would leave
//! somebody waiting; there are no more of them than of sockets and queries. Answers beyond the bound come without their content.

use super::figures::Figures;
use backend::{Settings, Up, answer_bytes, member_bytes};
use rules::Line;
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// Bytes that a word costs beside its own.
const WORD_BYTES: usize = 256;

/// Calls the thread that works on a backend's state.
#[derive(Debug, Default)]
pub(super) struct Bell {
    /// Something waits.
    wanted: AtomicBool,
    task: Notify,
}

thread_local! {
    /// This thread works on the state when its turn ends: nobody else is called.
    static OF_SHARD: Cell<bool> = const { Cell::new(false) };
}

impl Bell {
    pub(super) fn hear_shard() {
        OF_SHARD.set(true);
    }

    pub(super) fn want(&self) {
        self.wanted.store(true, Ordering::SeqCst);
    }

    pub(super) fn is_wanted(&self) -> bool {
        self.wanted.load(Ordering::SeqCst)
    }

    /// Before somebody looks at what waits: what comes behind this is wanted anew.
    pub(super) fn answer(&self) {
        self.wanted.swap(false, Ordering::SeqCst);
    }

    /// Calls the task.
    pub(super) fn ring(&self) {
        self.task.notify_one();
    }

    pub(super) async fn rung(&self) {
        self.task.notified().await;
    }
}

pub(super) struct Inlet {
    words: UnboundedSender<(Up, usize)>,
    bell: Arc<Bell>,
    bytes_max: usize,
    connect_timeout: Duration,
    decides_openings: bool,
    figures: Arc<Figures>,
}

pub(super) struct Outlet {
    words: UnboundedReceiver<(Up, usize)>,
    figures: Arc<Figures>,
}

impl Inlet {
    pub(super) fn figures(&self) -> &Arc<Figures> {
        &self.figures
    }

    pub(super) fn bell(&self) -> &Arc<Bell> {
        &self.bell
    }
}

pub(super) fn open(settings: &Settings, figures: Arc<Figures>) -> (Inlet, Outlet) {
    let (sender, receiver) = unbounded_channel();
    figures
        .queue_bytes_max
        .store(settings.queue_bytes_max as u64, Ordering::Relaxed);
    let inlet = Inlet {
        words: sender,
        bell: Arc::default(),
        bytes_max: settings.queue_bytes_max,
        connect_timeout: Duration::from_millis(settings.connect_timeout_ms),
        decides_openings: settings.openings,
        figures: Arc::clone(&figures),
    };
    let outlet = Outlet {
        words: receiver,
        figures,
    };
    (inlet, outlet)
}

impl Line for Inlet {
    fn up(&self, mut up: Up) -> bool {
        let (bytes, may_wait) = weight(&up);
        let mut bytes = WORD_BYTES + bytes;
        if self.figures.queued.load(Ordering::Relaxed) + bytes > self.bytes_max {
            if !may_wait {
                self.figures.refused_early.fetch_add(1, Ordering::Relaxed);
                return false;
            }
            bytes -= strip(&mut up);
        }
        self.figures.queued.fetch_add(bytes, Ordering::Relaxed);
        // The other end goes when the process ends.
        let sent = self.words.send((up, bytes)).is_ok();
        self.bell.want();
        if !OF_SHARD.get() {
            self.bell.ring();
        }
        sent
    }

    fn decides_openings(&self) -> bool {
        self.decides_openings
    }

    fn connect_timeout(&self) -> Duration {
        self.connect_timeout
    }
}

/// Bytes beside those of every word, and whether it always fits.
fn weight(up: &Up) -> (usize, bool) {
    match up {
        Up::Event(event) => (event.bytes(), false),
        Up::Connect { connect, .. } => (connect.auth.len() + connect.query.len(), false),
        Up::Opening(opening) => {
            let lines = opening.headers.iter();
            let lines: usize = lines.map(|line| line.name.len() + line.value.len()).sum();
            (opening.target.len() + lines, false)
        }
        // Workers hear of the rooms at the end.
        Up::Moved { room, .. } => (room.len(), false),
        // A server that waits is answered at once when there is no room.
        Up::Told(told) => (told.args.len(), false),
        Up::Answers(answers) => (answers.answers.iter().map(answer_bytes).sum(), true),
        Up::Found(found) => (found.sockets.iter().map(member_bytes).sum(), true),
        _ => (0, true),
    }
}

/// An answer is told to be incomplete, in place of its content; the bytes of that.
fn strip(up: &mut Up) -> usize {
    let bytes = weight(up).0;
    match up {
        Up::Answers(answers) => {
            answers.missing += answers.answers.len() as u64;
            answers.answers = Vec::new();
            bytes
        }
        Up::Found(found) => {
            (found.sockets, found.incomplete) = (Vec::new(), true);
            bytes
        }
        _ => 0,
    }
}

impl Outlet {
    /// Takes what is there, but not more than so much. Returns how much it took.
    pub(super) fn take(&mut self, into: &mut Vec<(Up, usize)>, max: usize) -> usize {
        let before = into.len();
        while into.len() < before + max
            && let Ok(word) = self.words.try_recv()
        {
            into.push(word);
        }
        self.book(&into[before..]);
        into.len() - before
    }

    fn book(&self, taken: &[(Up, usize)]) {
        let bytes = taken.iter().map(|(_, bytes)| bytes).sum();
        self.figures.queued.fetch_sub(bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use backend::proto::{Found, Member};

    fn list(query: u64) -> Up {
        Up::Found(Found {
            query,
            sockets: vec![Member {
                socket: "x".repeat(1_000),
                ..Member::default()
            }],
            incomplete: false,
        })
    }

    /// Lists of sockets weighed nothing on their way to workers: any number of them waited.
    #[test]
    fn lists_for_workers_were_in_no_book() {
        let settings = Settings {
            queue_bytes_max: 20_000,
            ..Settings::default()
        };
        let (inlet, mut outlet) = open(&settings, Arc::default());
        assert!((0..100).all(|query| inlet.up(list(query))));
        let mut taken = Vec::new();
        assert_eq!(outlet.take(&mut taken, 1_000), 100, "each is answered");
        let whole = taken.iter().filter(|(up, _)| match up {
            Up::Found(found) => !found.incomplete && found.sockets.len() == 1,
            _ => false,
        });
        let whole = whole.count();
        assert!(
            (1..20).contains(&whole),
            "{whole} lists within 20,000 bytes"
        );
        assert_eq!(inlet.figures.queued.load(Ordering::Relaxed), 0);
    }
}
