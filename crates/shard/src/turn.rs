//! One thread and all it owns; one pass of its loop: wait, mail, read, flush once.
//!
//! HOT PATH: no allocation (once warm), no lock, no dyn but the hub's handler, guests and those outside, no async, no log.

use crate::accept::Door;
use crate::clock::Clock;
use crate::effects::Hands;
use crate::mail::Mail;
use crate::passing::{Arrival, Wish};
use crate::pause::Pause;
use crate::reactor::{Batch, Ready};
use crate::read::Reader;
use crate::walks::Walks;
use hub::{Hub, Moved, Sight, Spent, Turn};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

pub(crate) struct Shard {
    pub(crate) hub: Hub,
    pub(crate) hands: Hands,
    pub(crate) door: Door,
    reader: Reader,
    pub(crate) clock: Clock,
    pub(crate) life: Life,
}

/// How far the shard is, and what it was asked.
#[derive(Default)]
pub(crate) struct Life {
    pub(crate) pause: Pause,
    /// Before it begins, sessions of another process come in by this.
    arrivals: Option<Receiver<Arrival>>,
    walks: Walks,
    /// Those outside want to be told of another turn by then.
    outside_due: Option<Instant>,
    /// Shards whose sessions have all been told to go, and whether this one has said so.
    let_go: usize,
    told_let_go: bool,
    /// Shards that have nobody left, and whether this one has said so.
    drained: usize,
    told_drained: bool,
    stopped: bool,
}

impl Shard {
    pub(crate) fn new(hub: Hub, hands: Hands, door: Door, reader: Reader, clock: Clock) -> Self {
        Self {
            hub,
            hands,
            door,
            reader,
            clock,
            life: Life::default(),
        }
    }

    /// It begins when what another process has is here.
    pub(crate) fn behind(mut self, arrivals: Option<Receiver<Arrival>>) -> Self {
        self.life.arrivals = arrivals;
        self
    }

    /// Runs until drained or stopped.
    pub(crate) fn run(&mut self) {
        if let Some(arrivals) = self.life.arrivals.take()
            && !self.gather(&arrivals)
        {
            return;
        }
        let mut batch = Batch::new();
        // The hub's first words do not wait for the first client.
        self.turn(&batch);
        while !self.life.stopped {
            self.wait(&mut batch);
            self.turn(&batch);
            if self.life.pause.is_on {
                self.life.pause.answer_rounds();
                if let Some((takes, orders, reports)) = self.life.pause.take_freeze() {
                    self.stand_still(takes, &orders, &reports);
                }
            }
        }
    }

    fn wait(&mut self, batch: &mut Batch) {
        let timeout = match self.timeout() {
            Some(Duration::ZERO) => Some(Duration::ZERO),
            timeout if self.hands.mailbox.begin_wait() => timeout,
            _ => Some(Duration::ZERO),
        };
        if let Err(error) = self.hands.reactor.wait(batch, timeout) {
            panic!("cannot wait for readiness: {error}");
        }
        self.hands.mailbox.end_wait();
    }

    fn turn(&mut self, batch: &Batch) {
        let started = Instant::now();
        let (door, reader, life) = (&mut self.door, &mut self.reader, &mut self.life);
        // What guests have for this shard is in its mailbox behind this.
        self.hands.serve_guests(batch);
        let mut turn = self.hub.turn(self.clock.now(started), &mut self.hands);
        turn.mail(
            |hands| &hands.mailbox,
            |turn, mail| life.on_mail(turn, mail, door),
        );
        for ready in batch.iter() {
            match ready {
                Ready::Listener => door.knocked(),
                Ready::Guest(..) => {}
                Ready::Conn(conn, readiness) => reader.on_ready(&mut turn, conn, readiness),
            }
        }
        if std::mem::take(&mut turn.world().released) {
            door.released();
        }
        let all_read = !life.pause.is_on && {
            door.accept(&mut turn, started);
            turn.resume();
            // What that filled is flushed, so that others are read in the same turn.
            turn.flush_if_full();
            reader.read_ready(&mut turn)
        };
        turn.end(!all_read || batch.is_full(), |turn| {
            life.walk(turn, reader);
            let took = started.elapsed();
            reader.shake_hands(turn, took);
            Spent {
                us: took.as_micros() as u64,
                mailbox: turn.world().mailbox.len(),
            }
        });
        reader.publish_tls(&self.hands, door);
        let outside = &self.hands.outside;
        let due = outside.turn_ended(self.hands.me.shard);
        life.outside_due = due.map(|due| Instant::now() + due);
        if self.hub.has_sent_all_away() {
            life.tell_let_go(&self.hands);
        }
        if self.hub.has_let_go() {
            door.close();
        }
        if self.hub.is_drained() {
            life.end_with_all(&self.hands);
        }
    }

