//! Arithmetic of repeated measurements. Pure.

use serde::{Deserialize, Serialize};

/// Least, median and greatest of several runs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// The least.
    pub min: f64,
    /// The median; of an even count, the mean of the two in the middle.
    pub median: f64,
    /// The greatest.
    pub max: f64,
}

impl Spread {
    /// Computes the spread of the finite values; `None` when there are none.
    pub fn compute(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut sorted: Vec<f64> = values
            .into_iter()
            .filter(|value| value.is_finite())
            .collect();
        sorted.sort_by(f64::total_cmp);
        let middle = sorted.len() / 2;
        let upper = *sorted.get(middle)?;
        let median = if sorted.len().is_multiple_of(2) {
            f64::midpoint(*sorted.get(middle.checked_sub(1)?)?, upper)
        } else {
            upper
        };
        Some(Self {
            min: *sorted.first()?,
            median,
            max: *sorted.last()?,
        })
    }
}

/// Computes the ratios of two contestants, round by round. Rounds whose divisor is not above zero
/// (a cost below the noise) give none.
pub fn ratios(ours: &[f64], theirs: &[f64]) -> Vec<f64> {
    ours.iter()
        .zip(theirs)
        .filter(|(_, theirs)| **theirs > 0.0)
        .map(|(ours, theirs)| ours / theirs)
        .collect()
}

/// Computes the exponent *e* of `y = c · x^e` that fits best: the slope of the straight line
/// through the logarithms, by least squares. `None` for fewer than two different sizes.
pub fn exponent(points: &[(f64, f64)]) -> Option<f64> {
    let logs: Vec<(f64, f64)> = points
        .iter()
        .filter(|(x, y)| *x > 0.0 && *y > 0.0)
        .map(|(x, y)| (x.ln(), y.ln()))
        .collect();
    let count = f64::from(u32::try_from(logs.len()).ok()?);
    let mean_x = logs.iter().map(|(x, _)| x).sum::<f64>() / count;
    let mean_y = logs.iter().map(|(_, y)| y).sum::<f64>() / count;
    let over: f64 = logs.iter().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum();
    let under: f64 = logs.iter().map(|(x, _)| (x - mean_x).powi(2)).sum();
    (under > 0.0).then(|| over / under)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_of_an_even_count_lies_between_the_two() {
        let odd = Spread::compute([3.0, 1.0, 2.0]).unwrap();
        let even = Spread::compute([4.0, 1.0, 2.0, 3.0]).unwrap();

        assert_eq!((odd.min, odd.median, odd.max), (1.0, 2.0, 3.0));
        assert_eq!(even.median, 2.5);
        assert_eq!(Spread::compute([]), None);
        assert_eq!(Spread::compute([f64::NAN]), None);
    }

    #[test]
    fn a_cost_below_the_noise_gives_no_ratio() {
        assert_eq!(ratios(&[1.0, 2.0, 3.0], &[2.0, -1.0, 0.0]), [0.5]);
    }

    #[test]
    fn the_exponent_of_a_power_is_found_whatever_its_factor() {
        let square: Vec<_> = (1..9)
            .map(|x| (f64::from(x), 7.0 * f64::from(x * x)))
            .collect();
        let level: Vec<_> = (1..9).map(|x| (f64::from(x), 7.0)).collect();

        assert!((exponent(&square).unwrap() - 2.0).abs() < 1e-9);
        assert!(exponent(&level).unwrap().abs() < 1e-9);
        assert_eq!(exponent(&[(1.0, 1.0)]), None);
    }
}
