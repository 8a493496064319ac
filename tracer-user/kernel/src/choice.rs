//! Choice of the traced processes.

use tracer_common::kernel::{Choice, traced};

use tracer_text::NamePattern;

/// Processes that are traced beside those given by pid. The programs choose processes as these
/// begin; the caller gives processes that run already by pid.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProcessChoice {
    /// No other process.
    #[default]
    Given,
    /// Processes with a name like this.
    Named(NamePattern),
    /// Processes in the control group (version 2) of this id, or in one within it. A process that
    /// leaves is traced no longer.
    InGroup(u64),
    /// All processes of this process's pid namespace, except this process.
    Everything,
}

const NOTHING: Choice = Choice {
    cgroup: 0,
    bits: 0,
    newcomers: 0,
    fits: [0; 256],
    stars: 0,
    end: 0,
};

impl ProcessChoice {
    /// Returns the choice as the programs read it; `None` where the programs have nothing to
    /// choose. `is_nested`: the agent is in a pid namespace of its own.
    pub(super) fn for_programs(self, inherit: bool, is_nested: bool) -> Option<Choice> {
        let none = Choice {
            bits: bits(inherit).into(),
            ..NOTHING
        };
        match self {
            // For everything, the agent marks every possible pid. In a pid namespace of its own, it
            // marks the processes that exist, and the programs mark those that come in.
            Self::Everything if is_nested => Some(Choice {
                newcomers: 1,
                ..none
            }),
            Self::Given | Self::Everything => None,
            Self::Named(pattern) => Some(Choice {
                fits: pattern.fits(),
                stars: pattern.stars(),
                end: pattern.end(),
                ..none
            }),
            Self::InGroup(cgroup) => Some(Choice { cgroup, ..none }),
        }
    }
}

/// Returns the byte of a traced process.
pub(super) fn bits(inherit: bool) -> u8 {
    if inherit {
        traced::TRACED | traced::INHERIT
    } else {
        traced::TRACED
    }
}
