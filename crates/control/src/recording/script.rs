//! What the clients of a recording are to do, when, and what each of them is to hear.

use super::file::{Line, Recording};
use super::filler::{self, Args, LARGE};
use std::collections::{HashMap, HashSet};
use std::time::Duration;
use wire::socketio;

/// Each is a connection.
pub(super) const PARTS_MAX: usize = 1_000;
/// Longer than a recording can be.
const LENGTH_MAX: Duration = Duration::from_secs(24 * 3_600);

/// A play. Each socket of the recording has a part, and a connection of its own.
#[derive(Debug)]
pub struct Script {
    pub(super) began_ms: u64,
    pub(super) length: Duration,
    pub(super) parts: Vec<Part>,
    /// Namespaces and events that clients of the recording have said, and that were not refused.
    pub(super) said: HashSet<(String, String)>,
    pub(super) gaps: Vec<String>,
    /// What happens in the recording, in its order.
    order: Vec<Happening>,
}

/// By the numbers of a part, and of its step or word.
#[derive(Clone, Copy, Debug)]
enum Happening {
    Comes(usize),
    Does(usize, usize),
    Hears(usize, usize),
}

#[derive(Debug)]
pub(super) struct Part {
    pub(super) socket: String,
    session: Option<String>,
    pub(super) namespace: String,
    pub(super) user: Option<String>,
    pub(super) comes_ms: u64,
    /// So much has happened before it comes.
    pub(super) needs: u64,
    pub(super) steps: Vec<Step>,
    pub(super) expected: Vec<Word>,
    /// The number of each question of the client, by its recorded id.
    asked: HashMap<u64, u64>,
    questions: u64,
}

#[derive(Debug)]
pub(super) struct Step {
    pub(super) at_ms: u64,
    /// So much has happened before: clients that came or left, and words that are judged.
    pub(super) needs: u64,
    pub(super) deed: Deed,
}

impl Step {
    /// Its events take room while they are made and sent.
    pub(super) fn is_large(&self) -> bool {
        match &self.deed {
            Deed::Say {
                args, attachments, ..
            }
            | Deed::Answer { args, attachments } => {
                let mut sizes = attachments.iter();
                args.is_large() || sizes.any(|size| *size > LARGE)
            }
            Deed::Leave => false,
        }
    }
}

#[derive(Debug)]
pub(super) enum Deed {
    /// An event, and the number of its question, if it wants an answer.
    Say {
        name: String,
        args: Args,
        attachments: Vec<usize>,
        ask: Option<u64>,
    },
    /// The answer to the next question of the gateway.
    Answer {
        args: Args,
        attachments: Vec<usize>,
    },
    Leave,
}

/// Something that a client hears.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Word {
    Event(String),
    /// To the question of this number, with arguments of these types; `None`: they are not known.
    Answer(u64, Option<String>),
}

impl Script {
    /// # Errors
    /// Why it cannot be played, for people.
    pub fn of(recording: &Recording) -> Result<Self, String> {
        let times = recording.lines.iter().map(|line| line.at_ms);
        let began_ms = times.clone().min().unwrap_or_default();
        let ended_ms = times.max().unwrap_or_default();
        let length = Duration::from_millis(ended_ms - began_ms);
        if length > LENGTH_MAX {
            return Err(format!(
                "cannot play it: its lines are {} hours apart, and a recording has minutes",
                length.as_secs() / 3_600
            ));
        }
        let mut script = Self {
            began_ms,
            length,
            parts: Vec::new(),
            said: HashSet::new(),
            gaps: recording.gaps(),
            order: Vec::new(),
        };
        let mut places = HashMap::new();
        for line in &recording.lines {
            if let Some(socket) = &line.socket {
                let at = script.place(socket, line, &mut places)?;
                let before = script.parts[at].len();
                script.take(at, line, recording.payload);
                script.follow(at, before);
            }
            // It names the first socket of the session at most, and all of them go.
            if line.what == "end" {
                script.leave_session(line);
            }
        }
        script.count();
        match script.parts.is_empty() {
            true => Err("cannot play it: nobody does anything in it".to_owned()),
            false => Ok(script),
        }
    }

    /// Sockets, and what they do.
    pub fn size(&self) -> (usize, usize) {
        let steps = self.parts.iter().map(|part| part.steps.len());
        (self.parts.len(), steps.sum())
    }

    /// The users that have a part.
    pub fn users(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter_map(|part| part.user.as_deref())
    }

    /// From the first line to the last.
    pub fn length(&self) -> Duration {
        self.length
    }

    /// Whether others than clients of the recording may have said it.
    pub(super) fn is_judged(&self, namespace: &str, word: &Word) -> bool {
        match word {
            Word::Answer(..) => true,
            Word::Event(name) => self.said.contains(&(namespace.to_owned(), name.clone())),
        }
    }

    /// Notes before each step how much has happened: a slow gateway must not turn cause and effect round.
    fn count(&mut self) {
        let mut happened = 0;
        for happening in std::mem::take(&mut self.order) {
            match happening {
                Happening::Comes(at) => {
                    self.parts[at].needs = happened;
                    happened += 1;
                }
                Happening::Does(at, step) => {
                    let step = &mut self.parts[at].steps[step];
                    step.needs = happened;
                    happened += u64::from(matches!(step.deed, Deed::Leave));
                }
                Happening::Hears(at, word) => {
                    let part = &self.parts[at];
                    let is_judged = self.is_judged(&part.namespace, &part.expected[word]);
                    happened += u64::from(is_judged);
                }
            }
        }
    }

    /// Notes what a line has added to a part.
    fn follow(&mut self, at: usize, (steps, words): (usize, usize)) {
        let part = &self.parts[at];
        let does = (steps..part.steps.len()).map(|step| Happening::Does(at, step));
        let hears = (words..part.expected.len()).map(|word| Happening::Hears(at, word));
        self.order.extend(does.chain(hears));
    }

