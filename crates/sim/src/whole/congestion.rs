//! A mailbox that is overfull: no hub of its process reads clients until it is shorter, as shards do it.

use super::due::{Due, MS};
use super::world::World;
use std::collections::VecDeque;

/// Whether it is found by reading a connection.
fn is_read(due: &Due) -> bool {
    matches!(
        due,
        Due::Input { .. } | Due::Broken { .. } | Due::End { .. }
    )
}

impl World {
    /// It is not read now. What came by all connections of a life keeps its order.
    pub(crate) fn waits_to_be_read(&mut self, due: Due) -> Option<Due> {
        let Some(life) = self.life_of(&due).filter(|_| is_read(&due)) else {
            return Some(due);
        };
        let begins = self.lives[life].unread.is_empty();
        if begins && !self.lives[life].is_congested(&self.config) {
            return Some(due);
        }
        self.lives[life].unread.push_back(due);
        if begins {
            self.report.congested += 1;
            self.calendar.note(self.now_us + MS, Due::Read { life });
        }
        None
    }

    /// A hub finds what came while it stood still. It reads its clients one after the other, until a mailbox is overfull.
    pub(crate) fn read_what_was_held(&mut self, life: usize, held: Vec<Due>) {
        let mut unread = VecDeque::new();
        for due in held {
            let waits = !unread.is_empty() || self.lives[life].is_congested(&self.config);
            match is_read(&due) && waits {
                true => unread.push_back(due),
                false => self.happen_now(due),
            }
        }
        if unread.is_empty() {
            return;
        }
        // It came before what is not read by now.
        let later = &mut self.lives[life].unread;
        let begins = later.is_empty();
        unread.append(later);
        *later = unread;
        if begins {
            self.report.congested += 1;
            self.calendar.note(self.now_us + MS, Due::Read { life });
        }
    }

    pub(crate) fn read_on_all(&mut self, life: usize) {
        while !self.lives[life].is_congested(&self.config) {
            let Some(due) = self.lives[life].unread.pop_front() else {
                return;
            };
            self.happen_at(due);
        }
        self.calendar.note(self.now_us + MS, Due::Read { life });
    }
}
