//! The figures of the last hour, one point a second.

use super::super::metrics::Shards;
use hub::metrics::{Cells, DURATION_BOUNDS_MS, TURN_BOUNDS_US};
use process::usage::Usage;
use serde::Serialize;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use utoipa::ToSchema;

/// An hour of seconds: 320 KiB when it is full.
const POINTS_MAX: usize = 3_600;

/// The figures of one second.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, ToSchema)]
pub(crate) struct Point {
    /// Unix time of its end, milliseconds.
    pub(crate) t: u64,
    /// Sessions.
    pub(crate) sessions: u64,
    /// Connections of clients.
    pub(crate) connections: u64,
    /// Resident memory of the process; `null` if the system does not tell.
    pub(crate) memory_bytes: Option<u64>,
    /// Cores that the process kept busy.
    pub(crate) cpu: f32,
    /// Messages from clients, per second.
    pub(crate) messages_in: f32,
    /// Events delivered to clients, per second.
    pub(crate) deliveries: f32,
    /// Messages, newcomers and requests that were refused, per second; with those that a dry run would refuse.
    pub(crate) rejected: f32,
    /// Sockets that joined a namespace, per second.
    pub(crate) connects: f32,
    /// Sockets that left, per second.
    pub(crate) ends: f32,
    /// 99 % of the turns of shards were not longer, milliseconds: a bound of the histogram; `null` if there was no turn.
    pub(crate) turn_p99_ms: Option<f32>,
    /// More than 1 % of them were longer than that, which is the last bound.
    pub(crate) turn_p99_over: bool,
    /// 99 % of the messages were worked on within this time, in the same way.
    pub(crate) message_p99_ms: Option<f32>,
    /// More than 1 % of them took longer than that, which is the last bound.
    pub(crate) message_p99_over: bool,
}

/// The counters at one moment.
#[derive(Clone, Debug, Default)]
struct Totals {
    at: Option<Instant>,
    cpu: Option<Duration>,
    messages_in: u64,
    deliveries: u64,
    rejected: u64,
    connects: u64,
    ends: u64,
    turns: Vec<u64>,
    durations: Vec<u64>,
}

#[derive(Debug, Default)]
struct Kept {
    points: VecDeque<Point>,
    before: Totals,
}

/// The points, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct Series(Mutex<Kept>);

fn load(cell: &AtomicU64) -> u64 {
    cell.load(Ordering::Relaxed)
}

impl Series {
    /// To be called about once a second.
    pub(crate) fn sample(&self, now: Instant, shards: &Shards) {
        let usage = Usage::light();
        let sum = |cell: fn(&Cells) -> &AtomicU64| -> u64 {
            shards.iter().map(|cells| load(cell(cells))).sum()
        };
        let sums = |cells: fn(&Cells) -> &[AtomicU64]| -> Vec<u64> {
            let len = shards.first().map_or(0, |shard| cells(shard).len());
            let at = |index: usize| shards.iter().map(|shard| load(&cells(shard)[index])).sum();
            (0..len).map(at).collect()
        };
        let totals = Totals {
            at: Some(now),
            cpu: usage.cpu,
            messages_in: sum(|c| &c.messages_in),
            deliveries: sum(|c| &c.deliveries),
            rejected: sum(|c| &c.shed)
                + sum(|c| &c.refused)
                + sums(|c| &c.rated).iter().sum::<u64>(),
            connects: sum(|c| &c.connects),
            ends: sum(|c| &c.disconnects),
            turns: sums(|c| &c.turn_times),
            durations: sums(|c| &c.durations),
        };
        let mut kept = self.kept();
        let before = std::mem::replace(&mut kept.before, totals.clone());
        let Some(since) = before.at.map(|at| now.saturating_duration_since(at)) else {
            return;
        };
        let per_second = |now: u64, before: u64| {
            (now.saturating_sub(before) as f64 / since.as_secs_f64().max(0.001)) as f32
        };
        let wall = SystemTime::now().duration_since(UNIX_EPOCH);
        let spent = totals.cpu.zip(before.cpu);
        let spent = spent.map(|(now, before)| now.saturating_sub(before));
        let cpu = spent.unwrap_or_default().as_secs_f64();
        // Those who ask for what is newer must find it after the clock was set back, too.
        let last = kept.points.back().map_or(0, |point| point.t);
        let turn_bounds = TURN_BOUNDS_US.map(|us| us as f64 / 1e3);
        let (turn_p99_ms, turn_p99_over) = p99(&totals.turns, &before.turns, &turn_bounds);
        let (message_p99_ms, message_p99_over) =
            p99(&totals.durations, &before.durations, &DURATION_BOUNDS_MS);
        let point = Point {
            t: wall.map_or(0, |wall| wall.as_millis() as u64).max(last + 1),
            sessions: sum(|c| &c.sessions),
            connections: sum(|c| &c.conns),
            memory_bytes: usage.resident_bytes,
            cpu: (cpu / since.as_secs_f64().max(0.001)) as f32,
            messages_in: per_second(totals.messages_in, before.messages_in),
            deliveries: per_second(totals.deliveries, before.deliveries),
            rejected: per_second(totals.rejected, before.rejected),
            connects: per_second(totals.connects, before.connects),
            ends: per_second(totals.ends, before.ends),
            turn_p99_ms,
            turn_p99_over,
            message_p99_ms,
            message_p99_over,
        };
        if kept.points.len() == POINTS_MAX {
            kept.points.pop_front();
        }
        kept.points.push_back(point);
    }

