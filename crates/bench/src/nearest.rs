//! Owns the guess what somebody meant who typed a name that nobody knows.

/// The candidate most like `word`, if any is close enough to be what was meant.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // Case and underscores do not count: people who know Socket.IO write pingInterval.
    let fold = |text: &str| text.to_lowercase().replace(['_', '-'], "");
    let word = fold(word);
    let allowed = (word.chars().count() / 3).clamp(1, 3);
    let scored = candidates
        .into_iter()
        .map(|name| (distance(&word, &fold(name)), name));
    scored
        .filter(|(score, _)| *score <= allowed)
        .min()
        .map(|(_, name)| name)
}

/// Edit distance in which a swap of neighbours counts once (optimal string alignment).
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let change = usize::from(a[i - 1] != b[j - 1]);
            row[j] = (last[j] + 1).min(row[j - 1] + 1).min(last[j - 1] + change);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(before[j - 2] + 1);
            }
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distance_counts_single_slips() {
        for (a, b, expected) in [
            ("listen", "listen", 0),
            ("listn", "listen", 1),
            ("lisetn", "listen", 1),
            ("", "abc", 3),
            ("kitten", "sitting", 3),
        ] {
            assert_eq!(distance(a, b), expected, "{a} {b}");
            assert_eq!(distance(b, a), expected, "{b} {a}");
        }
    }

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
