//! Names that a log has for addresses, by time.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use tracer_engine::event::Event;

use super::data::symbol;
use super::lines::SourceLine;

/// Addresses whose names go into a log at its end, and names that come from one.
pub const MOST_NAMES: usize = 1 << 20;

/// Name in a log: the time since which it counts, the name, the offset in the function, and the
/// line.
pub type LoggedName = (u64, Arc<str>, u64, Option<SourceLine>);

/// Function that hands over the events of a log that name addresses.
struct SymbolReader(Box<ReadSymbols>);

type ReadSymbols = dyn FnOnce(&mut dyn FnMut(&Event<'_>)) + Send;

impl fmt::Debug for SymbolReader {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("SymbolReader")
    }
}

/// Names in a log.
#[derive(Debug, Default)]
pub struct LoggedNames {
    /// Names by process (0 for the kernel) and address, in order of time.
    names: HashMap<(i32, u64), Vec<LoggedName>>,
    count: usize,
    /// Times by process at which an address of it comes to have another name.
    renamed: HashMap<i32, HashSet<u64>>,
    /// Reader of the names at the log's end, until one is asked for.
    reader: Option<SymbolReader>,
}

impl LoggedNames {
    /// Names that `read` hands over when one is asked for.
    pub fn from_reader(read: impl FnOnce(&mut dyn FnMut(&Event<'_>)) + Send + 'static) -> Self {
        Self {
            reader: Some(SymbolReader(Box::new(read))),
            ..Self::default()
        }
    }

    /// Learns a name from its event.
    pub fn learn(&mut self, event: &Event<'_>) {
        if let Some(of) = symbol(event.header.pid, event.data)
            && self.count < MOST_NAMES
        {
            self.count += 1;
            let names = self.names.entry((of.pid, of.address)).or_default();
            if of.since != 0 && !names.is_empty() {
                self.renamed.entry(of.pid).or_default().insert(of.since);
            }
            let behind = names.partition_point(|(since, ..)| *since <= of.since);
            names.insert(behind, (of.since, of.name, of.offset, of.line));
        }
    }

    /// Returns the name of an address at a time, at which it was in a mapping that was there since
    /// another one.
    pub fn find(&mut self, (pid, at): (i32, u64), address: u64, since: u64) -> Option<LoggedName> {
        if let Some(SymbolReader(read)) = self.reader.take() {
            read(&mut |event| self.learn(event));
        }
        let names = self.names.get(&(pid, address))?;
        let behind = names.partition_point(|(since, ..)| *since <= at);
        let found = names.get(behind.checked_sub(1)?)?;
        let (from, name, ..) = found;
        let is_of_mapping = *from == 0 || *from >= since;
        (is_of_mapping && !name.is_empty()).then(|| found.clone())
    }

    /// Returns the first name of an address that was learned by now.
    pub fn first(&self, pid: i32, address: u64) -> Option<&LoggedName> {
        self.names.get(&(pid, address))?.first()
    }

    /// Returns how often, by a time, addresses of a process have come to have other names.
    pub fn renamed(&self, pid: i32, at: u64) -> u64 {
        let times = self.renamed.get(&pid).into_iter().flatten();
        times.filter(|time| **time <= at).count() as u64
    }
}