    fn place(
        &mut self,
        socket: &str,
        line: &Line,
        places: &mut HashMap<String, usize>,
    ) -> Result<usize, String> {
        if let Some(at) = places.get(socket) {
            return Ok(*at);
        }
        let namespace = line.namespace.clone().unwrap_or_else(|| "/".to_owned());
        let is_odd = |text: &str| text.bytes().any(|byte| byte < b' ' || byte == b',');
        if !namespace.starts_with('/') || is_odd(&namespace) {
            return Err(format!("cannot play it: {namespace:?} is no namespace"));
        }
        if self.parts.len() == PARTS_MAX {
            return Err(format!(
                "cannot play it: it has more than {PARTS_MAX} sockets; record a smaller share"
            ));
        }
        places.insert(socket.to_owned(), self.parts.len());
        self.order.push(Happening::Comes(self.parts.len()));
        self.parts.push(Part {
            socket: socket.to_owned(),
            session: line.session.clone(),
            namespace,
            user: line.user.clone(),
            comes_ms: line.at_ms,
            needs: 0,
            steps: Vec::new(),
            expected: Vec::new(),
            asked: HashMap::new(),
            questions: 0,
        });
        Ok(self.parts.len() - 1)
    }

    fn take(&mut self, at: usize, line: &Line, payload: bool) {
        let Some(part) = self.parts.get_mut(at) else {
            return;
        };
        let name = line.event.clone().unwrap_or_default();
        match (line.direction.as_str(), line.what.as_str()) {
            ("in", "event") if !socketio::is_reserved(&name) => {
                if !matches!(line.decision.as_str(), "refused" | "dropped") {
                    self.said.insert((part.namespace.clone(), name.clone()));
                }
                let ask = line.ack.map(|id| part.ask(id));
                part.step(
                    line,
                    |args, attachments| Deed::Say {
                        name,
                        args,
                        attachments,
                        ask,
                    },
                    payload,
                );
            }
            ("in", "answer") => {
                let deed = |args, attachments| Deed::Answer { args, attachments };
                part.step(line, deed, payload);
            }
            ("in", "disconnect" | "end") => part.leave(line.at_ms),
            ("out", "event") if line.decision == "delivered" => {
                part.expected.push(Word::Event(name));
            }
            ("out", "answer") => {
                let number = line.ack.and_then(|id| part.asked.remove(&id));
                // Other answers are to questions from before the recording.
                if let Some(number) = number {
                    part.expected
                        .push(Word::Answer(number, kinds(line, payload)));
                }
            }
            _ => {}
        }
    }

    fn leave_session(&mut self, line: &Line) {
        for at in 0..self.parts.len() {
            let part = &mut self.parts[at];
            if part.session.is_some() && part.session == line.session {
                let before = part.len();
                part.leave(line.at_ms);
                self.follow(at, before);
            }
        }
    }
}

impl Part {
    /// Its steps and words.
    fn len(&self) -> (usize, usize) {
        (self.steps.len(), self.expected.len())
    }

    fn ask(&mut self, id: u64) -> u64 {
        let number = self.questions;
        self.questions += 1;
        self.asked.insert(id, number);
        number
    }

    fn step(&mut self, line: &Line, deed: impl FnOnce(Args, Vec<usize>) -> Deed, payload: bool) {
        let mut attachments = line.attachments.clone();
        attachments.truncate(socketio::ATTACHMENTS_MAX);
        let args = said(line, payload);
        self.steps.push(Step {
            at_ms: line.at_ms,
            needs: 0,
            deed: deed(args, attachments),
        });
    }

    fn leave(&mut self, at_ms: u64) {
        let has_left = self
            .steps
            .last()
            .is_some_and(|step| matches!(step.deed, Deed::Leave));
        if !has_left {
            let deed = Deed::Leave;
            self.steps.push(Step {
                at_ms,
                needs: 0,
                deed,
            });
        }
    }
}

/// Whether its arguments are there as they were.
fn is_whole(line: &Line, args: &str) -> bool {
    let mut sizes = line.attachments.iter();
    let bytes = sizes.try_fold(args.len(), |sum, size| sum.checked_add(*size));
    let list = format!("[{args}]");
    bytes == Some(line.bytes)
        && wire::json::validate(list.as_bytes()).is_ok()
        && socketio::match_attachments(args, line.attachments.len()).is_ok()
}

/// The arguments that a client is to say.
fn said(line: &Line, payload: bool) -> Args {
    let args = line.args.as_deref().unwrap_or_default();
    match payload {
        true if is_whole(line, args) => Args::Whole(args.to_owned()),
        // Longer ones are cut, and tokens are shown to nobody.
        true => Args::Long(line.bytes),
        false => Args::Shaped(args.to_owned(), line.mark.clone()),
    }
}

/// The types of the arguments of an answer.
fn kinds(line: &Line, payload: bool) -> Option<String> {
    let args = line.args.as_deref().unwrap_or_default();
    match payload {
        true => is_whole(line, args).then(|| filler::kinds(args)),
        false => Some(filler::kinds_of_shapes(args)),
    }
}

impl Part {
    /// It does nothing but come and leave.
    pub(super) fn leaves_at_once(&self) -> bool {
        let first = self.steps.first();
        first.is_some_and(|step| matches!(step.deed, Deed::Leave))
    }

    /// Steps other than leaving.
    pub(super) fn sayings(&self) -> u64 {
        let steps = self.steps.iter();
        steps
            .filter(|step| !matches!(step.deed, Deed::Leave))
            .count() as u64
    }
}

#[cfg(test)]
#[path = "script_tests.rs"]
mod tests;
