//! Owns what is shown while a scenario runs. The engine calls an [`Observer`]; which one is a
//! matter of the terminal and of `--tui`.

mod dashboard;
mod lines;
mod terminal;

pub use lines::Lines;

use crate::target::Target;
use outcome::Second;
use outcome::number::digits;

/// Told by the engine what happens, from one thread; must return at once.
pub trait Observer {
    /// Users that are through with connecting, of those the scenario wants now.
    fn connecting(&mut self, progress: Progress);
    /// Nobody else is brought in for now.
    fn finish_connecting(&mut self) {}
    /// A second of the run has ended.
    fn second(&mut self, second: &Second);
    /// Something worth a line: a phase begins, a worker failed.
    fn note(&mut self, text: &str);
    /// Whether the person watching asked for the end; the run then ends as after Ctrl-C.
    fn wants_end(&mut self) -> bool {
        false
    }
    /// The run is over: the terminal goes back to what it was.
    fn finish(&mut self) {}
}

/// How far the bringing in of users is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Connected or failed.
    pub done: u64,
    pub failed: u64,
    pub total: u64,
}

/// What a view says about the run before it begins.
#[derive(Clone, Debug, Default)]
pub struct About {
    pub scenario: String,
    pub target: Target,
    pub scale: f64,
    pub duration_s: f64,
    pub phases: Vec<String>,
}

/// Nobody watches.
#[derive(Debug)]
pub struct Silent;

impl Observer for Silent {
    fn connecting(&mut self, _: Progress) {}
    fn second(&mut self, _: &Second) {}
    fn note(&mut self, _: &str) {}
}

/// Something to watch a run with, for people: lines on standard error.
pub fn open(about: &About) -> Box<dyn Observer> {
    let mut lines = Lines::on_stderr();
    lines.note(&about.headline());
    Box::new(lines)
}

/// The same as a dashboard that fills the terminal; the run ends on `q` and Ctrl-C.
pub fn open_dashboard(about: &About) -> anyhow::Result<Box<dyn Observer>> {
    Ok(Box::new(terminal::Screen::open(about.clone())?))
}

impl std::fmt::Display for Progress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let connected = digits(self.done.saturating_sub(self.failed));
        write!(f, "{connected} of {}", digits(self.total))?;
        match self.failed {
            0 => Ok(()),
            failed => write!(f, ", {} failed", digits(failed)),
        }
    }
}

impl About {
    /// One line that says what begins; a scale other than 1 is never left out.
    fn headline(&self) -> String {
        let on = self.target.urls.join(", ");
        let mut text = format!("{} on {} ({on})", self.scenario, self.target.name);
        if self.duration_s > 0.0 {
            text += &format!(", {}", outcome::number::clock(self.duration_s));
        }
        if self.scale != 1.0 {
            text += &format!(", scale {}", self.scale);
        }
        text
    }
}