    fn timeout(&self) -> Option<Duration> {
        let pauses = self.life.pause.is_on;
        let (held, unread) = match pauses {
            true => (0, 0),
            false => (self.hub.held_back(), self.reader.unread()),
        };
        let free = unread > held && !self.reader.is_congested(&self.hands);
        if free
            || !pauses && self.hub.has_stalled()
            || !self.life.walks.is_idle()
            || !self.hands.mailbox.is_empty()
        {
            return Some(Duration::ZERO);
        }
        // Nobody tells when a mailbox is short again.
        let look_again = (unread > 0 || held > 0).then_some(Duration::from_millis(1));
        let now = Instant::now();
        let mono_ms = self.clock.now(now).mono_ms;
        let due = self.hub.next_deadline();
        let due = due.map(|due| Duration::from_millis(due.saturating_sub(mono_ms)));
        let knocks = self.door.pause(now).filter(|_| !pauses);
        let outside = self.life.outside_due;
        let outside = outside.map(|due| due.saturating_duration_since(now));
        let guests = self.hands.guests.due(now);
        let all = [look_again, due, knocks, outside, guests];
        all.into_iter().flatten().min()
    }
}

impl Life {
    fn on_mail(&mut self, turn: &mut Turn<'_, Hands>, mail: Mail, door: &mut Door) {
        self.pause.note_mail();
        match mail {
            Mail::Letter(letter) => turn.letter(&letter),
            Mail::Accepted { stream, peer } => door.admit(stream, peer, None, turn),
            Mail::Conn {
                place,
                stream,
                tls,
                peer,
                mut read,
                beyond,
                relayed,
                carried,
                new,
            } => {
                let secure = tls.is_some() || carried;
                let ended = tls.as_ref().is_some_and(|tls| tls.is_ended());
                let adopt = |hands: &mut Hands, conn| {
                    let adopted = hands.adopt(stream, tls, conn);
                    drop(place);
                    adopted
                };
                let moved = Moved {
                    peer,
                    beyond,
                    relayed,
                    carried,
                    new,
                    secure,
                    read: &mut read,
                    ended,
                };
                turn.moved_here(moved, adopt);
            }
            Mail::Answer { key, reply } => turn.answered(key, reply),
            Mail::Outside { word, .. } => turn.outside(word),
            Mail::Tls(config) => door.set_tls(config),
            // Listeners of all shards stay until everyone was told to go: whoever comes back early hears when to.
            Mail::Drain {
                window_ms,
                patience_ms,
            } => turn.drain(window_ms, patience_ms, true),
            Mail::Thin {
                count,
                window_ms,
                patience_ms,
            } => turn.thin(count, window_ms, patience_ms),
            Mail::LetGo => self.on_let_go(turn),
            Mail::Drained => self.drained += 1,
            Mail::Handing(wish) => {
                self.pause.forget_mail();
                match wish {
                    Wish::Pause => turn.answer_waiting_polls(),
                    Wish::Freeze(..) => turn.come_to_rest(),
                    _ => {}
                }
                let (hub, hands) = turn.hub_and_world();
                let copies = |shard| door.copies(shard);
                self.pause.carry_out(wish, hub, hands, &copies);
            }
            Mail::Walk(walk) => self.walks.ask(walk),
            Mail::Trace(trace) => turn.trace(trace),
            Mail::Guest(guest) => turn.world().host(guest.0),
            Mail::CallGuests => turn.world().call_guests(),
            Mail::Stop => self.stopped = true,
        }
    }

    /// Goes on with a question about a whole table, after everybody was served.
    fn walk(&mut self, turn: &mut Turn<'_, Hands>, reader: &Reader) {
        if self.walks.is_idle() {
            return;
        }
        let hands = turn.world();
        let shard = hands.me.shard;
        let own = vec![
            ("streams", hands.streams.heap_bytes()),
            ("tls", hands.streams.sessions().1),
            (
                "mailbox",
                hands.mailbox.len() * size_of::<Mail>() + hands.loads.bytes(shard),
            ),
            ("buffers", reader.heap_bytes()),
        ];
        let Some((mut sight, answer)) = self.walks.step(turn.hub(), shard, || own) else {
            return;
        };
        if let Sight::Sessions(seen) = &mut sight {
            let streams = &turn.world().streams;
            for session in &mut seen.items {
                session.kernel = session.conn.and_then(|conn| streams.kernel(conn));
            }
        }
        // A send that fails is no fault: the asker has gone.
        let _ = answer.send((shard, sight));
    }

    /// All sessions of this shard have been told to go. The kernel leads whoever comes now to any shard.
    fn tell_let_go(&mut self, hands: &Hands) {
        if !std::mem::replace(&mut self.told_let_go, true) {
            hands.post.send_all(|| Mail::LetGo);
        }
    }

    fn on_let_go(&mut self, turn: &mut Turn<'_, Hands>) {
        self.let_go += 1;
        if self.let_go == turn.world().post.len() {
            turn.others_have_left();
        }
    }

    /// Nobody is left here. Others may still have somebody, whose rooms' histories and counts come here: all end together.
    fn end_with_all(&mut self, hands: &Hands) {
        if !std::mem::replace(&mut self.told_drained, true) {
            hands.post.send_all(|| Mail::Drained);
        }
        self.stopped |= self.drained == hands.post.len();
    }
}
