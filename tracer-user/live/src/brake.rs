//! Brake of windows: closes them where the reader comes too late for that.
//!
//! The reader gives way to others. Where a program becomes busy all of a sudden, and no CPU is idle
//! any more, it may not run for some tenths of a second, in which far more would be recorded than
//! was asked for. The thread that watches it looks at the counts meanwhile.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use tracer_area::monotonic_now;
use tracer_kernel::{CallRates, WantedMaps};

/// Brake of the windows in which switches and system calls are recorded.
pub struct Brake {
    rates: Arc<CallRates>,
    maps: WantedMaps,
    /// Types that are recorded in windows of switches, as bits.
    bits: u64,
    state: Mutex<State>,
}

/// State of the brake.
#[derive(Debug, Default)]
struct State {
    /// Counts beyond which it is pulled, while a window is open.
    most: Option<MostCounts>,
    stopped: Option<StoppedEvents>,
}

/// Events that the brake has stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoppedEvents {
    /// System calls.
    Calls,
    /// Switches, all else that is recorded in their windows, and system calls.
    Switches,
}

/// Counts since the trace began that are not to be exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MostCounts {
    /// Switches, wake-ups and page faults that are recorded.
    pub recorded: u64,
    /// System calls that are recorded.
    pub calls: u64,
}

impl fmt::Debug for Brake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.state.fmt(f)
    }
}

impl Brake {
    /// Makes a brake that is not armed. `bits` are the types that it stops, beside system calls.
    pub fn new(rates: Arc<CallRates>, maps: WantedMaps, bits: u64) -> Self {
        Self {
            rates,
            maps,
            bits,
            state: Mutex::default(),
        }
    }

    /// Has it pulled once these counts are exceeded.
    pub fn arm(&self, most: MostCounts) {
        self.state().most = Some(most);
    }

    /// Has it pulled no more until it is armed again. Returns what it has stopped since it was
    /// armed: that is not recorded from a moment on at which the source is held, as after
    /// [`WantedMaps::pause`].
    pub fn release(&self) -> Option<StoppedEvents> {
        let mut state = self.state();
        state.most = None;
        state.stopped.take()
    }

    /// Looks at the counts, and stops recording what exceeds them.
    pub fn look(&self) {
        // Where the reader changes it, that has come in time.
        let Ok(mut state) = self.state.try_lock() else {
            return;
        };
        let Some(most) = state.most else {
            return;
        };
        let counts = self.rates.counts(monotonic_now().0);
        let stopped = if counts.recorded > most.recorded {
            StoppedEvents::Switches
        } else if counts.calls > most.calls {
            StoppedEvents::Calls
        } else {
            return;
        };
        self.maps.detach_calls();
        if stopped == StoppedEvents::Switches {
            self.maps.pause(self.bits);
        }
        *state = State {
            most: None,
            stopped: Some(stopped),
        };
        tracing::debug!(
            ?stopped,
            ?counts,
            ?most,
            "windows are closed for the reader"
        );
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
