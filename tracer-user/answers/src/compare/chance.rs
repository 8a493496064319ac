//! How often chance alone makes a difference: a permutation test.
//!
//! If both sides were the same, each sample could as well have been one of the other side. So the
//! samples are dealt out anew, over and over, and it is counted how often the means then differ at
//! least as much as they do. Few samples are dealt out in every way, many in some thousand ways
//! that are the same each time.

/// Ways of dealing that are tried where there are more.
const MOST_WAYS: u32 = 10_000;

/// Ways with a difference that is as large, after which no more are tried: it is chance by then,
/// and a log may have thousands of names to compare.
const ENOUGH: u32 = 200;

/// Samples of both sides together that are dealt out in every way.
const EVERY_WAY: usize = 12;

/// Returns the probability that the means of two sides differ by chance alone at least as much as
/// they do; `None` where there are too few samples to tell: less than two of either.
pub fn probability(a: &[f64], b: &[f64]) -> Option<f64> {
    if a.len() < 2 || b.len() < 2 {
        return None;
    }
    let all: Vec<f64> = a.iter().chain(b).copied().collect();
    let observed = difference(&all, |index| index < a.len());
    // A difference that is the same but for rounding counts as that.
    let is_as_large = |other: f64| other >= observed * (1.0 - 1e-9);
    let (ways, as_large) = if all.len() <= EVERY_WAY {
        every_way(&all, a.len(), is_as_large)
    } else {
        some_ways(&all, a.len(), is_as_large)
    };
    Some(f64::from(as_large) / f64::from(ways.max(1)))
}

/// Returns by how much the mean of those that are chosen differs from that of the others.
fn difference(all: &[f64], is_chosen: impl Fn(usize) -> bool) -> f64 {
    let (mut chosen, mut others) = ((0.0, 0_u32), (0.0, 0_u32));
    for (index, value) in all.iter().enumerate() {
        let (sum, count) = if is_chosen(index) {
            &mut chosen
        } else {
            &mut others
        };
        *sum += value;
        *count += 1;
    }
    let mean = |(sum, count): (f64, u32)| sum / f64::from(count.max(1));
    (mean(chosen) - mean(others)).abs()
}

/// Counts all ways of choosing so many, and those in which the difference is as large.
fn every_way(all: &[f64], chosen: usize, is_as_large: impl Fn(f64) -> bool) -> (u32, u32) {
    let (mut ways, mut as_large) = (0, 0);
    for way in 0..1_u32 << all.len() {
        if way.count_ones() as usize == chosen {
            ways += 1;
            as_large += u32::from(is_as_large(difference(all, |index| way >> index & 1 == 1)));
        }
    }
    (ways, as_large)
}

/// Counts as [`every_way`] does, of ways that are drawn; the one that was observed is one of them.
fn some_ways(all: &[f64], chosen: usize, is_as_large: impl Fn(f64) -> bool) -> (u32, u32) {
    let mut numbers = Numbers(0);
    let mut dealt = all.to_vec();
    let (mut ways, mut as_large) = (1, 1);
    while ways < MOST_WAYS && as_large < ENOUGH {
        for last in (1..dealt.len()).rev() {
            dealt.swap(last, numbers.below(last + 1));
        }
        ways += 1;
        as_large += u32::from(is_as_large(difference(&dealt, |index| index < chosen)));
    }
    (ways, as_large)
}

/// Numbers as if by chance, the same each time: the generator SplitMix64.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// Returns a number below `end`.
    fn below(&mut self, end: usize) -> usize {
        let wide = u128::from(self.next()) * end as u128;
        usize::try_from(wide >> 64).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_runs_that_are_all_slower_are_as_rare_as_one_way_in_ten() {
        let p = probability(&[1.0, 2.0, 3.0], &[11.0, 12.0, 13.0]).unwrap();
        // Two of twenty ways: all on this side, or all on the other.
        assert!((p - 0.1).abs() < 1e-9, "{p}");
        assert_eq!(probability(&[1.0], &[9.0, 9.0]), None);
        assert_eq!(probability(&[5.0; 4], &[5.0; 4]), Some(1.0));
    }

    #[test]
    fn what_differs_clearly_is_no_chance_and_what_does_not_may_be() {
        let mut numbers = Numbers(7);
        let mut drawn = |shift: f64| -> Vec<f64> {
            (0..32)
                .map(|_| f64::from(u32::try_from(numbers.next() >> 40).unwrap()) + shift)
                .collect()
        };
        let (a, b, slower) = (drawn(0.0), drawn(0.0), drawn(1e7));
        assert!(probability(&a, &slower).unwrap() < 0.001);
        assert!(probability(&a, &b).unwrap() > 0.01);
        assert_eq!(probability(&a, &b), probability(&a, &b));
    }

    #[test]
    fn of_sides_that_are_the_same_few_seem_to_differ() {
        let mut numbers = Numbers(9);
        let mut alarms = 0;
        for _ in 0..60 {
            let mut side = || -> Vec<f64> {
                (0..16)
                    .map(|_| f64::from(u32::try_from(numbers.next() >> 44).unwrap()))
                    .collect()
            };
            let (a, b) = (side(), side());
            alarms += u32::from(probability(&a, &b).unwrap() <= 0.05);
        }
        // Three are expected.
        assert!(alarms <= 8, "{alarms}");
    }
}
