//! Owns how figures are written: three significant digits, grouped thousands, units of memory and
//! time that fit the size.

pub const NONE: &str = "–";

/// A figure as `write` has it, or a dash.
pub fn told<T>(value: Option<T>, write: impl FnOnce(T) -> String) -> String {
    value.map_or(NONE.into(), write)
}

/// Three significant digits are more than the noise allows.
pub fn short(value: f64) -> String {
    match value.abs() {
        _ if !value.is_finite() => NONE.into(),
        // Rounded first, or 99.97 would become 100.0.
        size if size >= 99.95 => digits(value.round() as u64),
        size if size >= 9.995 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// `18000` as `18,000`.
pub fn digits(value: impl Into<u64>) -> String {
    units::grouped(value.into())
}

/// The same, rounded.
pub fn whole(value: f64) -> String {
    digits(value.round() as u64)
}

/// Bytes in the largest binary unit that leaves at least one.
pub fn bytes(value: f64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let steps = (value.abs().max(1.0).log2() / 10.0) as usize;
    match steps.min(UNITS.len() - 1) {
        0 => format!("{} B", value.round()),
        step => format!(
            "{} {}",
            short(value / 1024f64.powi(step as i32)),
            UNITS[step]
        ),
    }
}

/// Seconds as a clock shows them: `42 s`, `3:05`, `1:00:00`.
pub fn clock(seconds: f64) -> String {
    let whole = seconds.max(0.0).round() as u64;
    let (hours, minutes, rest) = (whole / 3_600, whole / 60 % 60, whole % 60);
    match (hours, minutes) {
        (0, 0) => format!("{rest} s"),
        (0, _) => format!("{minutes}:{rest:02}"),
        _ => format!("{hours}:{minutes:02}:{rest:02}"),
    }
}

/// Cores used, as percent of one.
pub fn cores(cores: f64) -> String {
    match cores * 100.0 {
        percent if percent >= 9.95 => format!("{} %", digits(percent.round() as u64)),
        percent => format!("{percent:.1} %"),
    }
}

/// A share as percent; never `100 %` while anything is missing.
pub fn percent(part: u64, whole: u64) -> String {
    if whole == 0 {
        return NONE.into();
    }
    let share = part as f64 / whole as f64 * 100.0;
    match share {
        _ if part == whole => "100 %".into(),
        _ if part == 0 => "0 %".into(),
        share if share < 0.01 => format!("{:.4} %", share.max(0.0001)),
        share if share > 99.99 => format!("{:.4} %", share.min(99.9999)),
        share => format!("{share:.2} %"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_grouped() {
        assert_eq!(digits(1_234_567u32), "1,234,567");
        let written = [0.5234, 9.996, 51.17, 99.97, 13_892.4, f64::NAN].map(short);
        assert_eq!(written, ["0.52", "10.0", "51.2", "100", "13,892", "–"]);
    }

    #[test]
    fn units_fit_the_size() {
        let written = [0.0, 1_023.0, 1_536.0, 88_290_000.0, 3.0e12].map(bytes);
        let expected = ["0 B", "1023 B", "1.50 KiB", "84.2 MiB", "2.73 TiB"];
        assert_eq!(written, expected);
        assert_eq!([7.2, 185.0, 3_600.0].map(clock), ["7 s", "3:05", "1:00:00"]);
    }

    #[test]
    fn a_single_missing_one_is_not_rounded_away() {
        assert_eq!(percent(10, 10), "100 %");
        assert_eq!(percent(9_999_999, 10_000_000), "99.9999 %");
        assert_eq!(percent(99_999_999, 100_000_000), "99.9999 %");
        assert_eq!(
            (percent(1, 3), percent(0, 0)),
            ("33.33 %".into(), "–".into())
        );
    }
}
