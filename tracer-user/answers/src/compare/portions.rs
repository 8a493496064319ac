//! Durations in the order in which they ended, as the means of equal portions.
//!
//! Durations that follow each other are alike: for some time the machine is busy, or a cache is
//! cold. So one by one they say less than their number makes believe; the means of portions, each
//! of many, say about as much as they seem to.

/// Portions beyond which two neighbours become one.
const MOST: usize = 64;

/// Means of equal portions, in memory that does not grow with the durations.
#[derive(Clone, Debug)]
pub struct Portions {
    /// Durations in each portion.
    size: u64,
    /// Sums of those that are full, in nanoseconds.
    full: Vec<u64>,
    /// Sum of the next one, and how many durations it has.
    open: (u64, u64),
}

impl Default for Portions {
    fn default() -> Self {
        Self {
            size: 1,
            full: Vec::new(),
            open: (0, 0),
        }
    }
}

impl Portions {
    /// Adds the duration that ended next, in nanoseconds.
    pub fn add(&mut self, ns: u64) {
        let (sum, count) = &mut self.open;
        *sum = sum.saturating_add(ns);
        *count += 1;
        if *count < self.size {
            return;
        }
        self.full.push(*sum);
        self.open = (0, 0);
        if self.full.len() == MOST {
            let pairs = self.full.chunks(2);
            self.full = pairs
                .map(|pair| {
                    pair.iter()
                        .fold(0, |all: u64, sum| all.saturating_add(*sum))
                })
                .collect();
            self.size *= 2;
        }
    }

    /// Returns the mean of each full portion, in nanoseconds.
    #[expect(
        clippy::cast_precision_loss,
        reason = "a mean needs no more digits than these have"
    )]
    pub fn means(&self) -> Vec<f64> {
        let size = self.size as f64;
        self.full.iter().map(|sum| *sum as f64 / size).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn portions_grow_and_their_means_are_those_of_all() {
        let mut portions = Portions::default();
        for ns in 0..1000 {
            portions.add(ns);
        }
        let means = portions.means();
        assert!((MOST / 2..MOST).contains(&means.len()), "{}", means.len());
        // Of sixteen: 0 to 15, and so on.
        assert_eq!(means[..3], [7.5, 23.5, 39.5]);
        portions.add(u64::MAX);
        portions.add(u64::MAX);
    }
}
