//! Where every event of a stream went.

use crate::source::LossCause;

/// Where every event of a stream went. Each loss has a cause of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    pub(super) recorded: u64,
    pub(super) reported: u64,
    pub(super) cleared: u64,
    lost: [u64; LossCause::ALL.len()],
}

impl Ledger {
    /// Returns the number of events recorded in the stream so far, those of the stream itself
    /// included.
    #[must_use]
    pub fn recorded(&self) -> u64 {
        self.recorded
    }

    /// Returns the number of recorded events given to the reader so far. `OVERFLOW` and `RESUME`,
    /// which are made when they are read, are neither recorded nor counted here.
    #[must_use]
    pub fn reported(&self) -> u64 {
        self.reported
    }

    /// Returns the number of events lost so far for this cause.
    #[must_use]
    pub fn lost(&self, cause: LossCause) -> u64 {
        self.lost.get(index(cause)).copied().unwrap_or(0)
    }

    /// Returns the number of events lost so far, whatever the cause.
    #[must_use]
    pub fn lost_in_all(&self) -> u64 {
        self.lost
            .iter()
            .fold(0, |sum, lost| sum.saturating_add(*lost))
    }

    /// Tells whether every recorded event was reported, overwritten, cleared, or is still `held`.
    #[must_use]
    pub fn balances(&self, held: u64) -> bool {
        let gone = self.reported + self.cleared + self.lost(LossCause::StreamOverwritten);
        self.recorded == gone + held
    }

    /// Counts events that were lost.
    pub fn lose(&mut self, cause: LossCause, count: u64) {
        if let Some(lost) = self.lost.get_mut(index(cause)) {
            *lost = lost.saturating_add(count);
        }
    }
}

fn index(cause: LossCause) -> usize {
    LossCause::ALL
        .iter()
        .position(|known| *known == cause)
        .unwrap_or(0)
}
