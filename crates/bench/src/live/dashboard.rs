//! Owns the dashboard of `--tui`: what it remembers of a run, and how that is laid out. Pure: it
//! draws on any frame; `terminal` owns the screen and the keys.

use super::lines::printable;
use super::{About, Progress};
use outcome::number::{bytes, clock, digits, short};
use outcome::{Percentiles, Second};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::symbols::Marker;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Axis, Block, Chart, Dataset, Gauge, GraphType, Paragraph, Sparkline};
use std::collections::VecDeque;

/// Seconds that curves show at most: wider than any terminal.
const SECONDS_KEPT: usize = 400;
const NOTES_KEPT: usize = 50;
/// The count of errors, the newest notes and the border.
const NOTES_HEIGHT: u16 = 6;

#[derive(Debug, Default)]
pub struct Dashboard {
    about: About,
    seconds: VecDeque<Second>,
    connecting: Option<Progress>,
    notes: VecDeque<String>,
    totals: Totals,
    /// The end was asked for and is under way.
    pub is_ending: bool,
}

/// Sums since the start.
#[derive(Debug, Default)]
struct Totals {
    sent: u64,
    expected: u64,
    received: u64,
    drops: u64,
    errors: u64,
}

impl Dashboard {
    pub fn new(about: About) -> Self {
        Dashboard {
            about,
            ..Dashboard::default()
        }
    }

    pub fn connecting(&mut self, progress: Progress) {
        let is_under_way = progress.done < progress.total;
        self.connecting = is_under_way.then_some(progress);
    }

    pub fn second(&mut self, second: &Second) {
        self.totals.sent += second.sent;
        self.totals.expected += second.expected;
        self.totals.received += second.received + second.acked;
        self.totals.drops += second.drops;
        self.totals.errors += second.errors;
        self.seconds.push_back(second.clone());
        if self.seconds.len() > SECONDS_KEPT {
            self.seconds.pop_front();
        }
    }

    pub fn note(&mut self, text: &str) {
        self.notes.push_back(printable(text));
        if self.notes.len() > NOTES_KEPT {
            self.notes.pop_front();
        }
    }

    pub fn draw(&self, frame: &mut Frame) {
        let [head, upper, lower, notes, foot] = Layout::vertical([
            Constraint::Length(3),
            Constraint::Fill(2),
            Constraint::Fill(3),
            Constraint::Length(NOTES_HEIGHT),
            Constraint::Length(1),
        ])
        .areas(frame.area());
        let halves = Layout::horizontal([Constraint::Fill(1), Constraint::Fill(1)]);
        let [connections, messages] = halves.areas(upper);
        let [latency, server] = halves.areas(lower);
        self.draw_head(frame, head);
        self.draw_connections(frame, connections);
        self.draw_messages(frame, messages);
        self.draw_latency(frame, latency);
        self.draw_server(frame, server);
        self.draw_notes(frame, notes);
        let keys = match self.is_ending {
            true => " ending: stragglers are waited for, then the results are printed",
            false => " q or Ctrl-C ends the run and prints what was measured",
        };
        frame.render_widget(Paragraph::new(keys).style(dim()), foot);
    }

    fn last(&self) -> Second {
        self.seconds.back().cloned().unwrap_or_default()
    }

    /// Memory as last sampled, which is not in every second.
    fn server_rss_bytes(&self) -> Option<u64> {
        self.seconds.iter().rev().find_map(|s| s.server_rss_bytes)
    }

    /// What runs, and how far it is: while connections are missing, how many.
    fn draw_head(&self, frame: &mut Frame, area: Rect) {
        let last = self.last();
        let phase = self.about.phases.get(last.phase).map_or("", String::as_str);
        let duration_s = self.about.duration_s.max(1.0);
        let (ratio, label) = match self.connecting {
            Some(progress) => (
                progress.done as f64 / progress.total.max(1) as f64,
                format!("connecting {progress}"),
            ),
            None => (
                last.t_s / duration_s,
                format!(
                    "{} of {}  {}",
                    clock(last.t_s),
                    clock(duration_s),
                    printable(phase)
                ),
            ),
        };
        let gauge = Gauge::default()
            .block(panel(&self.about.headline()))
            .gauge_style(Style::new().fg(Color::Cyan))
            .ratio(ratio.clamp(0.0, 1.0))
            .label(label);
        frame.render_widget(gauge, area);
    }

    fn draw_connections(&self, frame: &mut Frame, area: Rect) {
        let last = self.last();
        let line = Line::from(vec![
            bold(digits(last.connections)),
            Span::raw(format!(" open  {} connects/s  ", digits(last.connects))),
            fault(self.totals.drops, "dropped"),
        ]);
        self.draw_curve(frame, area, "connections", &[line], |s| s.connections);
    }

