//! Construction of candidates.

use clap_complete::CompletionCandidate;

/// Creates a candidate from a value and its description.
pub fn candidate(value: impl Into<String>, help: impl Into<String>) -> CompletionCandidate {
    let help: String = help.into();
    CompletionCandidate::new(value.into()).help((!help.is_empty()).then(|| help.into()))
}

/// Returns the candidates that begin with the typed text.
pub fn that_begin_with(
    typed: &str,
    all: impl IntoIterator<Item = (String, String)>,
) -> Vec<CompletionCandidate> {
    let fitting = all
        .into_iter()
        .filter(|(value, _)| value.starts_with(typed));
    fitting
        .map(|(value, help)| candidate(value, help))
        .collect()
}

/// Does the same as [`that_begin_with`] for the last word of a list with commas: the text before
/// that word stays. Such words may have `!` before them.
pub fn in_list(
    typed: &str,
    all: impl IntoIterator<Item = (String, String)>,
) -> Vec<CompletionCandidate> {
    let begins = typed.rfind(',').map_or(0, |comma| comma + 1);
    let (before, word) = typed.split_at(begins);
    let bare = word.trim_start_matches('!');
    let before = typed.strip_suffix(bare).unwrap_or(before);
    let found = that_begin_with(bare, all).into_iter();
    found.map(|found| found.add_prefix(before)).collect()
}
