//! Members in one list, found by name. A table of the standard library keeps up to half of its room empty, row by row; here only
//! four bytes of each place are.

use super::entry::{Entry, key};
use super::word::Who;
use std::hash::{BuildHasher, RandomState};

/// Places of the smallest table that has members.
const PLACES_MIN: usize = 8;
/// No table gets smaller than this.
const ROWS_MIN: usize = 16;

/// Each member once, in no order that means anything.
#[derive(Debug, Default)]
pub(super) struct Table {
    rows: Vec<Entry>,
    /// Open addressing, a power of two: a row's number and 1, or 0. A quarter of them is empty at least.
    places: Vec<u32>,
    /// Names come from outside.
    hasher: RandomState,
}

impl Table {
    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Entry> + Clone {
        self.rows.iter()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Entry> {
        self.rows.iter_mut()
    }

    pub(super) fn get(&self, who: &Who) -> Option<&Entry> {
        self.rows.get(self.row(self.find(who)?))
    }

    pub(super) fn get_mut(&mut self, who: &Who) -> Option<&mut Entry> {
        let row = self.row(self.find(who)?);
        self.rows.get_mut(row)
    }

    /// The member's entry, which may be a new one.
    pub(super) fn get_or_add(&mut self, who: &Who) -> &mut Entry {
        let row = match self.find(who) {
            Some(place) => self.row(place),
            None => self.add(Entry::new(who)),
        };
        &mut self.rows[row]
    }

    fn add(&mut self, entry: Entry) -> usize {
        let row = self.rows.len();
        if row == self.rows.capacity() {
            // A list that grew to twice its rows would be half empty.
            self.rows.reserve_exact((row / 4).max(4));
        }
        self.rows.push(entry);
        if 4 * self.rows.len() > 3 * self.places.len() {
            self.arrange(2 * self.places.len());
        } else {
            self.enter(row);
        }
        row
    }

    pub(super) fn remove(&mut self, who: &Who) -> Option<Entry> {
        let place = self.find(who)?;
        let row = self.row(place);
        let last = self.rows.len() - 1;
        self.vacate(place);
        if row != last
            && let Some(place) = self.place_of(last)
        {
            // The last row moves to the row that is free.
            self.places[place] = number(row);
        }
        let entry = self.rows.swap_remove(row);
        if self.rows.len() < self.rows.capacity() / 4 && self.rows.capacity() > ROWS_MIN {
            self.rows.shrink_to(2 * self.rows.len());
            self.arrange((2 * self.rows.len()).next_power_of_two());
        }
        Some(entry)
    }

    // ---- places -----------------------------------------------------------------------------------------------------

    /// The place of a member.
    fn find(&self, who: &Who) -> Option<usize> {
        self.probe(self.home(key(who)), |row| self.rows[row].is_of(who))
    }

    fn place_of(&self, row: usize) -> Option<usize> {
        self.probe(self.home(self.rows[row].key()), |other| other == row)
    }

    /// The first place from there on, before an empty one, whose row fits.
    fn probe(&self, home: usize, fits: impl Fn(usize) -> bool) -> Option<usize> {
        let mut place = home;
        while self.places.get(place).is_some_and(|number| *number > 0) {
            if fits(self.row(place)) {
                return Some(place);
            }
            place = self.next(place);
        }
        None
    }

    fn row(&self, place: usize) -> usize {
        self.places[place] as usize - 1
    }

    fn next(&self, place: usize) -> usize {
        (place + 1) & self.mask()
    }

    fn mask(&self) -> usize {
        self.places.len().wrapping_sub(1)
    }

    /// The place that a member has if nobody else has it.
    fn home(&self, key: (bool, &str)) -> usize {
        self.hasher.hash_one(key) as usize & self.mask()
    }

    fn enter(&mut self, row: usize) {
        let mut place = self.home(self.rows[row].key());
        while self.places[place] > 0 {
            place = self.next(place);
        }
        self.places[place] = number(row);
    }

    /// So many places for the rows that there are.
    fn arrange(&mut self, places: usize) {
        self.places = vec![0; places.max(PLACES_MIN)];
        (0..self.rows.len()).for_each(|row| self.enter(row));
    }

    /// Empties a place: later ones that are not at home move up, or a search would stop at the hole.
    fn vacate(&mut self, place: usize) {
        let (mut hole, mut place) = (place, place);
        loop {
            place = self.next(place);
            if self.places[place] == 0 {
                break;
            }
            let home = self.home(self.rows[self.row(place)].key());
            let mask = self.mask();
            let back = |from: usize| place.wrapping_sub(from) & mask;
            if back(home) >= back(hole) {
                self.places[hole] = self.places[place];
                hole = place;
            }
        }
        self.places[hole] = 0;
    }

    /// What members have besides their rows does not count.
    pub(super) fn heap_bytes(&self) -> usize {
        self.rows.capacity() * size_of::<Entry>() + self.places.capacity() * size_of::<u32>()
    }
}

fn number(row: usize) -> u32 {
    row as u32 + 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn who(n: usize) -> Who {
        match n % 3 {
            0 => Who::Socket(format!("{}", n / 3).into()),
            _ => Who::User(format!("{n}").into()),
        }
    }

    /// Members come and go at random; each is found while it is there, and nobody else is.
    #[test]
    fn it_is_a_set() {
        let (mut table, mut model, mut dice) = (Table::default(), BTreeSet::new(), 7_usize);
        for step in 0..20_000 {
            dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            // It grows, shrinks, and grows.
            let comes = (step / 4_000) % 2 == 0 || dice >> 60 == 0;
            let one = (dice >> 33) % 1_500;
            if comes {
                table.get_or_add(&who(one));
                model.insert(one);
            } else {
                let gone = table.remove(&who(one));
                assert_eq!(gone.is_some(), model.remove(&one));
            }
            assert_eq!(table.len(), model.len());
            let other = (dice >> 13) % 1_500;
            assert_eq!(table.get(&who(other)).is_some(), model.contains(&other));
        }
        assert!((0..1_500).all(|n| table.get_mut(&who(n)).is_some() == model.contains(&n)));
        let names: BTreeSet<Who> = table.iter().map(Entry::who).collect();
        assert_eq!(names.len(), model.len());
    }

    #[test]
    fn it_costs_some_ten_bytes_more_than_its_rows() {
        let mut table = Table::default();
        for n in 0..10_000 {
            table.get_or_add(&who(3 * n));
            let each = table.heap_bytes() / table.len();
            assert!(n < 100 || each <= 51, "{each} at {n}");
        }
        for n in 0..9_990 {
            table.remove(&who(3 * n));
        }
        assert!(table.heap_bytes() < 4_000, "{}", table.heap_bytes());
    }
}
