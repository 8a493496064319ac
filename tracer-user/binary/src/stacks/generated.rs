//! Functions that a process has made itself, by address and time, as it tells of them.

use std::collections::BTreeMap;
use std::sync::Arc;

/// Functions of a process that are known.
pub const MOST_FUNCTIONS: usize = 1 << 20;

/// Functions of a process that others have replaced and that are known.
const MOST_PAST: usize = 4096;

/// Lines of a function, in order of where in its code each begins.
pub type CodeLines = Arc<[CodeLine]>;

/// File and line of instructions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodeLine {
    /// Offset in the function's code from which on it counts.
    pub from: u64,
    pub file: Arc<str>,
    /// Number of the line; 0: it is unknown.
    pub line: u32,
}

/// Function of a program, and the times at which it is known to be where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Generated {
    pub start: u64,
    pub end: u64,
    pub name: Arc<str>,
    /// Time from which on it is known to be there; 0: nothing else was there before.
    pub from: u64,
    /// Time by which it was listed.
    pub listed: u64,
    pub lines: Option<CodeLines>,
}

impl Generated {
    fn has(&self, address: u64) -> bool {
        (self.start..self.end).contains(&address)
    }

    fn overlaps(&self, other: &Self) -> bool {
        self.start < other.end && other.start < self.end
    }
}

/// Name of an address from a time on; `None`: it is unknown.
pub type NameSince = (u64, Option<(Arc<str>, u64)>);

/// Functions that a process has made itself.
#[derive(Debug, Default)]
pub struct GeneratedCode {
    functions: BTreeMap<u64, Generated>,
    /// Functions that were replaced, each with the time until which it was there.
    past: Vec<(u64, Generated)>,
    /// Whether some of those are forgotten.
    has_forgotten: bool,
    /// Number of functions that were told of so far.
    added: u64,
}

impl GeneratedCode {
    /// Notes that all functions are gone from a time on.
    pub fn leave_all(&mut self, until: u64) {
        let all = std::mem::take(&mut self.functions);
        all.into_values().for_each(|one| self.leave(until, one));
    }

    /// Adds a function that is there by when it was listed, and was not yet at a time `before`.
    pub fn add(&mut self, mut new: Generated, before: u64) {
        let over = self.functions.range(..new.end).rev();
        let over = over.take_while(|(_, one)| one.end > new.start);
        let over: Vec<u64> = over.map(|(start, _)| *start).collect();
        let is_known =
            |one: &Generated| (one.start, one.end, &one.name) == (new.start, new.end, &new.name);
        if let [start] = *over
            && self.functions.get(&start).is_some_and(is_known)
        {
            return;
        }
        let was_there = self.has_forgotten || self.past.iter().any(|(_, past)| past.overlaps(&new));
        if was_there || !over.is_empty() {
            new.from = new.listed;
        }
        for start in over {
            if let Some(old) = self.functions.remove(&start) {
                self.leave(before, old);
            }
        }
        self.added += 1;
        if self.functions.len() < MOST_FUNCTIONS {
            self.functions.insert(new.start, new);
        }
    }

    fn leave(&mut self, until: u64, old: Generated) {
        if self.past.len() >= MOST_PAST {
            self.past.clear();
            self.has_forgotten = true;
        }
        self.past.push((until, old));
    }

    /// Adds a function that is there from the time on at which it was listed.
    pub fn add_at(&mut self, new: Generated) {
        let over = self.functions.range(..new.end).rev();
        let over = over.take_while(|(_, one)| one.end > new.start);
        let later = over
            .map(|(_, one)| one.from)
            .filter(|from| *from > new.from);
        match later.min() {
            // Told late: it was replaced by then.
            Some(until) => self.leave(until, new),
            None => {
                let at = new.from;
                self.add(new, at);
            }
        }
    }

    /// Notes that what is in a range is gone from a time on.
    pub fn remove(&mut self, start: u64, end: u64, until: u64) {
        let over = self.functions.range(..end).rev();
        let over = over.take_while(|(_, one)| one.end > start);
        let over: Vec<u64> = over.map(|(start, _)| *start).collect();
        for start in over {
            if let Some(old) = self.functions.remove(&start) {
                self.leave(until, old);
            }
        }
        self.added += 1;
    }

