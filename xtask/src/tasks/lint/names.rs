//! Names: a function begins with a verb, and none is called `of`; a public type's name is there
//! once in the crates of the product.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use anyhow::{Context as _, ensure};

use crate::{process, workspace};

/// Crates of the product, by their folders.
const PRODUCT: [&str; 4] = [
    "tracer-common/",
    "tracer-analysis/",
    "tracer-posix/",
    "tracer-user/",
];

/// Folders in these that are no part of it: tests, models, and what only builds it.
const NO_PRODUCT: [&str; 6] = ["benches", "build", "examples", "fuzz", "model", "tests"];

/// Names that several types share, each with the reason.
const SHARED: [(&str, &str); 2] = [
    (
        "Record",
        "users of tracer-engine have it, and the type information of the eBPF object has the other",
    ),
    (
        "Waker",
        "the word of both, and the type information of the eBPF object has one",
    ),
];

/// Fails on each function that is called `of`, and on each name that several types share.
pub fn check() -> anyhow::Result<()> {
    let mut functions = Vec::new();
    let mut types = Types::default();
    let files = process::output(workspace::git("ls-files").arg("*.rs"))?;
    for file in files.lines() {
        let path = workspace::root().join(file);
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        functions.extend(called_of(&text).map(|line| format!("{file}:{line}")));
        if is_product(file) {
            types.add(file, &text);
        }
    }
    let mut findings = Vec::new();
    if !functions.is_empty() {
        let functions = functions.join("\n");
        findings.push(format!(
            "functions that are called `of` (begin with a verb, as in `from_event`):\n{functions}"
        ));
    }
    let shared = types.shared();
    if !shared.is_empty() {
        let shared = shared.join("\n");
        findings.push(format!(
            "names that several public types share (say in each what it is, or make it \
             private):\n{shared}"
        ));
    }
    ensure!(findings.is_empty(), "{}", findings.join("\n"));
    Ok(())
}

fn starts_with(file: &str, folders: &[&str]) -> bool {
    folders.iter().any(|folder| file.starts_with(folder))
}

fn is_product(file: &str) -> bool {
    let mut folders = file.split('/');
    starts_with(file, &PRODUCT) && !folders.any(|folder| NO_PRODUCT.contains(&folder))
}

/// Returns the lines at which a function called `of` begins.
fn called_of(text: &str) -> impl Iterator<Item = usize> {
    let lines = text.lines().enumerate();
    lines.filter_map(|(index, line)| {
        let (before, name) = line.split_once("fn of")?;
        let is_whole = name.starts_with(['(', '<']);
        let is_code = before
            .chars()
            .all(|letter| letter.is_ascii_lowercase() || " ():\"C".contains(letter));
        (is_whole && is_code).then_some(index + 1)
    })
}

/// Files that have a public type, by its name.
#[derive(Debug, Default)]
struct Types(BTreeMap<String, BTreeSet<String>>);

impl Types {
    fn add(&mut self, file: &str, text: &str) {
        for name in text.lines().filter_map(public_type) {
            let files = self.0.entry(name.to_owned()).or_default();
            files.insert(file.to_owned());
        }
    }

    /// Describes each name that several files have.
    fn shared(&self) -> Vec<String> {
        let names = self.0.iter().filter(|(name, files)| {
            files.len() > 1 && !SHARED.iter().any(|(shared, _)| shared == name)
        });
        names
            .map(|(name, files)| {
                let files: Vec<&str> = files.iter().map(String::as_str).collect();
                format!("{name}: {}", files.join(", "))
            })
            .collect()
    }
}

/// Returns the name of the type that is public and begins in this line.
fn public_type(line: &str) -> Option<&str> {
    let rest = line.trim_start().strip_prefix("pub ")?;
    let rest = ["struct ", "enum ", "trait ", "type ", "union "]
        .into_iter()
        .find_map(|word| rest.strip_prefix(word))?;
    let end = rest.find(|letter: char| !letter.is_alphanumeric() && letter != '_');
    rest.get(..end.unwrap_or(rest.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_called_of_are_found_with_what_comes_before() {
        let text = "impl X {\n    pub(super) const fn of<'a>(x: X) -> Self {\n}\nfn of(x: X) {}\n";
        assert_eq!(called_of(text).collect::<Vec<_>>(), [2, 4]);
    }

    #[test]
    fn longer_names_and_texts_are_free() {
        let free = [
            "fn of_thread(x: X) {}\n",
            "fn offer(x: X) {}\n",
            "// Never `fn of(x)`.\n",
            "assert_eq!(x, \"fn of(x: X)\");\n",
        ];
        for text in free {
            assert_eq!(called_of(text).next(), None, "{text}");
        }
    }

    #[test]
    fn a_name_is_shared_when_two_files_have_it() {
        let mut types = Types::default();
        types.add("a.rs", "pub struct Kind<'a> {\n}\npub enum Kind {}\n");
        assert!(types.shared().is_empty());
        types.add("b.rs", "    pub type Kind = u8;\n");
        assert_eq!(types.shared(), ["Kind: a.rs, b.rs"]);
    }

    #[test]
    fn only_public_types_are_compared_and_those_with_a_reason_are_not() {
        assert_eq!(public_type("pub trait Consumer: Send {"), Some("Consumer"));
        assert_eq!(public_type("pub struct Losses;"), Some("Losses"));
        assert_eq!(public_type("pub(super) struct Losses;"), None);
        assert_eq!(public_type("struct Losses;"), None);
        assert_eq!(public_type("/// pub struct Losses;"), None);
        let mut types = Types::default();
        for file in ["a.rs", "b.rs"] {
            types.add(file, &format!("pub enum {} {{}}\n", SHARED[0].0));
        }
        assert!(types.shared().is_empty());
    }

    #[test]
    fn only_the_product_is_compared() {
        assert!(is_product("tracer-posix/log/src/error.rs"));
        assert!(is_product("tracer-common/src/area.rs"));
        assert!(!is_product("tracer-posix/log/tests/log_file/support.rs"));
        assert!(!is_product("tracer-posix/model/src/area.rs"));
        assert!(!is_product("xtask/src/main.rs"));
    }
}
