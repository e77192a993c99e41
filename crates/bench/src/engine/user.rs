//! Owns one simulated user: where it is in its flow, its connection, and what it should receive.
//! An idle user holds no timer.

use super::connection::Connection;
use super::course::{Course, State};
use super::membership::Membership;
use super::sent::Sent;
use super::tally::Tally;
use super::timers::{Entry, Timers};
use crate::scenario::Scope;
use fastrand::Rng;

#[derive(Debug, Default)]
pub struct User {
    /// Over all workers.
    pub number: u32,
    pub flow: usize,
    /// Index of its server.
    pub server: usize,
    /// Past its first connect and joins.
    pub arrived: bool,
    pub course: Course,
    pub connection: Connection,
    pub sent: Sent,
    pub rooms: Vec<Membership>,
    pub auth: Option<Box<str>>,
    pub dice: Rng,
}

impl User {
    pub fn new(number: u32, flow: usize, due_ns: u64) -> Self {
        User {
            number,
            flow,
            course: Course::new(due_ns),
            // Seeded so that a run repeats itself; forked because neighbouring seeds begin alike.
            dice: Rng::with_seed(number.into()).fork(),
            ..User::default()
        }
    }

    pub fn scope(&self, users: u32) -> Scope {
        Scope {
            user: self.number.into(),
            users: users.into(),
            iteration: self.course.iteration().into(),
            seq: self.sent.events(),
        }
    }

    /// Index of the membership of a room, made when there is none.
    pub fn membership(&mut self, room: u64) -> usize {
        let known = self.rooms.iter().position(|own| own.room == room);
        known.unwrap_or_else(|| {
            self.rooms.push(Membership::new(room));
            self.rooms.len() - 1
        })
    }

    /// The question that an answer without a number is for.
    pub fn oldest_question(&self) -> Option<u32> {
        match self.course.state {
            State::Answer { id, .. } => Some(id),
            _ => self.sent.oldest_question(),
        }
    }

    pub fn wait(&mut self, state: State, deadline_ns: u64) {
        self.course.wait(state, deadline_ns);
    }

    pub fn sleep_until(&mut self, due_ns: u64, timers: &mut Timers) {
        self.wait(State::Sleeping, u64::MAX);
        timers.push(Entry {
            due_ns,
            user: self.number,
            epoch: self.course.epoch,
        });
    }

    /// It takes part from now on (or never will): its connect is no longer under way.
    pub fn arrive(&mut self, tally: &mut Tally) {
        tally.arrived += u64::from(!std::mem::replace(&mut self.arrived, true));
    }

    /// Answers that it waits for, in its step or behind it.
    pub fn awaited(&self) -> u64 {
        self.sent.awaited() + u64::from(matches!(self.course.state, State::Answer { .. }))
    }
}
