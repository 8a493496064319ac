//! Pids and tids of the agent's own pid namespace, which events have.
//!
//! Where the agent is in the first one, both are the same, and the verifier drops what is here.
//! Where it is in another, as in a container, the map `PIDS` says which pid belongs to which:
//! written for every new thread before it first runs, and at the start for those that are there
//! ([`crate::listing`]).

use crate::context::Tracepoint;
use crate::maps;
use crate::offsets::NAMESPACE;
use crate::pid::Pid;
use crate::subject::Subject;
use crate::task::Task;

impl Pid {
    /// Returns its pid or tid in the agent's pid namespace; 0 when it has none there.
    #[inline(always)]
    pub fn shown(self) -> u32 {
        if NAMESPACE.load() == 0 {
            self.0
        } else {
            maps::own(self)
        }
    }

    /// Tells whether the agent can know it: it has a pid there.
    #[inline(always)]
    pub fn is_visible(self) -> bool {
        NAMESPACE.load() == 0 || maps::own(self) != 0
    }
}

/// Learns the pid of a thread that is new.
#[inline(always)]
pub fn learn<C: Tracepoint>(task: &Task<C>) {
    let namespace = NAMESPACE.load();
    if namespace != 0 {
        maps::set_own(task.tid(), task.id_in(namespace));
    }
}
