//! `log.level`: a level, or a list of directives such as `info,control=debug`.

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::Directive;

/// Target of what is written whatever the level: why the process ends.
pub const FATAL: &str = "fatal";

/// The first writes three lines for each attempt to connect, of which the gateway tells what matters, once a minute; the others write a
/// line for each mistake of a client.
const CHATTY: [&str; 3] = ["async_nats", "rustls", "web_transport_quinn"];

const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// Words of other programs, and the level they mean.
const ALSO_KNOWN: [(&str, &str); 9] = [
    ("warning", "warn"),
    ("err", "error"),
    ("fatal", "error"),
    ("critical", "error"),
    ("notice", "info"),
    ("verbose", "debug"),
    ("all", "trace"),
    ("none", "off"),
    ("silent", "off"),
];

/// The filter for a level. An error names the word that is no level.
pub fn filter(text: &str) -> Result<EnvFilter, String> {
    for directive in text.split(',').map(str::trim) {
        // The parser takes a bare word for the name of a module, of which there is none, and shows nothing at all.
        if !directive.contains(['=', '[']) {
            check_name(directive)?;
        }
    }
    let mut filter = EnvFilter::try_new(text).map_err(|error| error.to_string())?;
    for chatty in CHATTY.into_iter().filter(|chatty| !text.contains(chatty)) {
        filter = filter.add_directive(directive(&format!("{chatty}=off"))?);
    }
    Ok(filter.add_directive(directive(&format!("{FATAL}=error"))?))
}

fn directive(text: &str) -> Result<Directive, String> {
    let directive = text.parse::<Directive>();
    directive.map_err(|error| error.to_string())
}

fn check_name(word: &str) -> Result<(), String> {
    let lower = word.to_lowercase();
    if LEVELS.contains(&&*lower) {
        return Ok(());
    }
    let known = ALSO_KNOWN.iter().find(|(name, _)| *name == lower);
    let meant = known.map(|(_, level)| *level);
    match meant.or_else(|| units::nearest(word, LEVELS)) {
        Some(meant) => Err(format!("{word:?} is not a level; did you mean {meant:?}?")),
        None => {
            let levels = LEVELS.join(", ");
            Err(format!(
                "{word:?} is not a level; one of {levels} is needed"
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_and_directives_are_filters() {
        for text in ["info", "WARN", "off", "info,control=debug", "sockeye=trace"] {
            assert!(filter(text).is_ok(), "{text}");
        }
    }

    #[test]
    fn a_word_that_is_no_level_is_refused_with_the_one_that_is_meant() {
        for (text, words) in [
            ("warning", "did you mean \"warn\"?"),
            ("verbose", "did you mean \"debug\"?"),
            ("inof", "did you mean \"info\"?"),
            (
                "loud",
                "one of off, error, warn, info, debug, trace is needed",
            ),
            ("", "\"\" is not a level"),
            ("info,,control=debug", "\"\" is not a level"),
            ("control=loud", ""),
            ("x=y=z", ""),
        ] {
            let error = filter(text).expect_err(text);
            assert!(error.contains(words), "{text}: {error}");
        }
    }
}
