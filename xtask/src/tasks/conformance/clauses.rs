//! List of clauses.

use std::collections::BTreeSet;

use anyhow::ensure;
use serde::Deserialize;

/// Whole list.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Clauses {
    /// Clauses by subject.
    pub section: Vec<Section>,
    /// Choices made where the standard leaves one.
    pub choice: Vec<Choice>,
}

/// Clauses about one subject.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Section {
    /// Subject.
    pub title: String,
    /// Clauses.
    pub clause: Vec<Clause>,
}

/// Requirement of the standard.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Clause {
    /// Identifier that tests use.
    pub id: String,
    /// Place in the standard.
    pub source: String,
    /// Requirement in one sentence.
    pub says: String,
    /// Identifiers of the choices that it rests on.
    pub choice: Option<String>,
}

/// Choice.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Choice {
    /// Identifier that clauses use.
    pub id: String,
    /// Choice in one sentence.
    pub says: String,
}

impl Clauses {
    /// Parses the list; identifiers have to be unique, and the named choices to exist.
    pub fn parse(text: &str) -> anyhow::Result<Self> {
        let clauses: Self = toml::from_str(text)?;
        let choices: BTreeSet<&str> = clauses
            .choice
            .iter()
            .map(|choice| choice.id.as_str())
            .collect();
        let mut ids = BTreeSet::new();
        for clause in clauses.all() {
            ensure!(ids.insert(&clause.id), "{} is there twice", clause.id);
            for choice in clause.choice.iter().flat_map(|choice| choice.split(", ")) {
                ensure!(
                    choices.contains(choice),
                    "{} rests on {choice}, which is no choice",
                    clause.id
                );
            }
        }
        Ok(clauses)
    }

    /// Iterates over all clauses.
    pub fn all(&self) -> impl Iterator<Item = &Clause> {
        self.section.iter().flat_map(|section| &section.clause)
    }
}

#[cfg(test)]
mod tests {
    use super::Clauses;

    const ONE: &str = "[[section]]\ntitle = \"t\"\n[[section.clause]]\nid = \"a\"\nsource = \"s\"\nsays = \"x\"\n";
    const CHOICE: &str = "[[choice]]\nid = \"U1\"\nsays = \"y\"\n";

    #[test]
    fn a_clause_that_is_there_twice_is_an_error() {
        assert!(Clauses::parse(&format!("{ONE}{CHOICE}")).is_ok());
        let error = Clauses::parse(&format!("{ONE}{ONE}{CHOICE}")).unwrap_err();
        assert!(error.to_string().contains("twice"), "{error}");
    }

    #[test]
    fn a_clause_rests_on_choices_that_are_there() {
        let with = format!("{ONE}choice = \"U1, U2\"\n{CHOICE}");
        let error = Clauses::parse(&with).unwrap_err();
        assert!(error.to_string().contains("U2"), "{error}");
    }
}
