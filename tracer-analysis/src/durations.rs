//! Many durations, of which percentiles are asked.

use hdrhistogram::Histogram;

/// Digits of a duration that count: percentiles are exact to a hundredth.
const DIGITS: u8 = 2;

/// Longer ones count as this long: a day, in nanoseconds.
const LONGEST: u64 = 86_400_000_000_000;

/// Durations that are held one by one before they become a histogram, which takes 2 to 20 KB.
const MOST_SINGLE: usize = 48;

/// Parts of all that are asked of one of many.
const ASKED: [f64; 3] = [0.5, 0.95, 0.99];

/// The durations, as far as they are held.
#[derive(Clone, Debug)]
enum Held {
    /// All of them.
    Single(Vec<u64>),
    /// How many there are of each length.
    Histogram(Box<Histogram<u64>>),
    /// The percentiles that are asked for.
    Percentiles(Box<[u64; ASKED.len()]>),
    /// Nothing any more.
    Nothing,
}

/// Durations, in nanoseconds. Memory grows with how different they are, and not with how many.
#[derive(Clone, Debug)]
pub struct Durations {
    held: Held,
    count: u64,
    total: u64,
    longest: u64,
}

impl Default for Durations {
    fn default() -> Self {
        Self {
            held: Held::Single(Vec::new()),
            count: 0,
            total: 0,
            longest: 0,
        }
    }
}

impl Durations {
    /// Adds one.
    pub fn add(&mut self, ns: u64) {
        let short = ns.min(LONGEST);
        match &mut self.held {
            Held::Single(all) if all.len() < MOST_SINGLE => all.push(short),
            Held::Single(all) => {
                let of_all = all.iter().copied().chain([short]);
                let histogram = histogram_of(of_all).map(Box::new);
                self.held = histogram.map_or(Held::Nothing, Held::Histogram);
            }
            Held::Histogram(histogram) => {
                // It grows as far as it has to.
                let _ = histogram.record(short);
            }
            // Their lengths are not known any more.
            Held::Percentiles(_) => self.held = Held::Nothing,
            Held::Nothing => {}
        }
        self.count += 1;
        self.total = self.total.saturating_add(ns);
        self.longest = self.longest.max(ns);
    }

    /// Adds those of another one. Where either has only percentiles left, those of all are not
    /// known.
    pub fn add_all(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        self.held = if self.count == 0 {
            other.held.clone()
        } else {
            let together = self.histogram().zip(other.histogram());
            let together = together.and_then(|(mut all, others)| {
                all.add(&others).ok()?;
                Some(Box::new(all))
            });
            together.map_or(Held::Nothing, Held::Histogram)
        };
        self.count = self.count.saturating_add(other.count);
        self.total = self.total.saturating_add(other.total);
        self.longest = self.longest.max(other.longest);
    }

    /// Returns all durations, where they are still held.
    fn histogram(&self) -> Option<Histogram<u64>> {
        match &self.held {
            Held::Single(all) => histogram_of(all.iter().copied()),
            Held::Histogram(histogram) => Some((**histogram).clone()),
            Held::Percentiles(_) | Held::Nothing => None,
        }
    }

    /// Notes that no more will come: of many, only the median and the 95th and 99th percentiles are
    /// held, in little memory.
    pub fn seal(&mut self) {
        match &mut self.held {
            Held::Single(all) => all.shrink_to_fit(),
            Held::Histogram(histogram) => {
                let percentiles = ASKED.map(|part| histogram.value_at_quantile(part));
                self.held = Held::Percentiles(Box::new(percentiles));
            }
            Held::Percentiles(_) | Held::Nothing => {}
        }
    }

    /// Returns how many durations there are.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns their sum.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Returns the longest; 0 without any.
    #[must_use]
    pub fn longest(&self) -> u64 {
        self.longest
    }

    /// Returns the mean; `None` without any.
    #[must_use]
    pub fn mean(&self) -> Option<u64> {
        self.total.checked_div(self.count)
    }

    /// Returns how many there are in each range: its upper bound, a power of two, and how many are
    /// in it and in none before. From the first range that has some to the last. Of those that were
    /// [sealed](Self::seal) nothing is known.
    #[must_use]
    pub fn ranges(&self) -> Vec<(u64, u64)> {
        let few;
        let histogram = match &self.held {
            Held::Single(all) => {
                few = histogram_of(all.iter().copied());
                few.as_ref()
            }
            Held::Histogram(histogram) => Some(&**histogram),
            Held::Percentiles(_) | Held::Nothing => None,
        };
        let Some(histogram) = histogram else {
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

    /// Returns the duration that this part of all, 0 to 1, do not exceed; `None` without any, and
    /// where it is not held any more. At most a hundredth above the exact one.
    #[must_use]
    pub fn quantile(&self, part: f64) -> Option<u64> {
        let quantile = match &self.held {
            Held::Single(all) if all.is_empty() => None,
            Held::Single(all) => {
                histogram_of(all.iter().copied()).map(|all| all.value_at_quantile(part))
            }
            Held::Histogram(histogram) => Some(histogram.value_at_quantile(part)),
            Held::Percentiles(percentiles) => {
                let asked = ASKED.iter().zip(percentiles.iter());
                let mut asked = asked.filter(|(of, _)| (**of - part).abs() < f64::EPSILON);
                asked.next().map(|(_, ns)| *ns)
            }
            Held::Nothing => None,
        };
        quantile.map(|ns| ns.min(self.longest))
    }
}

fn histogram_of(all: impl Iterator<Item = u64>) -> Option<Histogram<u64>> {
    let mut histogram = Histogram::new(DIGITS).ok()?;
    for ns in all {
        let _ = histogram.record(ns);
    }
    Some(histogram)
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
    fn what_is_sealed_has_its_percentiles_and_takes_little() {
        let mut few = Durations::default();
        let mut many = Durations::default();
        for ns in 1..=1000 {
            many.add(ns * 1000);
            if ns % 100 == 0 {
                few.add(ns * 1000);
            }
        }
        for durations in [&mut few, &mut many] {
            let before = ASKED.map(|part| durations.quantile(part));
            durations.seal();
            assert_eq!(ASKED.map(|part| durations.quantile(part)), before);
        }
        assert!(matches!(many.held, Held::Percentiles(_)) && size_of_val(&many) <= 64);
        // One that comes later is counted, and nothing is claimed of the rest.
        many.add(7);
        assert_eq!((many.count(), many.longest()), (1001, 1_000_000));
        assert_eq!(many.quantile(0.5), None);
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
