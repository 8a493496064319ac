//! The kernel's own functions.

use std::fs;
use std::sync::{Arc, OnceLock};
use std::thread;

use foldhash::HashMap;

/// Bytes that no function has, by far.
const LARGEST: u64 = 1 << 20;

/// Those of the running kernel, as they were first asked for.
static RUNNING: OnceLock<KernelSymbols> = OnceLock::new();

/// Reads the symbols of the running kernel in a thread of its own, which takes a tenth of a second:
/// so that they are there as the first stack is named, and events do not wait for them.
pub fn read_kernel_ahead() {
    let reader = thread::Builder::new().name("kernel-symbols".to_owned());
    let begun = reader.spawn(|| {
        let _ = KernelSymbols::running();
    });
    if let Err(error) = begun {
        tracing::debug!(%error, "the kernel's symbols are read when they are asked for");
    }
}

/// The functions of the running kernel, as far as we may know where they are.
#[derive(Debug, Default)]
pub struct KernelSymbols {
    /// Functions by address.
    functions: Vec<(u64, Arc<str>)>,
}

impl KernelSymbols {
    /// Returns those of the running kernel, which are read once, or waited for while another thread
    /// reads them; none where it does not give them.
    pub fn running() -> &'static Self {
        RUNNING.get_or_init(Self::read)
    }

    fn read() -> Self {
        Self::parse(&fs::read_to_string("/proc/kallsyms").unwrap_or_default())
    }

    fn parse(text: &str) -> Self {
        let lines = text.lines().filter_map(|line| {
            let mut words = line.split_ascii_whitespace();
            let address = u64::from_str_radix(words.next()?, 16).ok()?;
            let is_code = matches!(words.next()?, "t" | "T" | "w" | "W");
            let name = words.next()?;
            // Zeroes for all: who asks may not know.
            (is_code && address != 0).then(|| (address, Arc::from(name)))
        });
        let mut functions: Vec<(u64, Arc<str>)> = lines.collect();
        functions.sort_by_key(|(address, _)| *address);
        Self { functions }
    }

    /// Returns the function that has an address, and where in it that is; `None` where no function
    /// begins near before it, as of a program that was loaded after the symbols were read.
    pub fn find(&self, address: u64) -> Option<(Arc<str>, u64)> {
        let behind = self.functions.partition_point(|(at, _)| *at <= address);
        let (start, _) = *self.functions.get(behind.checked_sub(1)?)?;
        if address - start > LARGEST {
            return None;
        }
        // Of several names for one, the first.
        let first = self.functions.partition_point(|(at, _)| *at < start);
        let (_, name) = self.functions.get(first)?;
        Some((Arc::clone(name), address - start))
    }
}

/// Functions of the running kernel at addresses that were asked for: the same few thousand stand in
/// all stacks, and a search among all functions reads memory that no cache has.
#[derive(Debug, Default)]
pub struct RunningKernel {
    found: HashMap<u64, Option<(Arc<str>, u64)>>,
}

impl RunningKernel {
    /// Most addresses that are remembered.
    const MOST: usize = 1 << 16;

    /// Returns the function that has an address, and where in it that is.
    pub fn find(&mut self, address: u64) -> Option<(Arc<str>, u64)> {
        if self.found.len() >= Self::MOST {
            self.found.clear();
        }
        let find = || KernelSymbols::running().find(address);
        self.found.entry(address).or_insert_with(find).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_in_the_function_that_begins_before_it() {
        let symbols = KernelSymbols::parse(
            "ffffffff81000000 T _stext\nffffffff81000100 t second\nffffffff81000080 D data\n\
             ffffffff81000100 t alias\n",
        );
        let found = |address| {
            let found = symbols.find(address);
            found.map(|(name, offset)| format!("{name}+{offset}"))
        };
        assert_eq!(found(0xffff_ffff_8100_0090).as_deref(), Some("_stext+144"));
        assert_eq!(found(0xffff_ffff_8100_0101).as_deref(), Some("second+1"));
        assert_eq!(found(5), None);
        assert_eq!(found(0xffff_ffff_c000_0000), None);
        let hidden = KernelSymbols::parse("0000000000000000 T _stext\n");
        assert_eq!(hidden.find(5), None);
    }
}
