//! Owns how tests run a scenario: quietly, with worker processes of the real binary.

use crate::processes::processes;
use bench::engine::{self, Options, Target};
use bench::live::{Observer, Progress};
use bench::outcome::{Outcome, Second};
use bench::scenario::Scenario;
use std::time::Duration;

/// Hears everything, says nothing.
#[derive(Debug, Default)]
pub struct Listener {
    pub connecting: Vec<(u64, u64)>,
    pub seconds: usize,
    pub notes: Vec<String>,
}

impl Observer for Listener {
    fn connecting(&mut self, progress: Progress) {
        self.connecting.push((progress.done, progress.total));
    }

    fn second(&mut self, _second: &Second) {
        self.seconds += 1;
    }

    fn note(&mut self, text: &str) {
        self.notes.push(text.to_owned());
    }
}

/// A scenario of one phase of one second: head, then flows.
pub fn scenario(connections: u32, head: &str, flows: &str) -> Scenario {
    // A rate that no loop follows is refused.
    let rate = match flows.contains("pace = \"phase\"") {
        true => "rate = \"100/s\"\n",
        false => "",
    };
    let text = format!(
        "name = \"test\"\n{head}\n[[phases]]\nname = \"go\"\nconnections = {connections}\n\
         duration = \"1s\"\n{rate}{flows}"
    );
    Scenario::parse("test.toml", &text).unwrap_or_else(|problems| panic!("{problems}\n{text}"))
}

pub fn run(scenario: &Scenario, url: &str, workers: u32) -> Outcome {
    run_trusting(None, scenario, url, workers)
}

/// `authorities`: certificates to trust.
pub fn run_trusting(
    authorities: Option<String>,
    scenario: &Scenario,
    url: &str,
    workers: u32,
) -> Outcome {
    let mut options = Options::new(processes());
    options.authorities = authorities;
    options.workers = Some(workers);
    options.grace = Duration::from_secs(20);
    let target = Target {
        name: "test".into(),
        urls: vec![url.into()],
        pids: Vec::new(),
    };
    let mut listener = Listener::default();
    let outcome = engine::run(scenario, &target, &options, &mut listener).unwrap();
    assert!(listener.seconds > 0, "the observer saw no second");
    let users = u64::from(scenario.users());
    assert_eq!(listener.connecting.last(), Some(&(users, users)));
    assert!(listener.notes.iter().any(|note| note.contains("begins")));
    outcome
}

/// Everything arrived, once and in order, and something did happen.
pub fn assert_clean(outcome: &Outcome) {
    let totals = &outcome.totals;
    // A busy machine makes fewer rounds.
    let mut errors = outcome.errors.keys();
    let is_slow = |error: &String| error.starts_with("loop: rounds not begun");
    assert!(errors.all(is_slow), "{:?}\n{totals:?}", outcome.errors);
    assert_eq!(totals.received, totals.expected, "{totals:?}");
    assert_eq!(totals.acked, totals.acks_expected, "{totals:?}");
    assert_eq!(outcome.partial, None);
}
