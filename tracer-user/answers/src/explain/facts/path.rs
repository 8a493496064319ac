//! The critical path of the first thread, as parts with the names of the threads that they are of.

use tracer_analysis::{Blame, Node, PathPart, Task, Then, Waker};

use crate::queries::Paths;
use tracer_event::fields::until_null;

/// Parts that are looked at: the longest ones come first.
const MOST_PARTS: usize = 20_000;

/// A part of the path.
#[derive(Clone, Debug)]
pub struct Leaf {
    /// Name of the thread that it is of.
    pub comm: Vec<u8>,
    /// Deepness: 0 is the first thread itself.
    pub depth: usize,
    /// The part.
    pub part: PathPart,
    /// How long, in nanoseconds, without what lies within it.
    pub own_ns: u64,
    /// How long, in nanoseconds.
    pub ns: u64,
    /// Index of the part that it lies within.
    pub within: Option<usize>,
}

/// The path.
#[derive(Clone, Debug, Default)]
pub struct PathFacts {
    /// Name of the first thread.
    pub comm: Vec<u8>,
    /// Parts of it, each before those that lie within it.
    pub parts: Vec<Leaf>,
    /// How long all of it is, in nanoseconds.
    pub ns: u64,
}

impl PathFacts {
    /// Returns the path, where it has most of the time and most of it is known. The time in which
    /// switches were not recorded is left out.
    #[must_use]
    pub fn new(paths: &Paths, wall: u64, unrecorded: u64) -> Option<Self> {
        let shown = paths.shown().first()?;
        let mut facts = Self {
            comm: shown.comm.clone(),
            parts: Vec::new(),
            ns: shown.blame.total(),
        };
        let comm = shown.comm.clone();
        facts.add(&shown.blame, &shown.blame.roots(), (&comm, 0, None));
        facts.leave_out(unrecorded);
        let wall = wall.saturating_sub(unrecorded);
        let unknown = facts.own_ns(|leaf| match leaf.part {
            PathPart::Unknown(_) | PathPart::StillBlocked(_, Then::TraceEnd) => true,
            // It may have gone on when the window had closed.
            PathPart::Blocked(_, Waker::Unknown) => unrecorded > 0 && leaf.depth == 0,
            _ => false,
        });
        (facts.ns >= wall / 2 && unknown <= facts.ns / 2).then_some(facts)
    }

    /// Leaves so much of what is not known of the first thread out, in nanoseconds.
    fn leave_out(&mut self, mut ns: u64) {
        let of_first = self.parts.iter_mut().filter(|leaf| leaf.depth == 0);
        for leaf in of_first.filter(|leaf| matches!(leaf.part, PathPart::Unknown(_))) {
            let left_out = leaf.own_ns.min(ns);
            leaf.own_ns -= left_out;
            leaf.ns = leaf.ns.saturating_sub(left_out);
            self.ns = self.ns.saturating_sub(left_out);
            ns -= left_out;
        }
    }

    fn add(
        &mut self,
        blame: &Blame,
        nodes: &[&Node],
        (comm, depth, within): (&[u8], usize, Option<usize>),
    ) {
        for node in nodes {
            if self.parts.len() >= MOST_PARTS {
                return;
            }
            let children = blame.children(node);
            let inner = children.iter().map(|child| child.ns);
            let own_ns = node.ns.saturating_sub(inner.fold(0, u64::saturating_add));
            let index = self.parts.len();
            self.parts.push(Leaf {
                comm: comm.to_vec(),
                depth,
                part: node.part,
                own_ns,
                ns: node.ns,
                within,
            });
            let next = of_children(&node.part).map_or(comm, |task| until_null(&task.comm));
            let next = next.to_vec();
            self.add(blame, &children, (&next, depth + 1, Some(index)));
        }
    }

    /// Returns the time of the parts that are meant, without what lies within them.
    pub fn own_ns(&self, is_meant: impl Fn(&Leaf) -> bool) -> u64 {
        let meant = self.parts.iter().filter(|leaf| is_meant(leaf));
        meant.map(|leaf| leaf.own_ns).fold(0, u64::saturating_add)
    }

    /// Returns the time of the parts that are meant, with what lies within them, each moment once.
    pub fn outer_ns(&self, is_meant: impl Fn(&Leaf) -> bool) -> u64 {
        let mut has_outer: Vec<bool> = Vec::with_capacity(self.parts.len());
        let mut sum = 0_u64;
        for leaf in &self.parts {
            let outer = leaf.within.and_then(|within| has_outer.get(within));
            let is_within = outer.copied().unwrap_or(false);
            let meant = is_meant(leaf);
            if meant && !is_within {
                sum = sum.saturating_add(leaf.ns);
            }
            has_outer.push(is_within || meant);
        }
        sum
    }
}

/// Returns the thread whose parts lie within this one.
fn of_children(part: &PathPart) -> Option<&Task> {
    match part {
        PathPart::Blocked(_, Waker::Thread(task))
        | PathPart::Stopped(Waker::Thread(task))
        | PathPart::Unmade(task)
        | PathPart::Unpolled(task) => Some(task),
        _ => None,
    }
}
