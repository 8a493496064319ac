//! Examples in comments: a crate that has none does not have them looked for (`doctest = false`),
//! which takes as long as expanding all of it once more. So it must have none.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, ensure};

use crate::{process, workspace};

/// Fails on each example in a comment of a crate that says it has none.
pub fn check() -> anyhow::Result<()> {
    let mut wrong = Vec::new();
    let manifests = process::output(workspace::git("ls-files").arg("*Cargo.toml"))?;
    for manifest in manifests.lines() {
        if !is_without(&read(manifest)?)? {
            continue;
        }
        let sources = Path::new(manifest).with_file_name("src");
        let files = process::output(workspace::git("ls-files").arg(sources))?;
        for file in files.lines().filter(|file| file.ends_with(".rs")) {
            let lines = examples(&read(file)?);
            wrong.extend(lines.iter().map(|line| format!("{file}:{line}")));
        }
    }
    ensure!(
        wrong.is_empty(),
        "examples that are never compiled (take `doctest = false` out of the crate's Cargo.toml, or say what they are in: \
         ```text):\n{}",
        wrong.join("\n")
    );
    Ok(())
}

fn read(file: &str) -> anyhow::Result<String> {
    fs::read_to_string(workspace::root().join(file)).with_context(|| file.to_owned())
}

/// Tells whether a manifest says that its library has no examples.
fn is_without(manifest: &str) -> anyhow::Result<bool> {
    let manifest: toml::Table = manifest.parse()?;
    let doctest = manifest.get("lib").and_then(|lib| lib.get("doctest"));
    Ok(doctest.and_then(toml::Value::as_bool) == Some(false))
}

/// Finds the lines where an example begins: a block of code in no other language.
fn examples(text: &str) -> Vec<usize> {
    /// Words by which the compiler's tool takes a block for an example.
    const OF_RUST: [&str; 6] = [
        "",
        "rust",
        "should_panic",
        "no_run",
        "compile_fail",
        "ignore",
    ];
    let mut is_code = false;
    let mut found = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim_start();
        let comment = line.strip_prefix("///").or(line.strip_prefix("//!"));
        let Some(language) = comment.and_then(|prose| prose.trim().strip_prefix("```")) else {
            continue;
        };
        is_code = !is_code;
        let first = language.split([',', ' ']).next().unwrap_or("");
        if is_code && OF_RUST.contains(&first) {
            found.push(index + 1);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_an_example_unless_it_is_in_another_language() {
        let text = "/// ```text\n/// a\n/// ```\n//! ```\n//! f();\n//! ```\n    /// ```no_run\n    /// ```\n";
        assert_eq!(examples(text), [4, 7]);
        assert!(examples("// ```\n\"/// ```\"\n").is_empty());
    }

    #[test]
    fn only_a_library_that_says_so_is_without_examples() {
        let says = |text| is_without(text).unwrap();
        assert!(says("[lib]\ndoctest = false\n"));
        assert!(!says("[lib]\ndoctest = true\n"));
        assert!(!says("[lib]\nbench = false\n"));
        assert!(!says("[package]\nname = \"x\"\n"));
    }
}
