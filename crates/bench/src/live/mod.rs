//! Owns what is shown while a scenario runs. The engine calls an [`Observer`]; which one is a
//! matter of the terminal and of `--tui`.

mod lines;

pub use lines::Lines;

use crate::outcome::Second;

/// Told by the engine what happens, from one thread; must return at once.
pub trait Observer {
    /// Connections made so far, of those the scenario wants now.
    fn connecting(&mut self, done: u64, total: u64);
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

/// What a view says about the run before it begins.
#[derive(Clone, Debug, Default)]
pub struct About {
    pub scenario: String,
    pub server: String,
    pub targets: Vec<String>,
    pub scale: f64,
    pub duration_s: f64,
    pub phases: Vec<String>,
}
