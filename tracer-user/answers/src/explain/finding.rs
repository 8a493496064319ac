//! Findings: what explains a part of the time.

use super::facts::SpotId;

/// How a finding is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sure {
    /// Each part of its time was seen to begin and to end.
    Measured,
    /// Its time is that of samples.
    Sampled,
    /// Its time was seen, and what it means follows from signs.
    Inferred(&'static str),
}

impl Sure {
    /// Returns the word for it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Measured => "measured",
            Self::Sampled => "sampled",
            Self::Inferred(_) => "inferred",
        }
    }

    /// Returns the signs from which it follows.
    #[must_use]
    pub fn signs(self) -> Option<&'static str> {
        match self {
            Self::Inferred(signs) => Some(signs),
            Self::Measured | Self::Sampled => None,
        }
    }
}

/// Explanation of a part of the time. Its texts are harmless.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleFinding {
    /// Name of the rule that has found it.
    pub rule: &'static str,
    /// Threads that it is about: `nginx 4711`, `worker (8 threads)`.
    pub who: String,
    /// The whole of it as a sentence, without `who`.
    pub what: String,
    /// Function: `at append`.
    pub place: Option<String>,
    /// The spot in it where most of the time was.
    pub spot: Option<SpotId>,
    /// File of the source, and line in it, where the program's file says so: `append.c:12`. It is
    /// looked up for the findings that are told.
    pub line: Option<String>,
    /// File, address, or name that it is about.
    pub object: Option<String>,
    /// Thread or group to blame, where that is another one.
    pub by: Option<String>,
    /// How long together, in nanoseconds.
    pub ns: u64,
    /// Share of the time that it explains, in thousandths.
    pub share: u64,
    /// How often.
    pub count: u64,
    /// The longest of them, in nanoseconds, where there are single ones.
    pub longest: Option<u64>,
    /// How it is known.
    pub sure: Sure,
    /// The part of the time from which it is estimated, in thousandths; `None` where all of it was
    /// recorded.
    pub sampled: Option<u64>,
    /// Least and most that `count` is, where it is an estimate.
    pub count_between: Option<(u64, u64)>,
    /// Words of the command that looks closer, without those that say at what: `stat --syscalls
    /// fsync`.
    pub next: String,
    /// Whether it is about time on CPUs.
    pub is_on_cpu: bool,
    /// The name of the threads, as it was recorded.
    pub comm: Vec<u8>,
}