    fn draw_messages(&self, frame: &mut Frame, area: Rect) {
        let last = self.last();
        let now = Line::from(vec![
            bold(digits(last.received + last.acked)),
            Span::raw(format!(" received/s  {} sent/s", digits(last.sent))),
        ]);
        let totals = &self.totals;
        // What is due may be known only after the run.
        let due = match totals.expected {
            0 => String::new(),
            expected => format!(", {} deliveries due", digits(expected)),
        };
        let sums = format!("in all {}{due}", digits(totals.received));
        let sums = Line::from(sums).style(dim());
        self.draw_curve(frame, area, "messages", &[now, sums], |s| {
            s.received + s.acked
        });
    }

    /// Lines of text, and below them a curve of the newest seconds.
    fn draw_curve(
        &self,
        frame: &mut Frame,
        area: Rect,
        title: &str,
        lines: &[Line],
        figure: impl Fn(&Second) -> u64,
    ) {
        let block = panel(title);
        let inner = block.inner(area);
        frame.render_widget(block, area);
        let [text, curve] =
            Layout::vertical([Constraint::Length(lines.len() as u16), Constraint::Fill(1)])
                .areas(inner);
        frame.render_widget(Paragraph::new(lines.to_vec()), text);
        let newest = self.seconds.len().saturating_sub(usize::from(curve.width));
        let data: Vec<u64> = self.seconds.iter().skip(newest).map(figure).collect();
        let style = Style::new().fg(Color::Cyan);
        frame.render_widget(Sparkline::default().data(data).style(style), curve);
    }

    fn draw_latency(&self, frame: &mut Frame, area: Rect) {
        let block = panel("latency, ms");
        let inner = block.inner(area);
        frame.render_widget(block, area);
        let [text, curves] =
            Layout::vertical([Constraint::Length(1), Constraint::Fill(1)]).areas(inner);
        let shown = self.seconds.iter().rev().find_map(Second::latency);
        let line = shown.map_or(Line::from("nothing yet").style(dim()), percentiles);
        frame.render_widget(Paragraph::new(line), text);
        let of = |figure: fn(Percentiles) -> f64| -> Vec<(f64, f64)> {
            let with_latency = self
                .seconds
                .iter()
                .filter_map(|s| Some((s.t_s, s.latency()?)));
            with_latency
                .map(|(t, latency)| (t, figure(latency)))
                .collect()
        };
        draw_two(frame, curves, &of(|p| p.p50_ms), &of(|p| p.p99_ms));
    }

    fn draw_server(&self, frame: &mut Frame, area: Rect) {
        let last = self.last();
        let cpu = last
            .server_cpu_percent
            .map_or("not watched".into(), |cpu| format!("{cpu:.0} %"));
        let server = Line::from(vec![
            Span::raw("CPU "),
            bold(cpu),
            Span::raw("  memory "),
            bold(
                self.server_rss_bytes()
                    .map_or("not watched".into(), |rss| bytes(rss as f64)),
            ),
        ]);
        let lag = last.generator_lag_p99_ms.map_or("–".into(), short);
        let own = format!(
            "generator: CPU {:.0} %, lag p99 {lag} ms",
            last.generator_cpu_percent
        );
        let lines = [server, Line::from(own).style(dim())];
        let cpu = |s: &Second| s.server_cpu_percent.unwrap_or(0.0) as u64;
        self.draw_curve(frame, area, "server", &lines, cpu);
    }

    fn draw_notes(&self, frame: &mut Frame, area: Rect) {
        let block = panel("errors and notes");
        let inner = block.inner(area);
        frame.render_widget(block, area);
        let mut lines = vec![Line::from(fault(self.totals.errors, "errors"))];
        let room = usize::from(inner.height).saturating_sub(1);
        let first = self.notes.len().saturating_sub(room);
        lines.extend(
            self.notes
                .iter()
                .skip(first)
                .map(|note| Line::from(note.as_str())),
        );
        frame.render_widget(Paragraph::new(lines), inner);
    }
}

/// p50 and p99 over time on one scale from zero.
fn draw_two(frame: &mut Frame, area: Rect, p50: &[(f64, f64)], p99: &[(f64, f64)]) {
    let (Some(first), Some(last)) = (p99.first(), p99.last()) else {
        return;
    };
    let highest = p99
        .iter()
        .map(|point| point.1)
        .fold(f64::MIN_POSITIVE, f64::max);
    let curve = |name, points, colour| {
        let dataset = Dataset::default()
            .name(name)
            .data(points)
            .marker(Marker::Braille);
        dataset
            .graph_type(GraphType::Line)
            .style(Style::new().fg(colour))
    };
    let ends = [clock(first.0), clock(last.0)];
    let chart = Chart::new(vec![
        curve("p50", p50, Color::Cyan),
        curve("p99", p99, Color::Yellow),
    ])
    .x_axis(
        Axis::default()
            .bounds([first.0, last.0.max(first.0 + 1.0)])
            .labels(ends),
    )
    .y_axis(
        Axis::default()
            .bounds([0.0, highest])
            .labels(["0".into(), short(highest)]),
    );
    frame.render_widget(chart, area);
}

