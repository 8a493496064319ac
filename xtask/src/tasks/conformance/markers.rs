//! Marks in tests that name clauses: a comment "clause: ID ..." before a test.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, bail, ensure};

/// Test that shows clauses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Test {
    /// Its name.
    pub name: String,
    /// Its file, from the top folder.
    pub file: String,
    /// Identifiers of the clauses that it shows.
    pub clauses: Vec<String>,
}

/// Folders of tests, from the top folder.
const FOLDERS: [&str; 11] = [
    "tests/programs/standard",
    "tests/tests",
    "tracer-posix/src",
    "tracer-posix/area/src",
    "tracer-posix/engine/src",
    "tracer-posix/libposixtrace/src",
    "tracer-posix/libposixtrace/tests",
    "tracer-posix/log/src",
    "tracer-posix/log/tests",
    "tracer-posix/tests",
    "tracer-user/tests",
];

/// Finds all marked tests, in order of file and line.
pub fn find(root: &Path) -> anyhow::Result<Vec<Test>> {
    let mut tests = Vec::new();
    for folder in FOLDERS {
        for file in files(&root.join(folder))? {
            let path = root.join(folder).join(&file);
            let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
            tests.extend(scan(&format!("{folder}/{file}"), &text)?);
        }
    }
    Ok(tests)
}

/// Finds the C and Rust sources below a folder, as paths from it.
fn files(folder: &Path) -> anyhow::Result<Vec<String>> {
    let mut files = Vec::new();
    let entries = fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if entry.file_type()?.is_dir() {
            let inner = self::files(&entry.path())?;
            files.extend(inner.into_iter().map(|file| format!("{name}/{file}")));
        } else if name.ends_with(".c") || name.ends_with(".rs") {
            files.push(name);
        }
    }
    files.sort();
    Ok(files)
}

/// Finds the marked tests of one file.
fn scan(file: &str, text: &str) -> anyhow::Result<Vec<Test>> {
    let mut tests = Vec::new();
    let mut pending: Vec<String> = Vec::new();
    for (line, line_number) in text.lines().zip(1..) {
        if let Some(marked) = mark(line) {
            pending.extend(marked.split_whitespace().map(str::to_owned));
        } else if let Some(name) = test(line) {
            if !pending.is_empty() {
                tests.push(Test {
                    name: name.to_owned(),
                    file: file.to_owned(),
                    clauses: std::mem::take(&mut pending),
                });
            }
        } else if line.trim() == "}" && !pending.is_empty() {
            bail!("{file}:{line_number}: clauses are named, and no test follows");
        }
    }
    ensure!(
        pending.is_empty(),
        "{file}: the last clauses named are without a test"
    );
    Ok(tests)
}

/// Returns the identifiers that a comment names.
fn mark(line: &str) -> Option<&str> {
    let line = line.trim();
    if let Some(rest) = line.strip_prefix("// clause: ") {
        return Some(rest);
    }
    line.strip_prefix("/* clause: ")?.strip_suffix("*/")
}

/// Returns the name of the test that begins in this line.
fn test(line: &str) -> Option<&str> {
    let line = line.trim();
    if let Some(rest) = line.strip_prefix("CASE(") {
        return rest.strip_suffix(')');
    }
    line.strip_prefix("fn ")?.split('(').next()
}

#[cfg(test)]
mod tests {
    use super::{Test, scan};

    #[test]
    fn marks_belong_to_the_test_that_follows() {
        let text = "/* clause: a b */\nCASE(one)\n{\n}\nCASE(two)\n{\n}\n";
        let one = Test {
            name: "one".into(),
            file: "f.c".into(),
            clauses: vec!["a".into(), "b".into()],
        };
        assert_eq!(scan("f.c", text).unwrap(), [one]);

        let text = "    // clause: c\n    #[test]\n    fn three() {\n    }\n";
        assert_eq!(scan("f.rs", text).unwrap()[0].name, "three");
    }

    #[test]
    fn marks_without_a_test_are_an_error() {
        assert!(scan("f.c", "/* clause: a */\n}\n").is_err());
        assert!(scan("f.c", "/* clause: a */\n").is_err());
    }
}