    /// Returns the function that begins at an address.
    pub fn at(&self, start: u64) -> Option<&Generated> {
        self.functions.get(&start)
    }

    /// Returns the function that had an address at a time, and the offset in it, where the process
    /// has had code of its own there since a time.
    pub fn find(&self, address: u64, at: u64, since: u64) -> Option<(Arc<str>, u64)> {
        let found = self.function(address, at, since)?;
        Some((Arc::clone(&found.name), address - found.start))
    }

    /// Returns the function that had an address at a time, as [`find`](Self::find) does.
    pub fn function(&self, address: u64, at: u64, since: u64) -> Option<&Generated> {
        let is_it = |one: &&Generated| one.has(address) && one.listed >= since && one.from <= at;
        let before = self.functions.range(..=address).next_back();
        let now = before.map(|(_, one)| one).filter(is_it);
        now.or_else(|| {
            let mut past = self.past.iter().rev();
            past.find(|(until, one)| at < *until && is_it(&one))
                .map(|(_, one)| one)
        })
    }

    /// Returns the number of functions that were told of so far.
    pub fn added(&self) -> u64 {
        self.added
    }

    /// Returns the names that an address has had, in order of time, where the process has had code
    /// of its own there since a time.
    pub fn names(&self, address: u64, since: u64) -> Vec<NameSince> {
        let past = self.past.iter().flat_map(|(until, one)| [one.from, *until]);
        let now = self.functions.range(..=address).next_back();
        let from = now.map(|(_, one)| one.from);
        let mut times: Vec<u64> = past.chain(from).map(|time| time.max(since)).collect();
        times.push(since);
        times.sort_unstable();
        times.dedup();
        let names = times.into_iter();
        let mut names: Vec<NameSince> = names
            .map(|time| (time, self.find(address, time, since)))
            .collect();
        names.dedup_by(|next, before| next.1 == before.1);
        names
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(line: &str, listed: u64) -> Generated {
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = |nth: usize| u64::from_str_radix(words[nth], 16).unwrap();
        Generated {
            start: number(0),
            end: number(0) + number(1),
            name: words[2].into(),
            from: 0,
            listed,
            lines: None,
        }
    }

    #[test]
    fn an_address_has_the_name_that_it_had_then() {
        let mut map = GeneratedCode::default();
        let mut add = |line: &str, before, listed| map.add(function(line, listed), before);
        add("1000 100 old\n", 0, 10);
        add("1080 10 new\n", 20, 30);
        let at = |address, at| {
            let found = map.find(address, at, 0);
            found.map(|(name, _)| name.to_string())
        };
        // Nothing else was there before.
        assert_eq!(at(0x1080, 5).as_deref(), Some("old"));
        assert_eq!(at(0x1080, 19).as_deref(), Some("old"));
        assert_eq!(at(0x1080, 20), None);
        assert_eq!(at(0x1080, 30).as_deref(), Some("new"));
        // The rest of what is gone in part is gone.
        assert_eq!(at(0x1000, 30), None);
        assert_eq!(at(0x1100, 30), None);
        // What was listed before this code was made is about other code.
        assert_eq!(map.find(0x1080, 40, 31), None);
        let names = map.names(0x1080, 7);
        let names: Vec<_> = names
            .iter()
            .map(|(since, name)| (*since, name.as_ref().map(|(name, _)| &**name)))
            .collect();
        assert_eq!(names, [(7, Some("old")), (20, None), (30, Some("new"))]);
    }

    #[test]
    fn so_many_are_known_and_no_more() {
        let mut map = GeneratedCode::default();
        for nth in 0..3 * MOST_PAST as u64 {
            let line = format!("1000 10 f{nth}\n");
            map.add(function(&line, nth), nth);
        }
        assert!(map.past.len() <= MOST_PAST && map.has_forgotten);
        let last = map.find(0x1000, u64::MAX, 0).unwrap().0;
        assert_eq!(*last, *format!("f{}", 3 * MOST_PAST - 1));
    }
}
