//! Process whose events are held for a controller, and whether they may be seen.

use tracer_engine::event::{EventHeader, MonotonicNs};

/// Most bytes of data that are held back for one process: an exec takes a moment.
const MOST_HELD_BYTES: usize = 256 << 10;

/// Treatment of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Recorded for the controller.
    Keep,
    /// Held until it is known whether it may be seen.
    Hold,
    /// Hidden: the controller may not see it, nor know of it.
    Hide,
    /// Counted as lost: it may have been the controller's to see.
    Lose,
}

/// Events that are held back, in their order.
pub type Held = Vec<(EventHeader, Box<[u8]>)>;

/// Visibility of a process to one controller.
#[derive(Debug)]
pub enum Watched {
    /// Visible, from this time on.
    Seen { from: MonotonicNs },
    /// In an exec: not known yet.
    InExec { held: Held, bytes: usize },
    /// Not visible.
    Hidden,
}

impl Watched {
    /// Visible at all times.
    pub const SEEN: Self = Self::Seen {
        from: MonotonicNs(0),
    };

    /// Returns the state of a process that is in an exec.
    pub fn in_exec() -> Self {
        Self::InExec {
            held: Vec::new(),
            bytes: 0,
        }
    }

    /// Returns how an event of it is treated.
    pub fn fate(&self, header: &EventHeader, data: &[u8]) -> Fate {
        match self {
            Self::Seen { from } if header.time < *from => Fate::Lose,
            Self::Seen { .. } => Fate::Keep,
            Self::InExec { bytes, .. } if bytes + data.len() > MOST_HELD_BYTES => Fate::Lose,
            Self::InExec { .. } => Fate::Hold,
            Self::Hidden => Fate::Hide,
        }
    }

    /// Holds an event back.
    pub fn hold(&mut self, header: &EventHeader, data: &[u8]) {
        if let Self::InExec { held, bytes } = self {
            *bytes += data.len() + size_of::<EventHeader>();
            held.push((*header, data.into()));
        }
    }

    /// Returns the time of the first event that is held back.
    pub fn held_since(&self) -> Option<MonotonicNs> {
        match self {
            Self::InExec { held, .. } => held.first().map(|(header, _)| header.time),
            Self::Seen { .. } | Self::Hidden => None,
        }
    }

    /// Returns the state of a child that it makes now.
    pub fn child(&self) -> Self {
        match self {
            Self::Seen { from } => Self::Seen { from: *from },
            Self::InExec { .. } | Self::Hidden => Self::Hidden,
        }
    }
}
