//! Owns the guess what somebody meant who typed a name that nobody knows.

use strsim::osa_distance;

/// The candidate most like `word`, if any is close enough to be what was meant.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // Case and underscores do not count: people who know Socket.IO write pingInterval.
    let fold = |text: &str| text.to_lowercase().replace(['_', '-'], "");
    let word = fold(word);
    let allowed = (word.chars().count() / 3).clamp(1, 3);
    let scored = candidates
        .into_iter()
        .map(|name| (osa_distance(&word, &fold(name)), name));
    scored
        .filter(|(score, _)| *score <= allowed)
        .min()
        .map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_knows_other_spellings_and_stays_silent_on_the_rest() {
        let names = ["ping_interval", "ping_timeout", "path", "cors"];
        assert_eq!(nearest("pingInterval", names), Some("ping_interval"));
        assert_eq!(nearest("ping_intervall", names), Some("ping_interval"));
        assert_eq!(nearest("ping-timeout", names), Some("ping_timeout"));
        assert_eq!(nearest("cros", names), Some("cors"));
        assert_eq!(nearest("certificate", names), None);
    }
}
