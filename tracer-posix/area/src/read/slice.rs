//! The time that reading an area takes in one go.

use std::time::{Duration, Instant};

use crate::discover::reader_windows::AreaWindows;

/// How long a call looks into another process's area, or reads in it.
const SLICE: Duration = Duration::from_millis(1);

/// The time that a call may take.
pub(crate) struct Slice {
    end: Option<Instant>,
}

impl Slice {
    /// Begins a slice now. This process's own area is looked at in one go.
    pub(super) fn begin(windows: &AreaWindows<'_>) -> Self {
        Self::begin_with(windows, SLICE)
    }

    /// Begins a slice of this `time`, for another process's area.
    pub(super) fn begin_with(windows: &AreaWindows<'_>, time: Duration) -> Self {
        let is_own = matches!(windows, AreaWindows::Own);
        Self {
            end: (!is_own).then(|| Instant::now() + time),
        }
    }

    pub(super) fn is_spent(&self) -> bool {
        self.end.is_some_and(|end| Instant::now() >= end)
    }
}
