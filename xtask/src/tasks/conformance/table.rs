//! Conformance table as a document.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::bail;

use super::clauses::{Clause, Clauses};
use super::markers::Test;

const HEAD: &str = "\
# Conformance

What IEEE 1003.1 asks of its tracing option, clause by clause in our words, and the tests that show that it is so. Made
by `cargo xtask conformance` from [`clauses.toml`](../tracer-posix/libposixtrace/conformance/clauses.toml) and the comments
`clause: ID` in the tests; do not edit. An id such as U14 names a [choice](#choices): the standard leaves the point
open or contradicts itself there.
";

/// Formats the document. A test that names an unknown clause is an error.
pub fn render(clauses: &Clauses, tests: &[Test]) -> anyhow::Result<String> {
    let mut shown: BTreeMap<&str, Vec<&Test>> = clauses
        .all()
        .map(|clause| (clause.id.as_str(), Vec::new()))
        .collect();
    for test in tests {
        for id in &test.clauses {
            match shown.get_mut(id.as_str()) {
                Some(tests) => tests.push(test),
                None => bail!(
                    "{}: {} names {id}, which is no clause",
                    test.file,
                    test.name
                ),
            }
        }
    }
    let with_test = shown.values().filter(|tests| !tests.is_empty()).count();
    let mut out = String::from(HEAD);
    writeln!(
        out,
        "\n{} clauses; {with_test} are shown by tests.",
        shown.len()
    )?;
    for section in &clauses.section {
        writeln!(out, "\n## {}\n", section.title)?;
        writeln!(
            out,
            "| clause | source | what it says | choice | shown by |"
        )?;
        writeln!(out, "| --- | --- | --- | --- | --- |")?;
        for clause in &section.clause {
            let tests = shown.get(clause.id.as_str()).map_or(&[][..], Vec::as_slice);
            row(&mut out, clause, tests)?;
        }
    }
    writeln!(out, "\n## Choices\n")?;
    for choice in &clauses.choice {
        writeln!(out, "- **{}**: {}", choice.id, escaped(&choice.says))?;
    }
    Ok(out)
}

fn row(out: &mut String, clause: &Clause, tests: &[&Test]) -> std::fmt::Result {
    let tests = match tests {
        [] => "**no test**".to_owned(),
        tests => tests
            .iter()
            .map(|test| format!("[{}](../{})", test.name.replace('_', " "), test.file))
            .collect::<Vec<_>>()
            .join("; "),
    };
    writeln!(
        out,
        "| `{}` | {} | {} | {} | {tests} |",
        clause.id,
        escaped(&clause.source),
        escaped(&clause.says),
        clause.choice.as_deref().unwrap_or("")
    )
}

/// Escapes text so that no character is taken as markup.
fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for c in text.chars() {
        if ['<', '>', '*', '_', '|'].contains(&c) {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLAUSES: &str = "[[section]]\ntitle = \"t\"\n[[section.clause]]\nid = \"a\"\nsource = \"<s>\"\n\
        says = \"x\"\n[[section.clause]]\nid = \"b\"\nsource = \"s\"\nsays = \"y\"\n\
        [[choice]]\nid = \"U1\"\nsays = \"y\"\n";

    fn test_of(clause: &str) -> Test {
        Test {
            name: "it_is_so".into(),
            file: "f.c".into(),
            clauses: vec![clause.into()],
        }
    }

    #[test]
    fn a_clause_has_its_tests_or_says_that_there_is_none() {
        let clauses = Clauses::parse(CLAUSES).unwrap();

        let table = render(&clauses, &[test_of("a")]).unwrap();

        assert!(table.contains("| `a` | \\<s\\> | x |  | [it is so](../f.c) |"));
        assert!(table.contains("| `b` | s | y |  | **no test** |"));
        assert!(table.contains("2 clauses; 1 are shown"));
    }

    #[test]
    fn a_test_that_names_an_unknown_clause_is_an_error() {
        let clauses = Clauses::parse(CLAUSES).unwrap();

        assert!(render(&clauses, &[test_of("c")]).is_err());
    }
}
