//! The known word that a mistyped one may mean.

/// How alike two words must be (Jaro and Winkler's measure, at most 1): a letter too many, too few
/// or at the wrong position in a word of four.
const ALIKE: f64 = 0.86;

/// Finds the word of `known` that is most like `typed`; `None` where none is much like it.
pub fn suggest<'a>(typed: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let rated = known
        .into_iter()
        .map(|word| (strsim::jaro_winkler(typed, word), word));
    rated
        .filter(|(alike, _)| *alike >= ALIKE)
        .max_by(|(one, _), (other, _)| one.total_cmp(other))
        .map(|(_, word)| word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_recognised_and_another_word_is_not() {
        let known = ["fork", "exec", "switch-in", "switch-out", "openat"];
        for (typed, meant) in [
            ("forkk", Some("fork")),
            ("frok", Some("fork")),
            ("switchin", Some("switch-in")),
            ("opneat", Some("openat")),
            ("no-such-event", None),
            ("file", None),
            ("", None),
        ] {
            assert_eq!(suggest(typed, known), meant, "{typed}");
        }
    }
}
