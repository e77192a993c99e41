//! Counts tests from what test runners say at their end.

/// Tests of one step or of all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub passed: u64,
    pub failed: u64,
    pub skipped: u64,
}

impl Tally {
    /// Takes the plain `N passed, N failed` of the last line, else sums up every closing line in
    /// `output`: cargo, node, pytest, Maven.
    pub fn read(output: &str) -> Tally {
        let last = output.lines().rev().find(|line| !line.trim().is_empty());
        if let Some(total) = last.filter(|line| line.contains(" failed")).and_then(words) {
            return total;
        }
        output
            .lines()
            .filter_map(line)
            .fold(Tally::default(), Tally::plus)
    }

    /// A step that failed without naming a failed test counts as one.
    pub fn settle(mut self, ok: bool) -> Tally {
        if !ok && self.failed == 0 {
            self.failed = 1;
        }
        self
    }

    pub fn plus(self, other: Tally) -> Tally {
        Tally {
            passed: self.passed + other.passed,
            failed: self.failed + other.failed,
            skipped: self.skipped + other.skipped,
        }
    }

    /// For the end of a line; nothing if there is nothing to tell.
    pub fn shown(self) -> String {
        match self {
            Tally {
                passed: 0,
                failed: 0,
                skipped: 0,
            } => String::new(),
            Tally {
                failed: 0,
                skipped: 0,
                passed,
            } => format!(", {passed} tests"),
            _ => format!(", {}", self.closing_line()),
        }
    }

    pub fn closing_line(self) -> String {
        let line = format!("{} passed, {} failed", self.passed, self.failed);
        if self.skipped == 0 {
            line
        } else {
            format!("{line}, {} skipped", self.skipped)
        }
    }
}

fn line(line: &str) -> Option<Tally> {
    let line = line.trim();
    cargo(line)
        .or_else(|| node(line))
        .or_else(|| maven(line))
        .or_else(|| words(line))
}

/// `test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; …`
fn cargo(line: &str) -> Option<Tally> {
    let counts = line.strip_prefix("test result: ")?;
    let count = |word: &str| before(counts, word, "; ").unwrap_or(0);
    Some(Tally {
        passed: count("passed"),
        failed: count("failed"),
        skipped: count("ignored"),
    })
}

/// `ℹ pass 12` or `# pass 12`, likewise fail and skipped, one a line.
fn node(line: &str) -> Option<Tally> {
    let rest = line
        .strip_prefix("# ")
        .or_else(|| line.strip_prefix("ℹ "))?;
    let (word, count) = rest.split_once(' ')?;
    let count = count.parse().ok()?;
    let none = Tally::default();
    match word {
        "pass" => Some(Tally {
            passed: count,
            ..none
        }),
        "fail" | "cancelled" => Some(Tally {
            failed: count,
            ..none
        }),
        "skipped" | "todo" => Some(Tally {
            skipped: count,
            ..none
        }),
        _ => None,
    }
}

/// `[INFO] Tests run: 12, Failures: 0, Errors: 0, Skipped: 0`; lines of single classes go on.
fn maven(line: &str) -> Option<Tally> {
    let at = line.find("Tests run: ")?;
    let line = &line[at..];
    if line.contains("Time elapsed") {
        return None;
    }
    let count = |name: &str| {
        let rest = line.split(name).nth(1)?;
        rest.split([',', ' ']).next()?.parse::<u64>().ok()
    };
    let failed = count("Failures: ")? + count("Errors: ")?;
    let skipped = count("Skipped: ")?;
    let passed = count("Tests run: ")?.saturating_sub(failed + skipped);
    Some(Tally {
        passed,
        failed,
        skipped,
    })
}

/// `12 passed, 0 failed` alone on a line, one word with a colon before it or not; pytest's
/// `=== 12 passed, 1 skipped in 0.5s ===`.
fn words(line: &str) -> Option<Tally> {
    let line = line.trim_matches(['=', ' ']);
    let line = line.split(" in ").next()?;
    let line = match line.split_once(": ") {
        Some((word, rest)) if !word.contains(' ') => rest,
        _ => line,
    };
    let mut tally = Tally::default();
    for part in line.split(", ") {
        let (count, word) = part.split_once(' ')?;
        let count: u64 = count.parse().ok()?;
        match word {
            "passed" => tally.passed += count,
            "failed" | "error" | "errors" => tally.failed += count,
            "skipped" | "xfailed" => tally.skipped += count,
            "warning" | "warnings" | "deselected" => {}
            _ => return None,
        }
    }
    Some(tally)
}

fn before(text: &str, word: &str, separator: &str) -> Option<u64> {
    let part = text.split(separator).find(|part| part.ends_with(word))?;
    part.split_whitespace().rev().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(output: &str, passed: u64, failed: u64, skipped: u64) {
        assert_eq!(
            Tally::read(output),
            Tally {
                passed,
                failed,
                skipped
            },
            "{output}"
        );
    }

    #[test]
    fn cargo_counts_add_up_over_binaries() {
        check(
            "test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out\n\
             test a ... ok\n\
             test result: FAILED. 3 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out\n",
            15,
            2,
            1,
        );
    }

    #[test]
    fn node_in_either_style() {
        check(
            "ℹ tests 5\nℹ pass 4\nℹ fail 1\nℹ cancelled 0\nℹ skipped 2\n",
            4,
            1,
            2,
        );
        check("# pass 4\n# fail 0\n# duration_ms 12.5\n", 4, 0, 0);
    }

    #[test]
    fn pytest_and_plain_lines() {
        check(
            "===== 12 passed, 1 failed, 2 warnings in 0.51s =====\n",
            12,
            1,
            0,
        );
        check("42 passed, 0 failed\n", 42, 0, 0);
        check("autobahn: 301 passed, 0 failed, 4 skipped\n", 301, 0, 4);
        check(
            "we have 3 passed tests, and more\n3 green, 4 blue\n",
            0,
            0,
            0,
        );
    }

    #[test]
    fn a_closing_line_of_the_whole_stands_for_its_parts() {
        check(
            "ℹ pass 2\njs: 2 passed, 0 failed (3 s)\n4 passed, 1 failed\n6 passed, 1 failed\n",
            6,
            1,
            0,
        );
    }

    #[test]
    fn maven_totals_and_not_its_classes() {
        check(
            "[INFO] Tests run: 5, Failures: 0, Errors: 0, Skipped: 0, Time elapsed: 1 s - in A\n\
             [ERROR] Tests run: 9, Failures: 1, Errors: 1, Skipped: 2\n",
            5,
            2,
            2,
        );
    }

    #[test]
    fn failing_without_a_word_is_one_failure() {
        assert_eq!(Tally::read("boom").settle(false).failed, 1);
        assert_eq!(Tally::read("3 passed, 2 failed").settle(false).failed, 2);
        assert_eq!(Tally::default().settle(true), Tally::default());
    }
}
