//! Sorting that takes little stack.
//!
//! The standard library's sort has buffers of 4 to 7 KiB on the stack, and this is called in
//! threads that have 16 KiB.

/// Number of items up to which they are sorted by insertion.
const SHORT: usize = 16;

/// Sorts by a key; items with equal keys stay in their order. Items that are in order already, or
/// consist of a few runs in order, take hardly any time, and a single run takes no memory.
pub fn by_key<T: Copy, K: Ord>(items: &mut [T], key: impl Fn(&T) -> K) {
    let mut ends = Vec::new();
    let mut start = 0;
    while start < items.len() {
        let run = run_at(items, start, &key);
        // As a rule there is only this run.
        if start == 0 && run == items.len() {
            return;
        }
        let end = items.len().min(run.max(start + SHORT));
        if let Some(short) = items.get_mut(start..end) {
            insert_from(short, run - start, &key);
        }
        ends.push(end);
        start = end;
    }
    let mut merged = Vec::new();
    while ends.len() > 1 {
        let mut from = 0;
        let mut count = 0;
        for pair in 0..ends.len().div_ceil(2) {
            let middle = ends.get(2 * pair).copied().unwrap_or(from);
            let end = ends.get(2 * pair + 1).copied().unwrap_or(middle);
            if let Some(both) = items.get_mut(from..end) {
                merge_within(both, middle - from, &key, &mut merged);
            }
            if let Some(merged_end) = ends.get_mut(count) {
                *merged_end = end;
            }
            count += 1;
            from = end;
        }
        ends.truncate(count);
    }
}

/// Merges the items before `middle` with those from there on. Items that are in order already stay
/// where they are: where a short run follows a long one, that is nearly all.
fn merge_within<T: Copy, K: Ord>(
    items: &mut [T],
    middle: usize,
    key: impl Fn(&T) -> K,
    merged: &mut Vec<T>,
) {
    let (left, right) = items.split_at(middle.min(items.len()));
    let (Some(last), Some(first)) = (left.last(), right.first()) else {
        return;
    };
    let start = left.partition_point(|item| key(item) <= key(first));
    let end = right.partition_point(|item| key(item) < key(last));
    merged.clear();
    let left = left.get(start..).unwrap_or_default();
    merge(left, right.get(..end).unwrap_or_default(), &key, merged);
    if let Some(both) = items.get_mut(start..start + merged.len()) {
        both.copy_from_slice(merged);
    }
}

/// Returns where the run that begins at `start` ends.
fn run_at<T, K: Ord>(items: &[T], start: usize, key: impl Fn(&T) -> K) -> usize {
    let rest = items.get(start..).unwrap_or_default();
    let pairs = rest.windows(2);
    let in_order = pairs.take_while(|pair| match pair {
        [one, next] => key(one) <= key(next),
        _ => false,
    });
    start + in_order.count() + 1
}

/// Puts the items from index `sorted` on where they belong; those before it are in order.
fn insert_from<T: Copy, K: Ord>(items: &mut [T], sorted: usize, key: impl Fn(&T) -> K) {
    for index in sorted..items.len() {
        let Some((item, before)) = items.get_mut(..=index).and_then(<[T]>::split_last_mut) else {
            return;
        };
        let index_there = before.partition_point(|other| key(other) <= key(item));
        if let Some(moved) = items.get_mut(index_there..=index) {
            moved.rotate_right(1);
        }
    }
}

/// Appends both in order; of equal items, those on the left come first.
fn merge<T: Copy, K: Ord>(
    mut left: &[T],
    mut right: &[T],
    key: impl Fn(&T) -> K,
    merged: &mut Vec<T>,
) {
    while let (Some(one), Some(other)) = (left.first(), right.first()) {
        // Takes all that come before the other side's next item: threads emit in turns.
        let (first, next) = (key(one), key(other));
        if first <= next {
            let (now, rest) = left.split_at(leading(left, |item| key(item) <= next));
            merged.extend_from_slice(now);
            left = rest;
        } else {
            let (now, rest) = right.split_at(leading(right, |item| key(item) < first));
            merged.extend_from_slice(now);
            right = rest;
        }
    }
    merged.extend_from_slice(left);
    merged.extend_from_slice(right);
}

fn leading<T>(items: &[T], belongs: impl Fn(&T) -> bool) -> usize {
    items.iter().take_while(|item| belongs(item)).count()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_what_the_standard_library_makes(
            runs in prop::collection::vec(prop::collection::vec(0_u8..20, 0..60), 0..9),
            are_runs in any::<bool>(),
        ) {
            let mut items = Vec::new();
            for mut run in runs {
                if are_runs {
                    run.sort_unstable();
                }
                items.extend(run);
            }
            let mut items: Vec<(u8, usize)> = items.into_iter().zip(0..).collect();
            let mut expected = items.clone();
            expected.sort_by_key(|(key, _)| *key);
            by_key(&mut items, |(key, _)| *key);
            prop_assert_eq!(items, expected);
        }
    }
}