    pub(crate) fn newest(&self) -> Option<Point> {
        self.kept().points.back().copied()
    }

    /// The points after this time, at most so many of the newest.
    pub(crate) fn after(&self, t: u64, max: usize) -> Vec<Point> {
        let kept = self.kept();
        let newer = kept.points.iter().rev().take_while(|point| point.t > t);
        let mut points: Vec<Point> = newer.take(max).copied().collect();
        points.reverse();
        points
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The bound below which 99 % of what was counted since then lies; the last one, and `true`, if that is not enough.
fn p99(now: &[u64], before: &[u64], bounds: &[f64]) -> (Option<f32>, bool) {
    let before = before.iter().copied().chain(std::iter::repeat(0));
    let counts: Vec<u64> = now
        .iter()
        .zip(before)
        .map(|(now, before)| now.saturating_sub(before))
        .collect();
    let total: u64 = counts.iter().sum();
    if total == 0 {
        return (None, false);
    }
    let mut below = 0;
    for (count, bound) in counts.iter().zip(bounds) {
        below += count;
        if below as f64 >= total as f64 * 0.99 {
            return (Some(*bound as f32), false);
        }
    }
    (bounds.last().map(|bound| *bound as f32), true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn a_point_is_what_happened_since_the_one_before() {
        let cells = Arc::new(Cells::default());
        let shards: Shards = [Arc::clone(&cells)].into();
        let (series, start) = (Series::default(), Instant::now());
        cells.messages_in.store(1_000, Ordering::Relaxed);
        series.sample(start, &shards);
        assert!(series.after(0, 10).is_empty(), "rates need two samples");
        cells.messages_in.store(1_050, Ordering::Relaxed);
        cells.sessions.store(7, Ordering::Relaxed);
        cells.turn_times[0].store(98, Ordering::Relaxed);
        cells.turn_times[3].store(2, Ordering::Relaxed);
        series.sample(start + Duration::from_secs(2), &shards);
        let points = series.after(0, 10);
        let [point] = &points[..] else {
            panic!("{points:?}")
        };
        assert_eq!((point.sessions, point.messages_in), (7, 25.0));
        assert_eq!((point.turn_p99_ms, point.message_p99_ms), (Some(5.0), None));
        assert_eq!(p99(&[1, 5], &[0, 0], &[10.0]), (Some(10.0), true));
        assert!(point.memory_bytes > Some(0));
        assert!(series.after(point.t, 10).is_empty());
    }

    #[test]
    fn an_hour_is_kept() {
        let shards: Shards = [Arc::new(Cells::default())].into();
        let (series, start) = (Series::default(), Instant::now());
        for second in 0..POINTS_MAX as u64 + 10 {
            series.sample(start + Duration::from_secs(second), &shards);
        }
        assert_eq!(series.after(0, usize::MAX).len(), POINTS_MAX);
        assert_eq!(series.after(0, 5).len(), 5);
    }
}
