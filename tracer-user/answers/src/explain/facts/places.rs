//! Functions in which threads waited and ran, by stacks.

use foldhash::HashMap;
use tracer_analysis::{FunctionId, Reason, Thread};
use tracer_binary::stacks::{Frame, Stack};

use crate::queries::{Functions, Place};

/// KnownPlaces that are told apart.
const MOST_PLACES: usize = 65_536;

/// Kind of work of a thread that had a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Work {
    /// The program's own.
    Program,
    /// The kernel's, for a page fault.
    Fault,
    /// The kernel's, for anything else.
    Kernel,
}

/// The places of waits and of work.
#[derive(Debug, Default)]
pub struct KnownPlaces {
    functions: Functions,
    waits: HashMap<(Thread, Reason, FunctionId), u64>,
    work: HashMap<(Thread, Work, FunctionId), u64>,
    samples: u64,
}

/// Functions of the kernel that serve a page fault begin so.
const FAULTS: [&str; 6] = [
    "asm_exc_page_fault",
    "exc_page_fault",
    "do_user_addr_fault",
    "handle_mm_fault",
    "do_page_fault",
    "do_mem_abort",
];

impl KnownPlaces {
    /// Adds a wait of this length that had this stack.
    pub fn add_wait(&mut self, (thread, reason): (Thread, Reason), stack: &Stack<'_>, ns: u64) {
        let function = self.functions.waiting(stack);
        add(&mut self.waits, (thread, reason, function), ns);
    }

    /// Adds a sample of a thread that had a CPU for this long.
    pub fn add_sample(&mut self, thread: Thread, stack: Option<&Stack<'_>>, ns: u64) {
        self.samples += 1;
        let frames = stack.map(Stack::frames).unwrap_or_default();
        let work = work_of(&frames);
        let function = stack.map_or(FunctionId::NONE, |stack| self.functions.waiting(stack));
        add(&mut self.work, (thread, work, function), ns);
    }

    /// Returns the number of samples.
    #[must_use]
    pub fn samples(&self) -> u64 {
        self.samples
    }

    /// Returns the function in which most of the waits were that are meant, and how much of their
    /// time is known to have been in it.
    #[must_use]
    pub fn of_waits(&self, is_meant: impl Fn(Thread, Reason) -> bool) -> Option<(&Place, u64)> {
        let waits = self.waits.iter();
        let meant = waits.filter(|((thread, reason, _), _)| is_meant(*thread, *reason));
        self.longest(meant.map(|((.., function), ns)| (*function, *ns)))
    }

    /// Returns the function in which most of the work was that is meant, and how long it took.
    #[must_use]
    pub fn of_work(&self, is_meant: impl Fn(Thread, Work) -> bool) -> Option<(&Place, u64)> {
        let work = self.work.iter();
        let meant = work.filter(|((thread, work, _), _)| is_meant(*thread, *work));
        self.longest(meant.map(|((.., function), ns)| (*function, *ns)))
    }

    /// Returns how long the work took that is meant, by samples, in nanoseconds.
    #[must_use]
    pub fn ns_of_work(&self, is_meant: impl Fn(Thread, Work) -> bool) -> u64 {
        let work = self.work.iter();
        let meant = work.filter(|((thread, work, _), _)| is_meant(*thread, *work));
        meant.map(|(_, ns)| *ns).fold(0, u64::saturating_add)
    }

    fn longest(&self, all: impl Iterator<Item = (FunctionId, u64)>) -> Option<(&Place, u64)> {
        let mut by_function: HashMap<FunctionId, u64> = HashMap::default();
        for (function, ns) in all {
            let sum = by_function.entry(function).or_default();
            *sum = sum.saturating_add(ns);
        }
        let named = by_function
            .into_iter()
            .filter_map(|(function, ns)| Some((self.functions.place(function)?, ns)));
        named.max_by(|(one, a), (other, b)| a.cmp(b).then_with(|| other.name.cmp(&one.name)))
    }
}

fn add<K: std::hash::Hash + Eq>(sums: &mut HashMap<K, u64>, key: K, ns: u64) {
    if sums.len() < MOST_PLACES || sums.contains_key(&key) {
        let sum = sums.entry(key).or_default();
        *sum = sum.saturating_add(ns);
    }
}

fn work_of(frames: &[Frame]) -> Work {
    let mut kernel = frames.iter().filter(|frame| frame.is_kernel).peekable();
    if kernel.peek().is_none() {
        return Work::Program;
    }
    let mut names = kernel.filter_map(|frame| frame.function.as_ref());
    if names.any(|(name, _)| FAULTS.iter().any(|fault| name.starts_with(fault))) {
        Work::Fault
    } else {
        Work::Kernel
    }
}
