//! The code that a process has mapped, and had mapped before: by address and time.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::Mapping;

/// Mappings of a process that are known; others are not.
pub const MOST_MAPPINGS: usize = 16_384;

/// Parts of one piece of code that are known each since a time of its own. Code that grows further
/// is known since then alone.
const MOST_PARTS: usize = 64;

/// Mappings of a process that are gone and still known. Of older times nothing is known.
const MOST_PAST: usize = 1024;

/// A mapping, and since when it is there.
#[derive(Clone, Debug)]
pub struct Mapped<T> {
    /// The mapping.
    pub mapping: Arc<Mapping>,
    /// Time from which on it is known to be there, in nanoseconds.
    pub since: u64,
    /// Result of what was looked up about it.
    pub found: T,
}

impl<T> Mapped<T> {
    fn has(&self, address: u64) -> bool {
        (self.mapping.start..self.mapping.end).contains(&address)
    }
}

/// Mappings of a process by address and time. What a mapping covers is gone from its time on, and
/// nothing that is gone has an address after that.
#[derive(Clone, Debug)]
pub struct TimedMappings<T> {
    /// Those that are there, none of which covers another.
    now: BTreeMap<u64, Mapped<T>>,
    /// Those that are gone, each with the time since when.
    past: VecDeque<(u64, Mapped<T>)>,
    /// Number of those that have gone so far.
    gone: u64,
    /// Time by which those had gone that are no longer known.
    older: u64,
}

impl<T> Default for TimedMappings<T> {
    fn default() -> Self {
        Self {
            now: BTreeMap::new(),
            past: VecDeque::new(),
            gone: 0,
            older: 0,
        }
    }
}

impl<T: Clone + Default> TimedMappings<T> {
    /// Notes a mapping that was made at a time. It covers what was there, except for the same code:
    /// that is where it was. False where there are too many, or all of it was known.
    pub fn map(&mut self, time: u64, mapping: &Mapping) -> bool {
        let over = self.take_over(mapping);
        if mapping.is_nothing() {
            let was_any = !over.is_empty();
            over.into_iter()
                .for_each(|old| self.cover(time, mapping, old));
            return was_any;
        }
        let is_late = |one: &&Mapped<T>| one.since > time && !one.mapping.is_same_code(mapping);
        if let Some(until) = over.iter().filter(is_late).map(|one| one.since).min() {
            // Reported late: it was covered by then, and what was there before is gone.
            for one in over {
                if one.since > time || one.mapping.is_same_code(mapping) {
                    self.put(one);
                } else {
                    self.cover(time, mapping, one);
                }
            }
            self.leave(until, Self::mapped(time, mapping.clone()));
            return true;
        }
        let mut new_from = mapping.start;
        let mut is_new = false;
        let parts = over.iter().filter(|old| old.mapping.is_same_code(mapping));
        let are_few = parts.count() <= MOST_PARTS;
        for old in over {
            let (start, end) = (old.mapping.start, old.mapping.end);
            if are_few && old.mapping.is_same_code(mapping) {
                is_new |= self.put_part(time, mapping, (new_from, start));
                new_from = new_from.max(end);
                self.put(old);
                continue;
            }
            // There may be no space for what covers it.
            is_new = true;
            self.cover(time, mapping, old);
        }
        is_new | self.put_part(time, mapping, (new_from, mapping.end))
    }

    /// Notes what is there of a mapping that was found where nothing was known: since `time`.
    /// Returns the parts that were not known, each with the time since which it is there.
    pub fn fill(&mut self, time: u64, mapping: &Mapping) -> Vec<(u64, Mapping)> {
        let mut from = mapping.start;
        let mut holes = Vec::new();
        for one in self.overlapping(mapping) {
            if let Some(known) = self.now.get(&one) {
                if from < one {
                    holes.push(mapping.part(from, one));
                }
                from = from.max(known.mapping.end);
            }
        }
        if from < mapping.end {
            holes.push(mapping.part(from, mapping.end));
        }
        let filled = holes.into_iter().filter_map(|hole| {
            let is_over = |one: &&(u64, Mapped<T>)| {
                one.1.mapping.start < hole.end && hole.start < one.1.mapping.end
            };
            // Before something else was gone there, it was not there.
            let gone = self.past.iter().filter(is_over).map(|(until, _)| *until);
            let since = gone.fold(self.older, u64::max).max(time);
            let is_put = self.put_part(since, &hole, (hole.start, hole.end));
            is_put.then_some((since, hole))
        });
        filled.collect()
    }

