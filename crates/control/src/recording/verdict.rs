//! What clients heard beside what they should have heard.

use super::script::{Part, Script, Word};
use super::stage::Played;
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};

/// Differences that are told one by one.
const SAMPLES_MAX: usize = 20;

/// How a play went.
#[derive(Debug, Default, Serialize)]
pub struct Report {
    /// Nothing differs.
    pub equal: bool,
    /// Clients that came.
    pub sockets: usize,
    /// Those that could not come, were put out, or lost their connection.
    pub failed: usize,
    /// Events and answers that clients said.
    pub said: u64,
    /// Those that they could not say.
    pub unsaid: u64,
    /// Answers to clients.
    pub answers: Count,
    /// Answers with arguments of other types.
    pub other_answers: u64,
    /// Events to clients, of names that clients of the recording have said.
    pub events: BTreeMap<String, Count>,
    /// Events of other names. Who said them may not be in the recording, so that they are not judged.
    pub not_judged: BTreeMap<String, Count>,
    /// Clients that heard the same things in another order.
    pub other_order: usize,
    /// What was heard beyond what is kept.
    pub unheard: u64,
    /// What the recording lacks.
    pub gaps: Vec<String>,
    /// The first differences.
    pub samples: Vec<String>,
}

/// How often something was heard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Count {
    /// In the recording.
    pub recorded: u64,
    /// In the play.
    pub replayed: u64,
    /// Only in the recording.
    pub missing: u64,
    /// Only in the play.
    pub additional: u64,
}

impl Count {
    fn add(&mut self, recorded: u64, replayed: u64) {
        self.recorded += recorded;
        self.replayed += replayed;
        self.missing += recorded.saturating_sub(replayed);
        self.additional += replayed.saturating_sub(recorded);
    }

    fn is_equal(self) -> bool {
        self.missing == 0 && self.additional == 0
    }
}

impl Report {
    /// `strict`: events of all names are judged, and the order too.
    pub(super) fn of(script: &Script, played: &[Played], strict: bool) -> Self {
        let mut report = Self {
            gaps: script.gaps.clone(),
            ..Self::default()
        };
        for (part, played) in script.parts.iter().zip(played) {
            report.sockets += usize::from(played.joined);
            report.said += played.said;
            report.unsaid += part.sayings().saturating_sub(played.said);
            report.unheard += played.unheard;
            if let Some(trouble) = &played.trouble {
                report.failed += 1;
                report.sample(part, trouble);
            }
            let is_judged = |name: &str| {
                strict
                    || script
                        .said
                        .contains(&(part.namespace.clone(), name.to_owned()))
            };
            report.compare(part, played, is_judged);
        }
        let events = report.events.values().copied();
        let is_same = events.chain([report.answers]).all(Count::is_equal);
        let others = report.other_answers + report.unheard + report.unsaid;
        // What several people say at once has no order.
        let is_ordered = !strict || report.other_order == 0;
        report.equal = is_same && others == 0 && report.failed == 0 && is_ordered;
        report
    }

    fn compare(&mut self, part: &Part, played: &Played, is_judged: impl Fn(&str) -> bool) {
        let is_meant = |word: &&Word| match word {
            Word::Event(name) => is_judged(name),
            Word::Answer(..) => true,
        };
        let mut counts: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
        for (words, is_played) in [(&part.expected, false), (&played.heard, true)] {
            for word in words {
                if let Word::Event(name) = word {
                    let count = counts.entry(name).or_default();
                    *(if is_played {
                        &mut count.1
                    } else {
                        &mut count.0
                    }) += 1;
                }
            }
        }
        let mut is_same = self.compare_answers(part, played);
        for (name, (recorded, replayed)) in counts {
            let judged = is_judged(name);
            let place = if judged {
                &mut self.events
            } else {
                &mut self.not_judged
            };
            let label = format!("{} {name}", part.namespace);
            place.entry(label).or_default().add(recorded, replayed);
            if judged && recorded != replayed {
                is_same = false;
                self.sample(
                    part,
                    &format!("{name}: {recorded} recorded, {replayed} replayed"),
                );
            }
        }
        let recorded = part.expected.iter().filter(is_meant).map(Word::label);
        let replayed = played.heard.iter().filter(is_meant).map(Word::label);
        if is_same && let Some(at) = recorded.zip(replayed).position(|(one, other)| one != other) {
            self.other_order += 1;
            self.sample(part, &format!("another order from word {} on", at + 1));
        }
    }

