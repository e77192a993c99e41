//! What backends know, on its way from one process to the next.

use super::line::{Broken, Line, decode};
use crate::workers::Counter;
use handoff::backend::{Piece, Stay, Stays};
use handoff::bounds::{BACKEND_BYTES_MAX, BACKENDS_MAX, BATCH_BYTES, FRAME_BYTES, STAYS};
use handoff::{Kind, Ledger};
use prost::Message;
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;
use workers::Still;

/// One message.
const STEP: Duration = Duration::from_secs(10);
/// The answer of a driver.
pub const DRIVER: Duration = Duration::from_secs(5);

/// Sends what each of them knows.
pub fn send(line: &mut Line, still: &Still) -> Result<(), Broken> {
    for (name, record) in still.records(DRIVER).map_err(Broken::Strange)? {
        if record.len() > BACKEND_BYTES_MAX {
            return Err(Broken::Refused(format!(
                "backend {name} keeps {} bytes for its workers, and at most {BACKEND_BYTES_MAX} are handed over: try again when they have caught up",
                record.len()
            )));
        }
        line.send_record(Kind::Backend, &name, &record, STEP)?;
    }
    Ok(())
}

/// Names the sockets that do not go.
pub fn send_stays(line: &mut Line, stays: Vec<Stay>) -> Result<(), Broken> {
    let mut batch = Stays::default();
    let mut bytes = 0;
    for mut stay in stays {
        if FRAME_BYTES + stay.encoded_len() > BATCH_BYTES {
            // A socket without its rooms is sent away, too.
            stay.rooms = Vec::new();
        }
        let more = FRAME_BYTES + stay.encoded_len();
        if batch.sockets.len() >= STAYS || bytes + more > BATCH_BYTES {
            line.send(Kind::Stays, &std::mem::take(&mut batch), STEP)?;
            bytes = 0;
        }
        bytes += more;
        batch.sockets.push(stay);
    }
    match batch.sockets.is_empty() {
        true => Ok(()),
        false => line.send(Kind::Stays, &batch, STEP),
    }
}

/// What has come of it.
#[derive(Debug, Default)]
pub struct Records {
    whole: BTreeMap<String, Vec<u8>>,
    /// The one that comes, with its bytes so far.
    coming: Option<(String, Vec<u8>)>,
    /// Rooms of sockets that do not come.
    stays: HashMap<String, Vec<String>>,
}

impl Records {
    pub fn take(&mut self, body: &[u8]) -> Result<(), Broken> {
        let piece: Piece = decode(body)?;
        let (name, mut bytes) = match self.coming.take() {
            Some((name, bytes)) if name == piece.name => (name, bytes),
            None => (piece.name, Vec::new()),
            Some((name, _)) => {
                return Err(Broken::Strange(format!(
                    "the record of backend {name} ends in the middle"
                )));
            }
        };
        bytes.extend_from_slice(&piece.bytes);
        if bytes.len() > BACKEND_BYTES_MAX || self.whole.len() >= BACKENDS_MAX {
            return Err(Broken::Strange(format!(
                "the record of backend {name} is too long, or there are too many"
            )));
        }
        if !piece.ends {
            self.coming = Some((name, bytes));
        } else if self.whole.insert(name.clone(), bytes).is_some() {
            return Err(Broken::Strange(format!(
                "the record of backend {name} came twice"
            )));
        }
        Ok(())
    }

    pub fn take_stays(&mut self, body: &[u8]) -> Result<(), Broken> {
        let stays: Stays = decode(body)?;
        let stays = stays.sockets.into_iter();
        self.stays
            .extend(stays.map(|stay| (stay.socket, stay.rooms)));
        Ok(())
    }

    /// Some sockets do not come.
    pub fn some_stay(&self) -> bool {
        !self.stays.is_empty()
    }

    /// All sessions are here: backends go on with them.
    pub fn restore(
        self,
        counter: Option<&mut Counter>,
        ledger: &Ledger,
        shards: u16,
    ) -> Result<(), Broken> {
        if let Some((name, _)) = self.coming {
            return Err(Broken::Strange(format!(
                "the record of backend {name} has no end"
            )));
        }
        let Some(counter) = counter else {
            return match self.whole.is_empty() {
                true => Ok(()),
                false => Err(Broken::Strange(
                    "it has backends, and this configuration has none".to_owned(),
                )),
            };
        };
        for (name, record) in &self.whole {
            let restored = counter.restore(name, record, shards, ledger.asked());
            restored.map_err(Broken::Strange)?;
        }
        counter.settle(|id| ledger.has_socket(id), self.stays);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    /// A thousand of them were one message, whatever their rooms took, and one that was too long ended the upgrade.
    #[test]
    fn sockets_that_stay_are_told_in_messages_of_bounded_bytes() {
        let (here, there) = UnixStream::pair().expect("a pair of sockets");
        let (mut here, mut there) = (Line::new(here), Line::new(there));
        let stay = |number: usize, rooms: usize| Stay {
            socket: number.to_string(),
            rooms: vec!["r".repeat(1_000); rooms],
        };
        let stays: Vec<Stay> = (0..2 * STAYS)
            .map(|number| match number {
                7 => stay(number, 20_000),
                8..99 => stay(number, 500),
                _ => stay(number, 1),
            })
            .collect();
        let sent = stays.clone();
        let sends = std::thread::spawn(move || {
            send_stays(&mut here, sent)?;
            here.say(Kind::Complete, STEP)
        });
        let mut heard = Vec::new();
        while let (Kind::Stays, body) = there.hear(STEP).expect("a message") {
            assert!(body.len() <= BATCH_BYTES, "{}", body.len());
            let batch: Stays = decode(&body).expect("some of them");
            assert!(batch.sockets.len() <= STAYS);
            heard.extend(batch.sockets);
        }
        sends.join().expect("no panic").expect("sent");
        let mut expected = stays;
        expected[7].rooms.clear();
        assert!(heard == expected);
    }
}
