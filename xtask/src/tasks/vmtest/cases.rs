//! Tests that run, and their order.

use std::fmt;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, ensure};

use crate::workspace;

/// Test: its executable, as the guest names it, and its name there.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Case {
    /// Name of the executable.
    pub file: String,
    /// Name of the test.
    pub test: String,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.file, self.test)
    }
}

impl Case {
    /// Parses a test from the form in which it is displayed.
    pub fn parse(line: &str) -> Option<Self> {
        let (file, test) = line.trim().split_once(' ')?;
        let (file, test) = (file.to_owned(), test.to_owned());
        (!test.contains(' ')).then_some(Self { file, test })
    }
}

/// Formats a line for each test.
pub fn listed(cases: &[Case]) -> String {
    cases.iter().map(|case| format!("{case}\n")).collect()
}

/// Reads the tests that were built last.
pub fn read_last_build() -> anyhow::Result<Vec<Case>> {
    let path = workspace::target(LAST);
    let text = fs::read_to_string(&path)
        .with_context(|| format!("{}: nothing is built yet", path.display()))?;
    Ok(text.lines().filter_map(Case::parse).collect())
}

/// Writes down the tests that were built.
pub fn note_build(cases: &[Case]) -> anyhow::Result<()> {
    fs::write(workspace::target(LAST), listed(cases)).context(LAST)
}

const LAST: &str = "vm/cases";

/// Test after which a machine lets no process trace another (Yama's scope 3, which stays): it runs
/// last. `tests.sh` lets it.
const FOR_GOOD: &str = "the_service_gives_what_ptrace_allows_but_for_what_its_rule_withholds";

/// Returns the tests whose name contains `filter`, and of them those that `list` names, in its
/// order.
pub fn chosen(
    cases: &[Case],
    filter: Option<&str>,
    list: Option<&Path>,
) -> anyhow::Result<Vec<Case>> {
    let filter = filter.unwrap_or_default();
    let mut chosen: Vec<_> = cases
        .iter()
        .filter(|case| case.to_string().contains(filter))
        .cloned()
        .collect();
    if let Some(list) = list {
        let text = fs::read_to_string(list).with_context(|| list.display().to_string())?;
        chosen = in_order(&chosen, &text)?;
    }
    ensure!(
        !chosen.is_empty(),
        "no test that loads eBPF is called {filter}"
    );
    chosen.sort_by_key(|case| case.test.ends_with(FOR_GOOD));
    Ok(chosen)
}

/// Returns the tests that the lines of `text` name: a test, or its executable and it.
fn in_order(cases: &[Case], text: &str) -> anyhow::Result<Vec<Case>> {
    let lines = text.lines().map(str::trim);
    let mut chosen: Vec<Case> = Vec::new();
    for line in lines.filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let named: Vec<_> = cases
            .iter()
            .filter(|case| case.test == line || case.to_string() == line)
            .collect();
        ensure!(
            !named.is_empty(),
            "no test that runs there is called {line}"
        );
        for case in named {
            if !chosen.contains(case) {
                chosen.push(case.clone());
            }
        }
    }
    Ok(chosen)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(line: &str) -> Case {
        Case::parse(line).unwrap()
    }

    #[test]
    fn a_case_is_read_as_it_is_written() {
        let case = case("tests.order a::b");
        assert_eq!(Case::parse(&case.to_string()), Some(case));
        assert_eq!(Case::parse("tests.order"), None);
        assert_eq!(Case::parse("tests.order a b"), None);
    }

    #[test]
    fn what_stays_for_good_is_done_last() {
        let (last, another) = (format!("x a::{FOR_GOOD}"), "x b".to_owned());
        let cases = [case(&last), case(&another)];
        let chosen = chosen(&cases, None, None).unwrap();
        assert_eq!(chosen, [case(&another), case(&last)]);
    }

    #[test]
    fn a_list_chooses_and_orders_and_may_not_name_what_is_not_there() {
        let cases = [case("x a"), case("x b"), case("y a"), case("y c")];
        let chosen = in_order(&cases, "# short ones\ny c\na\n\n").unwrap();
        assert_eq!(listed(&chosen), "y c\nx a\ny a\n");
        assert!(in_order(&cases, "d\n").is_err());
    }
}
