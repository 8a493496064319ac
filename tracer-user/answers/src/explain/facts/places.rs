//! Functions in which threads waited and ran, by stacks.

use std::collections::BTreeMap;
use std::sync::Arc;

use foldhash::HashMap;
use tracer_analysis::{FunctionId, Reason, Thread};
use tracer_binary::stacks::{Frame, Stack};

use crate::queries::{CodeAddress, Functions, Place};

/// Most places that are told apart.
const MOST_PLACES: usize = 65_536;

/// Addresses that are told apart; of those beyond, only the functions are known.
const MOST_SPOTS: usize = 16_384;

/// Number of a spot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SpotId(u32);

/// Spot in a function.
#[derive(Debug)]
struct Spot {
    function: FunctionId,
    /// Where it is, and in which process; `None` for all of the function that is not told apart.
    code: Option<(CodeAddress, i32)>,
}

/// Identity of a spot: the function, the file, and the offset in it.
type SpotKey = (FunctionId, Option<(Arc<[u8]>, u64)>);

/// A place that explains most of a time.
#[derive(Clone, Copy, Debug)]
pub struct FoundPlace<'a> {
    /// The function.
    pub place: &'a Place,
    /// How long it was in it, in nanoseconds.
    pub ns: u64,
    /// The spot in it where it was longest.
    pub spot: SpotId,
}

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
    spots: Vec<Spot>,
    known: HashMap<SpotKey, SpotId>,
    waits: HashMap<(Thread, Reason, SpotId), u64>,
    work: HashMap<(Thread, Work, SpotId), u64>,
    samples: HashMap<(Thread, Work), u64>,
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
        let spot = self.spot(thread.pid, stack);
        add(&mut self.waits, (thread, reason, spot), ns);
    }

    /// Adds a sample of a thread that had a CPU for this long.
    pub fn add_sample(&mut self, thread: Thread, stack: Option<&Stack<'_>>, ns: u64) {
        let frames = stack.map(Stack::frames).unwrap_or_default();
        let work = work_of(&frames);
        add(&mut self.samples, (thread, work), 1);
        let spot = match stack {
            Some(stack) => self.spot(thread.pid, stack),
            None => self.spot_of((FunctionId::NONE, None), None),
        };
        add(&mut self.work, (thread, work, spot), ns);
    }

    /// Returns the spot in which a thread of a process is.
    fn spot(&mut self, pid: i32, stack: &Stack<'_>) -> SpotId {
        let (function, code) = self.functions.waiting_at(stack);
        let code = code.filter(|_| self.spots.len() < MOST_SPOTS);
        let file = |code: &CodeAddress| (Arc::clone(&code.mapping.path), code.offset_in_file());
        let key = (function, code.as_ref().map(file));
        self.spot_of(key, code.map(|code| (code, pid)))
    }

    fn spot_of(&mut self, key: SpotKey, code: Option<(CodeAddress, i32)>) -> SpotId {
        if let Some(known) = self.known.get(&key) {
            return *known;
        }
        let spot = SpotId(u32::try_from(self.spots.len()).unwrap_or(u32::MAX));
        let function = key.0;
        self.spots.push(Spot { function, code });
        self.known.insert(key, spot);
        spot
    }

    /// Returns the file and the line of the source that a spot is in, where its file says so.
    #[must_use]
    pub fn line(&self, spot: SpotId) -> Option<(Arc<str>, u32)> {
        let index = usize::try_from(spot.0).ok()?;
        let (code, pid) = self.spots.get(index)?.code.as_ref()?;
        code.line(*pid)
    }

    /// Returns the number of samples of the work that is meant.
    #[must_use]
    pub fn samples(&self, is_meant: impl Fn(Thread, Work) -> bool) -> u64 {
        let samples = self.samples.iter();
        let meant = samples.filter(|((thread, work), _)| is_meant(*thread, *work));
        meant.map(|(_, count)| *count).fold(0, u64::saturating_add)
    }

    /// Returns the function in which most of the waits were that are meant, and how much of their
    /// time is known to have been in it.
    #[must_use]
    pub fn of_waits(&self, is_meant: impl Fn(Thread, Reason) -> bool) -> Option<FoundPlace<'_>> {
        let waits = self.waits.iter();
        let meant = waits.filter(|((thread, reason, _), _)| is_meant(*thread, *reason));
        self.longest(meant.map(|((.., spot), ns)| (*spot, *ns)))
    }

    /// Returns the function in which most of the work was that is meant, and how long it took.
    #[must_use]
    pub fn of_work(&self, is_meant: impl Fn(Thread, Work) -> bool) -> Option<FoundPlace<'_>> {
        let work = self.work.iter();
        let meant = work.filter(|((thread, work, _), _)| is_meant(*thread, *work));
        self.longest(meant.map(|((.., spot), ns)| (*spot, *ns)))
    }

    /// Returns how long the work took that is meant, by samples, in nanoseconds.
    #[must_use]
    pub fn ns_of_work(&self, is_meant: impl Fn(Thread, Work) -> bool) -> u64 {
        let work = self.work.iter();
        let meant = work.filter(|((thread, work, _), _)| is_meant(*thread, *work));
        meant.map(|(_, ns)| *ns).fold(0, u64::saturating_add)
    }

    fn longest(&self, all: impl Iterator<Item = (SpotId, u64)>) -> Option<FoundPlace<'_>> {
        /// How long in a function, and in its spots.
        #[derive(Default)]
        struct InFunction {
            ns: u64,
            spots: BTreeMap<SpotId, u64>,
        }
        let mut by_function: HashMap<FunctionId, InFunction> = HashMap::default();
        for (spot, ns) in all {
            let index = usize::try_from(spot.0).ok();
            let Some(of) = index.and_then(|index| self.spots.get(index)) else {
                continue;
            };
            let sum = by_function.entry(of.function).or_default();
            sum.ns = sum.ns.saturating_add(ns);
            let in_spot = sum.spots.entry(spot).or_default();
            *in_spot = in_spot.saturating_add(ns);
        }
        let named = by_function.into_iter().filter_map(|(function, of)| {
            let spots = of.spots.into_iter();
            let (spot, _) = spots.max_by(|(one, a), (other, b)| a.cmp(b).then(other.cmp(one)))?;
            Some(FoundPlace {
                place: self.functions.place(function)?,
                ns: of.ns,
                spot,
            })
        });
        let key =
            |found: &FoundPlace<'_>| (found.ns, std::cmp::Reverse(Arc::clone(&found.place.name)));
        named.max_by(|one, other| key(one).cmp(&key(other)))
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
