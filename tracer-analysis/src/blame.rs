//! Where time went: many paths, added up as a tree.

use std::collections::HashMap;

use foldhash::fast::RandomState;

use crate::path::{PathPart, Step};
use crate::state::{Behind, Reason, Task, Thread, Waker};

/// Nodes of a tree: what comes beyond is left out of it.
const MOST_NODES: usize = 100_000;

/// Whether threads of one name are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThreadGrouping {
    /// Each is itself: for one path.
    Apart,
    /// Those of one name are the same: for many paths.
    ByName,
}

/// A part of the time that was the same thing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Part that it was; of the thread that the node it lies within names, or of the span's own.
    pub part: PathPart,
    /// How long, in nanoseconds.
    pub ns: u64,
    /// How many steps.
    pub count: u64,
    /// Nodes within it, by index.
    pub children: Vec<usize>,
}

/// Where the time of paths went.
#[derive(Clone, Debug)]
pub struct Blame {
    threads: ThreadGrouping,
    nodes: Vec<Node>,
    /// Where a part within another is: `usize::MAX` is the whole.
    index: HashMap<(usize, PathPart), usize, RandomState>,
    roots: Vec<usize>,
}

const WHOLE: usize = usize::MAX;

impl Blame {
    /// Returns the blame of no path yet.
    #[must_use]
    pub fn new(threads: ThreadGrouping) -> Self {
        Self {
            threads,
            nodes: Vec::new(),
            index: HashMap::default(),
            roots: Vec::new(),
        }
    }

    /// Adds a path.
    pub fn add(&mut self, steps: &[Step]) {
        // The node of each step that the next one may lie within.
        let mut within: Vec<usize> = Vec::new();
        // What lies within a step for which there was no space is not another one's.
        let mut left_out = None;
        for step in steps {
            if left_out.is_some_and(|depth| step.depth > depth) {
                continue;
            }
            left_out = None;
            within.truncate(step.depth);
            let parent = within.last().copied().unwrap_or(WHOLE);
            let Some(node) = self.node(parent, step.part) else {
                left_out = Some(step.depth);
                continue;
            };
            if let Some(node) = self.nodes.get_mut(node) {
                node.ns = node.ns.saturating_add(step.ns());
                node.count += 1;
            }
            within.push(node);
        }
    }

    fn node(&mut self, parent: usize, part: PathPart) -> Option<usize> {
        let part = match self.threads {
            ThreadGrouping::Apart => part,
            ThreadGrouping::ByName => by_name(part),
        };
        if let Some(node) = self.index.get(&(parent, part)) {
            return Some(*node);
        }
        let node = self.nodes.len();
        if node >= MOST_NODES {
            return None;
        }
        self.nodes.push(Node {
            part,
            ns: 0,
            count: 0,
            children: Vec::new(),
        });
        self.index.insert((parent, part), node);
        match self.nodes.get_mut(parent) {
            Some(parent) => parent.children.push(node),
            None => self.roots.push(node),
        }
        Some(node)
    }

    /// Returns the parts that the paths consist of, the longest first.
    #[must_use]
    pub fn roots(&self) -> Vec<&Node> {
        self.sorted(&self.roots)
    }

    /// Returns the parts within a node, the longest first.
    #[must_use]
    pub fn children(&self, node: &Node) -> Vec<&Node> {
        self.sorted(&node.children)
    }

    fn sorted(&self, nodes: &[usize]) -> Vec<&Node> {
        let nodes = nodes.iter().filter_map(|node| self.nodes.get(*node));
        let mut nodes: Vec<&Node> = nodes.collect();
        nodes.sort_by_key(|node| (std::cmp::Reverse(node.ns), node.part));
        nodes
    }

    /// Returns all of the time, in nanoseconds.
    #[must_use]
    pub fn total(&self) -> u64 {
        let roots = self.roots().into_iter().map(|node| node.ns);
        roots.fold(0, u64::saturating_add)
    }
}

/// Returns the reason with the name alone of the thread that has the lock, and of the object.
fn with_name(reason: Reason) -> Reason {
    Reason {
        lock: reason.lock.with_name(),
        object: reason.object.with_name(),
        ..reason
    }
}

fn by_name(part: PathPart) -> PathPart {
    let task = |task: Task| Task {
        thread: Thread::default(),
        ..task
    };
    let waker = |waker| match waker {
        Waker::Thread(of) => Waker::Thread(task(of)),
        Waker::Unknown | Waker::Interrupt | Waker::SoftInterrupt | Waker::Timer => waker,
    };
    match part {
        PathPart::Runnable(wait, behind) => PathPart::Runnable(
            wait,
            behind.map(|behind| Behind {
                task: match behind.task {
                    // The idle task has a name for each CPU.
                    idle if idle.thread.tid == 0 => Task::default(),
                    other => task(other),
                },
                ..behind
            }),
        ),
        PathPart::Blocked(reason, of) => PathPart::Blocked(with_name(reason), waker(of)),
        PathPart::StillBlocked(reason, then) => PathPart::StillBlocked(with_name(reason), then),
        PathPart::Stopped(of) => PathPart::Stopped(waker(of)),
        PathPart::Unmade(by) => PathPart::Unmade(task(by)),
        PathPart::Unpolled(by) => PathPart::Unpolled(task(by)),
        PathPart::Running
        | PathPart::Faulting
        | PathPart::Gap
        | PathPart::Interrupted(_)
        | PathPart::Busy(_)
        | PathPart::StillStopped(_)
        | PathPart::Underway
        | PathPart::Unknown(_) => part,
    }
}