    /// Returns the mapping that had an address at a time.
    pub fn find(&self, address: u64, at: u64) -> Option<&Mapped<T>> {
        let now = self.now.range(..=address).next_back();
        let now = now.map(|(_, one)| one).filter(|one| one.has(address));
        if let Some(now) = now.filter(|one| one.since <= at) {
            return Some(now);
        }
        let mut past = self.past.iter().rev();
        let was =
            |(until, one): &&(u64, Mapped<T>)| one.has(address) && one.since <= at && at < *until;
        past.find(was).map(|(_, one)| one)
    }

    /// Returns the time since when an address is in no mapping that is known, at a time at which it
    /// is in none; 0 where it was in none before.
    pub fn unknown_since(&self, address: u64, at: u64) -> u64 {
        let past = self.past.iter().filter(|(_, one)| one.has(address));
        let until = past.map(|(until, _)| *until);
        let until = until.chain([self.older]).filter(|until| *until <= at);
        until.max().unwrap_or(0)
    }

    /// Notes that nothing is known since a time, whatever was noted since.
    pub fn forget(&mut self, time: u64) {
        self.map(time, &Mapping::nothing());
        for (until, _) in &mut self.past {
            *until = time.min(*until);
        }
        self.past.retain(|(until, one)| one.since < *until);
    }

    /// Forgets all, also of what was before a time.
    pub fn forget_all(&mut self, time: u64) {
        self.gone += self.now.len() as u64;
        self.now.clear();
        self.past.clear();
        self.older = self.older.max(time);
    }

    /// Returns the mapping that had an address at a time, mutable.
    pub fn find_mut(&mut self, address: u64, at: u64) -> Option<&mut Mapped<T>> {
        let now = self.now.range_mut(..=address).next_back();
        let now = now.map(|(_, one)| one).filter(|one| one.has(address));
        if let Some(now) = now.filter(|one| one.since <= at) {
            return Some(now);
        }
        let mut past = self.past.iter_mut().rev();
        let was = |(until, one): &&mut (u64, Mapped<T>)| {
            one.has(address) && one.since <= at && at < *until
        };
        past.find(was).map(|(_, one)| one)
    }

    /// Returns the parts between two addresses of those that are there.
    pub fn parts(&self, start: u64, end: u64) -> Vec<Mapping> {
        if start >= end {
            return Vec::new();
        }
        let over = self.overlapping(&Mapping::nothing_at(start, end));
        let over = over.into_iter().filter_map(|start| self.now.get(&start));
        over.map(|one| {
            let mapping = &one.mapping;
            mapping.part(mapping.start.max(start), mapping.end.min(end))
        })
        .collect()
    }

    /// Returns the number of those that are there or were.
    #[must_use]
    pub fn len(&self) -> usize {
        self.now.len() + self.past.len()
    }

    /// Tells whether none is there, nor was.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns all that are there, in order of address.
    pub fn now(&self) -> impl Iterator<Item = &Mapped<T>> {
        self.now.values()
    }

    /// Returns the number of mappings that had gone by a time: as long as it stays, an address
    /// means what it meant.
    pub fn gone(&self, at: u64) -> u64 {
        let later = self.past.iter().rev().take_while(|(until, _)| *until > at);
        self.gone.saturating_sub(later.count() as u64)
    }

    fn overlapping(&self, mapping: &Mapping) -> Vec<u64> {
        let before = self.now.range(..mapping.end).rev();
        let over = before.take_while(|(_, one)| one.mapping.end > mapping.start);
        let mut starts: Vec<u64> = over.map(|(start, _)| *start).collect();
        starts.reverse();
        starts
    }

    fn take_over(&mut self, mapping: &Mapping) -> Vec<Mapped<T>> {
        let starts = self.overlapping(mapping).into_iter();
        starts.filter_map(|start| self.now.remove(&start)).collect()
    }

