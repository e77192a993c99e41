//! Owns the comparison with polling by a timer: requests, bytes of headers, and how late news is.
//! Counted in whole numbers, so that it comes out exactly.

use super::sheet::Sheet;
use super::workload::Load;
use anyhow::{Result, bail};
use serde::Serialize;
use units::grouped;

const SECONDS_PER_DAY: u64 = 86_400;
const BYTES_PER_GB: f64 = 1e9;

/// The same users asking again and again.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Polling {
    /// On average, to the nearest whole one; requests are of the exact number.
    pub users: u64,
    pub every_s: u64,
    pub header_bytes: u64,
    pub requests_per_day: u64,
    pub header_bytes_per_day: u64,
    /// News waits this long on average.
    pub delay_s: f64,
    /// Gigabytes a day that connections cost instead, everything included.
    pub pushed_gb_per_day: f64,
}

/// Of so many thousandths of a user who ask every `every_s` seconds; rounded down to whole requests.
pub fn requests_per_day(thousandths: u64, every_s: u64) -> u64 {
    let seconds = u128::from(thousandths) * u128::from(SECONDS_PER_DAY) / 1_000;
    (seconds / u128::from(every_s.max(1))) as u64
}

pub fn compare(
    load: &Load,
    load_factor: f64,
    every_s: u64,
    header_bytes: u64,
    sheet: &mut Sheet,
) -> Result<Polling> {
    if !(1..=SECONDS_PER_DAY).contains(&every_s) {
        bail!("cannot compare with polling every {every_s} s: it must be 1 to {SECONDS_PER_DAY}");
    }
    // Connected users poll; on average the load factor of the peak's.
    let thousandths = (load.connections * load_factor * 1e3).round() as u64;
    let requests = requests_per_day(thousandths, every_s);
    let bytes = (u128::from(requests) * u128::from(header_bytes)).min(u64::MAX.into()) as u64;
    sheet.section("The same by polling");
    let asked = with_thousandths(thousandths);
    let day = grouped(SECONDS_PER_DAY);
    let arithmetic = format!("{asked} users × {day} s ÷ {every_s} s");
    sheet.exact("requests a day", &arithmetic, requests, "");
    let arithmetic = format!("{} requests × {header_bytes} B", grouped(requests));
    sheet.exact("headers a day", &arithmetic, bytes, "B");
    let delay_s = every_s as f64 / 2.0;
    sheet.given(
        "news is late by",
        delay_s,
        "s on average",
        "half the interval",
    );
    let pushed = load.bytes_out_per_s * load_factor * SECONDS_PER_DAY as f64 / BYTES_PER_GB;
    let (what, source) = (
        "all traffic of connections instead",
        "bandwidth above, on average",
    );
    sheet.given(what, pushed, "GB a day", source);
    Ok(Polling {
        users: (thousandths + 500) / 1_000,
        every_s,
        header_bytes,
        requests_per_day: requests,
        header_bytes_per_day: bytes,
        delay_s,
        pushed_gb_per_day: pushed,
    })
}

fn with_thousandths(value: u64) -> String {
    let text = format!("{}.{:03}", grouped(value / 1_000), value % 1_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn idle(connections: f64) -> Load {
        Load {
            connections,
            messages_per_s: 0.0,
            deliveries_per_s: 0.0,
            acks_per_s: 0.0,
            connects_per_s: 0.0,
            pings_per_s: 0.0,
            bytes_out_per_s: 0.0,
        }
    }

    #[test]
    fn ten_thousand_users_every_five_seconds_ask_172_800_000_times_a_day() {
        assert_eq!(requests_per_day(10_000_000, 5), 172_800_000);
        let mut sheet = Sheet::default();
        let polling = compare(&idle(10_000.0), 1.0, 5, 679, &mut sheet).unwrap();
        assert_eq!(polling.requests_per_day, 172_800_000);
        // 172,800,000 × 679
        assert_eq!(polling.header_bytes_per_day, 117_331_200_000);
        assert_eq!(polling.delay_s, 2.5);
        let text = sheet.text();
        assert!(
            text.contains("10,000 users × 86,400 s ÷ 5 s = 172,800,000"),
            "{text}"
        );
        assert!(
            text.contains("172,800,000 requests × 679 B = 117,331,200,000 B"),
            "{text}"
        );
    }

    #[test]
    fn a_part_of_a_user_asks_too() {
        for (connections, requests, text) in [
            (1.0, 1_382, "0.08 users ×"),
            (3.0, 4_147, "0.24 users ×"),
            (100_000.0, 138_240_000, "8,000 users ×"),
        ] {
            let mut sheet = Sheet::default();
            let polling = compare(&idle(connections), 0.08, 5, 679, &mut sheet).unwrap();
            assert_eq!(polling.requests_per_day, requests);
            assert!(sheet.text().contains(text), "{}", sheet.text());
        }
    }

    #[test]
    fn large_counts_do_not_overflow() {
        assert_eq!(
            requests_per_day(1_000_000_000_000_000, 1),
            86_400_000_000_000_000
        );
        assert_eq!(requests_per_day(1_000, 86_400), 1);
    }
}
