//! Owns what a price file may say beyond its structure: the range of every number, days that are
//! days, texts that say something. All faults are told together, each with its place.

use super::sheet::number;
use anyhow::{Result, bail};
use bench::toml_file::position;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Beyond it a figure is a typing error, and arithmetic would end in infinities.
const MOST: f64 = 1e12;
const HOURS_OF_A_MONTH: f64 = 744.0;

/// What a value may be.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Allowed {
    AtLeast0,
    Above0,
    /// Above 0 and at most so much.
    UpTo(f64),
    Share,
    /// Whole, from so many to a thousand.
    Count(f64),
    Date,
    Text,
}

/// By the path of a key, without the numbers of entries. A number that is not here may be 0.
const RULES: &[(&str, Allowed)] = &[
    ("dated", Allowed::Date),
    ("hours_per_month", Allowed::UpTo(HOURS_OF_A_MONTH)),
    ("target_per_user_month", Allowed::Above0),
    ("instance.vcpus", Allowed::Above0),
    ("instance.memory_gib", Allowed::Above0),
    ("instance.network_gbps", Allowed::Above0),
    ("redis.memory_gib", Allowed::Above0),
    ("redis.messages_per_second", Allowed::Above0),
    ("egress.tier.gb", Allowed::Above0),
    ("sizing.cpu_target", Allowed::Share),
    ("sizing.memory_target", Allowed::Share),
    ("sizing.network_target", Allowed::Share),
    ("sizing.core_factor", Allowed::Above0),
    ("sizing.redis_masters_min", Allowed::Count(1.0)),
    ("sizing.redis_replicas", Allowed::Count(0.0)),
    ("managed.by_tier.tier.connections", Allowed::Above0),
    ("managed.by_tier.tier.messages_per_day", Allowed::Above0),
    ("managed.by_use.message_kib", Allowed::Above0),
    ("managed.by_use.connections_max", Allowed::Above0),
    ("managed.by_unit.message_kib", Allowed::Above0),
    ("managed.by_unit.unit_connections", Allowed::Above0),
    ("managed.by_unit.units_max", Allowed::Above0),
    ("managed.by_user.step.users", Allowed::Above0),
];

/// `name` is what messages call the text, which was read as a price file before.
pub fn check(text: &str, name: &str) -> Result<()> {
    let (table, _) = DeTable::parse_recoverable(text);
    let mut faults = Vec::new();
    walk(text, "", table.get_ref(), &mut faults);
    faults.sort_unstable();
    let lines: Vec<String> = faults
        .into_iter()
        .map(|(at, what)| {
            let (line, column) = position(text, at);
            format!("{name}:{line}:{column}: cannot plan with {what}")
        })
        .collect();
    match lines.is_empty() {
        true => Ok(()),
        false => bail!("{}", lines.join("\n")),
    }
}

/// Places of faults, and what is wrong there.
type Faults = Vec<(usize, String)>;

fn walk(text: &str, path: &str, table: &DeTable<'_>, faults: &mut Faults) {
    for (key, value) in table {
        let path = match path {
            "" => key.get_ref().to_string(),
            _ => format!("{path}.{}", key.get_ref()),
        };
        look(text, &path, value, faults);
    }
}

fn look(text: &str, path: &str, value: &Spanned<DeValue<'_>>, faults: &mut Faults) {
    match value.get_ref() {
        DeValue::Table(table) => return walk(text, path, table, faults),
        DeValue::Array(items) => {
            for item in items.iter() {
                look(text, path, item, faults);
            }
            return;
        }
        _ => {}
    }
    let allowed = allowed(path, value.get_ref());
    if allowed.is_some_and(|allowed| !allowed.fits(value.get_ref())) {
        let given = text.get(value.span()).unwrap_or_default();
        let wanted = allowed.map(Allowed::text).unwrap_or_default();
        let fault = format!("{path} = {given}: it must be {wanted}");
        faults.push((value.span().start, fault));
    }
}

fn allowed(path: &str, value: &DeValue<'_>) -> Option<Allowed> {
    if let Some((_, allowed)) = RULES.iter().find(|(own, _)| *own == path) {
        return Some(*allowed);
    }
    match value {
        DeValue::String(_) if path.ends_with(".date") => Some(Allowed::Date),
        DeValue::String(_) => Some(Allowed::Text),
        DeValue::Integer(_) | DeValue::Float(_) => Some(Allowed::AtLeast0),
        _ => None,
    }
}

impl Allowed {
    fn fits(self, value: &DeValue<'_>) -> bool {
        let text = value.as_str().unwrap_or_default();
        // Not a number fits no range.
        let number = figure(value).unwrap_or(f64::NAN);
        match self {
            Allowed::AtLeast0 => (0.0..=MOST).contains(&number),
            Allowed::Above0 => number > 0.0 && number <= MOST,
            Allowed::UpTo(most) => number > 0.0 && number <= most,
            Allowed::Share => (0.01..=1.0).contains(&number),
            Allowed::Count(least) => (least..=1_000.0).contains(&number) && number.fract() == 0.0,
            Allowed::Date => is_date(text),
            Allowed::Text => !text.trim().is_empty(),
        }
    }

    fn text(self) -> String {
        match self {
            Allowed::AtLeast0 => format!("at least 0 and at most {}", number(MOST)),
            Allowed::Above0 => format!("above 0 and at most {}", number(MOST)),
            Allowed::UpTo(most) => format!("above 0 and at most {}", number(most)),
            Allowed::Share => "a share between 0.01 and 1".to_owned(),
            Allowed::Count(least) => format!("a whole number from {} to 1,000", number(least)),
            Allowed::Date => "a day as YYYY-MM-DD, such as \"2026-01-31\"".to_owned(),
            Allowed::Text => "a text that says something".to_owned(),
        }
    }
}