fn percentiles(latency: Percentiles) -> Line<'static> {
    let figures = [
        ("p50", latency.p50_ms),
        ("p99", latency.p99_ms),
        ("p99.9", latency.p999_ms),
        ("max", latency.max_ms),
    ];
    let spans = figures.into_iter().flat_map(|(name, value)| {
        [
            Span::raw(format!("{name} ")),
            bold(short(value)),
            Span::raw(" "),
        ]
    });
    Line::from(spans.collect::<Vec<_>>())
}

fn panel(title: &str) -> Block<'static> {
    Block::bordered()
        .title(format!(" {} ", printable(title)))
        .border_style(dim())
}

fn bold(text: String) -> Span<'static> {
    Span::styled(text, Style::new().add_modifier(Modifier::BOLD))
}

fn dim() -> Style {
    Style::new().fg(Color::DarkGray)
}

/// A count that is red as soon as there is one.
fn fault(count: u64, what: &str) -> Span<'static> {
    let style = match count {
        0 => dim(),
        _ => Style::new().fg(Color::Red).add_modifier(Modifier::BOLD),
    };
    Span::styled(format!("{} {what}", digits(count)), style)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    fn dashboard(seconds: u32) -> Dashboard {
        let mut dashboard = Dashboard::new(About {
            scenario: "chat-10k".into(),
            target: crate::engine::Target {
                name: "sockeye".into(),
                urls: vec!["http://127.0.0.1:3000".into()],
                pids: Vec::new(),
            },
            scale: 0.02,
            duration_s: 300.0,
            phases: vec!["ramp".into(), "hold".into()],
        });
        for t in 1..=seconds {
            let latency = Percentiles {
                p50_ms: 0.4,
                p99_ms: f64::from(t),
                max_ms: 40.0,
                ..Percentiles::default()
            };
            dashboard.second(&Second {
                t_s: f64::from(t),
                phase: 1,
                connections: 10_427,
                sent: 50,
                expected: 1_000,
                received: 1_000,
                errors: 1,
                delivery: Some(latency),
                server_cpu_percent: Some(43.0),
                server_rss_bytes: Some(88_290_000),
                ..Second::default()
            });
        }
        dashboard
    }

    fn shown(dashboard: &Dashboard, width: u16, height: u16) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| dashboard.draw(frame)).unwrap();
        let buffer = terminal.backend().buffer().clone();
        let rows = buffer.content().chunks(usize::from(width));
        rows.map(|row| row.iter().map(|cell| cell.symbol()).collect())
            .collect()
    }

    fn assert_shows(screen: &[String], text: &str) {
        assert!(
            screen.iter().any(|row| row.contains(text)),
            "{text:?} in\n{}",
            screen.join("\n")
        );
    }

    #[test]
    fn every_main_figure_is_on_a_small_terminal() {
        let mut dashboard = dashboard(35);
        dashboard.note("worker 2 ended: \u{1b}[2J");
        let screen = shown(&dashboard, 80, 24);
        for text in [
            "chat-10k on sockeye (http://127.0.0.1:3000), 5:00, scale 0.02",
            "35 s of 5:00  hold",
            "10,427 open  0 connects/s  0 dropped",
            "1,000 received/s  50 sent/s",
            "in all 35,000, 35,000 deliveries due",
            "p50 0.40 p99 35.0 p99.9 0.00 max 40.0",
            "CPU 43 %  memory 84.2 MiB",
            "35 errors",
            "worker 2 ended: \u{fffd}[2J",
            "q or Ctrl-C ends the run",
        ] {
            assert_shows(&screen, text);
        }
    }

    #[test]
    fn while_connections_are_missing_the_bar_counts_them() {
        let mut dashboard = dashboard(1);
        let progress = |done| Progress {
            done,
            failed: 0,
            total: 10_000,
        };
        dashboard.connecting(progress(2_500));
        assert_shows(&shown(&dashboard, 80, 24), "connecting 2,500 of 10,000");
        dashboard.connecting(progress(10_000));
        assert_shows(&shown(&dashboard, 80, 24), "1 s of 5:00  hold");
    }

    #[test]
    fn the_newest_notes_are_the_ones_kept() {
        let mut dashboard = dashboard(0);
        for number in 0..200 {
            dashboard.note(&format!("note {number}"));
        }
        let screen = shown(&dashboard, 80, 30);
        assert_shows(&screen, "note 199");
        assert!(!screen.iter().any(|row| row.contains("note 100")));
        assert_shows(&screen, "nothing yet");
    }

    #[test]
    fn any_size_can_be_drawn() {
        let mut dashboard = dashboard(500);
        dashboard.is_ending = true;
        for (width, height) in [(1, 1), (3, 2), (20, 8), (40, 12), (300, 90)] {
            shown(&dashboard, width, height);
        }
        assert_shows(&shown(&dashboard, 80, 24), "ending: stragglers");
        assert_eq!(dashboard.seconds.len(), SECONDS_KEPT);
    }
}
