//! Words for a difference.

/// Times as long, or as short, from which on a difference is one.
const RATIO: f64 = 1.1;

/// As that, where each side has one run: how much two of one program differ is not known.
const RATIO_OF_ONE: f64 = 1.25;

/// As that, for a difference that is hardly chance though each side has one run.
const CLEAR_RATIO_OF_ONE: f64 = 1.5;

/// Nanoseconds of a run from which on it tells how much the machine's speed differs: other guests
/// of the same host and the clock of its processors change within seconds.
const LONG_NS: u64 = 10_000_000_000;

/// Times as long, and nanoseconds longer, from which waiting for a CPU counts where each side has
/// one run.
const VERY_MUCH: u64 = 3;
const VERY_MUCH_NS: u64 = 100_000_000;

/// Samples from which the probability of chance was estimated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Samples {
    /// Several runs of each side.
    Runs,
    /// Portions of the spans of one run each.
    Portions,
    /// As those, where the spans of a side cover so little time that all of them may have met a
    /// slower machine.
    ShortPortions,
}

impl Samples {
    /// Returns those of one run each, of which the spans cover so many nanoseconds.
    pub fn portions(covered_ns: [u64; 2]) -> Self {
        if covered_ns.iter().all(|ns| *ns >= LONG_NS) {
            Self::Portions
        } else {
            Self::ShortPortions
        }
    }

    /// Returns the probability up to which a difference is not put down to chance. Three runs that
    /// are all slower than three others have a tenth; of portions there are many.
    const fn limit(self) -> f64 {
        match self {
            Self::Runs => 0.1,
            Self::Portions | Self::ShortPortions => 0.01,
        }
    }

    /// Returns times as long, from which on a difference is clear.
    const fn clear_ratio(self) -> f64 {
        match self {
            Self::Runs | Self::Portions => RATIO,
            Self::ShortPortions => CLEAR_RATIO_OF_ONE,
        }
    }
}

/// Word for a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It takes longer.
    Slower,
    /// It takes less time.
    Faster,
    /// No difference that counts.
    Same,
    /// There is one, which may be chance.
    Unsure,
}

impl Change {
    /// Judges means in nanoseconds by the probability that chance makes their difference, where
    /// that can be told.
    #[expect(
        clippy::cast_precision_loss,
        reason = "a ratio needs no more digits than these have"
    )]
    pub fn between(a: u64, b: u64, chance: Option<(f64, Samples)>) -> Self {
        let (shorter, longer) = (a.min(b) as f64, a.max(b) as f64);
        let (least, is_clear) = match chance {
            // A limit is met though it was rounded.
            Some((chance, samples)) => (
                RATIO,
                chance <= samples.limit() + 1e-9 && longer > shorter * samples.clear_ratio(),
            ),
            None => (RATIO_OF_ONE, longer > shorter * CLEAR_RATIO_OF_ONE),
        };
        if longer <= shorter * least {
            Self::Same
        } else if !is_clear {
            Self::Unsure
        } else if b > a {
            Self::Slower
        } else {
            Self::Faster
        }
    }

    /// Judges means of one run each, of which so much was waiting for a CPU: that is what else the
    /// machine did then, and counts only where it is very much.
    pub fn of_one_run([a, b]: [u64; 2], [for_cpu_a, for_cpu_b]: [u64; 2]) -> Self {
        let judged = Self::between(a, b, None);
        let own = |ns: u64, for_cpu: u64| ns.saturating_sub(for_cpu);
        let of_itself = Self::between(own(a, for_cpu_a), own(b, for_cpu_b), None);
        let is_very_much = a.abs_diff(b) >= VERY_MUCH_NS && a.max(b) / VERY_MUCH >= a.min(b);
        match judged {
            Self::Slower | Self::Faster if of_itself == judged || is_very_much => judged,
            Self::Slower | Self::Faster => Self::Unsure,
            Self::Same | Self::Unsure => judged,
        }
    }

    /// Returns its word.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Slower => "slower",
            Self::Faster => "faster",
            Self::Same => "same",
            Self::Unsure => "unsure",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_difference_is_none_and_a_large_one_may_be_chance() {
        let of = |b, chance: Option<f64>| {
            Change::between(100, b, chance.map(|chance| (chance, Samples::Runs)))
        };
        assert_eq!(of(105, Some(0.001)), Change::Same);
        assert_eq!(of(120, Some(0.001)), Change::Slower);
        assert_eq!(of(120, Some(0.3)), Change::Unsure);
        assert_eq!(of(120, None), Change::Same);
        assert_eq!(of(140, None), Change::Unsure);
        assert_eq!(of(160, None), Change::Slower);
        assert_eq!(of(50, Some(0.1)), Change::Faster);
        let of_portions = Some((0.1, Samples::Portions));
        assert_eq!(Change::between(100, 120, of_portions), Change::Unsure);
        let of_short = |b| Change::between(100, b, Some((0.001, Samples::ShortPortions)));
        assert_eq!(of_short(109), Change::Same);
        assert_eq!(of_short(140), Change::Unsure);
        assert_eq!(of_short(160), Change::Slower);
        let ten_s = [LONG_NS; 2];
        assert_eq!(Samples::portions(ten_s), Samples::Portions);
        assert_eq!(
            Samples::portions([LONG_NS, LONG_NS - 1]),
            Samples::ShortPortions
        );
        assert_eq!(Change::between(0, 0, None), Change::Same);
    }

    #[test]
    fn of_one_run_waiting_for_a_cpu_counts_where_it_is_very_much() {
        const MS: u64 = 1_000_000;
        let of = |a: [u64; 2], b: [u64; 2]| {
            Change::of_one_run(
                [a[0], b[0]].map(|ms| ms * MS),
                [a[1], b[1]].map(|ms| ms * MS),
            )
        };
        // The program itself took longer, whatever came on top.
        assert_eq!(of([50, 10], [90, 20]), Change::Slower);
        assert_eq!(of([50, 0], [500, 400]), Change::Slower);
        // Others had the CPU: some milliseconds, or for long.
        assert_eq!(of([11, 0], [44, 33]), Change::Unsure);
        assert_eq!(of([300, 0], [700, 400]), Change::Unsure);
        assert_eq!(of([300, 0], [900, 600]), Change::Slower);
        assert_eq!(of([900, 600], [300, 0]), Change::Faster);
        assert_eq!(of([300, 0], [310, 10]), Change::Same);
    }
}
