//! Causes of the time of a subject, without pids.

use std::collections::BTreeMap;

use tracer_analysis::{Blame, Inside, Node, PathPart, Reason, Wait, Waker};

use crate::queries::Functions;
use crate::queries::words::{call_name, part, reason};

/// Kinds of causes of one run that are told apart; beyond them, time is of other causes.
const MOST: usize = 4096;

/// Threads that wait for each other in a row, as far as the words go.
const MOST_DEEP: usize = 3;

/// Cause of the time in which a thread could run, and had no CPU.
pub const FOR_CPU: &str = "waited for a CPU";

/// Time by cause, in nanoseconds.
#[derive(Clone, Debug, Default)]
pub struct Causes(pub BTreeMap<String, CauseTime>);

/// Time for one cause.
#[derive(Clone, Debug, Default)]
pub struct CauseTime {
    /// All of it, in nanoseconds.
    pub ns: u64,
    /// Name of the system call that the time was blocked in.
    pub call: Option<String>,
    /// Whether a thread had a CPU: what it did is to be told from its system calls.
    pub is_running: bool,
    /// Whether it is not known what the time was spent on.
    pub is_unknown: bool,
    /// Parts of it, by what the critical path says of them.
    pub details: BTreeMap<String, u64>,
}

impl Causes {
    /// Adds what paths have found.
    pub fn add(&mut self, blame: &Blame, functions: &Functions) {
        for root in blame.roots() {
            let cause = self.cause_of(root);
            let mut words = Vec::new();
            add_details(cause, blame, root, functions, &mut words);
            cause.ns = cause.ns.saturating_add(root.ns);
        }
    }

    fn cause_of(&mut self, root: &Node) -> &mut CauseTime {
        let (name, call) = name(&root.part);
        let name = if self.0.len() < MOST || self.0.contains_key(&name) {
            name
        } else {
            "other causes".to_owned()
        };
        self.0.entry(name).or_insert_with(|| CauseTime {
            call,
            is_running: root.part.has_cpu(),
            is_unknown: matches!(root.part, PathPart::Unknown(_)),
            ..CauseTime::default()
        })
    }
}

/// Adds the parts of a node that no others lie within, each with the words of those that it lies
/// within.
fn add_details(
    cause: &mut CauseTime,
    blame: &Blame,
    node: &Node,
    functions: &Functions,
    words: &mut Vec<String>,
) {
    let children = blame.children(node);
    let own = children
        .iter()
        .fold(node.ns, |left, child| left.saturating_sub(child.ns));
    words.push(part(&node.part, !children.is_empty(), functions));
    let is_deep = words.len() >= MOST_DEEP;
    let ns = if is_deep { node.ns } else { own };
    if ns > 0 && (cause.details.len() < MOST || cause.details.contains_key(&words.join(" "))) {
        let detail = cause.details.entry(words.join(" ")).or_default();
        *detail = detail.saturating_add(ns);
    }
    if !is_deep {
        for child in children {
            add_details(cause, blame, child, functions, words);
        }
    }
    words.pop();
}

/// Names a cause, and the system call that a thread was blocked in.
pub fn name(of: &PathPart) -> (String, Option<String>) {
    let blocked = |why: &Reason, by: &str| {
        let call = match why.inside {
            Inside::Call(key) => Some(call_name(key)),
            _ => None,
        };
        // A wait for a device is one cause, also where the kernel's thread of a journal ends it.
        let by = if why.is_io { "" } else { by };
        (format!("blocked {}{by}", reason(*why)), call)
    };
    let other = |words: &str| (words.to_owned(), None);
    match of {
        PathPart::Running | PathPart::Faulting => other("ran"),
        PathPart::Gap => other("unknown gap of the CPU"),
        PathPart::Interrupted(_) => other("interrupted"),
        PathPart::Busy(_) => other("busy with other work"),
        PathPart::Runnable(Wait::Throttled(_), _) => other("throttled by its control group"),
        PathPart::Runnable(Wait::OutOfBudget, _) => other("throttled, its deadline budget used up"),
        PathPart::Runnable(Wait::OutOfRealTime, _) => {
            other("throttled, the time of real-time threads used up")
        }
        PathPart::Runnable(..) => other(FOR_CPU),
        PathPart::Blocked(why, Waker::Thread(_)) => blocked(why, ", for another thread"),
        PathPart::Blocked(why, Waker::Timer) => blocked(why, ", for a timer"),
        PathPart::Blocked(why, _) | PathPart::StillBlocked(why, _) => blocked(why, ""),
        PathPart::Stopped(_) | PathPart::StillStopped(_) => other("stopped"),
        PathPart::Underway => other("its wake-up was under way to another CPU"),
        PathPart::Unmade(_) => other("not there yet"),
        PathPart::Unpolled(_) => other("no thread worked on it"),
        PathPart::Unknown(_) => other("unknown"),
    }
}