    /// Notes that a mapping has covered another one; what is around it is there still.
    fn cover(&mut self, time: u64, mapping: &Mapping, old: Mapped<T>) {
        let (start, end) = (old.mapping.start, old.mapping.end);
        for (from, to) in [(start, mapping.start), (mapping.end, end)] {
            if from < to {
                let part = old.mapping.part(from.max(start), to.min(end));
                self.put(Mapped {
                    mapping: Arc::new(part),
                    ..old.clone()
                });
            }
        }
        self.leave(time, old);
    }

    fn mapped(since: u64, mapping: Mapping) -> Mapped<T> {
        Mapped {
            mapping: Arc::new(mapping),
            since,
            found: T::default(),
        }
    }

    fn put(&mut self, mapped: Mapped<T>) {
        if self.now.len() < MOST_MAPPINGS {
            self.now.insert(mapped.mapping.start, mapped);
        }
    }

    fn put_part(&mut self, time: u64, mapping: &Mapping, (start, end): (u64, u64)) -> bool {
        if start >= end || self.now.len() >= MOST_MAPPINGS {
            return false;
        }
        self.put(Self::mapped(time, mapping.part(start, end)));
        true
    }

    fn leave(&mut self, until: u64, mapped: Mapped<T>) {
        self.gone += 1;
        if mapped.since >= until {
            return;
        }
        if self.past.len() >= MOST_PAST {
            let oldest = self.past.pop_front();
            self.older = oldest.map_or(self.older, |(until, _)| until.max(self.older));
        }
        self.past.push_back((until, mapped));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapping(start: u64, end: u64, path: &str) -> Mapping {
        Mapping {
            start,
            end,
            path: path.as_bytes().into(),
            ..Mapping::default()
        }
    }

    fn found(of: &TimedMappings<()>, address: u64, at: u64) -> Option<String> {
        let found = of.find(address, at)?;
        Some(String::from_utf8_lossy(&found.mapping.path).into_owned())
    }

    #[test]
    fn an_address_means_what_was_mapped_then() {
        let mut of = TimedMappings::default();
        assert!(of.map(10, &mapping(0x1000, 0x5000, "/a")));
        assert!(of.map(20, &mapping(0x1000, 0x5000, "/b")));
        assert!(of.map(30, &mapping(0x2000, 0x3000, "")));
        let seen = |address, at| found(&of, address, at);
        assert_eq!([19, 20, 30].map(|at| of.gone(at)), [0, 1, 2]);
        assert_eq!(seen(0x2000, 9), None);
        assert_eq!(seen(0x2000, 10).as_deref(), Some("/a"));
        assert_eq!(seen(0x2000, 19).as_deref(), Some("/a"));
        assert_eq!(seen(0x2000, 20).as_deref(), Some("/b"));
        assert_eq!(seen(0x2000, 30).as_deref(), Some(""));
        // What is around it is there still, at its offset.
        assert_eq!(seen(0x1fff, 31).as_deref(), Some("/b"));
        let behind = of.find(0x3000, 31).unwrap();
        assert_eq!((behind.since, behind.mapping.file_offset), (20, 0x2000));
        // Another program.
        assert!(of.map(40, &Mapping::nothing()));
        assert_eq!(found(&of, 0x3000, 39).as_deref(), Some("/b"));
        assert_eq!(found(&of, 0x3000, 40), None);
        let since = [(0x3000, 50), (0x2000, 5), (0x9000, 50)];
        let since = since.map(|(address, at)| of.unknown_since(address, at));
        assert_eq!(since, [40, 0, 0]);
    }

    #[test]
    fn what_is_reported_late_or_twice_changes_nothing_else() {
        let mut of = TimedMappings::<()>::default();
        of.map(20, &mapping(0x1000, 0x2000, "/b"));
        of.map(10, &mapping(0x1000, 0x2000, "/a"));
        assert_eq!(found(&of, 0x1000, 25).as_deref(), Some("/b"));
        assert_eq!(found(&of, 0x1000, 15).as_deref(), Some("/a"));
        // What the late one has covered is gone, too.
        of.map(5, &mapping(0x4000, 0x5000, "/c"));
        of.map(20, &mapping(0x5000, 0x6000, "/b"));
        of.map(10, &mapping(0x4000, 0x6000, "/a"));
        assert_eq!(found(&of, 0x4000, 9).as_deref(), Some("/c"));
        assert_eq!(found(&of, 0x4000, 15).as_deref(), Some("/a"));
        assert_eq!(found(&of, 0x4000, 25), None);
        let gone = of.gone(30);
        assert!(!of.map(30, &mapping(0x1000, 0x2000, "/b")));
        assert_eq!(
            (of.gone(30), of.find(0x1000, 25).unwrap().since),
            (gone, 20)
        );
        // Code without a file that grows is where it was.
        of.map(40, &mapping(0x8000, 0x9000, ""));
        assert!(of.map(50, &mapping(0x7000, 0xa000, "")));
        let since = [0x7000, 0x8000, 0x9000].map(|at| of.find(at, 60).unwrap().since);
        assert_eq!(since, [50, 40, 50]);
    }

    #[test]
    fn what_is_found_fills_holes_alone() {
        let mut of = TimedMappings::<()>::default();
        of.map(10, &mapping(0x2000, 0x3000, "/b"));
        let holes = of.fill(5, &mapping(0x1000, 0x4000, "/a"));
        let place = |(since, one): &(u64, Mapping)| (*since, one.start, one.end);
        let holes: Vec<_> = holes.iter().map(place).collect();
        assert_eq!(holes, [(5, 0x1000, 0x2000), (5, 0x3000, 0x4000)]);
        assert_eq!(found(&of, 0x2000, 12).as_deref(), Some("/b"));
        assert_eq!(found(&of, 0x3000, 5).as_deref(), Some("/a"));
        assert!(of.map(20, &Mapping::nothing_at(0x3000, 0x4000)));
        assert_eq!(found(&of, 0x3000, 20), None);
        assert_eq!(found(&of, 0x3000, 19).as_deref(), Some("/a"));
        assert_eq!(found(&of, 0x2000, 20).as_deref(), Some("/b"));
        // What is found where something else is gone is there since then.
        let holes = of.fill(5, &mapping(0x3000, 0x4000, "/c"));
        assert_eq!(
            holes.iter().map(place).collect::<Vec<_>>(),
            [(20, 0x3000, 0x4000)]
        );
    }

    #[test]
    fn code_that_grows_often_has_few_parts() {
        let mut of = TimedMappings::<()>::default();
        let most = 50 * MOST_PARTS as u64;
        for pages in 1..most {
            assert!(of.map(10 * pages, &mapping(0x1000, 0x1000 * (pages + 1), "")));
            assert!(of.now.len() <= MOST_PARTS + 1 && of.past.len() <= MOST_PAST);
            // What was there is known as well as before, or since now.
            let last = [0x1000, 0x1000 * pages].map(|at| of.find(at, 10 * pages).is_some());
            assert_eq!(last, [true; 2]);
        }
        assert!(of.find(0x1000 * most - 1, 10 * most - 11).is_none());
        assert!(of.find(0x1000, 10 * most - 11).is_some());
    }

    #[test]
    fn so_many_are_known_and_no_more() {
        let mut of = TimedMappings::<()>::default();
        for time in 0..10 * MOST_PAST as u64 {
            let path = format!("/{time}");
            of.map(time, &mapping(0x1000, 0x2000, &path));
        }
        assert_eq!((of.past.len(), of.now.len()), (MOST_PAST, 1));
        // What was there before is not known, and not for how long.
        assert!(of.unknown_since(0x9000, 10 * MOST_PAST as u64) > 8 * MOST_PAST as u64);
        let before = 10 * MOST_PAST as u64 - 100;
        of.forget(before);
        assert_eq!(found(&of, 0x1000, before + 10), None);
        assert!(found(&of, 0x1000, before - 10).is_some());
        for nth in 0..2 * MOST_MAPPINGS as u64 {
            of.map(nth, &mapping(0x1000 * nth, 0x1000 * nth + 0x100, "/x"));
        }
        // What has no space is reported, as it covers something else.
        assert!(of.map(before, &mapping(0x1010, 0x1020, "/y")));
        assert_eq!(found(&of, 0x1015, before), None);
        assert!(of.now.len() <= MOST_MAPPINGS && of.past.len() <= MOST_PAST);
    }
}