    fn compare_answers(&mut self, part: &Part, played: &Played) -> bool {
        let answers = |words: &[Word]| -> HashMap<u64, Option<String>> {
            let answers = words.iter().filter_map(|word| match word {
                Word::Answer(number, kinds) => Some((*number, kinds.clone())),
                Word::Event(_) => None,
            });
            answers.collect()
        };
        let (recorded, replayed) = (answers(&part.expected), answers(&played.heard));
        let additional = replayed
            .keys()
            .filter(|number| !recorded.contains_key(number));
        let (missing, additional) = (
            recorded
                .keys()
                .filter(|number| !replayed.contains_key(number))
                .count() as u64,
            additional.count() as u64,
        );
        self.answers.recorded += recorded.len() as u64;
        self.answers.replayed += replayed.len() as u64;
        self.answers.missing += missing;
        self.answers.additional += additional;
        if missing + additional > 0 {
            let text = format!("answers: {missing} missing, {additional} additional");
            self.sample(part, &text);
        }
        for (number, kinds) in &recorded {
            let (Some(kinds), Some(Some(heard))) = (kinds, replayed.get(number)) else {
                continue;
            };
            if kinds != heard {
                self.other_answers += 1;
                let text = format!(
                    "answer {}: [{kinds}] recorded, [{heard}] replayed",
                    number + 1
                );
                self.sample(part, &text);
            }
        }
        missing + additional == 0
    }

    fn sample(&mut self, part: &Part, text: &str) {
        if self.samples.len() < SAMPLES_MAX {
            self.samples
                .push(format!("{} {}: {text}", part.socket, part.namespace));
        }
    }
}

impl Word {
    fn label(&self) -> String {
        match self {
            Self::Event(name) => format!("event {name}"),
            Self::Answer(number, _) => format!("answer {number}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::file::Recording;
    use super::*;
    use std::io::Write;

    fn script() -> Script {
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        let line = |at: u64, direction: &str, what: &str, event: &str, more: &str| {
            format!(
                "{{\"kind\":\"line\",\"at_ms\":{at},\"direction\":\"{direction}\",\"what\":\"{what}\",\"socket\":\"s1\",\
                 \"namespace\":\"/\",\"event\":\"{event}\"{more}}}\n"
            )
        };
        let text = [
            "{\"sockeye_recording\":1}\n".to_owned(),
            line(
                1,
                "in",
                "event",
                "chat",
                ",\"ack\":9,\"args\":\"string(3)\",\"decision\":\"relayed\"",
            ),
            line(
                2,
                "out",
                "answer",
                "chat",
                ",\"ack\":9,\"args\":\"number\",\"decision\":\"answered\"",
            ),
            line(3, "out", "event", "chat", ",\"decision\":\"delivered\""),
            line(4, "out", "event", "news", ",\"decision\":\"delivered\""),
            "{\"kind\":\"end\",\"lines\":4}\n".to_owned(),
        ];
        file.write_all(text.concat().as_bytes()).expect("written");
        let recording = Recording::read(file.path(), false).expect("a recording");
        Script::of(&recording).expect("a play")
    }

    fn played(heard: Vec<Word>) -> Vec<Played> {
        let (joined, said) = (true, 1);
        vec![Played {
            heard,
            joined,
            said,
            ..Played::default()
        }]
    }

    fn answer(kinds: &str) -> Word {
        Word::Answer(0, Some(kinds.to_owned()))
    }

    #[test]
    fn the_same_is_equal_and_others_voices_are_not_judged() {
        let script = script();
        let chat = || Word::Event("chat".to_owned());
        let report = Report::of(&script, &played(vec![answer("number"), chat()]), false);
        assert!(report.equal, "{report:?}");
        assert_eq!(report.not_judged["/ news"].missing, 1);
        assert!(!Report::of(&script, &played(vec![answer("number"), chat()]), true).equal);
        for (heard, what) in [
            (vec![answer("number")], "chat: 1 recorded, 0 replayed"),
            (
                vec![answer("number"), chat(), chat()],
                "chat: 1 recorded, 2 replayed",
            ),
            (vec![chat()], "answers: 1 missing, 0 additional"),
            (
                vec![answer("string"), chat()],
                "answer 1: [number] recorded, [string] replayed",
            ),
        ] {
            let report = Report::of(&script, &played(heard), false);
            assert!(!report.equal);
            assert!(report.samples[0].ends_with(what), "{:?}", report.samples);
        }
    }

    #[test]
    fn another_order_is_told_and_counts_if_one_is_strict() {
        let heard = || {
            let names = ["chat", "news"].map(|name| Word::Event(name.to_owned()));
            let [chat, news] = names;
            played(vec![chat, answer("number"), news])
        };
        let report = Report::of(&script(), &heard(), false);
        assert!(report.equal && report.other_order == 1, "{report:?}");
        assert!(!Report::of(&script(), &heard(), true).equal);
    }
}
