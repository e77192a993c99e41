//! Owns the view for logs and terminals: a line for each tenth of the connections while they are made, and one line of
//! figures every five seconds.

use super::{Observer, Progress};
use outcome::number::{bytes, clock, digits, short};
use outcome::{Percentiles, Second};
use std::io::Write;

/// Seconds that one line sums up.
const EVERY: usize = 5;
/// Lines that tell of the connections being made.
const STEPS: u64 = 10;

#[derive(Debug)]
pub struct Lines<W: Write> {
    out: W,
    step: u64,
    recent: Vec<Second>,
}

impl Lines<std::io::Stderr> {
    /// On standard error, so that standard output holds the results and nothing else.
    pub fn on_stderr() -> Self {
        Lines::new(std::io::stderr())
    }
}

impl<W: Write> Lines<W> {
    pub fn new(out: W) -> Self {
        Lines {
            out,
            step: 0,
            recent: Vec::new(),
        }
    }

    fn line(&mut self, text: &str) {
        // A closed pipe is no reason to end a measurement.
        let _ = writeln!(self.out, "{}", printable(text));
    }
}

impl<W: Write> Observer for Lines<W> {
    fn connecting(&mut self, progress: Progress) {
        let Progress { done, total, .. } = progress;
        let step = done * STEPS / total.max(1);
        if step > self.step {
            self.line(&format!("connected {progress}"));
        }
        self.step = step;
    }

    fn second(&mut self, second: &Second) {
        self.recent.push(second.clone());
        if self.recent.len() >= EVERY {
            let text = summary(&self.recent);
            self.recent.clear();
            self.line(&text);
        }
    }

    fn note(&mut self, text: &str) {
        self.line(text);
    }
}

/// Means of the rates; of latencies the middle of the p50 and the worst p99 and greatest.
fn summary(seconds: &[Second]) -> String {
    let Some(last) = seconds.last() else {
        return String::new();
    };
    let rate = |figure: fn(&Second) -> u64| {
        let sum: u64 = seconds.iter().map(figure).sum();
        digits((sum as f64 / seconds.len() as f64).round() as u64)
    };
    let mut text = format!(
        "{:>7}  {:>7} connections  {:>8} sent/s  {:>9} received/s",
        clock(last.t_s),
        digits(last.connections),
        rate(|s| s.sent),
        rate(|s| s.received + s.acked),
    );
    if seconds.iter().filter(|s| s.generator_busy).count() * 2 > seconds.len() {
        text += "  no latency: the generator has no core left";
    } else if let Some((p50, p99, max)) = latency(seconds) {
        text += &format!("  p50 {p50} p99 {p99} max {max} ms");
    }
    let cpu: Vec<f64> = seconds
        .iter()
        .filter_map(|s| s.server_cpu_percent)
        .collect();
    if !cpu.is_empty() {
        text += &format!("  CPU {:.0} %", cpu.iter().sum::<f64>() / cpu.len() as f64);
    }
    // Not sampled in every second: reading it costs the server's kernel time.
    let sampled = seconds.iter().rev().find_map(|s| s.server_rss_bytes);
    if let Some(rss) = sampled {
        text += &format!("  {}", bytes(rss as f64));
    }
    let errors: u64 = seconds.iter().map(|s| s.errors).sum();
    text + &format!("  {} errors", digits(errors))
}

fn latency(seconds: &[Second]) -> Option<(String, String, String)> {
    let shown: Vec<Percentiles> = seconds.iter().filter_map(Second::latency).collect();
    let mut p50: Vec<f64> = shown.iter().map(|p| p.p50_ms).collect();
    p50.sort_by(f64::total_cmp);
    let middle = *p50.get(p50.len() / 2)?;
    let worst = |figure: fn(&Percentiles) -> f64| shown.iter().map(figure).fold(0.0, f64::max);
    Some((
        short(middle),
        short(worst(|p| p.p99_ms)),
        short(worst(|p| p.max_ms)),
    ))
}

/// Names come from scenario files and reasons from servers: neither may move the cursor.
pub(super) fn printable(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { '\u{fffd}' } else { c })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second(t_s: f64, received: u64, p99_ms: f64) -> Second {
        Second {
            t_s,
            connections: 10_427,
            sent: 100,
            received,
            errors: 1,
            delivery: Some(Percentiles {
                p50_ms: 0.4,
                p99_ms,
                max_ms: 12.0,
                ..Percentiles::default()
            }),
            server_cpu_percent: Some(43.0),
            server_rss_bytes: Some(88_290_000),
            ..Second::default()
        }
    }

    fn progress(done: u64, failed: u64, total: u64) -> Progress {
        Progress {
            done,
            failed,
            total,
        }
    }

    fn shown(play: impl FnOnce(&mut Lines<&mut Vec<u8>>)) -> String {
        let mut out = Vec::new();
        play(&mut Lines::new(&mut out));
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn five_seconds_make_a_line() {
        let text = shown(|lines| {
            for t in 1..=7 {
                lines.second(&second(
                    f64::from(t),
                    1_000 * u64::from(t as u8),
                    f64::from(t),
                ));
            }
        });
        assert_eq!(
            text,
            "    5 s   10,427 connections       100 sent/s      3,000 received/s  p50 0.40 p99 5.00 \
             max 12.0 ms  CPU 43 %  84.2 MiB  5 errors\n"
        );
    }

    #[test]
    fn a_tenth_of_the_connections_makes_a_line() {
        let text = shown(|lines| {
            for done in 0..=2_000 {
                lines.connecting(progress(done, 0, 2_000));
            }
        });
        assert_eq!(text.lines().count(), 10);
        let failed = shown(|lines| lines.connecting(progress(50, 20, 50)));
        assert_eq!(failed, "connected 30 of 50, 20 failed\n");
        assert!(text.starts_with("connected 200 of 2,000\n"), "{text}");
        assert!(text.ends_with("connected 2,000 of 2,000\n"), "{text}");
    }

    #[test]
    fn a_generator_without_a_core_shows_no_latency() {
        let busy = Second {
            generator_busy: true,
            ..second(5.0, 10, 1.0)
        };
        let text = shown(|lines| (0..5).for_each(|_| lines.second(&busy)));
        assert!(
            text.contains("no core left") && !text.contains("p99"),
            "{text}"
        );
    }

    #[test]
    fn what_a_server_says_cannot_move_the_cursor() {
        let text = shown(|lines| lines.note("closed: \u{1b}[2J\nbye"));
        assert_eq!(text, "closed: \u{fffd}[2J\u{fffd}bye\n");
    }
}
