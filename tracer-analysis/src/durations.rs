//! Many durations, of which percentiles are asked.

use hdrhistogram::Histogram;

/// Digits of a duration that count: percentiles are exact to a hundredth.
const DIGITS: u8 = 2;

/// Longer ones count as this long: a day, in nanoseconds.
const LONGEST: u64 = 86_400_000_000_000;

/// Durations, in nanoseconds. Memory grows with how different they are, and not with how many.
#[derive(Clone, Debug, Default)]
pub struct Durations {
    /// `None` until the first.
    histogram: Option<Histogram<u64>>,
    count: u64,
    total: u64,
    longest: u64,
}

impl Durations {
    /// Adds one.
    pub fn add(&mut self, ns: u64) {
        if self.histogram.is_none() {
            self.histogram = Histogram::new(DIGITS).ok();
        }
        if let Some(histogram) = &mut self.histogram {
            // It grows as far as it has to.
            let _ = histogram.record(ns.min(LONGEST));
        }
        self.count += 1;
        self.total = self.total.saturating_add(ns);
        self.longest = self.longest.max(ns);
    }

    /// Adds those of another one.
    pub fn add_all(&mut self, other: &Self) {
        match (&mut self.histogram, &other.histogram) {
            // It grows as far as it has to.
            (Some(own), Some(others)) => drop(own.add(others)),
            (None, Some(others)) => self.histogram = Some(others.clone()),
            (_, None) => {}
        }
        self.count = self.count.saturating_add(other.count);
        self.total = self.total.saturating_add(other.total);
        self.longest = self.longest.max(other.longest);
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Their sum.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.total
    }

    /// The longest; 0 without any.
    #[must_use]
    pub fn longest(&self) -> u64 {
        self.longest
    }

    /// The mean; `None` without any.
    #[must_use]
    pub fn mean(&self) -> Option<u64> {
        self.total.checked_div(self.count)
    }

    /// How many there are in each range: its upper bound, a power of two, and how many are in it
    /// and in none before. From the first range that has some to the last.
    #[must_use]
    pub fn ranges(&self) -> Vec<(u64, u64)> {
        let Some(histogram) = &self.histogram else {
            return Vec::new();
        };
        let mut ranges: Vec<(u64, u64)> = Vec::new();
        for value in histogram.iter_recorded() {
            let end = value.value_iterated_to().max(1).next_power_of_two();
            let mut last = ranges.last().map_or(end / 2, |(last, _)| *last);
            while last < end {
                last = last.saturating_mul(2).max(1);
                ranges.push((last, 0));
            }
            if let Some((_, count)) = ranges.last_mut() {
                *count += value.count_since_last_iteration();
            }
        }
        ranges
    }

    /// The duration that this part of all, 0 to 1, do not exceed; `None` without any. At most a
    /// hundredth above the exact one.
    #[must_use]
    pub fn quantile(&self, part: f64) -> Option<u64> {
        let histogram = self.histogram.as_ref()?;
        Some(histogram.value_at_quantile(part).min(self.longest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_those_of_a_sorted_list_to_a_hundredth() {
        let mut durations = Durations::default();
        assert_eq!((durations.mean(), durations.quantile(0.5)), (None, None));
        let mut all: Vec<u64> = (1..=1000).map(|step: u64| step * step * 997).collect();
        for ns in all.iter().rev() {
            durations.add(*ns);
        }
        all.sort_unstable();
        for (part, index) in [(0.5, 499), (0.95, 949), (0.99, 989), (1.0, 999)] {
            let (exact, found) = (all[index], durations.quantile(part).unwrap());
            assert!(
                found >= exact && found - exact <= exact / 100,
                "{part}: {found} of {exact}"
            );
        }
        assert_eq!(durations.longest(), 997_000_000);
        assert_eq!(durations.mean(), Some(all.iter().sum::<u64>() / 1000));
    }

    #[test]
    fn those_of_two_are_those_of_all() {
        let (mut all, mut odd, mut even) = <(Durations, Durations, Durations)>::default();
        for ns in 1..2000_u64 {
            all.add(ns * ns);
            if ns % 2 == 0 { &mut even } else { &mut odd }.add(ns * ns);
        }
        let mut sum = Durations::default();
        for part in [&Durations::default(), &odd, &even] {
            sum.add_all(part);
        }
        assert_eq!(format!("{sum:?}"), format!("{all:?}"));
        assert_eq!(sum.quantile(0.99), all.quantile(0.99));
        assert_eq!((sum.mean(), sum.longest()), (all.mean(), all.longest()));
    }

    #[test]
    fn ranges_count_all_and_leave_none_out() {
        let mut durations = Durations::default();
        assert_eq!(durations.ranges(), []);
        for ns in [3, 4, 5, 6, 100, 1] {
            durations.add(ns);
        }
        let expected = [
            (1, 1),
            (2, 0),
            (4, 2),
            (8, 2),
            (16, 0),
            (32, 0),
            (64, 0),
            (128, 1),
        ];
        assert_eq!(durations.ranges(), expected);
    }

    #[test]
    fn nothing_is_too_short_or_too_long() {
        let mut durations = Durations::default();
        durations.add(0);
        durations.add(u64::MAX);
        assert_eq!((durations.count(), durations.longest()), (2, u64::MAX));
        assert_eq!(durations.quantile(0.0), Some(0));
    }
}
