//! A process whose events are held for somebody, and whether they may be seen.

use tracer_engine::event::{EventHeader, MonotonicNs};

/// Most bytes of data that are held back for one process: an exec takes a moment.
const MOST_HELD_BYTES: usize = 256 << 10;

/// What becomes of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is recorded for the controller.
    Keep,
    /// It waits until it is known whether it may be seen.
    Hold,
    /// It is not for the controller to see, nor to know of.
    Hide,
    /// It may have been the controller's to see: it counts as lost.
    Lose,
}

/// Events that are held back, in their order.
pub type Held = Vec<(EventHeader, Box<[u8]>)>;

/// Whether a process may be seen by one controller.
#[derive(Debug)]
pub enum Watched {
    /// It may, from this time on.
    Seen { from: MonotonicNs },
    /// It is in an exec, and nobody knows yet.
    InExec { held: Held, bytes: usize },
    /// It may not.
    Hidden,
}

impl Watched {
    /// It may be seen, whenever.
    pub const SEEN: Self = Self::Seen {
        from: MonotonicNs(0),
    };

    /// It is in an exec.
    pub fn in_exec() -> Self {
        Self::InExec {
            held: Vec::new(),
            bytes: 0,
        }
    }

    /// What becomes of an event of it.
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

    /// The time of the first event that is held back.
    pub fn held_since(&self) -> Option<MonotonicNs> {
        match self {
            Self::InExec { held, .. } => held.first().map(|(header, _)| header.time),
            Self::Seen { .. } | Self::Hidden => None,
        }
    }

    /// A child that it makes now.
    pub fn child(&self) -> Self {
        match self {
            Self::Seen { from } => Self::Seen { from: *from },
            Self::InExec { .. } | Self::Hidden => Self::Hidden,
        }
    }
}
