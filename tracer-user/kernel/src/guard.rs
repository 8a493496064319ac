//! Guards of processes, whose events are recorded only while they may be looked into.

use tracer_common::kernel::traced;

/// Processes that those who are given the events of a guarded one may look into. Of several who are
/// given the events of one process, what all of them may counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Guard {
    /// Those in the first user namespace.
    FirstNamespace,
    /// Those in user namespaces that their user has made too, whatever rights they have there,
    /// where that user is in the first one; or those in the user namespace of a process that may
    /// trace all there.
    OwnNamespaces,
}

impl Guard {
    /// Returns it as bits of [`traced`].
    pub(super) const fn bits(self) -> u8 {
        match self {
            Self::FirstNamespace => traced::GUARDED,
            Self::OwnNamespaces => traced::GUARDED | traced::OWNED,
        }
    }
}
