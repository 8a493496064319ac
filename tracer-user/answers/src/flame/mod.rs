//! Flame graphs: where in their code threads spent their time.
//!
//! [`Flames`] takes events in order, each after its stack, and folds them into a [`Folded`]: paths
//! of frames, the outermost first, with nanoseconds for each path. The first frame is the name of
//! the thread. The content of a `Folded` is
//!
//! - written as text, a line a path, as other tools take it ([`Folded::text`]);
//! - drawn as a picture that is one file ([`svg`]);
//! - given out path by path, in order, for other views ([`Folded::paths`]).
//!
//! The summed times depend on the [`FlameKind`]. The times without a CPU come from the intervals
//! that `stat` and `why` use, too: nothing here finds out a state.

mod fold;
mod folded;
mod make;
mod svg;

pub use fold::Flames;
pub use folded::{Folded, FrameKind, ShownFrame};
pub use make::{FlameSetup, Form, make};
pub use svg::svg;

/// Kind of a flame graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum FlameKind {
    /// Stacks of threads that have a CPU, by samples.
    OnCpu,
    /// Stacks of threads that have none: from when they leave a CPU until they get one again.
    OffCpu,
    /// Stacks of threads as they are blocked, and of the wakers that end that.
    Wakeup,
}

impl FlameKind {
    /// Returns the title of the graph.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Self::OnCpu => "On-CPU time, by samples",
            Self::OffCpu => "Off-CPU time",
            Self::Wakeup => "Blocked time, and who ended it",
        }
    }
}