fn figure(value: &DeValue<'_>) -> Option<f64> {
    match value {
        DeValue::Integer(digits) => {
            let whole = i64::from_str_radix(digits.as_str(), digits.radix()).ok()?;
            Some(whole as f64)
        }
        DeValue::Float(digits) => digits.as_str().parse().ok(),
        _ => None,
    }
}

fn is_date(text: &str) -> bool {
    let shape = text.char_indices().all(|(at, c)| match at {
        4 | 7 => c == '-',
        _ => c.is_ascii_digit(),
    });
    if !shape || text.len() != 10 {
        return false;
    }
    let part = |range| text.get(range).and_then(|digits: &str| digits.parse().ok());
    let (Some(year), Some(month), Some(day)) = (part(0..4), part(5..7), part(8..10)) else {
        return false;
    };
    (1..=days(year, month)).contains(&day)
}

fn days(year: u32, month: u32) -> u32 {
    let is_leap = year.is_multiple_of(4) && !year.is_multiple_of(100) || year.is_multiple_of(400);
    match month {
        4 | 6 | 9 | 11 => 30,
        2 => 28 + u32::from(is_leap),
        1..=12 => 31,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::super::prices::{BUILT_IN, Prices};

    /// What is said of the built-in file with one piece replaced.
    fn refused(from: &str, to: &str) -> String {
        assert!(BUILT_IN.contains(from), "{from} is not in the file");
        let text = BUILT_IN.replacen(from, to, 1);
        Prices::read(&text, "p.toml").unwrap_err().to_string()
    }

    #[test]
    fn every_figure_has_its_range() {
        for (from, to, told) in [
            (
                "\nhours_per_month = 730",
                "\nhours_per_month = 0",
                "hours_per_month = 0: it must be above 0 and at most 744",
            ),
            (
                "\nhours_per_month = 730",
                "\nhours_per_month = -5",
                "hours_per_month = -5",
            ),
            (
                "messages_per_second = 20_000",
                "messages_per_second = 0",
                "redis.messages_per_second = 0: it must be above 0",
            ),
            (
                "per_hour = 0.0725",
                "per_hour = nan",
                "instance.per_hour = nan: it must be at least 0",
            ),
            (
                "per_hour = 0.0725",
                "per_hour = inf",
                "instance.per_hour = inf",
            ),
            (
                "per_hour = 75",
                "per_hour = -75",
                "people.per_hour = -75: it must be at least 0 and at most 1,000,000,000,000",
            ),
            (
                "\nhours_per_month = 8",
                "\nhours_per_month = -8",
                "people.hours_per_month = -8",
            ),
            ("free_gb = 100", "free_gb = -1", "egress.free_gb = -1"),
            (
                "per_gb = 0.05",
                "per_gb = -0.05",
                "egress.tier.per_gb = -0.05",
            ),
            (
                "gb = 40_000",
                "gb = 0",
                "egress.tier.gb = 0: it must be above 0",
            ),
            (
                "redis_replicas = 1",
                "redis_replicas = -1",
                "sizing.redis_replicas = -1: it must be a whole number from 0 to 1,000",
            ),
            (
                "redis_masters_min = 3",
                "redis_masters_min = 2.5",
                "sizing.redis_masters_min = 2.5: it must be a whole number from 1 to 1,000",
            ),
            (
                "target_per_user_month = 0.003",
                "target_per_user_month = 0",
                "target_per_user_month = 0: it must be above 0",
            ),
            (
                "core_factor = 1.0",
                "core_factor = 0",
                "sizing.core_factor = 0",
            ),
            (
                "unit_connections = 1_000",
                "unit_connections = 0",
                "managed.by_unit.unit_connections = 0",
            ),
            (
                "kernel_bytes_per_connection = 5_000",
                "kernel_bytes_per_connection = -1",
                "sizing.kernel_bytes_per_connection = -1",
            ),
            (
                "currency = \"USD\"",
                "currency = \"\"",
                "currency = \"\": it must be a text that says something",
            ),
        ] {
            let error = refused(from, to);
            assert!(
                error.contains(&format!("cannot plan with {told}")),
                "{error}"
            );
        }
    }

    #[test]
    fn days_must_be_days() {
        for day in [
            "yesterday",
            "2026-13-01",
            "2026-02-29",
            "26-01-01",
            "2026/01/01",
            "2026-01-00",
            "２０２６-01",
        ] {
            let error = refused("dated = \"2026-11-22\"", &format!("dated = \"{day}\""));
            assert!(
                error.contains(&format!("dated = \"{day}\": it must be a day")),
                "{error}"
            );
        }
        let error = refused("date = \"2026-09-29\"", "date = \"yesterday\"");
        assert!(
            error.contains("instance.date = \"yesterday\": it must be a day as YYYY-MM-DD"),
            "{error}"
        );
        assert!(super::is_date("2028-02-29"));
    }

    #[test]
    fn all_faults_are_told_with_their_places() {
        let text = BUILT_IN
            .replacen("cpu_target = 0.5", "cpu_target = 2", 1)
            .replacen("vcpus = 2", "vcpus =  0", 1);
        let error = Prices::read(&text, "p.toml").unwrap_err().to_string();
        let place = |text_before: &str, wanted: &str| {
            let line = text_before.lines().position(|line| line == wanted).unwrap() + 1;
            let column = wanted.rfind(' ').unwrap() + 2;
            format!("p.toml:{line}:{column}: cannot plan with ")
        };
        let (first, second) = error.split_once('\n').unwrap();
        assert!(first.starts_with(&place(&text, "vcpus =  0")), "{error}");
        assert!(
            second.starts_with(&place(&text, "cpu_target = 2")),
            "{error}"
        );
    }
}
